"""Who is let in, and what they are told of others."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from scheduler.builders import GIB, device, job, node, placed, world
from scheduler.serve.test_server import TEMPLATE, Source

from rowen.scheduler.serve.access import MOST_NAMESPACES
from rowen.scheduler.serve.reviews import Caller, Right, UnansweredError
from rowen.scheduler.serve.server import create_app
from rowen.scheduler.snapshot import Snapshot


class Directory:
    """Ann reads the jobs of `a`, and the one job `one` of `b`; the admin everything, Ned nodes and the jobs of `a`."""

    def __init__(self) -> None:
        self.away = False
        self.asked: list[Right] = []

    async def caller(self, token: str) -> Caller | None:
        if self.away:
            raise UnansweredError("the API server does not say who may ask")
        return Caller(token) if token in ("ann", "admin", "ned") else None

    async def allows(self, caller: Caller, right: Right) -> bool:
        self.asked.append(right)
        if caller.user == "admin" or (caller.user == "ned" and right == Right("get", "nodeharvests")):
            return True
        one = caller.user == "ann" and right == Right("get", "offlinejobs", "b", "one")
        return one or (right.namespace, right.resource) == ("a", "offlinejobs")


def full() -> Snapshot:
    """A device with a job of each of two namespaces, whose SLAs leave no room, and a service of a third."""
    return world(
        node("n", device("n", idle=0.9, service="prod/chat"), slots=4),
        placed(job("mine", namespace="a", sla=0.4), "n"),
        placed(job("one", namespace="b", sla=0.4), "n"),
        placed(job("two", namespace="b"), "n"),
        job("waits", namespace="b", sla=0.9),
    )


@pytest.fixture
def directory() -> Directory:
    return Directory()


def client(directory: Directory, snapshot: Snapshot | None, user: str | None = "ann") -> TestClient:
    headers = {"Authorization": f"Bearer {user}"} if user is not None else {}
    return TestClient(create_app(Source(snapshot), directory), headers=headers)


def test_health_and_metrics_are_not_where_callers_come(directory: Directory) -> None:
    for user in (None, "ann", "admin"):
        found = client(directory, full(), user)
        assert [found.get(path).status_code for path in ("/healthz", "/metrics")] == [404, 404]


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({}, "a bearer token of the cluster is needed"),
        ({"Authorization": "Basic YTpi"}, "a bearer token of the cluster is needed"),
        ({"Authorization": "Bearer "}, "a bearer token of the cluster is needed"),
        ({"Authorization": "Bearer somebody"}, "does not know this token"),
        ({"Authorization": "Bearer a b"}, "this is no token"),
        ({"Authorization": f"Bearer {'x' * 16385}"}, "this is no token"),
        ({"X-Rowen-Token": "somebody"}, "does not know this token"),
    ],
)
def test_who_is_nobody_is_refused_with_401(directory: Directory, headers: dict[str, str], told: str) -> None:
    reply = client(directory, full(), None).get("/v1/explain/a/mine", headers=headers)
    assert (reply.status_code, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert told in reply.json()["detail"]
    assert not directory.asked


def test_a_token_may_come_in_the_other_header(directory: Directory) -> None:
    found = client(directory, full(), None)
    for headers in ({"X-Rowen-Token": "ann"}, {"authorization": "bearer ann"}):
        assert found.get("/v1/explain/a/mine", headers=headers).status_code == 200


ASKED: list[tuple[str, str, dict[str, Any] | None]] = [
    ("GET", "/v1/explain/a/mine", None),
    ("POST", "/v1/predict", {"namespace": "a", "spec": TEMPLATE}),
    ("POST", "/v1/what-if", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), ASKED)
def test_without_the_api_servers_answer_nobody_is_let_in(
    directory: Directory, method: str, path: str, body: dict[str, Any] | None
) -> None:
    directory.away = True
    reply = client(directory, full(), "admin").request(method, path, json=body)
    assert reply.status_code == 503
    assert reply.json()["detail"] == "the API server does not say who may ask; try again later"


@pytest.mark.parametrize(("method", "path", "body"), ASKED)
def test_who_has_no_token_learns_nothing_from_any_path(
    directory: Directory, method: str, path: str, body: dict[str, Any] | None
) -> None:
    assert client(directory, full(), None).request(method, path, json=body).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "body", "right"),
    [
        ("GET", "/v1/explain/b/two", None, "get offlinejobs.rowen.dev two in namespace b"),
        ("GET", "/v1/explain/b/none", None, "get offlinejobs.rowen.dev none in namespace b"),
        ("POST", "/v1/predict", {"namespace": "b", "spec": TEMPLATE}, "list offlinejobs.rowen.dev in namespace b"),
        ("POST", "/v1/what-if", {"add": [{"namespace": "b", "spec": TEMPLATE}]}, "in namespace b"),
        ("POST", "/v1/what-if", {"removeJobs": ["b/one"]}, "list offlinejobs.rowen.dev in namespace b"),
        ("POST", "/v1/what-if", {"removeNodes": ["n"]}, "get nodeharvests.rowen.dev"),
    ],
)
def test_a_missing_right_is_named(
    directory: Directory, method: str, path: str, body: dict[str, Any] | None, right: str
) -> None:
    reply = client(directory, full()).request(method, path, json=body)
    assert reply.status_code == 403
    assert reply.json()["detail"].startswith("ann may not ")
    assert reply.json()["detail"].endswith(right)


def test_a_question_about_many_namespaces_is_refused(directory: Directory) -> None:
    body = {"removeJobs": [f"n{number}/j" for number in range(MOST_NAMESPACES + 1)]}
    assert client(directory, full()).post("/v1/what-if", json=body).status_code == 422


def test_jobs_of_other_namespaces_are_counts(directory: Directory) -> None:
    reply = client(directory, full()).post("/v1/what-if", json={"add": [{"namespace": "a", "spec": TEMPLATE}]})
    told = reply.json()
    assert [(entry["namespace"], entry["name"]) for entry in told["jobs"]] == [("a", "hypothetical"), ("a", "mine")]
    assert told["others"] == {"keep": 2, "wait": 1}
    candidate = told["jobs"][0]["candidates"][0]
    assert (candidate["jobs"], candidate["otherJobs"]) == (["a/mine"], 2)
    assert "b/" not in reply.text
    everything = client(directory, full(), "admin").post("/v1/what-if", json={}).json()
    assert len(everything["jobs"]) == 4
    assert "others" not in everything or everything["others"] == {}


def test_a_refusal_does_not_name_them_either(directory: Directory) -> None:
    """0.9 among four is 0.225: below what either of the two with an SLA was promised."""
    body = {"namespace": "a", "spec": TEMPLATE}
    crowded = world(
        node("n", device("n", idle=0.9, service="prod/chat"), slots=4), placed(job("one", namespace="b", sla=0.5), "n")
    )
    told = client(directory, crowded).post("/v1/predict", json=body).json()["explanation"]["candidates"][0]["reason"]
    assert told.startswith("a job of another namespace would fall to 0.45 < its SLA")
    named = client(directory, crowded, "admin").post("/v1/predict", json=body).json()
    assert named["explanation"]["candidates"][0]["reason"].startswith("b/one would fall to 0.45")
    message = client(directory, crowded).post("/v1/predict", json=body).json()["explanation"]["message"]
    assert message.startswith("no candidate holds: n/cpu0: a job of another namespace would fall to 0.45")


def test_a_service_of_another_namespace_is_not_named(directory: Directory) -> None:
    body = {"namespace": "a", "spec": {**TEMPLATE, "memory": "7Gi"}}
    small = world(node("n", device("n", online_memory=4 * GIB, service="prod/chat")))
    told = client(directory, small).post("/v1/predict", json=body).text
    assert "the service of another namespace may take 4.00Gi" in told
    assert "prod" not in told


def test_who_may_read_one_job_is_not_told_of_its_neighbours(directory: Directory) -> None:
    found = client(directory, full())
    assert found.get("/v1/explain/b/one").status_code == 200
    assert Right("list", "offlinejobs", "b") in directory.asked


def test_nodes_may_be_taken_away_by_who_may_read_them(directory: Directory) -> None:
    reply = client(directory, full(), "ned").post("/v1/what-if", json={"removeNodes": ["n"]})
    assert (reply.status_code, reply.json()["jobs"]) == (200, [])
    assert sum(reply.json()["others"].values()) == 4
