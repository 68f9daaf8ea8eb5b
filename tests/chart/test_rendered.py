"""What the chart renders, for several sets of values."""

import re

import pytest
import yaml
from helm import CHART, DEVICES, FULL, KUBE_VERSION, NAMESPACE, VALUE_SETS, Manifest, Values, helm, pod_specs, render
from helm import template as render_text

every_set = pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS.keys())


def _named(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    (found,) = [m for m in manifests if m["kind"] == kind and m["metadata"]["name"] == name]
    return found


def _is_agent(name: str) -> bool:
    return name.startswith("DaemonSet/")


@every_set
def test_lint(values: Values) -> None:
    outcome = helm("lint", str(CHART), f"--kube-version={KUBE_VERSION}", "--strict", values=values)
    assert outcome.ok, outcome.text


@every_set
def test_renders_the_same_twice(values: Values) -> None:
    assert render_text(values) == render_text(values)


def test_nothing_is_looked_up_or_drawn() -> None:
    text = "\n".join(path.read_text() for path in (CHART / "templates").rglob("*") if path.is_file())
    assert not re.search(r"\b(lookup|rand[A-Z]\w+|uuidv4|now|genCA|genSignedCert)\b", text)


@every_set
def test_only_the_agent_leaves_the_restricted_profile(values: Values) -> None:
    for name, pod in pod_specs(render(values)).items():
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, name
            assert security["readOnlyRootFilesystem"] is True, name
            assert security["capabilities"]["drop"] == ["ALL"], name
            assert "privileged" not in security, name
            assert ("add" in security["capabilities"]) is _is_agent(name), name
        assert pod["securityContext"].get("runAsNonRoot", False) is not _is_agent(name), name
        assert pod.get("hostPID", False) is _is_agent(name), name
        assert "hostNetwork" not in pod, name
        assert "hostIPC" not in pod, name
        assert pod["enableServiceLinks"] is False, name
        assert any("hostPath" in volume for volume in pod["volumes"]) is _is_agent(name), name


@every_set
def test_images_are_fixed_and_resources_bounded(values: Values) -> None:
    for name, pod in pod_specs(render(values)).items():
        for container in pod["containers"]:
            assert re.search(r"(:[^/:]+|@sha256:[0-9a-f]{64})$", container["image"]), name
            assert not container["image"].endswith(":latest"), name
            assert "memory" in container["resources"]["limits"], name
            assert {"cpu", "memory"} <= set(container["resources"]["requests"]), name


@every_set
def test_roles_name_what_they_need(values: Values) -> None:
    roles = [manifest for manifest in render(values) if manifest["kind"] in ("ClusterRole", "Role")]
    assert len(roles) >= 4
    for role in roles:
        for rule in role["rules"]:
            flat = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "*" not in flat, role["metadata"]["name"]
            assert "secrets" not in rule["resources"], role["metadata"]["name"]
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), role["metadata"]["name"]


AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


@every_set
def test_the_built_in_roles_gather_what_a_namespaces_users_need(values: Values) -> None:
    """What does not lie in a namespace is for nobody by these: a RoleBinding would not grant it."""
    gathered: dict[str, set[tuple[str, str]]] = {}
    for manifest in render(values):
        if manifest["kind"] == "ClusterRole":
            granted = {(r, v) for rule in manifest["rules"] for r in rule["resources"] for v in rule["verbs"]}
            for label, value in manifest["metadata"]["labels"].items():
                if label.startswith(AGGREGATE):
                    assert value == "true"
                    assert all(rule["apiGroups"] == ["rowen.dev"] for rule in manifest["rules"])
                    gathered.setdefault(label.removeprefix(AGGREGATE), set()).update(granted)
    kinds = ("offlinejobs", "onlineservices")
    seen = {(kind, verb) for kind in kinds for verb in ("get", "list", "watch")} | {("onlineservices/scale", "get")}
    made = {(kind, verb) for kind in kinds for verb in ("create", "update", "patch", "delete", "deletecollection")}
    made |= {("onlineservices/scale", verb) for verb in ("update", "patch")}
    aggregated = {"view": seen, "edit": seen | made, "admin": seen | made}
    assert gathered == (aggregated if values.get("rbac") != {"aggregate": False} else {})
    users = {m["metadata"]["name"] for m in render(values) if m["kind"] == "ClusterRole"}
    assert {name.rpartition("-")[2] for name in users} >= {"view", "edit"}


