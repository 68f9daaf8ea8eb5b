"""Asking our own HTTP servers on this machine."""

import urllib.request
from dataclasses import dataclass

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
