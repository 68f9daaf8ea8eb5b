"""A stand-in for the online side of a device."""

from typing_extensions import override

from rowen.runtime.native import Online


class Recorder(Online):
    """Behaves like one device with one tenant: the gate closes on busy and opens on request."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.steps: list[tuple[int, int]] = []
        self.records: list[tuple[int, int, int, int, bool]] = []
        self.word = 0
        self.in_flight = 0
        self.offline = 1

    @override
    def busy(self) -> None:
        self.events.append("busy")
        self.in_flight += 1
        self.word |= 1

    @override
    def idle(self) -> None:
        self.events.append("idle")
        self.in_flight -= 1

    def open_if_idle(self) -> None:
        """What the agent does after the cooldown."""
        if self.in_flight == 0 and self.word & 1:
            self.word += 1

    @override
    def step(self, begin_ns: int, end_ns: int) -> None:
        self.steps.append((begin_ns, end_ns))

    @override
    def gate(self) -> int:
        return self.word

    @override
    def record(self, ttft_ns: int, tpot_ns: int, output_tokens: int, preemptions: int, tenant_present: bool) -> None:
        self.records.append((ttft_ns, tpot_ns, output_tokens, preemptions, tenant_present))

    @override
    def tenants(self) -> int:
        return self.offline

    @override
    def pin(self) -> None:
        self.events.append("pin")
