"""The Deployment and the Service of an OnlineService whose engine Rowen runs."""

from typing import Any

from rowen.crds.job.memory_share import engine_share
from rowen.crds.names import (
    ENGINE_CONTAINER,
    GENERATION_ANNOTATION,
    HARVEST_MEMORY_ANNOTATION,
    ONLINE_RESOURCE,
    SERVED_ANNOTATION,
    SERVICE_LABEL,
)
from rowen.crds.pod.pod_overlay import overlaid_engine
from rowen.crds.service.engine_args import spreading_args
from rowen.crds.service.online_service import Engine
from rowen.crds.service.served import served_digest
from rowen.operator.pods.owners import MANAGED_BY, owner_reference
from rowen.operator.pods.security import container_security_context, pod_security_context
from rowen.operator.pods.volumes import offline_environment
from rowen.operator.services.co_serving import ride_environment, ride_terms
from rowen.operator.services.engine_model import copy_container, engine_model, hub_environment, pod_volumes
from rowen.operator.services.snapshot import ServiceSnapshot
from rowen.operator.services.spatial import spatial_environment, spatial_terms

PORT = 8000
_ONE_PROCESS = "vllm.v1.executor.uniproc_executor.UniProcExecutor"


def endpoint(namespace: str, name: str) -> str:
    """URL of the service inside the cluster."""
    return f"http://{name}.{namespace}.svc:{PORT}"


def deployment(snapshot: ServiceSnapshot, engine: Engine) -> dict[str, Any]:
    """A pod per replica; an old pod frees its devices before a new one takes them."""
    labels, metadata = {SERVICE_LABEL: snapshot.name}, _metadata(snapshot)
    # What the user has taken away again is seen by this alone.
    metadata["annotations"] = {GENERATION_ANNOTATION: str(snapshot.generation)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": engine.replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": pod_template(snapshot, engine),
        },
    }


def pod_template(snapshot: ServiceSnapshot, engine: Engine) -> dict[str, Any]:
    """A replica, with what its user adds."""
    own = engine.pod_template.metadata if engine.pod_template else None
    labels = {SERVICE_LABEL: snapshot.name, **MANAGED_BY}
    annotations = {HARVEST_MEMORY_ANNOTATION: _memory_settings(snapshot)}
    if ride_terms(snapshot.spec):
        annotations[SERVED_ANNOTATION] = served_digest(engine)
    return {
        "metadata": {
            "labels": {**((own and own.labels) or {}), **labels},
            "annotations": {**((own and own.annotations) or {}), **annotations},
        },
        "spec": overlaid_engine(_pod_spec(snapshot, engine), engine.pod_template),
    }


def cluster_service(snapshot: ServiceSnapshot) -> dict[str, Any]:
    """The address of the engine inside the cluster."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(snapshot),
        "spec": {
            "type": "ClusterIP",
            # An adopted workload's pods keep the first label when a service with an engine takes the name.
            "selector": {SERVICE_LABEL: snapshot.name, **MANAGED_BY},
            "ports": [{"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def engine_command(name: str, engine: Engine) -> list[str]:
    """The API server of vLLM. It finds Rowen's plugin by the environment that the device plugin sets."""
    model = engine_model(engine.model)
    revision = ["--revision", model.revision] if model.revision else []
    # One of a single process would wait for the others for as long as torch does.
    executor = [] if spreading_args(engine.args) else ["--distributed-executor-backend", _ONE_PROCESS]
    return [
        "python", "-m", "vllm.entrypoints.openai.api_server",
        "--model", model.name_or_path, *revision,
        "--served-model-name", name,
        "--host", "0.0.0.0",  # noqa: S104 - inside the pod's own network
        "--port", str(PORT),
        *executor,
        "--enforce-eager",
        *engine.args,
    ]  # fmt: skip


def _memory_settings(snapshot: ServiceSnapshot) -> str:
    return snapshot.spec.harvest.memory.model_dump_json(by_alias=True)


def _metadata(snapshot: ServiceSnapshot) -> dict[str, Any]:
    return {
        "name": snapshot.name,
        "namespace": snapshot.namespace,
        "labels": {SERVICE_LABEL: snapshot.name, **MANAGED_BY},
        "ownerReferences": [owner_reference("OnlineService", snapshot.name, snapshot.uid)],
    }


def _probes() -> dict[str, Any]:
    """A model may load for two hours; an engine is started anew only if it has not answered for ten minutes.

    Under load an answer takes its time. It leaves the Service after half a minute without one.
    """
    health = {"httpGet": {"path": "/health", "port": "http"}}
    return {
        "startupProbe": {**health, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 1440},
        "readinessProbe": {**health, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 6},
        "livenessProbe": {**health, "periodSeconds": 30, "timeoutSeconds": 30, "failureThreshold": 20},
    }


def _pod_spec(snapshot: ServiceSnapshot, engine: Engine) -> dict[str, Any]:
    model, runtime = engine.model, snapshot.runtime_image
    volumes, mounts = pod_volumes(model)
    terms = ride_terms(snapshot.spec)
    memory = engine_share(engine, terms.memory_bytes if terms else 0)
    devices = {ONLINE_RESOURCE: str(engine.devices_per_replica)}
    container = {
        "name": ENGINE_CONTAINER,
        "image": engine.image or runtime,
        "imagePullPolicy": "IfNotPresent",
        "command": engine_command(snapshot.name, engine),
        "env": [
            *offline_environment(model),
            *hub_environment(model),
            *memory.environment,
            *ride_environment(terms),
            *spatial_environment(spatial_terms(snapshot.spec)),
        ],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        **_probes(),
        "resources": {
            "requests": {"cpu": "100m", "memory": memory.request, **devices},
            "limits": {"memory": memory.limit, **devices},
        },
        "securityContext": container_security_context(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security_context(),
        **({"initContainers": [copy_container(model, runtime)]} if model.uri else {}),
        "containers": [container],
        "volumes": volumes,
    }
