"""A device whose lease the test lets run out."""

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
    # Nobody waits for it any more.
    device.lease = True
    engine_lease.cache_clear()
