"""A real Prometheus per world, scraping the stand-in exporter and evaluating Rowen's rules."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from apiserver import free_port
from exporter import HEALTHY, ILL, SHARING, World, serve
from helm import CHART

RULES = CHART / "rules" / "rowen.yaml"
_SCRAPES = 10
_SETTLED_SECONDS = 2.0
"""A scrape that is under way has ended by then."""
_START_SECONDS = 60.0


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    client: httpx.Client
    time: float
    """Seconds since 1970 as of which it is asked: when later scrapes fail on a busy machine, series are gone."""

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The instant vector of an expression; a refused expression fails the test."""
        answer = self.client.get("/api/v1/query", params={"query": expression, "time": self.time}).json()
        assert answer["status"] == "success", (expression, answer.get("error"))
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def rules(self) -> list[dict[str, Any]]:
        """The alerting rules as Prometheus has loaded them."""
        groups = self.client.get("/api/v1/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]


@contextmanager
def _prometheus(folder: Path, world: World) -> Iterator[Prometheus]:
    port = free_port()
    with serve(world) as target:
        config = {
            "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "rowen", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = [
            "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=5) as client:
                yield _await_samples(client, process, folder / "log")
        finally:
            process.terminate()
            process.wait(20)


def _await_samples(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> Prometheus:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        prometheus = Prometheus(client, time.time() - _SETTLED_SECONDS)
        try:
            # The queries look back for ten seconds.
            if prometheus.query(f"up == 1 and sum_over_time(up[10s]) >= {_SCRAPES}"):
                return prometheus
        except (httpx.TransportError, ValueError):
            pass  # not listening yet, or not ready
        time.sleep(0.1)
    pytest.fail(f"Prometheus scraped nothing\n{log.read_text()[-2000:]}")


def _running(factory: pytest.TempPathFactory, world: World) -> Iterator[Prometheus]:
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus on this machine (Debian package prometheus)")
    with _prometheus(factory.mktemp("prometheus"), world) as prometheus:
        yield prometheus


# Not "package": without __init__.py that is the whole session, and these threads would run beside all other tests.
@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    yield from _running(tmp_path_factory, HEALTHY)


@pytest.fixture(scope="module")
def ill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    yield from _running(tmp_path_factory, ILL)


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    yield from _running(tmp_path_factory, SHARING)
