"""What a podTemplate makes of a pod, and the API server's words in its user's own fields."""

from typing import Any

import pytest

from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.pod.pod_overlay import overlaid, overlaid_engine, overlaid_worker, told_of, user_template
from rowen.crds.pod.pod_template import EngineTemplate, WorkerTemplate

PLACE = {"claimName": "data", "path": "x"}
FINE_TUNE = {"baseModel": PLACE, "dataset": {**PLACE, "path": "y"}, "output": {**PLACE, "path": "z"}}
BASE: dict[str, Any] = {
    "restartPolicy": "Never",
    "volumes": [{"name": "tmp", "emptyDir": {}}],
    "containers": [
        {
            "name": "worker",
            "env": [{"name": "HOME", "value": "/tmp"}, {"name": "THREADS", "value": "1"}],
            "resources": {"requests": {"cpu": "100m", "memory": "1"}, "limits": {"memory": "1"}},
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        }
    ],
}


def template(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def worker(**fields: Any) -> dict[str, Any]:
    return template(containers=[{"name": "worker", **fields}])


def made(overlay: dict[str, Any]) -> dict[str, Any]:
    return overlaid(BASE, WorkerTemplate.from_wire(overlay))


@pytest.mark.parametrize(
    "nothing", [{}, {"metadata": {"labels": {"a": "b"}}}, template(), template(containers=[]), worker()]
)
def test_nothing_changes_nothing(nothing: dict[str, Any]) -> None:
    assert made(nothing) == BASE
    assert overlaid(BASE, None) == BASE


def test_a_variable_takes_the_place_of_the_one_of_its_name_and_others_follow() -> None:
    source = {"name": "HOME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    container = made(worker(env=[{"name": "NEW", "value": "$(HOME)"}, source]))["containers"][0]
    assert container["env"] == [source, {"name": "THREADS", "value": "1"}, {"name": "NEW", "value": "$(HOME)"}]
    assert {name: container[name] for name in ("resources", "volumeMounts")} == {
        name: BASE["containers"][0][name] for name in ("resources", "volumeMounts")
    }


def test_amounts_are_merged_by_resource_and_a_number_is_its_text() -> None:
    resources = made(worker(resources={"requests": {"cpu": 2}, "limits": {"cpu": 2}}))["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "2", "memory": "1"}, "limits": {"cpu": "2", "memory": "1"}}


def test_volumes_and_mounts_are_added() -> None:
    mount = {"name": "cache", "mountPath": "/cache"}
    overlay = worker(volumeMounts=[mount])
    overlay["spec"]["volumes"] = [{"name": "cache", "csi": {"driver": "d", "volumeAttributes": {"a_b": "c"}}}]
    spec = made(overlay)
    assert spec["volumes"] == [*BASE["volumes"], *overlay["spec"]["volumes"]]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}, mount]


def test_what_rowen_does_not_set_is_taken_as_it_is() -> None:
    own = {
        "nodeSelector": {"zone": "a"},
        "affinity": {"podAntiAffinity": {"some_key": [{"a": None}]}},
        "tolerations": [{"key": "a", "tolerationSeconds": 5}],
        "imagePullSecrets": [{"name": "s"}],
        "priorityClassName": "low",
        "serviceAccountName": "sa",
    }
    assert made(template(**own)) == {**BASE, **own}


def job(overlay: dict[str, Any]) -> OfflineJobSpec:
    return OfflineJobSpec.from_wire({"fineTune": FINE_TUNE, "podTemplate": overlay})


def test_a_worker_preloads_the_gate_library_first() -> None:
    def preloads(**fields: Any) -> list[str]:
        env = overlaid_worker(BASE, job(worker(**fields)))["containers"][0]["env"]
        return [entry["value"] for entry in env if entry["name"] == "LD_PRELOAD"]

    assert preloads() == []
    assert preloads(env=[{"name": "LD_PRELOAD", "value": "/a.so"}]) == ["/run/rowen/librowen.so:/a.so"]
    assert preloads(envFrom=[{"secretRef": {"name": "s"}}]) == ["/run/rowen/librowen.so"]


def test_an_engine_finds_rowens_plugin_before_what_its_user_names() -> None:
    own = [{"name": "PYTHONPATH", "value": "/opt/lib"}, {"name": "OTHER", "value": "x"}]
    template = EngineTemplate.from_wire({"spec": {"containers": [{"name": "engine", "env": own}]}})
    base = {"containers": [{"name": "engine", "env": [{"name": "HOME", "value": "/tmp"}]}]}
    env = overlaid_engine(base, template)["containers"][0]["env"]
    assert env == [*base["containers"][0]["env"], {"name": "PYTHONPATH", "value": "/run/rowen/plugin:/opt/lib"}, own[1]]
    assert overlaid_engine(base, None) == base
    for nothing in ({"value": ""}, {}):
        own = [{"name": "PYTHONPATH", **nothing}]
        template = EngineTemplate.from_wire({"spec": {"containers": [{"name": "engine", "env": own}]}})
        assert overlaid_engine(base, template)["containers"][0]["env"][-1]["value"] == "/run/rowen/plugin"


def test_of_a_job_without_any_the_user_says_nothing() -> None:
    assert user_template(OfflineJobSpec.from_wire({"fineTune": FINE_TUNE})) == {}
    assert user_template(job(worker())) == worker()
    assert user_template(OfflineJobSpec.from_wire({"template": worker()})) == worker()


OWN = {
    "volumes": [{"name": "cache"}],
    "containers": [
        {"env": [{"name": "NEW"}, {"name": "HOME"}], "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    ],
}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            'Pod "job-1" is invalid: spec.containers[0].env[2].value: Invalid value: "x"',
            'Pod "job-1" is invalid: spec.podTemplate.spec.containers[0].env[0].value: Invalid value: "x"',
        ),
        ("spec.containers[0].env[0].valueFrom: no", "spec.podTemplate.spec.containers[0].env[1].valueFrom: no"),
        # Rowen's own keep their numbers.
        ("spec.containers[0].env[1]: no", "spec.podTemplate.spec.containers[0].env[1]: no"),
        ("spec.containers[0].env[3]: no", "spec.podTemplate.spec.containers[0].env[3]: no"),
        (
            "[spec.volumes[1].hostPath: no, spec.containers[0].volumeMounts[1].name: Not found]",
            "[spec.podTemplate.spec.volumes[0].hostPath: no,"
            " spec.podTemplate.spec.containers[0].volumeMounts[0].name: Not found]",
        ),
        ("spec.tolerations[0].key: no", "spec.podTemplate.spec.tolerations[0].key: no"),
        ('unknown field "spec.affinity.x"', 'unknown field "spec.podTemplate.spec.affinity.x"'),
        (
            "Go struct field Affinity.spec.affinity.x of type",
            "Go struct field spec.podTemplate.spec.affinity.x of type",
        ),
        ("metadata.labels: no", "spec.podTemplate.metadata.labels: no"),
        ("no spec. here, and no-spec.x, /metadata.x", "no spec. here, and no-spec.x, /metadata.x"),
    ],
)
def test_the_api_servers_words_name_the_users_fields(said: str, told: str) -> None:
    overlay = WorkerTemplate.from_wire({"spec": {**OWN, "containers": [{"name": "worker", **OWN["containers"][0]}]}})
    assert told_of(said, "spec.podTemplate", overlaid(BASE, overlay), OWN) == told


