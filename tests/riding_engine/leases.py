"""A device whose lease the test lets run out."""

import threading
from collections.abc import Iterator

import pytest
from runtime.recorder import Recorder

from rowen.runtime.coserve import lease as lease_module
from rowen.runtime.coserve.lease import engine_lease


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    device = Recorder()
    monkeypatch.setattr(lease_module, "online", lambda: device)
    monkeypatch.setattr(lease_module, "_LOOK_SECONDS", 0.005)
    engine_lease.cache_clear()
    yield device
    device.lease = True
    for thread in threading.enumerate():
        if thread.name == "rowen-lease":
            thread.join(20)
    engine_lease.cache_clear()
