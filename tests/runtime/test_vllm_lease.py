"""A real API server in which a batch row rides while its device's lease runs out."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from gate.rig import Rig, until
from runtime.server import on_device, serving
from runtime.test_vllm_server import stream

from rowen.crds.names import RIDE_TERMS_ENV
from rowen.runtime.vllm.rows.marker import ID_HEADER, row_id

TERMS = {bound: {"percentile": 99, "seconds": 80} for bound in ("ttft", "tpot")} | {"memoryBytes": 10**8}
TOKENS = 900


def row(client: httpx.Client) -> int:
    body = {"model": "tiny", "prompt": "Hello", "max_tokens": TOKENS, "ignore_eos": True}
    answer = client.post("/v1/completions", json=body, headers={ID_HEADER: row_id()}).json()
    return int(answer["usage"]["completion_tokens"])


@pytest.mark.timeout(900)
def test_a_row_stands_still_and_goes_on_by_itself(rig: Rig, tiny_model: Path, tmp_path: Path) -> None:
    device = on_device(rig.socket(None), tmp_path) | {RIDE_TERMS_ENV: json.dumps(TERMS)}
    with serving(tiny_model, tmp_path / "server.log", [], **device) as client, ThreadPoolExecutor(1) as others:
        until(lambda: rig.device.counts().online_processes == 2, "both processes are attached")
        riding = others.submit(row, client)
        until(lambda: rig.device.counts().in_flight == 1, "it rides")
        rig.device.renew(time.monotonic())
        # It has nothing to do that it may.
        until(lambda: rig.device.counts().in_flight == 0, "the engine waits")
        before = rig.device.counts().steps.steps
        assert stream(client, "tiny", 20) == 20
        until(lambda: rig.device.counts().in_flight == 0, "the engine waits again")
        assert rig.device.counts().steps.steps - before == 20
        assert not riding.done()
        rig.device.renew(time.monotonic() + 3600)
        assert riding.result() == TOKENS
