"""Single objects, on a real API server and on one that is having a bad day."""

import asyncio
from typing import Any

import pytest
import samples
from kube.odd import Odd, body, listed, status, thing

from rowen.kube import objects
from rowen.kube.client import Client
from rowen.kube.errors import RefusedError, UnreachableError
from rowen.kube.kinds import CONFIG_MAPS, EVENTS, NODES, OFFLINE_JOBS, PODS
from rowen.kube.listing import listing
from rowen.kube.objects import apply, apply_status, create, delete, get, list_all, post_event
from rowen.kube.resource import Resource

THINGS = Resource("Thing", "v1", "things")
PATH = "/api/v1/things"


def config(namespace: str, name: str = "c", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


async def test_what_one_manager_applies_it_takes_back(kube: Client, namespace: str) -> None:
    await apply(kube, CONFIG_MAPS, config(namespace, a="1", b="2"), manager="one")
    await apply(kube, CONFIG_MAPS, config(namespace, c="3"), manager="two")
    stored = await apply(kube, CONFIG_MAPS, config(namespace, a="1"), manager="one")
    assert stored["data"] == {"a": "1", "c": "3"}
    assert (await get(kube, CONFIG_MAPS, namespace, "c"))["data"] == {"a": "1", "c": "3"}


async def test_a_status_is_not_written_on_a_version_that_was_not_seen(kube: Client, namespace: str) -> None:
    job = samples.offline_job("j")
    job["metadata"]["namespace"] = namespace
    seen = await apply(kube, OFFLINE_JOBS, job, manager="user")
    meta = {key: seen["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
    manifest = {"apiVersion": job["apiVersion"], "kind": job["kind"], "metadata": meta, "status": {"evictions": 1}}
    stored = await apply_status(kube, OFFLINE_JOBS, manifest, manager="test")
    assert stored["status"]["evictions"] == 1
    manifest["status"] = {"evictions": 2}
    with pytest.raises(RefusedError) as caught:
        await apply_status(kube, OFFLINE_JOBS, manifest, manager="test")
    assert (caught.value.status, caught.value.reason) == (objects.CONFLICT, "Conflict")
    assert (await get(kube, OFFLINE_JOBS, namespace, "j"))["status"]["evictions"] == 1


async def test_a_field_that_nobody_knows_is_named(kube: Client, namespace: str) -> None:
    manifest = {**config(namespace), "dta": {}}
    with pytest.raises(RefusedError, match='unknown field "dta"') as caught:
        await create(kube, CONFIG_MAPS, manifest, manager="test")
    assert (caught.value.status, caught.value.passes) == (400, False)


async def test_a_stranger_of_the_same_name_is_not_deleted(kube: Client, namespace: str) -> None:
    made = await create(kube, CONFIG_MAPS, config(namespace), manager="test")
    await delete(kube, CONFIG_MAPS, namespace, "c", uid="another")
    assert await get(kube, CONFIG_MAPS, namespace, "c")
    for _ in range(2):
        await delete(kube, CONFIG_MAPS, namespace, "c", uid=made["metadata"]["uid"], grace_seconds=0)
    with pytest.raises(RefusedError) as caught:
        await get(kube, CONFIG_MAPS, namespace, "c")
    assert caught.value.status == objects.NOT_FOUND


async def test_an_event_is_posted_once(kube: Client, namespace: str) -> None:
    owner = await create(kube, CONFIG_MAPS, config(namespace, "x" * 250), manager="test")

    async def post(message: str) -> None:
        await post_event(
            kube, owner, type="Warning", reason="Odd", message=message, component="test", now=1_700_000_000.5
        )

    await asyncio.gather(*(post("m" * 2000) for _ in range(3)))
    await post("another")
    found = await list_all(kube, EVENTS, namespace=namespace, field_selector="reason=Odd")
    assert sorted(len(event["message"]) for event in found) == [7, 1024]
    assert {event["involvedObject"]["uid"] for event in found} == {owner["metadata"]["uid"]}
    assert {event["firstTimestamp"] for event in found} == {"2023-11-14T22:13:20Z"}


async def test_events_of_a_node_lie_in_the_default_namespace(kube: Client, namespace: str) -> None:
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{namespace}"}}
    node = await create(kube, NODES, manifest, manager="test")
    await post_event(kube, node, type="Normal", reason="Odd", message="m", component="test", now=0.0)
    found = await list_all(
        kube, EVENTS, namespace="default", field_selector=f"involvedObject.name={node['metadata']['name']}"
    )
    assert [event["message"] for event in found] == ["m"]
    await delete(kube, NODES, None, node["metadata"]["name"])


async def test_a_list_has_all_pages(kube: Client, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowen.kube.listing.PAGE", 2)
    for name in "abcde":
        await create(kube, CONFIG_MAPS, config(namespace, name), manager="test")
    found = await listing(kube, CONFIG_MAPS, namespace=namespace)
    assert [item["metadata"]["name"] for item in found.items] == list("abcde")
    assert {(item["apiVersion"], item["kind"]) for item in found.items} == {("v1", "ConfigMap")}
    assert found.version >= max(int(item["metadata"]["resourceVersion"]) for item in found.items)
    assert await list_all(kube, PODS, namespace=namespace) == []


async def test_selectors_go_to_the_api_server(odd: Odd, odd_client: Client) -> None:
    odd.say(PATH, listed(1))
    await list_all(odd_client, Resource("Thing", "v1", "things", "a=b"), field_selector="c=d")
    (query,) = odd.queries(PATH)
    assert (query["labelSelector"], query["fieldSelector"]) == ("a=b", "c=d")


async def test_a_page_that_comes_too_late_makes_it_one_piece(odd: Odd, odd_client: Client) -> None:
    first = listed(5, thing(1, "a"), token="t")
    odd.say(PATH, first, status(410, "Expired", "the token is too old"), listed(9, thing(1, "a"), thing(8, "b")))
    found = await listing(odd_client, THINGS)
    assert ([item["metadata"]["uid"] for item in found.items], found.version) == (["a", "b"], 9)
    assert ["limit" in query for query in odd.queries(PATH)] == [True, True, False]


async def test_pages_that_shrink_and_move_on_are_of_the_first_version(odd: Odd, odd_client: Client) -> None:
    """What was made between two pages may be on neither."""
    pages = [listed(5, thing(1, "a"), thing(2, "b"), token="t"), listed(7, thing(6, "b"), token="u"), listed(8)]
    odd.say(PATH, *pages)
    found = await listing(odd_client, THINGS)
    assert [(item["metadata"]["uid"], item["metadata"]["resourceVersion"]) for item in found.items] == [
        ("a", "1"), ("b", "6")
    ]  # fmt: skip
    assert found.version == 5


@pytest.mark.parametrize(
    "text",
    ['{"kind": "Welcome"}', '{"metadata": {"resourceVersion": "x"}, "items": []}', '{"metadata": null}',
     '{"metadata": {"resourceVersion": "1"}, "items": "none"}', '{"metadata": {"resourceVersion": "1"}, "items": [1]}',
     '{"metadata": {"resourceVersion": "1"}, "items": [{}]}'],
)  # fmt: skip
async def test_what_is_no_list_is_no_answer(odd: Odd, odd_client: Client, text: str) -> None:
    odd.say(PATH, body(text))
    with pytest.raises(UnreachableError):
        await listing(odd_client, THINGS)
