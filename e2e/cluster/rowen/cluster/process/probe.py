"""Asking our own servers on this machine."""

import urllib.request
from dataclasses import dataclass

import grpc

from rowen.cluster.errors import ClusterError

# The machine's proxy settings must not stand between us and a local address.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Answer:
    """What came back; the names of headers are in lower case."""

    body: bytes
    headers: dict[str, str]


def fetch(url: str, *, method: str = "GET", accept: str = "*/*") -> Answer:
    """Ask; anything but success is a ClusterError."""
    request = urllib.request.Request(url, method=method, headers={"Accept": accept})
    try:
        with _DIRECT.open(request, timeout=5) as answer:
            return Answer(answer.read(), {name.lower(): value for name, value in answer.headers.items()})
    except OSError as error:  # refused, unreachable, or an HTTP status that is an error
        raise ClusterError(f"{method} {url}: {error}") from None


def answers(url: str, *, accept: str = "*/*") -> bool:
    """Whether the address answers."""
    try:
        fetch(url, method="HEAD", accept=accept)
    except ClusterError:
        return False
    return True


def runtime_answers(socket: str) -> bool:
    """Whether the container runtime at a socket serves the CRI, which it does some time after the socket is there."""
    with grpc.insecure_channel(f"unix://{socket}") as channel:
        try:
            # An empty VersionRequest has no bytes, and the answer is not read.
            channel.unary_unary("/runtime.v1.RuntimeService/Version")(b"", timeout=5)
        except grpc.RpcError:
            return False
    return True
