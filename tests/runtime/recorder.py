"""A stand-in for the online side of a device."""

import time

from typing_extensions import override

from rowen.runtime.native import Online


class Recorder(Online):
    """Behaves like one device with one tenant: the gate closes on busy and opens on request."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.steps: list[tuple[int, int]] = []
        self.compositions: list[tuple[int, int, int]] = []
        self.records: list[tuple[int, int, int, bool]] = []
        self.preemptions: list[int] = []
        """Of each recorded request, as the agent counts them."""
        self.shares: list[int] = []
        self.closed = False
        self._closed_ns: list[int] = []
        self.in_flight = 0
        self.offline = 1
        self.lease = True

    @override
    def busy(self) -> None:
        self.events.append("busy")
        self.in_flight += 1
        if not self.closed:
            self.closed = True
            self._closed_ns.append(time.monotonic_ns())

    @override
    def idle(self) -> None:
        self.events.append("idle")
        self.in_flight -= 1

    def open_if_idle(self) -> None:
        """What the agent does after the cooldown."""
        if self.in_flight == 0:
            self.closed = False

    @override
    def step(self, begin_ns: int, end_ns: int) -> None:
        self.steps.append((begin_ns, end_ns))

    @override
    def composition(self, step_ns: int, decode_rows: int, prefill_tokens: int) -> None:
        self.compositions.append((step_ns, decode_rows, prefill_tokens))

    @override
    def record(self, begin_ns: int, ttft_ns: int, tpot_ns: int, output_tokens: int, tenant_present: bool) -> None:
        self.events.append("record")
        self.records.append((ttft_ns, tpot_ns, output_tokens, tenant_present))
        self.preemptions.append(sum(begin_ns <= closed for closed in self._closed_ns))

    @override
    def share(self, tenths: int) -> None:
        self.shares.append(tenths)

    @override
    def granted(self) -> int:
        """The agent opens at once."""
        return self.shares[-1] if self.shares else 0

    @override
    def leased(self) -> bool:
        return self.lease

    @override
    def tenants(self) -> int:
        return self.offline

    @override
    def pin(self) -> None:
        self.events.append("pin")

    @override
    def fail(self) -> None:
        self.events.append("fail")
