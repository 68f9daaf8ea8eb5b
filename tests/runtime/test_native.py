"""Finding the device, or living without."""

from collections.abc import Iterator

import pytest

from rowen.runtime import native


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    native.online.cache_clear()
    native.tenant.cache_clear()
    yield
    native.online.cache_clear()
    native.tenant.cache_clear()


def test_no_device_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROWEN_LIBRARY", raising=False)
    assert native.online() is None


def test_an_engine_whose_library_is_broken_serves_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWEN_LIBRARY", "/nonexistent/librowen.so")
    monkeypatch.setenv("ROWEN_DEVICE_PAGE", "/nonexistent/device.page")
    assert native.online() is None


def test_an_engine_with_another_library_serves_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWEN_LIBRARY", "libc.so.6")
    monkeypatch.setenv("ROWEN_DEVICE_PAGE", "/nonexistent/device.page")
    assert native.online() is None


def test_a_worker_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROWEN_TENANT_PAGE", raising=False)
    native.tenant().progress(1, 2, 3)
    monkeypatch.setenv("ROWEN_TENANT_PAGE", "/run/rowen/tenant.page")
    native.tenant.cache_clear()
    native.tenant().progress(1, 2, 3)
