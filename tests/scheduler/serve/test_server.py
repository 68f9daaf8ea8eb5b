"""The HTTP API."""

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from scheduler.builders import NOW, POLICY, device, job, node, placed, world

from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.scheduler.history import History
from rowen.scheduler.model.profile import Profile
from rowen.scheduler.monitor.hearing import Listening
from rowen.scheduler.placement.constraints import Requirement, Taint, Term
from rowen.scheduler.placement.volumes import Volume, VolumeClaim, Volumes
from rowen.scheduler.serve.reviews import Caller, Right
from rowen.scheduler.serve.server import create_app
from rowen.scheduler.snapshot import Snapshot

TEMPLATE = {"template": {"spec": {"containers": [{"name": "m", "image": "i"}]}}, "memory": "1Gi"}
STATUS = OfflineJobStatus.from_wire({"explanation": {"message": "why", "candidates": []}})


class Everything:
    async def caller(self, token: str) -> Caller | None:
        return Caller("admin")

    async def allows(self, caller: Caller, right: Right) -> bool:
        return True


class Source:
    def __init__(self, snapshot: Snapshot | None) -> None:
        self.policy, self.history = POLICY, History()
        self._snapshot = snapshot

    def now(self) -> float:
        return NOW

    def snapshot(self) -> Snapshot | None:
        return self._snapshot


def client(source: Source) -> TestClient:
    """Of somebody who may see everything."""
    return TestClient(create_app(source, Everything()), headers={"Authorization": "Bearer x"})


@pytest.fixture
def source() -> Source:
    return Source(
        world(
            node("a", device("a", idle=0.9), slots=1), node("b", device("b", idle=0.4)), placed(job("x"), "a"), job("y")
        )
    )


def test_a_prediction_tells_every_candidate(source: Source) -> None:
    reply = client(source).post("/v1/predict", json={"spec": {**TEMPLATE, "sla": {"throughputFraction": 0.3}}}).json()
    assert reply["fits"]
    assert "soloTokensPerSecond" not in reply
    assert reply["explanation"]["message"] == "would be placed on b/cpu0: predicted 0.40 of its throughput alone"
    told = {entry["node"]: entry for entry in reply["explanation"]["candidates"]}
    assert told["b"]["predictedFraction"] == 0.4
    assert told["a"]["reason"] == "no free harvest slot (0 of 1 free on the node)"


MOUNTING = {
    "containers": [{"name": "m", "image": "i"}],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
}


def test_a_question_about_a_job_with_a_volume_says_where_that_can_be_used() -> None:
    terms = (Term((Requirement("zone", "In", ("a",)),)),)
    claim = VolumeClaim("team", "data", "pvc-1", bound=True)
    volumes = Volumes({("team", "data"): claim}, {"pvc-1": Volume("pvc-1", terms)})
    source = Source(replace(world(node("n")), volumes=volumes))
    asked = {"namespace": "team", "spec": {"template": {"spec": MOUNTING}, "memory": "1Gi"}}
    reply = client(source).post("/v1/predict", json=asked).json()
    words = "volume claim data (volume pvc-1) can only be used on nodes with zone In (a): the node has no label zone"
    assert reply["explanation"]["message"] == f"no candidate holds: n/cpu0: {words}"
    (told,) = client(source).post("/v1/what-if", json={"add": [{**asked, "name": "j"}]}).json()["jobs"]
    assert (told["action"], told["message"]) == ("wait", f"no candidate holds: n/cpu0: {words}")
    assert client(source).post("/v1/predict", json={**asked, "namespace": "other"}).json()["fits"]


def refusal(source: Source, **spec: Any) -> str:
    """Of a job that would not be placed."""
    reply = client(source).post("/v1/predict", json={"spec": {**TEMPLATE, **spec}}).json()
    assert not reply["fits"]
    return str(reply["explanation"]["message"])


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"devices": 2}, "it can never fit: spec.devices is 2, the node with most, a, has 1"),
        ({"memory": "9Gi"}, "it can never fit: spec.memory is 9.00Gi, the largest device, a/cpu0, has 8.00Gi"),
        ({"sla": {"throughputFraction": 0.99}}, "it can never be promised: spec.sla.throughputFraction is 0.99"),
        ({"sla": {"throughputFraction": 0.7}}, "no candidate holds: a/cpu0: no free harvest slot (0 of 1 free"),
    ],
)
def test_what_would_not_be_placed_is_told_as_its_status_would_say_it(
    source: Source, spec: dict[str, Any], told: str
) -> None:
    found = refusal(source, **spec)
    assert found.startswith(told)
    assert found == ask(source, add=[{"name": "new", "spec": {**TEMPLATE, **spec, "priority": 9}}])["new"]["message"]


def test_a_prediction_without_nodes_says_so() -> None:
    assert refusal(Source(world())) == "no node reports a harvested device"


