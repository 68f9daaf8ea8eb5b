"""The GPU measurement of stops, on a FAKE tenant: a thread that counts unless it is told not to."""

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from gpu.rounds import measure, percentiles


class Tenant:
    """Counts in a few counters. `deaf`: goes on behind a stop. `refuses`: the status that a stop gets."""

    def __init__(self) -> None:
        self.counters = np.zeros(4, dtype=np.uint64)
        self.deaf, self.refuses, self.dies = False, 0, False
        self.stopped = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended:
            if not self.stopped or self.deaf:
                self.counters += np.uint64(1)
            time.sleep(0.00005)

    def switch(self, stop: bool) -> int:
        if stop and self.refuses:
            return self.refuses
        self.stopped = stop or self.dies
        return 0

    def end(self) -> None:
        self._ended = True
        self._thread.join()


@pytest.fixture
def tenant() -> Iterator[Tenant]:
    made = Tenant()
    yield made
    made.end()


def test_a_tenant_that_obeys_makes_no_progress_behind_a_stop(tenant: Tenant) -> None:
    found = measure(tenant.switch, tenant.counters, 5, 0.01, seed=1)
    assert found["ended"] == "done"
    assert found["rounds"] == 5
    assert found["rounds_with_progress_behind_a_stop"] == 0
    assert not tenant.stopped


def test_progress_behind_a_stop_is_seen(tenant: Tenant) -> None:
    tenant.deaf = True
    assert measure(tenant.switch, tenant.counters, 5, 0.01, seed=1)["rounds_with_progress_behind_a_stop"] == 5


def test_a_refusal_ends_the_measurement_with_its_status(tenant: Tenant) -> None:
    tenant.refuses = 0x1B
    found = measure(tenant.switch, tenant.counters, 5, 0.01, seed=1)
    assert (found["rounds"], found["ended"], found["still_us"]) == (0, "stop: 0x1b", {})


def test_a_tenant_that_does_not_come_back_is_told_from_one_that_stands_still(tenant: Tenant) -> None:
    tenant.dies = True
    found = measure(tenant.switch, tenant.counters, 5, 0.001, seed=1)
    assert found["rounds"] == 0
    assert "no progress" in str(found["ended"])


def test_percentiles() -> None:
    assert percentiles([]) == {}
    assert percentiles([1.0, 2.0, 3.0]) == {"p50": 2.0, "p99": 2.98, "max": 3.0}
