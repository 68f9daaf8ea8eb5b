"""What outlives a restart."""

import json

import pytest
from kr8s.asyncio import Api
from scheduler.builders import NOW

from rowen.crds.apply import apply
from rowen.scheduler.backoff import Backoff
from rowen.scheduler.history import History
from rowen.scheduler.profile import PredictionError, Profile
from rowen.scheduler.store import NAME, Store, decode, encode

HISTORY = History(
    profiles={("class", "cpu"): Profile(100.0, 60.0, NOW)},
    errors={"class": PredictionError(0.1, 0.01, 7)},
    backoffs={("uid", "n"): Backoff(2, NOW + 60, "SLAViolated")},
)


def test_a_round_trip_keeps_everything() -> None:
    assert decode(encode(HISTORY)) == HISTORY


def test_the_newest_profiles_are_kept_when_there_are_too_many() -> None:
    many = History(profiles={(f"c{i:05}", "cpu"): Profile(1.0, 1.0, NOW + i) for i in range(2100)})
    found = decode(encode(many))
    assert len(found.profiles) == 2000
    assert ("c02099", "cpu") in found.profiles
    assert ("c00000", "cpu") not in found.profiles
    assert len(encode(many)) < 2**20


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 2"):
        decode(json.dumps({"version": 2}))


async def test_it_is_stored_in_a_config_map(kube: Api, namespace: str) -> None:
    store = Store(kube, namespace)
    assert await store.load() == History()
    await store.save(HISTORY)
    assert await store.load() == HISTORY


@pytest.mark.parametrize("data", [{}, {"profiles.json": "{"}, {"profiles.json": '{"version": 99}'}])
async def test_what_cannot_be_read_is_measured_again(kube: Api, namespace: str, data: dict[str, str]) -> None:
    manifest = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": namespace}, "data": data
    }  # fmt: skip
    await apply(kube, manifest, manager="test")
    assert await Store(kube, namespace).load() == History()
