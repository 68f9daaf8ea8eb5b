"""An agent that cannot start says so, and leaves nothing behind."""

from structlog.testing import capture_logs

from rowen.kube.errors import LoginError
from rowen.node_agent import __main__ as program


class FakeNode:
    def __init__(self, *_):
        self.closed = False

    def close(self):
        self.closed = True


class FakeSettings:
    node = "node"


def test_without_a_login_it_ends_with_a_message(monkeypatch):
    async def no_login():
        raise LoginError("no such file")

    node = FakeNode()
    monkeypatch.setattr(program.logs, "configure", lambda: None)
    monkeypatch.setattr(program.nesting, "allow", lambda: None)
    monkeypatch.setattr(program, "_allow_descriptors", lambda: None)
    monkeypatch.setattr(program, "read_settings", lambda _: FakeSettings())
    monkeypatch.setattr(program, "read_devices", lambda _: [])
    monkeypatch.setattr(program, "Node", lambda *_: node)
    monkeypatch.setattr(program, "open_client", no_login)
    with capture_logs() as logs:
        assert program.main() == 1
    assert [(entry["event"], entry["error"]) for entry in logs if "error" in entry] == [
        ("no way to the API server", "no such file")
    ]
    assert node.closed