def test_a_prediction_knows_the_profile(source: Source) -> None:
    source.history = History(profiles={("Template|default/i|m1Gi|x1", "cpu"): Profile(50.0, 60.0, NOW)})
    assert client(source).post("/v1/predict", json={"spec": TEMPLATE}).json()["soloTokensPerSecond"] == 50.0


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"spec": {"memory": "1Gi"}},
        {"spec": {**TEMPLATE, "devices": 0}},
        {"spec": {**TEMPLATE, "memory": "much"}},
        {"spec": {**TEMPLATE, "colour": "red"}},
    ],
)
def test_a_wrong_spec_is_refused(source: Source, body: dict[str, Any]) -> None:
    assert client(source).post("/v1/predict", json=body).status_code == 422


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"spec": {"memory": "s3cret!"}}', "spec.memory: an amount of memory was expected, as 4Gi or 500M"),
        (b'{"spec": {"memory": "1Gi", "s3cret": 1}}', "spec.s3cret: there is no such field"),
        (b'{"namespace": "a"}', "spec: it is missing"),
        (b'{"spec": s3cret', "the body: Invalid JSON: expected value at line 1 column 10"),
        (b'["s3cret"]', "the body: an object with fields was expected"),
        (b'{"spec": {"memory": "1Gi"}}', "spec: exactly one of fineTune, batchInference, template must be set"),
        (
            b'{"spec": {"memoryLimit": "1Gi", "template": {"spec": {"containers": [{"name": "s3cret"}]}}}}',
            "spec: memoryLimit must not be below memory",
        ),
        (
            b'{"spec": {"priority": true, "devices": "2"}}',
            "spec.devices: it should be a valid integer; spec.priority",
        ),
        (b'{"spec": {"template": ' + b'{"a":' * 3000 + b"1" + b"}" * 3002, "the body: Invalid JSON: recursion limit"),
    ],
)
def test_a_wrong_field_is_told_in_a_line_without_what_was_sent(source: Source, body: bytes, told: str) -> None:
    reply = client(source).post("/v1/predict", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 422
    assert list(reply.json()) == ["detail"]
    assert reply.json()["detail"].startswith(told)
    assert "s3cret" not in reply.text.replace("spec.s3cret: ", "")


def test_a_template_that_would_end_the_job_is_refused_with_its_field(source: Source) -> None:
    """As the operator would: beside a `memoryLimit` the container has no memory of its own."""
    own = {"name": "m", "image": "i", "resources": {"limits": {"memory": "2Gi"}}}
    spec = {**TEMPLATE, "template": {"spec": {"containers": [own]}}}
    found = client(source)
    assert found.post("/v1/predict", json={"spec": spec}).status_code == 200
    assert found.post("/v1/predict", json={"spec": {**spec, "memoryLimit": "1Gi"}}).status_code == 200
    reply = found.post("/v1/predict", json={"spec": {**spec, "memoryLimit": "2Gi"}})
    assert (reply.status_code, reply.json()["detail"]) == (
        422,
        "spec.template.spec.containers[0].resources.limits: memory must not be set beside spec.memoryLimit; "
        "spec.memory is the request and spec.memoryLimit the limit (the job would end as InvalidTemplate)",
    )


def test_a_broken_rule_of_one_of_several_jobs_names_which(source: Source) -> None:
    job = {"spec": {**TEMPLATE, "memoryLimit": "2Gi", "devices": 2}}
    reply = client(source).post("/v1/what-if", json={"add": [{"spec": TEMPLATE}, job]})
    assert (reply.status_code, reply.json()["detail"]) == (422, "add[1].spec: memoryLimit goes with one device")


def test_who_is_nobody_is_not_told_of_faults(source: Source) -> None:
    stranger = TestClient(create_app(source, Everything()))
    for path in ("/v1/predict", "/v1/what-if"):
        assert stranger.post(path, content=b"none").status_code == 401


def test_what_there_is_to_ask_is_not_told_to_strangers(source: Source) -> None:
    for path in ("/openapi.json", "/docs", "/redoc"):
        assert client(source).get(path).status_code == 404


def ask(source: Source, **change: Any) -> dict[str, Any]:
    reply = client(source).post("/v1/what-if", json=change).json()
    return {entry["name"]: entry for entry in reply["jobs"]}


def test_what_if_nothing_changes(source: Source) -> None:
    told = ask(source)
    assert (told["x"]["action"], told["x"]["node"]) == ("keep", "a")
    assert (told["y"]["action"], told["y"]["node"]) == ("place", "b")


def test_what_if_a_job_is_removed(source: Source) -> None:
    told = ask(source, removeJobs=["ns/x"])
    assert "x" not in told
    assert told["y"]["node"] == "a"


def test_what_if_a_node_is_removed(source: Source) -> None:
    told = ask(source, removeNodes=["a"])
    assert told["x"]["node"] == told["y"]["node"] == "b"
    assert told["x"]["predictedFraction"] == 0.4


def test_what_if_knows_when_nodes_could_be_heard() -> None:
    """Right after an outage nobody is lost."""
    silent = world(node("a", reported=NOW - 60), placed(job("x"), "a", renewed=NOW - 60))
    assert ask(Source(silent))["x"]["action"] == "revoke"
    assert ask(Source(replace(silent, listening=Listening(NOW, NOW))))["x"]["action"] == "keep"


def test_what_if_a_job_is_added(source: Source) -> None:
    told = ask(source, add=[{"name": "new", "spec": {**TEMPLATE, "priority": 9}}])
    assert told["new"]["node"] == "b"
    assert told["y"]["action"] == "place"
    assert ask(source) == {name: entry for name, entry in ask(source).items() if name != "new"}


def test_what_if_a_job_that_is_there_is_changed(source: Source) -> None:
    """Its place is free, and it is not planned beside itself."""
    jobs = (
        client(source)
        .post("/v1/what-if", json={"add": [{"namespace": "ns", "name": "x", "spec": {**TEMPLATE, "priority": 9}}]})
        .json()["jobs"]
    )
    assert sorted(entry["name"] for entry in jobs) == ["x", "y"]
    assert (jobs[0]["name"], jobs[0]["action"], jobs[0]["node"]) == ("x", "place", "a")
    assert jobs[0]["present"] == {"node": "a", "devices": ["cpu0"]}
    assert "present" not in jobs[1]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"removeJobs": ["ns/x", "ns/none"]}, "removeJobs: no OfflineJob ns/none that Rowen manages"),
        ({"removeJobs": ["x"]}, "removeJobs: no OfflineJob x that Rowen manages"),
        ({"removeNodes": ["a", "none"]}, "removeNodes: no node none"),
    ],
)
def test_what_if_of_what_is_not_there_is_refused(source: Source, change: dict[str, Any], told: str) -> None:
    reply = client(source).post("/v1/what-if", json=change)
    assert (reply.status_code, reply.json()) == (422, {"detail": told})


