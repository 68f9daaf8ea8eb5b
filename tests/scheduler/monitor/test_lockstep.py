"""What is learned of a job whose devices differ."""

from dataclasses import replace
from typing import Any

import pytest
from scheduler.builders import NOW, POLICY, device, job, node, placed, pod, tenant, world

from rowen.scheduler.history import History
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.model.profile import Profile
from rowen.scheduler.monitor.learning import memory_features
from rowen.scheduler.monitor.observation import observe


def mixed(history: History, at: float, **fields: Any) -> History:
    """A report of a job on two types of devices, which makes 60 tokens per second."""
    view = placed(job("j", devices=2, sla=0.5, **fields), "n", "a", "b", at=NOW)
    own = tenant(view, round(60 * at), 0.6 * at)
    devices = device("n", "a", tenants=(own,)), replace(device("n", "b", tenants=(own,)), type="old")
    seen = world(node("n", *devices, reported=NOW + at), view, pod(view, "n", "a", "b"))
    return observe(history, seen, NOW + at, POLICY).history


def test_a_job_on_two_types_teaches_neither_and_is_measured_by_the_slower_one() -> None:
    taught = {("class", "cpu"): Profile(400.0, 600.0, NOW), ("class", "old"): Profile(120.0, 600.0, NOW)}
    history, partly = History(profiles=taught), History(profiles={("class", "cpu"): taught["class", "cpu"]})
    for step in range(13):
        history, partly = mixed(history, 5.0 * step), mixed(partly, 5.0 * step)
    assert dict(history.profiles) == taught
    assert history.tracks["uid-j"].fraction == pytest.approx(0.5)
    assert list(partly.profiles) == [("class", "cpu")]
    assert partly.tracks["uid-j"].fraction is None


def test_a_report_that_has_it_on_one_of_its_devices_does_not_say_what_it_runs_on() -> None:
    """Its tokens are those of both devices, so that they are no type's own throughput."""
    view = placed(job("j", devices=2), "n", "a", "b", at=NOW)
    first = device("n", "a", tenants=(tenant(view, 10, 0.1),)), replace(device("n", "b"), type="old")
    seen = world(node("n", *first, reported=NOW), view, pod(view, "n", "a", "b"))
    history = observe(History(), seen, NOW, POLICY).history
    assert history.tracks["uid-j"].device_types == ("cpu", "old")
    for step in range(1, 13):
        history = mixed(history, 5.0 * step)
    assert dict(history.profiles) == {}


def test_what_a_spec_says_counts_on_each_type() -> None:
    history = mixed(History(), 5.0, solo=80.0)
    assert (history.solo("class", "cpu"), history.solo("class", "old")) == (80.0, 80.0)


def test_the_memory_that_counts_is_that_of_the_device_with_the_least() -> None:
    view = job("j", devices=2, pool=400, need=linear_need(400, doubt=0.5))
    much, little = device("n", "a", available=(400,)), device("n", "b", available=(100, 300))
    alone = memory_features(view, [little])
    assert alone != memory_features(view, [much])
    assert alone == memory_features(view, (much, little)) == memory_features(view, (little, much))
    assert memory_features(view, (much, device("n", "c"))) is None
