"""Probes of our own servers, on real sockets."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from rowen.cluster.process import probe


class Runtime(grpc.GenericRpcHandler):
    """A CRI server that says which calls it got, and refuses until it is initialised, as containerd does."""

    def __init__(self) -> None:
        self.initialised = False

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if details.method != "/runtime.v1.RuntimeService/Version":
            return None
        return grpc.unary_unary_rpc_method_handler(self._version)

    def _version(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        if not self.initialised:
            context.abort(grpc.StatusCode.UNKNOWN, "server is not initialized yet")
        return b"\x0a\x050.1.0"


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "containerd.sock"


@pytest.fixture
def runtime(socket: Path) -> Iterator[Runtime]:
    made = Runtime()
    server = grpc.server(ThreadPoolExecutor(2), handlers=[made])
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    yield made
    server.stop(None).wait()


def test_a_runtime_answers_once_it_is_initialised(runtime: Runtime, socket: Path) -> None:
    assert not probe.runtime_answers(str(socket))
    runtime.initialised = True
    assert probe.runtime_answers(str(socket))


def test_a_socket_that_is_not_there_does_not_answer(socket: Path) -> None:
    assert not probe.runtime_answers(str(socket))