def test_what_if_of_a_job_both_added_and_removed_is_refused(source: Source) -> None:
    added = [{"namespace": "ns", "name": name, "spec": TEMPLATE} for name in ("x", "new")]
    reply = client(source).post("/v1/what-if", json={"add": added, "removeJobs": ["ns/y", "ns/x"]})
    assert reply.status_code == 422
    assert reply.json()["detail"].startswith("removeJobs: ns/x is in add, too")
    assert "ns/y" not in reply.json()["detail"]


PINNED = {"template": {"spec": {**TEMPLATE["template"]["spec"], "nodeSelector": {"zone": "a"}}}, "memory": "1Gi"}


def test_a_prediction_and_what_if_pass_over_nodes_where_the_pod_cannot_run() -> None:
    taint = Taint("dedicated", "", "NoSchedule")
    source = Source(
        world(
            node("a", device("a", idle=0.9), taints=(taint,)),
            node("b", device("b", idle=0.8), labels={"zone": "b"}),
            node("c", device("c", idle=0.1), labels={"zone": "a"}),
        )
    )
    reply = client(source).post("/v1/predict", json={"spec": PINNED}).json()
    assert reply["explanation"]["message"] == "would be placed on c/cpu0: predicted 0.10 of its throughput alone"
    assert {entry["node"]: entry["reason"] for entry in reply["explanation"]["candidates"]} == {
        "a": "taint dedicated:NoSchedule is not tolerated",
        "b": "nodeSelector zone=a: the node has zone=b",
        "c": "fits: predicted 0.10 = idle 0.10 x sharing 1.00, harvests +0.10 devices",
    }
    assert ask(source, add=[{"name": "new", "spec": PINNED}])["new"]["node"] == "c"
    refused = ask(source, add=[{"name": "new", "spec": PINNED}], removeNodes=["c"])["new"]
    assert refused["action"] == "wait"
    assert "is not tolerated" in refused["message"]


def test_a_job_is_explained_from_its_status() -> None:
    view = placed(job("x"), "a")
    found = client(Source(world(replace(view, status=STATUS))))
    assert found.get("/v1/explain/ns/x").json() == {
        "namespace": "ns",
        "name": "x",
        "conditions": [],
        "explanation": {"message": "why", "candidates": []},
    }
    assert found.get("/v1/explain/ns/none").status_code == 404


def test_of_a_job_that_waits_every_candidate_is_told(source: Source) -> None:
    waiting = job("w", status=STATUS, sla=0.95)
    source = Source(world(*(node(name, device(name, idle=0.5)) for name in "abc"), placed(job("x"), "b"), waiting))
    told = client(source).get("/v1/explain/ns/w").json()["explanation"]
    assert told["message"] == "why"
    assert {entry["node"]: entry["jobs"] for entry in told["candidates"]} == {"a": [], "b": ["ns/x"], "c": []}