@every_set
def test_selectors_meet_their_pods(values: Values) -> None:
    manifests = render(values)
    workloads = [m for m in manifests if m["kind"] in ("Deployment", "DaemonSet")]
    assert {m["kind"] for m in workloads} == {"Deployment", "DaemonSet"}
    labels = [m["spec"]["template"]["metadata"]["labels"].items() for m in workloads]
    for workload in workloads:
        selector = workload["spec"]["selector"]["matchLabels"].items()
        assert sum(selector <= each for each in labels) == 1
    for manifest in manifests:
        if manifest["kind"] in ("Service", "NetworkPolicy", "PodMonitor"):
            spec = manifest["spec"]
            selector = spec.get("podSelector", spec.get("selector"))
            assert sum(selector.get("matchLabels", selector).items() <= each for each in labels) == 1


def test_one_replica_is_replaced_and_never_doubled() -> None:
    for manifest in render({}):
        if manifest["kind"] == "Deployment":
            assert manifest["spec"]["replicas"] == 1
            assert manifest["spec"]["strategy"] == {"type": "Recreate"}


def test_devices_reach_the_agent_and_roll_it() -> None:
    before, after = render({}), render({"agent": {"devices": DEVICES}})
    config = _named(after, "ConfigMap", "rowen-agent")
    assert config["metadata"]["namespace"] == "rowen-agent"
    assert yaml.safe_load(config["data"]["devices.yaml"]) == {"devices": DEVICES}
    assert yaml.safe_load(_named(before, "ConfigMap", "rowen-agent")["data"]["devices.yaml"]) == {"devices": []}
    checksums = [
        _named(manifests, "DaemonSet", "rowen-agent")["spec"]["template"]["metadata"]["annotations"]["checksum/devices"]
        for manifests in (before, after)
    ]
    assert checksums[0] != checksums[1]


@every_set
def test_the_agent_may_freeze_pods_and_has_no_more_rights_for_it(values: Values) -> None:
    (pod,) = [pod for name, pod in pod_specs(render(values)).items() if _is_agent(name)]
    (container,) = pod["containers"]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "cgroups"]
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "cgroups"]
    assert volume["hostPath"] == {"path": "/sys/fs/cgroup", "type": "Directory"}
    assert mount == {"name": "cgroups", "mountPath": "/host/cgroup"}
    assert {"name": "ROWEN_CGROUP_ROOT", "value": mount["mountPath"]} in container["env"]
    assert container["securityContext"]["capabilities"]["add"] == ["KILL", "SYS_NICE"]


def test_values_reach_the_pods() -> None:
    manifests = render(FULL)
    for name, pod in pod_specs(manifests).items():
        assert pod["imagePullSecrets"] == [{"name": "pull"}], name
        assert pod["containers"][0]["imagePullPolicy"] == "Always", name
        if not name.startswith("Pod/"):
            assert pod["priorityClassName"] == "system-cluster-critical", name
            assert pod["nodeSelector"]["pool"] == "infra", name
            assert pod["tolerations"] == [{"key": "infra", "operator": "Exists"}], name
            assert "nodeAffinity" in pod["affinity"], name
            assert {"name": "EXTRA", "value": "1"} in pod["containers"][0]["env"], name
    operator = pod_specs(manifests)["Deployment/rowen-operator"]["containers"][0]
    assert {"name": "ROWEN_RUNTIME_IMAGE", "value": "rowen/runtime:1.2.3"} in operator["env"]
    assert all(manifest["metadata"]["labels"]["team"] == "ml" for manifest in manifests)


def test_every_namespaced_object_says_where_it_lives() -> None:
    cluster_scoped = re.compile("Namespace|Cluster.*|ValidatingAdmission.*")
    for manifest in render(FULL):
        expected = (None,) if cluster_scoped.fullmatch(manifest["kind"]) else (NAMESPACE, "harvest-agents")
        assert manifest["metadata"].get("namespace") in expected, manifest["metadata"]["name"]


