"""A real API server that knows nothing of Rowen, a real gate and a real tenant behind it."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from gate.rig import Rig, until
from peft import LoraConfig, get_peft_model
from runtime.server import on_device, serving
from transformers import AutoModelForCausalLM

from rowen.node_agent.devices.counts import Request


def stream(client: httpx.Client, model: str, tokens: int) -> int:
    """Streams a completion; returns how many tokens the server says it had."""
    body = {"model": model, "prompt": "Hello", "max_tokens": tokens, "ignore_eos": True, "stream": True}
    with client.stream("POST", "/v1/completions", json=body | {"stream_options": {"include_usage": True}}) as response:
        assert response.status_code == 200
        events = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {")]
    return int(events[-1]["usage"]["completion_tokens"])


def recorded(rig: Rig, count: int) -> list[Request]:
    """The requests so far; a client may see the end of its response a moment before it is recorded."""
    until(lambda: len(rig.device.requests(0)) >= count, f"{count} requests are recorded")
    return rig.device.requests(0)


@pytest.fixture(scope="session")
def adapter(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that changes nothing."""
    folder = tmp_path_factory.mktemp("adapters") / "tuned"
    get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), LoraConfig(r=8)).save_pretrained(folder)
    return folder


@pytest.mark.timeout(900)
def test_requests_close_the_gate_for_their_life(rig: Rig, tiny_model: Path, adapter: Path, tmp_path: Path) -> None:
    arguments = ["--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"tuned={adapter}"]
    device = on_device(rig.socket(None), tmp_path)
    with serving(tiny_model, tmp_path / "server.log", arguments, **device) as client:
        # The engine and the front end are attached, idle, and the tenant has the device.
        until(lambda: rig.device.counts().online_processes == 2, "both processes are attached")
        tenant = rig.tenant("spin()")
        rig.opened()
        tenant.advances()

        assert stream(client, "tiny", 20) == 20
        [request] = recorded(rig, 1)
        assert request.ttft > 0
        assert request.tpot is not None
        assert (request.preemptions, request.tenant_present) == (1, True)
        rig.opened()

        # Many at once, on both adapters: still at most one preemption each, and everything is counted down again.
        with ThreadPoolExecutor(8) as pool:
            counts = list(pool.map(lambda number: stream(client, ("tiny", "tuned")[number % 2], 10), range(24)))
        assert counts == [10] * 24
        rig.opened()
        requests = recorded(rig, 25)
        assert max(each.preemptions for each in requests) <= 1
        until(lambda: rig.device.counts().decode_gap > 0, "the gaps are looked at")

        # A client that goes away in the middle leaves nothing behind.
        body = {"model": "tiny", "prompt": "Hello", "max_tokens": 900, "ignore_eos": True, "stream": True}
        with client.stream("POST", "/v1/completions", json=body) as response:
            next(response.iter_lines())
            assert not rig.device.counts().gate_open
        rig.opened()
        tenant.advances()
        assert rig.device.counts().in_flight == 0

        # Neither do a refused request and one outside inference.
        assert client.post("/v1/completions", json={"model": "none", "prompt": "x"}).status_code == 404
        assert client.post("/tokenize", json={"model": "tiny", "prompt": "x"}).status_code == 200
        rig.opened()
        assert len(recorded(rig, 26)) == 26
