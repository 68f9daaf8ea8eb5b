"""What outlives a restart."""

import json
from dataclasses import replace

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


LONG = "é" * 500


def test_it_fits_into_a_config_map_whatever_is_in_it() -> None:
    """The API server refuses one of more than 1 MiB."""
    full = History(
        profiles={(f"{number}{LONG}", "cpu"): Profile(1 / 3, 1 / 7, NOW + number) for number in range(2000)},
        errors={f"{number}{LONG}": PredictionError(1 / 3, 1 / 7, number) for number in range(2000)},
        backoffs={(f"{number}{LONG}", LONG): Backoff(number, NOW + number, "SLAViolated") for number in range(5000)},
    )
    text = encode(full)
    assert len(text.encode()) < 0.75 * 2**20
    found = decode(text)
    assert min(map(len, (found.profiles, found.errors, found.backoffs))) > 50
    assert found.profiles.items() <= full.profiles.items()
    assert (f"1999{LONG}", "cpu") in found.profiles
    assert f"1999{LONG}" in found.errors
    assert (f"4999{LONG}", LONG) in found.backoffs


def test_one_entry_that_is_too_long_does_not_keep_the_others_out() -> None:
    profiles = {("x" * 2**20, "cpu"): Profile(1.0, 1.0, NOW + 1), ("class", "cpu"): Profile(1.0, 1.0, NOW)}
    assert decode(encode(History(profiles=profiles))).profiles.keys() == {("class", "cpu")}


def test_errors_are_stored_with_their_profiles_only() -> None:
    errors = dict.fromkeys(("class", "other"), PredictionError(0.1, 0.01, 7))
    assert decode(encode(replace(HISTORY, errors=errors))).errors.keys() == {"class"}


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


async def test_the_fullest_one_is_accepted(kube: Api, namespace: str) -> None:
    profiles = {(f"{number}{LONG}", "cpu"): Profile(1 / 3, 1 / 7, NOW + number) for number in range(2000)}
    backoffs = {(f"{number}", LONG): Backoff(number, NOW + number, "SLAViolated") for number in range(5000)}
    store = Store(kube, namespace)
    await store.save(History(profiles=profiles, backoffs=backoffs))
    assert (f"1999{LONG}", "cpu") in (await store.load()).profiles
