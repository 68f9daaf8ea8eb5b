"""Ports that a process which is about to start can be given."""

import socket
from pathlib import Path

import pytest

from rowen.cluster.bare import server
from rowen.cluster.errors import ClusterError


def test_it_is_none_that_the_kernel_gives_to_connections() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(server.free_port() < first for _ in range(20))


def test_one_that_somebody_has_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", server.free_port()))
        port = taken.getsockname()[1]
        monkeypatch.setattr(server, "_PORTS", range(port, port + 1))
        monkeypatch.setattr(server, "_TRIES", 1)
        with pytest.raises(ClusterError, match=f"{port} to {port} that were tried are all taken"):
            server.free_port()
    assert server.free_port() == port
