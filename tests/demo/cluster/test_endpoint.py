"""Reaching the service, with a stand-in for kubectl."""

import asyncio
import os
import socket
import sys

from rowen.demo.cluster.endpoint import Tunnel, answers, is_this_machine, leave_cores

# Prints what `kubectl port-forward` prints, appends its ports argument to a file, and ends when its input file goes.
KUBECTL = """#!{python}
import pathlib, sys, time
ports = sys.argv[-1]
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    calls.write(ports + "\\n")
local = ports.partition(":")[0] or "40123"
print(f"Forwarding from 127.0.0.1:{{local}} -> 8000", flush=True)
if not (here / "stay").exists():
    (here / "stay").touch()
    sys.exit(1)
time.sleep(600)
"""


def kubectl(folder):
    path = folder / "kubectl"
    path.write_text(KUBECTL.format(python=sys.executable))
    path.chmod(0o755)
    return path


async def test_a_tunnel_is_opened_again_on_the_same_port(tmp_path):
    tunnel = Tunnel("default", "chat", str(kubectl(tmp_path)))
    calls = tmp_path / "calls"
    async with asyncio.timeout(60), tunnel.open():
        while len(calls.read_text().splitlines()) < 2:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)
        assert tunnel.url() == "http://127.0.0.1:40123"
    assert calls.read_text().splitlines() == [":8000", "40123:8000"]


def test_this_machine():
    assert is_this_machine("127.0.0.1")
    assert not is_this_machine("192.0.2.1")
    assert not is_this_machine("no-such-host.invalid")


async def test_answers():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert await answers("127.0.0.1", port)
    assert not await answers("127.0.0.1", port)


def test_cores_are_left_only_where_others_remain():
    before = os.sched_getaffinity(0)
    try:
        assert leave_cores(before) == before
        assert os.sched_getaffinity(0) == before
        if len(before) > 1:
            assert leave_cores({min(before)}) == before - {min(before)}
    finally:
        os.sched_setaffinity(0, before)