def test_of_a_deployment_the_pods_fields_are_told() -> None:
    said = (
        'Deployment.apps "chat" is invalid: [spec.template.spec.containers[0].env[1].name: no, spec.selector: no]; '
        ".spec.template.spec.affinity.x: field not declared"
    )
    overlay = {"containers": [{"name": "engine", "env": [{"name": "A"}]}]}
    merged = {"containers": [{"name": "engine", "env": [{"name": "HOME"}, {"name": "A"}]}]}
    assert told_of(said, "spec.engine.podTemplate", merged, overlay, root="spec.template.") == (
        'Deployment.apps "chat" is invalid: [spec.engine.podTemplate.spec.containers[0].env[0].name: no, '
        "spec.selector: no]; spec.engine.podTemplate.spec.affinity.x: field not declared"
    )


def test_of_a_template_the_first_containers_entries_are_meant() -> None:
    first, second = ({"env": [{"name": name} for name in names]} for names in (("A", "B"), ("B", "A")))
    merged = {"containers": [{"env": [{"name": "X"}, *first["env"]]}, second]}
    said = "spec.containers[0].env[1].name: no, spec.containers[1].env[1].name: no"
    told = "spec.template.spec.containers[0].env[0].name: no, spec.template.spec.containers[1].env[1].name: no"
    assert told_of(said, "spec.template", merged, {"containers": [first, second]}) == told