MANY = [
    *(node(f"n{number:02}", device(f"n{number:02}", idle=0.3 + 0.01 * number)) for number in range(12)),
    *(node(f"t{number:02}", device(f"t{number:02}"), taints=(Taint("d", "", "NoSchedule"),)) for number in range(12)),
    *(node(f"s{number:02}", device(f"s{number:02}", attached=False)) for number in range(12)),
]


def pages(found: TestClient, limit: int) -> list[list[str]]:
    told: list[list[str]] = []
    while len(told) < 99 and (not told or len(told[-1]) == limit):
        query = {"limit": limit, "offset": sum(map(len, told))}
        reply = found.get("/v1/explain/ns/w", params=query).json()
        told.append([entry["node"] for entry in reply["explanation"]["candidates"]])
    return told


@pytest.mark.parametrize(("sla", "fits"), [(0.3, ["n11", "n10"]), (0.95, [])])
@pytest.mark.parametrize("limit", [1, 5, 36])
def test_page_by_page_every_candidate_is_told_once(sla: float, fits: list[str], limit: int) -> None:
    """First where it fits, then where it might be placed, then where its pod cannot run, then what is closed."""
    found = client(Source(world(*MANY, job("w", status=STATUS, sla=sla))))
    told = [name for page in pages(found, limit) for name in page]
    assert sorted(told) == sorted(f"{kind}{number:02}" for kind in "nst" for number in range(12))
    assert told[: len(fits)] == fits
    assert [name[0] for name in told] == ["n"] * 12 + ["t"] * 12 + ["s"] * 12
    assert [name for name in told if name[0] == "n"] == [f"n{number:02}" for number in reversed(range(12))]


def test_what_the_status_of_a_placed_job_tells_has_pages_too() -> None:
    figures = {"idle": 0.5, "memory": 1.0, "alignment": 1.0, "sharing": 1.0, "predictedFraction": 0.5}
    entries = [{"node": name, "devices": ["cpu0"], "chosen": False, "reason": "why", **figures} for name in "ab"]
    status = OfflineJobStatus.from_wire({"explanation": {"message": "why", "candidates": entries}})
    found = client(Source(world(node("a", device("a")), replace(placed(job("w"), "a"), status=status))))
    assert pages(found, 1) == [["a"], ["b"], []]


def test_without_a_query_all_are_told_up_to_the_limit() -> None:
    found = client(Source(world(*MANY, job("w", status=STATUS, sla=0.95))))
    assert len(found.get("/v1/explain/ns/w").json()["explanation"]["candidates"]) == 36


def test_sets_of_several_devices_are_told_page_by_page() -> None:
    """Four devices make six pairs; those of a silent node one."""
    four = [tuple(device(name, f"g{number}", idle=0.5) for number in range(4)) for name in "ab"]
    there = node("a", *four[0]), node("b", *four[1], reported=None)
    found = client(Source(world(*there, job("w", status=STATUS, sla=0.9, devices=2))))
    told = pages(found, 4)
    assert [len(page) for page in told] == [4, 3]
    assert [name for page in told for name in page] == ["a"] * 6 + ["b"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("limit=0", "limit: "),
        ("limit=501", "limit: "),
        ("limit=many", "limit: "),
        ("offset=-1", "offset: "),
        ("offset=1000001", "offset: "),
        ("pages=2", "pages: "),
    ],
)
def test_a_query_that_is_none_is_refused_with_its_field(source: Source, query: str, told: str) -> None:
    reply = client(source).get(f"/v1/explain/ns/x?{query}")
    assert reply.status_code == 422
    assert reply.json()["detail"].startswith(told)
    assert "many" not in reply.json()["detail"]


def test_what_if_tells_what_was_added_first_with_its_candidates_and_its_rate(source: Source) -> None:
    source.history = History(profiles={("Template|default/i|m1Gi|x1", "cpu"): Profile(50.0, 60.0, NOW)})
    jobs = client(source).post("/v1/what-if", json={"add": [{"name": "new", "spec": TEMPLATE}]}).json()["jobs"]
    assert jobs[0]["name"] == "new"
    # b is idle for 0.4 of the time; y came first, so the two share it.
    assert (jobs[0]["predictedFraction"], jobs[0]["predictedTokensPerSecond"]) == (0.2, 10.0)
    assert jobs[0]["candidates"][0]["chosen"]
    assert all("candidates" not in entry for entry in jobs[1:])


def test_without_a_current_view_nothing_is_answered() -> None:
    found = client(Source(None))
    assert found.post("/v1/predict", json={"spec": TEMPLATE}).status_code == 503
    assert found.get("/v1/explain/ns/x").status_code == 503
