"""vLLM calls the plugin: it fits, or leaves everything as it is and says so in one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from runtime.server import environment

SCHEDULER = """
class Scheduler:
    def add_request(self): ...
    def finish_requests(self): ...
    def has_unfinished_requests(self): ...
    def schedule(self): ...
    def set_pause_state(self): ...
    def update_from_output(self): ...
class Own(Scheduler): ...
class Odd: ...
"""
CONFIG = """
class SchedulerConfig:
    scheduler_cls = None
    def get_scheduler_cls(self):
        from vllm.v1.core.sched.scheduler import Scheduler
        return self.scheduler_cls or Scheduler
"""
FILES = {
    "__init__.py": "",
    "config.py": CONFIG,
    "v1/core/sched/scheduler.py": SCHEDULER,
    "version.py": "__version__ = '0.32.0'",
}
LOOK = """
from rowen.runtime.vllm.plugin import register
register()
register()
from fastapi import FastAPI
from vllm.config import SchedulerConfig
from vllm.v1.core.sched import scheduler
config = SchedulerConfig()
config.scheduler_cls = CHOSEN
chosen = getattr(config, "get_scheduler_cls", None) or config.scheduler_class
print(chosen().__name__, type(FastAPI().build_middleware_stack()).__name__)
"""
PLAIN = "Scheduler ServerErrorMiddleware"
UNHARVESTED = "the engine serves, and is not harvested"


def run(
    folder: Path, chosen: str = "None", files: dict[str, str] = FILES, **more: str
) -> "subprocess.CompletedProcess[str]":
    """Registers the plugin beside an engine whose modules are `files`, and prints what it uses then."""
    for name, text in files.items():
        path = folder / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    settings = environment(**{"ROWEN_LIBRARY": "/nonexistent/librowen.so", "ROWEN_ENGINE_SOCKET": "/x", **more})
    settings["PYTHONPATH"] = f"{folder}{os.pathsep}{settings['PYTHONPATH']}"
    code = LOOK.replace("CHOSEN", chosen)
    return subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=False)


def test_it_tells_of_the_scheduler_that_vllm_chose_and_of_every_request(tmp_path: Path) -> None:
    ran = run(tmp_path)
    assert (ran.returncode, ran.stdout.strip()) == (0, "ReportingScheduler LifecycleMiddleware"), ran.stderr


def test_a_scheduler_of_the_users_own_is_kept(tmp_path: Path) -> None:
    ran = run(tmp_path, "scheduler.Own")
    assert ran.stdout.startswith("ReportingOwn "), ran.stderr


def test_without_a_device_vllm_is_as_it_was(tmp_path: Path) -> None:
    ran = run(tmp_path, ROWEN_ENGINE_SOCKET="")
    assert (ran.stdout.strip(), ran.stderr) == (PLAIN, "")


def test_a_version_that_was_not_tried_is_named_and_harvested_where_it_fits(tmp_path: Path) -> None:
    ran = run(tmp_path, files={**FILES, "version.py": "__version__ = '0.99.1'"})
    assert ran.stdout.startswith("ReportingScheduler "), ran.stderr
    assert "rowen: this version of vLLM was not tried with Rowen vllm=0.99.1 tried=0.32.x" in ran.stderr


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("v1/core/sched/scheduler.py", SCHEDULER.replace("def schedule", "def plan"), "Scheduler has no schedule"),
        ("config.py", CONFIG.replace("get_scheduler_cls", "scheduler_class"), "get_scheduler_cls"),
        ("version.py", "raise RuntimeError('a\\nb')", "RuntimeError: a b"),
    ],
)
def test_a_version_that_does_not_fit_is_left_alone(tmp_path: Path, name: str, text: str, words: str) -> None:
    ran = run(tmp_path, files={**FILES, name: text})
    lines = [line for line in ran.stderr.splitlines() if line.startswith("rowen:")]
    assert lines
    assert all(UNHARVESTED in line and words in line for line in lines), ran.stderr
    # vLLM chooses and builds as ever.
    assert ran.stdout.strip() == PLAIN


def test_a_scheduler_that_is_made_otherwise_is_used_as_it_is_and_said(tmp_path: Path) -> None:
    ran = run(tmp_path, "scheduler.Odd")
    assert ran.stdout.startswith("Odd "), ran.stderr
    assert f"rowen: the engine's work cannot be told: {UNHARVESTED}" in ran.stderr


def test_with_a_memory_limit_an_untried_version_has_memory_of_its_own(tmp_path: Path) -> None:
    files = {**FILES, "version.py": "__version__ = '0.99.1'"}
    ran = run(tmp_path, files=files, ROWEN_POOL_BYTES="1048576")
    assert ran.stdout.startswith("ReportingScheduler "), ran.stderr
    assert "the cache cannot lie in the device's pool with this version of vLLM" in ran.stderr


def test_with_a_memory_limit_an_engine_on_several_devices_has_memory_of_its_own(tmp_path: Path) -> None:
    ran = run(tmp_path, ROWEN_POOL_BYTES="1048576", ROWEN_ENGINE_SOCKET="/x:/y")
    assert ran.stdout.startswith("ReportingScheduler "), ran.stderr
    assert "the cache cannot lie in the pools of several devices: it has memory of its own" in ran.stderr


TERMS = '{"ttft": {"percentile": 99, "seconds": 1}, "tpot": {"percentile": 99, "seconds": 1}, "memoryBytes": 1}'


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ROWEN_RIDE_TERMS": TERMS, "version": "0.99.1"}, "nothing rides in this version of vLLM"),
        ({"ROWEN_RIDE_TERMS": TERMS, "ROWEN_ENGINE_SOCKET": "/x:/y"}, "nothing rides in an engine on several devices"),
        # These files have no worker at all.
        ({"ROWEN_RIDE_TERMS": TERMS}, "nothing rides in this engine error=ModuleNotFoundError"),
    ],
)
def test_where_nothing_can_ride_the_engine_is_harvested_as_ever(
    tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    more = dict(settings)
    version = more.pop("version", "0.32.0")
    ran = run(tmp_path, files={**FILES, "version.py": f"__version__ = '{version}'"}, **more)
    assert ran.stdout.strip() == "ReportingScheduler LifecycleMiddleware", ran.stderr
    assert words in ran.stderr


SPATIAL = '{"ttft": {"percentile": 99, "seconds": 1}, "tpot": {"percentile": 99, "seconds": 1}}'


@pytest.mark.parametrize(("chosen", "name"), [("None", "Scheduler"), ("scheduler.Own", "Own")])
def test_with_terms_for_it_the_scheduler_shares_the_device(tmp_path: Path, chosen: str, name: str) -> None:
    ran = run(tmp_path, chosen, ROWEN_SPATIAL_TERMS=SPATIAL)
    assert ran.stdout.strip() == f"ReportingSharing{name} LifecycleMiddleware", ran.stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"version": "0.99.1"}, "nothing runs beside the requests of this version of vLLM"),
        ({"ROWEN_ENGINE_SOCKET": "/x:/y"}, "nothing runs beside the requests of an engine on several devices"),
        (
            {"ROWEN_SPATIAL_TERMS": "{}"},
            "ROWEN_SPATIAL_TERMS makes no sense: nothing runs beside the engine's requests",
        ),
    ],
)
def test_where_the_device_cannot_be_shared_the_engine_is_harvested_as_ever(
    tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    more = {"ROWEN_SPATIAL_TERMS": SPATIAL, **settings}
    version = more.pop("version", "0.32.0")
    ran = run(tmp_path, files={**FILES, "version.py": f"__version__ = '{version}'"}, **more)
    assert ran.stdout.strip() == "ReportingScheduler LifecycleMiddleware", ran.stderr
    assert ran.stderr.count(words) == 1


def test_a_scheduler_that_is_made_otherwise_shares_nothing(tmp_path: Path) -> None:
    ran = run(tmp_path, "scheduler.Odd", ROWEN_SPATIAL_TERMS=SPATIAL)
    assert ran.stdout.startswith("Odd "), ran.stderr
    assert "rowen: nothing runs beside the requests of this engine error=TypeError" in ran.stderr
    assert f"rowen: the engine's work cannot be told: {UNHARVESTED}" in ran.stderr
