"""What outlives a restart."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.builders import NOW, POLICY, device, job, node, placed, pod, tenant, world
from structlog.testing import capture_logs

from rowen.kube.client import Client
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import CONFIG_MAPS
from rowen.kube.objects import apply
from rowen.scheduler.decision import decide
from rowen.scheduler.history import History
from rowen.scheduler.model.profile import PredictionError, Profile
from rowen.scheduler.monitor.backoff import Backoff
from rowen.scheduler.monitor.observation import observe
from rowen.scheduler.world.store import NAME, Store, decode, encode

LATEST = NOW + 5000.0
HISTORY = History(
    profiles={("class", "cpu"): Profile(100.0, 60.0, NOW)},
    errors={"class": PredictionError(0.1, 0.01, NOW)},
    backoffs={("uid", "n"): Backoff(2, NOW + 60, "SLAViolated")},
)


def test_a_round_trip_keeps_everything() -> None:
    assert decode(encode(HISTORY), LATEST) == HISTORY


def test_the_newest_profiles_are_kept_when_there_are_too_many() -> None:
    many = History(profiles={(f"c{i:05}", "cpu"): Profile(1.0, 1.0, NOW + i) for i in range(2100)})
    found = decode(encode(many), LATEST)
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
    found = decode(text, LATEST)
    assert min(map(len, (found.profiles, found.errors, found.backoffs))) > 50
    assert found.profiles.items() <= full.profiles.items()
    assert (f"1999{LONG}", "cpu") in found.profiles
    assert f"1999{LONG}" in found.errors
    assert (f"4999{LONG}", LONG) in found.backoffs


def test_one_entry_that_is_too_long_does_not_keep_the_others_out() -> None:
    profiles = {("x" * 2**20, "cpu"): Profile(1.0, 1.0, NOW + 1), ("class", "cpu"): Profile(1.0, 1.0, NOW)}
    assert decode(encode(History(profiles=profiles)), LATEST).profiles.keys() == {("class", "cpu")}


def test_errors_are_stored_with_their_profiles_only() -> None:
    errors = dict.fromkeys(("class", "other"), PredictionError(0.1, 0.01, NOW))
    assert decode(encode(replace(HISTORY, errors=errors)), LATEST).errors.keys() == {"class"}


def test_an_error_of_an_older_release_has_faded() -> None:
    errors = [["class", {"mean": 0.4, "variance": 0.04, "samples": 9}]]
    history = replace(decode(json.dumps({"version": 1, "errors": errors}), LATEST), time=NOW)
    assert history.error("class").bound == pytest.approx(0.1)


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 2"):
        decode(json.dumps({"version": 2}), LATEST)


async def test_it_is_stored_in_a_config_map(kube: Client, namespace: str) -> None:
    store = Store(kube, namespace)
    assert await store.load(LATEST) == History()
    await store.save(HISTORY)
    assert await store.load(LATEST) == HISTORY


@pytest.mark.parametrize("data", [{}, {"profiles.json": "{"}, {"profiles.json": '{"version": 99}'}])
async def test_what_cannot_be_read_is_measured_again(kube: Client, namespace: str, data: dict[str, str]) -> None:
    manifest = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": namespace}, "data": data
    }  # fmt: skip
    await apply(kube, CONFIG_MAPS, manifest, manager="test")
    assert await Store(kube, namespace).load(LATEST) == History()


async def test_the_fullest_one_is_accepted(kube: Client, namespace: str) -> None:
    profiles = {(f"{number}{LONG}", "cpu"): Profile(1 / 3, 1 / 7, NOW + number) for number in range(2000)}
    backoffs = {(f"{number}", LONG): Backoff(number, NOW + number, "SLAViolated") for number in range(5000)}
    store = Store(kube, namespace)
    await store.save(History(profiles=profiles, backoffs=backoffs))
    assert (f"1999{LONG}", "cpu") in (await store.load(LATEST)).profiles


async def test_what_another_scheduler_has_stored_is_not_overwritten_at_once(kube: Client, namespace: str) -> None:
    """One that has lost its lease stores what it knows a last time."""
    one, two = Store(kube, namespace), Store(kube, namespace)
    await one.save(History())
    await two.load(LATEST)
    await two.save(HISTORY)
    with pytest.raises(RefusedError):
        await one.save(History())
    assert await two.load(LATEST) == HISTORY
    await one.save(History())
    assert await two.load(LATEST) == History(), "it works, so it goes on"


def stored(**parts: Any) -> str:
    return json.dumps({"version": 1, **parts})


GOOD: dict[str, Any] = {
    "profiles": [["a", "cpu"], {"tokens_per_second": 1.0, "weight": 600.0, "updated": NOW}],
    "errors": ["a", {"mean": -1.0, "variance": 0.0, "time": NOW}],
    "backoffs": [["uid", "n"], {"count": 1, "until": LATEST, "reason": "NodeLost"}],
}


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        *(("profiles", "tokens_per_second", value) for value in (0.0, -1.0, 1e300, math.inf, math.nan, "x", None)),
        *(("profiles", "weight", value) for value in (-0.1, 600.1, math.inf, math.nan)),
        *(("profiles", "updated", value) for value in (math.inf, math.nan)),
        *(("errors", "mean", value) for value in (-1.1, 1.1, math.nan)),
        *(("errors", "variance", value) for value in (-0.1, 4.1, math.inf, math.nan)),
        *(("errors", "time", value) for value in (-1.0, LATEST + 1.0, math.inf, math.nan)),
        *(("backoffs", "count", value) for value in (0, 10**400)),
        *(("backoffs", "until", value) for value in (-1.0, LATEST + 1.0, 1.7e12, 1e300, math.inf, math.nan)),
    ],
)
def test_an_entry_out_of_range_is_dropped_and_the_others_are_kept(part: str, field: str, value: object) -> None:
    good = {name: [entry] for name, entry in GOOD.items()}
    whole = decode(stored(**good), LATEST)
    assert (len(whole.profiles), len(whole.errors), len(whole.backoffs)) == (1, 1, 1)
    bad = [["b", "x"] if part != "errors" else "b", {**GOOD[part][1], field: value}]
    with capture_logs() as told:
        assert decode(stored(**{**good, part: [bad, *good[part], "no entry"]}), LATEST) == whole
    assert [(entry["log_level"], entry["entries"]) for entry in told] == [("warning", 2)]


NUMBERS = st.one_of(st.floats(), st.integers(), st.sampled_from([0, -1, 1e300, 600, NOW, LATEST]))


def entries(key: object, *fields: str) -> st.SearchStrategy[list[object]]:
    value = st.fixed_dictionaries(dict.fromkeys(fields, NUMBERS) | {"reason": st.just("NodeLost")})
    return st.lists(st.one_of(value.map(lambda found: [key, found]), st.text()), max_size=2)


@settings(max_examples=200)
@given(
    entries(["class", "cpu"], "tokens_per_second", "weight", "updated"),
    entries("class", "mean", "variance", "time"),
    entries(["uid-j", "n"], "count", "until"),
)
def test_a_pass_survives_whatever_is_stored(
    profiles: list[object], errors: list[object], backoffs: list[object]
) -> None:
    history = decode(stored(profiles=profiles, errors=errors, backoffs=backoffs), LATEST)
    running = placed(job("k", sla=0.2), "n", at=NOW)
    devices = device("n", tenants=(tenant(running, 900, 30.0),))
    for at in (0.0, 5.0):
        seen = world(node("n", devices, reported=NOW + at), job("j", sla=0.2), running, pod(running, "n"))
        history = observe(history, seen, NOW + at, POLICY).history
        assert len(decide(seen, history, NOW + at, POLICY).outcomes) == 2
    assert decode(encode(history), LATEST).profiles.keys() == history.profiles.keys()
