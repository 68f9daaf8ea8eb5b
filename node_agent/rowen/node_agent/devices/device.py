"""One shared device on this node: who is on it, its gate, and what happened."""

import ctypes
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rowen.crds.ride.messages import MOST_COUNT, StepSums
from rowen.node_agent.devices.counts import Closing, DeviceCounts, Offence, Request, TenantCounts
from rowen.node_agent.devices.library import (
    CPU_WORDS,
    ENGINE,
    RING_ENTRIES,
    WHOLE,
    CpuMask,
    RequestEntry,
    Status,
    Transition,
    agent_library,
)
from rowen.node_agent.memory.loans import Loans
from rowen.node_agent.memory.pool import Pool


@dataclass(frozen=True)
class Admission:
    """A process that was let in. The descriptors of the two files are to be handed to it."""

    number: int
    device_file: int
    """Stays the device's."""
    member_file: int
    """The caller's to close."""


def cpu_words(cpus: Sequence[int]) -> list[int]:
    """CPU numbers as the page's bit mask. Raises `ValueError` for a number that has no bit."""
    words = [0] * CPU_WORDS
    for cpu in cpus:
        if not 0 <= cpu < CPU_WORDS * 64:
            raise ValueError(f"CPU {cpu} is out of range")
        words[cpu // 64] |= 1 << (cpu % 64)
    return words


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def _count(number: int) -> int:
    """What an engine says is believed as far as a count can be so large."""
    return min(number, MOST_COUNT)


def _seconds(nanoseconds: int) -> float:
    return nanoseconds / 1e9


def _seconds_or_none(nanoseconds: int) -> float | None:
    return nanoseconds / 1e9 if nanoseconds else None


class Device:
    """A device whose gate this process serves, from `start` until `close`."""

    def __init__(
        self,
        directory: Path,
        *,
        slots: int,
        cpus: Sequence[int],
        backstop: float,
        allows_cpu: bool = False,
        pool: Pool | None = None,
    ) -> None:
        """Goes on with the state in `directory`, or makes it. `backstop` in seconds.

        `allows_cpu`: pods may use their CPUs while the gate is closed, as on a device that computes for itself.

        `pool`: the memory that changes owner on it; it is the device's from then on, and ends with it.

        Raises `BlockingIOError` when another agent serves the device, `OSError` for any other failure.
        """
        self._library = agent_library()
        self._slots = slots
        self.loans: Loans | None = None
        """Who has memory of its pool; None: it has no pool."""
        try:
            self._handle: int | None = self._open(directory, CpuMask(*cpu_words(cpus)), backstop)
        except OSError:
            if pool is not None:
                pool.close()
            raise
        if allows_cpu:
            self._library.rowen_agent_allow_cpu(self._handle)
        if pool is not None:
            self._library.rowen_agent_set_pool(self._handle, pool.handle)
            try:
                self.loans = Loans(pool, directory)
            except (OSError, MemoryError):
                # Whoever tries again would find the device served.
                self.close()
                raise

    def _open(self, directory: Path, cpus: ctypes.Array[ctypes.c_uint64], backstop: float) -> int:
        directory.mkdir(parents=True, exist_ok=True)
        error = ctypes.c_int32()
        handle: int | None = self._library.rowen_agent_open(
            os.fsencode(directory), self._slots, cpus, round(backstop * 1e9), ctypes.byref(error)
        )
        if not handle:
            code = errno.EWOULDBLOCK if error.value == -errno.EBUSY else -error.value
            raise OSError(code, f"cannot serve the device: {os.strerror(-error.value)}", str(directory))
        return handle

    def start(self) -> None:
        """Starts the native thread that serves the gate. Raises `OSError`."""
        error = self._library.rowen_agent_start(self._handle)
        if error:
            raise OSError(-error, os.strerror(-error))

    def close(self) -> None:
        """Stops serving; the state stays for the next agent, and tenants stop until they have found that one.

        A native thread that is stuck is given 5 s; then the device stays this process's until it ends.
        """
        if self._handle:
            if self.loans is not None:
                self.loans.finish()
            error = self._library.rowen_agent_close(self._handle)
            # A stuck thread goes on with the pool and its ledgers.
            if self.loans is not None and not error:
                self.loans.close()
            self._handle = self.loans = None

    def beat(self) -> float:
        """When the native thread last came round, or was started (seconds, monotonic clock)."""
        return _seconds(self._library.rowen_agent_beat(self._handle))

    def renew(self, until: float) -> None:
        """Lets offline work run until then (seconds, monotonic clock)."""
        self._library.rowen_agent_renew(self._handle, max(0, round(until * 1e9)))

    def set_riders(self, riders: int) -> None:
        """So many jobs are joined with its engine, as its requests are to tell."""
        self._library.rowen_agent_set_riders(self._handle, riders)

    def admit(self, slot: int | None, pid: int, pidfd: int) -> Admission:
        """Lets a process of a slot's pod in, or of an engine (None). `pidfd` stays the caller's. Raises `OSError`."""
        if not self._handle:
            raise OSError(errno.ESHUTDOWN, "the device is not served any more")
        file = _checked(self._library.rowen_agent_member_file())
        member = ENGINE if slot is None else slot
        number = self._library.rowen_agent_admit(self._handle, member, pid, pidfd, file)
        if number < 0:
            os.close(file)
            raise OSError(-number, f"process {pid} cannot be let in: {os.strerror(-number)}")
        return Admission(number, self._library.rowen_agent_device_file(self._handle, slot is None), file)

    def loosen(self, number: int) -> None:
        """A member's connection is gone, its process is not."""
        self._library.rowen_agent_loosen(self._handle, number)

    def dismiss(self, number: int) -> None:
        """A member's process has ended."""
        self._library.rowen_agent_dismiss(self._handle, number)

    def set_pod(self, slot: int, pod: int, freezer: Path, cpuacct: Path | None, cpu: Path | None = None) -> None:
        """Which pod has the slot, by a number of 64 bits that is the same on each of its devices, and its cgroup.

        `cpu`: with version 1 where its CPU time can be limited. Raises `OSError`.
        """
        directories = [os.fsencode(freezer), *(os.fsencode(each) if each else None for each in (cpuacct, cpu))]
        error = self._library.rowen_agent_set_pod(self._handle, slot, pod, *directories)
        if error:
            raise OSError(-error, os.strerror(-error), str(freezer))

    def reset(self, slot: int) -> bool:
        """Clears a slot for its next pod; False while a process is still attached to it."""
        return bool(self._library.rowen_agent_reset(self._handle, slot) == 0)

    def counts(self) -> DeviceCounts:
        """State and counters now."""
        status = Status()
        self._library.rowen_agent_status(self._handle, ctypes.byref(status))
        return DeviceCounts(
            now=_seconds(status.now_ns),
            idle_seconds=_seconds(status.idle_ns),
            harvested_seconds=_seconds(status.harvested_ns),
            preemptions=status.preemptions,
            backstops=status.backstops,
            decode_gap=_seconds(status.gap_ns),
            cooldown=_seconds(status.cooldown_ns),
            gate_open=status.gate % 2 == 0 and status.lease_until_ns > status.now_ns,
            share=min(status.share, WHOLE) / WHOLE if status.share else None,
            shared_seconds=_seconds(status.shared_ns),
            online_processes=status.online_attached,
            in_flight=status.in_flight,
            tenant_processes=status.tenants,
            tenants=tuple(
                TenantCounts(
                    attached=account.attached,
                    open_seconds=_seconds(account.open_ns),
                    preemptions=account.preemptions,
                    backstops=account.backstops,
                    reports=account.reports,
                    completed=_count(account.completed),
                    total=_count(account.total),
                    tokens=_count(account.tokens),
                    granted_seconds=_seconds(account.granted_ns),
                    offences=account.offences,
                    offence=Offence(account.offence) if account.offence else None,
                    offender=account.offender or None,
                )
                for account in status.accounts[: self._slots]
            ),
            steps=StepSums(
                steps=_count(status.steps),
                seconds=_seconds(status.step_ns),
                decode_rows=_count(status.decode_rows),
                prefill_tokens=_count(status.prefill_tokens),
            ),
        )

    def requests(self, after: int) -> list[Request]:
        """Finished requests numbered above `after`, oldest first, as far as the ring still holds them."""
        buffer = (RequestEntry * RING_ENTRIES)()
        count = self._library.rowen_agent_requests(self._handle, after, buffer, RING_ENTRIES)
        return [
            Request(
                number=record.number,
                begin=_seconds(record.begin_ns),
                end=_seconds(record.end_ns),
                ttft=_seconds(record.ttft_ns),
                tpot=_seconds_or_none(record.tpot_ns),
                preemptions=record.preemptions,
                tenant_present=bool(record.tenant_present),
            )
            for record in buffer[:count]
        ]

    def closings(self, after: int) -> list[Closing]:
        """Closes of the gate numbered above `after`, oldest first, as far as the ring still holds them."""
        buffer = (Transition * RING_ENTRIES)()
        count = self._library.rowen_agent_transitions(self._handle, after, buffer, RING_ENTRIES)
        return [
            Closing(
                number=transition.number,
                closed=_seconds(transition.closed_ns),
                acknowledged=_seconds_or_none(transition.ack_ns),
                opened=_seconds_or_none(transition.opened_ns),
                tenants=transition.tenants,
                for_request=transition.reason == 0,
                share=transition.share / WHOLE if transition.share else None,
            )
            for transition in buffer[:count]
        ]
