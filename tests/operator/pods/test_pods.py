"""Reading pods."""

from typing import Any

import pytest
from operator_builders import NOW

from rowen.kube.timestamps import rfc3339
from rowen.operator.pods.engine_address import EngineAddress
from rowen.operator.pods.view import Problem, pod_view

Status = dict[str, Any]


def manifest(status: Status, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "job-2",
            "uid": "p2",
            "labels": {"rowen.dev/attempt": "2"},
            "creationTimestamp": rfc3339(NOW - 30),
            **metadata,
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "mine"}, {"name": "sidecar"}]},
        "status": status,
    }


def worker(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "sidecar", "state": {"running": {}}}, {"name": "mine", "state": state}]


OVER = {"exitCode": 0, "startedAt": rfc3339(NOW - 9), "finishedAt": rfc3339(NOW)}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no claim"}


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({}, None),
        ({"conditions": [UNSCHEDULABLE]}, Problem("Unschedulable", "no claim")),
        ({"containerStatuses": worker(waiting={"reason": "ContainerCreating"})}, None),
        (
            {"containerStatuses": worker(waiting={"reason": "ErrImagePull", "message": "not found"})},
            Problem("ErrImagePull", "not found", "mine"),
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {
                        "name": "mine",
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"exitCode": 1, "message": "no such model"}},
                    }
                ],
            },
            Problem("CrashLoopBackOff", "no such model", "mine"),
        ),
        ({"phase": "Failed", "conditions": [UNSCHEDULABLE]}, None),
    ],
)
def test_problem(status: Status, problem: Problem | None) -> None:
    assert pod_view(manifest(status)).problem == problem


@pytest.mark.parametrize(
    ("status", "disrupted"),
    [
        ({"phase": "Failed"}, False),
        ({"phase": "Failed", "reason": "Evicted"}, True),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, True),
        ({"phase": "Failed", "reason": "OutOfrowen.dev/harvest"}, True),
        ({"phase": "Failed", "reason": "TopologyAffinityError"}, True),
        ({"phase": "Failed", "reason": "TaintToleration"}, True),
        ({"phase": "Failed", "reason": "NodePorts"}, True),
        ({"phase": "Failed", "reason": "InvalidNodeInfo"}, True),
        ({"phase": "Failed", "reason": "SysctlForbidden"}, False),
        ({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}, True),
    ],
)
def test_disrupted(status: Status, disrupted: bool) -> None:
    assert pod_view(manifest(status)).disrupted is disrupted


@pytest.mark.parametrize(
    ("status", "runs", "turned_away"),
    [
        ({"phase": "Pending"}, False, False),
        ({"phase": "Pending", "containerStatuses": worker(running={"startedAt": rfc3339(NOW)})}, True, False),
        ({"phase": "Running", "containerStatuses": worker(running={"startedAt": rfc3339(NOW)})}, True, False),
        ({"phase": "Running", "containerStatuses": worker(waiting={"reason": "CrashLoopBackOff"})}, False, False),
        # The other container works on, or has not started.
        ({"phase": "Running", "containerStatuses": worker(terminated=OVER)}, True, False),
        ({"phase": "Pending", "containerStatuses": worker(terminated=OVER)}, False, False),
        ({"phase": "Succeeded", "containerStatuses": worker(terminated=OVER)}, False, False),
        ({"phase": "Failed"}, False, False),
        ({"phase": "Failed", "reason": "NodeAffinity"}, False, True),
        ({"phase": "Pending", "reason": "NodeAffinity"}, False, False),
        (
            {
                "phase": "Failed",
                "reason": "Evicted",
                "containerStatuses": worker(terminated={"exitCode": 137, "startedAt": rfc3339(NOW)}),
            },
            False,
            False,
        ),
    ],
)
def test_whether_it_got_to_run(status: Status, runs: bool, turned_away: bool) -> None:
    view = pod_view(manifest(status))
    assert (view.runs, view.turned_away) == (runs, turned_away)


def test_a_container_that_could_not_be_started_did_not_start() -> None:
    """The kubelet writes 1970 for its start."""
    error = {"exitCode": 128, "reason": "StartError", "startedAt": "1970-01-01T00:00:00Z", "finishedAt": rfc3339(NOW)}
    view = pod_view(manifest({"phase": "Failed", "containerStatuses": worker(terminated=error)}))
    assert (view.started_at, view.finished_at, view.end_reason) == (None, NOW, "StartError")


def init(name: str, **state: Any) -> dict[str, Any]:
    return {"name": name, "state": state}