def test_switches_are_off_by_default() -> None:
    kinds = {manifest["kind"] for manifest in render({})}
    assert not kinds & {"PodMonitor", "PrometheusRule"}
    assert "NetworkPolicy" in kinds
    assert "NetworkPolicy" not in {manifest["kind"] for manifest in render({"networkPolicy": {"enabled": False}})}


def test_dashboard_is_found_by_grafanas_sidecar() -> None:
    config = _named(render(FULL), "ConfigMap", "rowen-dashboards")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert config["data"]["rowen.json"].strip() == (CHART / "dashboards" / "rowen.json").read_text().strip()


def test_rules_reach_the_prometheus_operator_unchanged() -> None:
    rule = _named(render(FULL), "PrometheusRule", "rowen")
    assert rule["spec"] == yaml.safe_load((CHART / "rules" / "rowen.yaml").read_text())


def test_monitors_name_ports_that_exist() -> None:
    manifests = render(FULL)
    ports = {}
    for manifest in manifests:
        if manifest["kind"] in ("Deployment", "DaemonSet"):
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            ports[manifest["metadata"]["name"]] = {port["name"] for port in container["ports"]}
    monitors = [manifest for manifest in manifests if manifest["kind"] == "PodMonitor"]
    assert {monitor["metadata"]["name"] for monitor in monitors} == ports.keys()
    for monitor in monitors:
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] in ports[monitor["metadata"]["name"]]


def test_the_schedulers_service_leads_to_its_api_and_not_to_its_metrics() -> None:
    """Who may call the scheduler through the Service must not read there what names jobs of all namespaces."""
    manifests = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in render({})}
    (container,) = manifests["Deployment", "rowen-scheduler"]["spec"]["template"]["spec"]["containers"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"metrics": 9090, "api": 9091}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == "metrics"
    (port,) = manifests["Service", "rowen-scheduler"]["spec"]["ports"]
    assert (port["name"], port["targetPort"]) == ("https", "api")
    callers = manifests["Role", "rowen-scheduler-caller"]["rules"]
    assert [rule["resourceNames"] for rule in callers] == [["https:rowen-scheduler:https"]]
    (ingress,) = manifests["NetworkPolicy", "rowen-scheduler"]["spec"]["ingress"]
    assert [entry["port"] for entry in ingress["ports"]] == [9090, 9091]


def test_the_gateways_service_leads_to_its_api_and_not_to_its_metrics() -> None:
    manifests = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in render(FULL)}
    (container,) = manifests["Deployment", "rowen-gateway"]["spec"]["template"]["spec"]["containers"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"metrics": 9090, "api": 9091}
    (port,) = manifests["Service", "rowen-gateway"]["spec"]["ports"]
    assert (port["name"], port["targetPort"]) == ("https", "api")
    (ingress,) = manifests["NetworkPolicy", "rowen-gateway"]["spec"]["ingress"]
    assert [entry["port"] for entry in ingress["ports"]] == [9090, 9091]


def test_the_schedulers_certificate_comes_out_of_a_secret_where_one_is_named() -> None:
    own, given = (
        pod_specs(render(values))["Deployment/rowen-scheduler"] for values in ({}, {"scheduler": {"tlsSecret": "mine"}})
    )
    assert [volume["name"] for volume in own["volumes"]] == ["tmp"]
    assert not any(entry["name"] == "ROWEN_SCHEDULER_TLS_FOLDER" for entry in own["containers"][0]["env"])
    (volume,) = [volume for volume in given["volumes"] if volume["name"] == "tls"]
    # The process is not root: it reads by its group.
    assert volume["secret"] == {"secretName": "mine", "defaultMode": 0o440}
    (container,) = given["containers"]
    (folder,) = [entry["value"] for entry in container["env"] if entry["name"] == "ROWEN_SCHEDULER_TLS_FOLDER"]
    assert {"name": "tls", "mountPath": folder, "readOnly": True} in container["volumeMounts"]
