"""A real engine and a real job on a device with a pool: memory changes its owner, and what they compute does not."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from gate.rig import Rig, Tenant, until
from runtime.server import START_SECONDS, environment, on_device, serving

from rowen.crds.job.worker import BatchSpec, Location, ModelLocation
from rowen.node_agent.memory.pool_status import MemberStatus
from rowen.runtime.batch.memory import OVERHEAD_BYTES
from rowen.runtime.batch.precision import FLOAT32
from rowen.runtime.batch.weights import weights_bytes

HANDLES, HANDLE_BYTES = 24, 65536
"""A token of the model takes 512 bytes, so a handle is a block of 128."""
ASYNCHRONOUS = """
import sys
from vllm import EngineArgs
made = EngineArgs.create_engine_config
def asynchronous(self, *arguments, **named):
    config = made(self, *arguments, **named)
    config.scheduler_config.async_scheduling = True
    return config
EngineArgs.create_engine_config = asynchronous
from rowen.runtime.batch.__main__ import answer_all
from rowen.runtime.worker import run
sys.exit(run("rows", answer_all))
"""
"""The batch worker with what vLLM switches off on a CPU. Its engine is a process of its own, made from this config."""


@pytest.fixture
def rig() -> Iterator[Rig]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        rig = Rig(Path(folder), cpus=(max(os.sched_getaffinity(0)),), memory=(HANDLES, HANDLE_BYTES))
        yield rig
        rig.close()


def bodies(count: int) -> list[dict[str, Any]]:
    """Prompts of which four begin alike."""
    return [
        {
            "prompt": [(7 * (number // 4) + place) % 400 + 5 for place in range(150)] + [5 + number] * (number % 9),
            "max_tokens": 60 + 30 * (number % 5),
            "temperature": 0,
        }
        for number in range(count)
    ]


def ask(client: httpx.Client, rows: list[dict[str, Any]]) -> list[str]:
    """The engine's answers, asked for all at once."""

    def one(body: dict[str, Any]) -> str:
        response = client.post("/v1/completions", json={**body, "model": "tiny"})
        assert response.status_code == 200, response.text
        return str(response.json()["choices"][0]["text"])

    with ThreadPoolExecutor(len(rows)) as pool:
        return list(pool.map(one, rows))


class Members:
    """The pool's engine and its tenant, as the agent sees them."""

    def __init__(self, rig: Rig) -> None:
        self._loans = rig.device.loans

    def number(self, slot: int | None) -> int | None:
        return next((number for number, known in self._loans.borrowers.items() if known.slot == slot), None)

    def awaited(self, slot: int, tenant: Tenant, what: Callable[[], bool]) -> None:
        """Waits for something of a tenant that first has to load vLLM."""
        end = time.monotonic() + START_SECONDS
        while not what():
            assert tenant.process.poll() is None, tenant.process.communicate()
            assert time.monotonic() < end, f"slot {slot} does not get so far: {self._loans.status()}"
            time.sleep(0.01)

    def status(self, slot: int | None) -> MemberStatus:
        number = self.number(slot)
        assert number is not None
        return self._loans.status().of(number)

    def press(self, handles: int) -> None:
        """What the headroom policy does: the engine shall own so many from now on."""
        number = self.number(None)
        assert number is not None

        def done() -> bool:
            return self._loans.demand(
                number, pressures=self.status(None).pressures, target=handles, growth=handles, threshold=1.0
            )

        until(done, "the demand is said")


def batch_job(rig: Rig, model: Path, rows: list[dict[str, Any]], folder: Path) -> tuple[Tenant, Path]:
    """The batch worker behind the gate, with as much of the pool as there is."""
    lines = [
        {"custom_id": str(number), "method": "POST", "url": "/v1/completions", "body": body}
        for number, body in enumerate(rows)
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    job = BatchSpec(
        model=ModelLocation(name_or_path=str(model)),
        input=Location(where=str(folder / "in.jsonl")),
        output=Location(where=str(folder / "out.jsonl")),
        # The precision that makes answers comparable.
        args=["--dtype=float32"],
        memory_bytes=OVERHEAD_BYTES + weights_bytes(model, FLOAT32),
    )
    settings = environment(
        **{**rig.environment(), "ROWEN_JOB_SPEC": job.model_dump_json(by_alias=True)},
        ROWEN_POOL_BYTES=str(HANDLES * HANDLE_BYTES),
    )
    return rig.run([sys.executable, "-c", ASYNCHRONOUS], **settings), Path(job.output.where)


@pytest.mark.timeout(600)
def test_an_engine_and_a_batch_job_share_a_pool(rig: Rig, tiny_model: Path, tmp_path: Path) -> None:
    rows, asked = bodies(24), bodies(6)
    members = Members(rig)
    device = on_device(rig.socket(None), tmp_path)
    device["ROWEN_POOL_BYTES"] = str(HANDLES * HANDLE_BYTES)
    with serving(tiny_model, tmp_path / "server.log", [], **device) as client:
        assert members.status(None).really_held == 0
        expected = ask(client, rows)
        job, output = batch_job(rig, tiny_model, rows, tmp_path)
        members.awaited(0, job, lambda: members.number(0) is not None)
        rig.device.loans.share(members.number(0), 0, HANDLES)
        for _ in range(2):
            members.press(0)
            members.awaited(0, job, lambda: members.status(0).held >= HANDLES // 2)
            before = members.status(0).taken
            members.press(HANDLES)
            assert ask(client, asked) == expected[: len(asked)]
            assert (members.status(0).held, members.status(None).granted) == (0, HANDLES)
            assert members.status(0).taken > before
        members.press(0)
        _, errors = job.process.communicate(timeout=200)
    assert job.process.returncode == 0, errors[-4000:]
    results = {json.loads(line)["custom_id"]: json.loads(line) for line in output.read_text().splitlines()}
    texts = [results[str(number)]["response"]["body"]["choices"][0]["text"] for number in range(len(rows))]
    assert texts == expected
