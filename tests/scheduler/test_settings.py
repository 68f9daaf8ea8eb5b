"""Settings from the environment."""

import os
from pathlib import Path

import pytest

from rowen.kube.settings import SettingsError, read_settings
from rowen.scheduler.policy import Policy
from rowen.scheduler.settings import Settings


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("ROWEN_SCHEDULER_") or name == "POD_NAMESPACE":
            monkeypatch.delenv(name)


def test_defaults() -> None:
    found = Settings()
    assert (found.namespace, found.port, found.api_port, found.policy) == ("rowen-system", 9090, 9091, Policy())


def test_every_number_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "x")
    monkeypatch.setenv("ROWEN_SCHEDULER_PORT", "1234")
    monkeypatch.setenv("ROWEN_SCHEDULER_API_PORT", "1235")
    monkeypatch.setenv("ROWEN_SCHEDULER_TLS_FOLDER", "/tls")
    monkeypatch.setenv("ROWEN_SCHEDULER_DWELL_SECONDS", "5")
    found = Settings()
    assert (found.namespace, found.port, found.api_port) == ("x", 1234, 1235)
    assert found.tls_folder == Path("/tls")
    assert found.policy.dwell_seconds == 5.0


@pytest.mark.parametrize("name", ["DWELL", "DWELL_SECONDS", "PORT", "API_PORT", "NAMESPACE", "POLICY"])
def test_mistakes_are_refused_by_the_variables_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"ROWEN_SCHEDULER_{name}", "{}" if name == "POLICY" else "soon")
    with pytest.raises(SettingsError, match=f"^ROWEN_SCHEDULER_{name}: "):
        read_settings(Settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [("POD_NAMESPACE", ""), ("ROWEN_SCHEDULER_POLICY", "x"), ("ROWEN_SCHEDULER_DWELL_SECONDS", "inf"),
     ("ROWEN_SCHEDULER_BACKOFF_SECONDS", "nan")],
)  # fmt: skip
def test_what_no_scheduler_can_go_by_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=f"^{name}: "):
        read_settings(Settings)