@pytest.mark.parametrize(
    ("statuses", "initializing"),
    [
        ([], False),
        ([init("fetch", waiting={"reason": "PodInitializing"})], False),
        ([init("fetch", running={"startedAt": rfc3339(NOW - 20)})], True),
        ([init("proxy", running={"startedAt": rfc3339(NOW - 20)})], False),
        ([init("fetch", terminated={"exitCode": 0, "finishedAt": rfc3339(NOW - 5)})], False),
        (
            [
                init("proxy", running={"startedAt": rfc3339(NOW - 20)}),
                init("fetch", terminated={"exitCode": 0, "finishedAt": rfc3339(NOW - 5)}),
                init("unpack", running={"startedAt": rfc3339(NOW - 4)}),
            ],
            True,
        ),
    ],
)
def test_init_containers(statuses: list[dict[str, Any]], initializing: bool) -> None:
    """One that never ends, a sidecar, is not waited for."""
    pod = manifest({"phase": "Pending", "initContainerStatuses": statuses})
    pod["spec"]["initContainers"] = [
        {"name": "proxy", "restartPolicy": "Always"},
        {"name": "fetch"},
        {"name": "unpack"},
    ]
    assert pod_view(pod).initializing is initializing


FAILED = {"exitCode": 64, "reason": "Error", "message": "ModelMissing: no bucket models\n"}


@pytest.mark.parametrize(
    ("state", "last", "said"),
    [
        ({"terminated": FAILED}, {}, "ModelMissing: no bucket models"),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": FAILED}, "ModelMissing: no bucket models"),
        ({"running": {}}, {"terminated": FAILED}, "ModelMissing: no bucket models"),
        # It has done what it had to do, at last.
        ({"terminated": {"exitCode": 0}}, {"terminated": FAILED}, None),
        ({"terminated": {"exitCode": 0}}, {}, None),
        ({"running": {}}, {}, None),
    ],
)
def test_an_init_container_that_fails_is_told_with_its_words(
    state: dict[str, Any], last: dict[str, Any], said: str | None
) -> None:
    status = {"initContainerStatuses": [{"name": "model", "state": state, "lastState": last, "restartCount": 1}]}
    ends = pod_view(manifest(status)).ends
    assert [(each.container, each.words) for each in ends] == ([] if said is None else [("model", said)])


def test_a_pod_that_was_turned_away_ended_when_it_started() -> None:
    """Without a time there would be no back-off."""
    view = pod_view(manifest({"phase": "Failed", "reason": "UnexpectedAdmissionError"}))
    assert view.finished_at == NOW - 30


def test_the_first_container_is_the_worker() -> None:
    ended = {
        "exitCode": 3,
        "reason": "Error",
        "message": '{"reason":"DiskFull","message":"m","unit":"rows","completed":1,"total":2}',
        "startedAt": rfc3339(NOW - 9),
        "finishedAt": rfc3339(NOW),
    }
    view = pod_view(manifest({"phase": "Failed", "containerStatuses": worker(terminated=ended)}))
    assert (view.exit_code, view.started_at, view.finished_at, view.attempt) == (3, NOW - 9, NOW, 2)
    assert view.result is not None
    assert view.result.reason == "DiskFull"


def test_the_engine_is_found_behind_a_container_that_a_webhook_put_first() -> None:
    pod = manifest({"containerStatuses": [
        {"name": "proxy", "state": {}, "restartCount": 8, "lastState": {"terminated": {"exitCode": 1}}},
        {"name": "vllm", "state": {}, "restartCount": 1, "lastState": {"terminated": {"exitCode": 137}}},
    ]})  # fmt: skip
    engine = {"name": "vllm", "resources": {"limits": {"rowen.dev/online": "1"}}}
    # Of a job's pod the first one is the worker.
    for containers, order in (
        ([{"name": "proxy"}, engine], ["vllm", "proxy"]),
        ([{"name": "proxy"}], ["proxy", "vllm"]),
    ):
        pod["spec"]["containers"] = containers
        view = pod_view(pod)
        assert [ends.container for ends in view.ends] == order
        assert view.tenant == order[0]


def test_last_words_that_are_no_result_stay_text() -> None:
    ended = {"exitCode": 1, "message": "Traceback: boom"}
    view = pod_view(manifest({"phase": "Failed", "containerStatuses": worker(terminated=ended)}))
    assert (view.result, view.end_message) == (None, "Traceback: boom")


@pytest.mark.parametrize("resource", ["rowen.dev/ride", "rowen.dev/harvest"])
def test_who_asks_for_a_seat_rides(resource: str) -> None:
    pod = manifest({})
    pod["spec"]["containers"][1]["resources"] = {"limits": {resource: "1"}}
    assert pod_view(pod).rides is (resource == "rowen.dev/ride")


def test_what_a_worker_was_told_of_its_engine_is_found_behind_a_container_that_a_webhook_put_first() -> None:
    pod = manifest({})
    told = [
        {"name": "ROWEN_ENGINE_URL", "value": "http://10.0.0.7:8000"},
        {"name": "ROWEN_ENGINE_POD", "value": "chat-a"},
    ]
    seated = {"name": "worker", "resources": {"limits": {"rowen.dev/ride": "1"}}, "env": told}
    for containers in ([seated], [{"name": "proxy", "env": [{"name": "ROWEN_ENGINE_POD"}]}, seated]):
        pod["spec"]["containers"] = containers
        assert pod_view(pod).engine == EngineAddress("http://10.0.0.7:8000", "chat-a")
    pod["spec"]["containers"] = [{**seated, "resources": {}}]
    assert pod_view(pod).engine is None
