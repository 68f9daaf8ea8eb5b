"""Who is in: engines that take riders in, the jobs in the seats, and who rides where."""

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

import structlog

from rowen.crds.ride.messages import EngineHello, EngineState, Guest, JobHello, JobProgress, Welcome
from rowen.node_agent.attach.disposal import Disposal
from rowen.node_agent.attach.entrance import AttachRefused
from rowen.node_agent.attach.loop import Loop
from rowen.node_agent.attach.peer import Peer
from rowen.node_agent.devices.counts import TenantCounts
from rowen.node_agent.ride.account import Account
from rowen.node_agent.ride.member import Engine, Member, Record, Rider
from rowen.node_agent.ride.speech import read, receive, say
from rowen.node_agent.ride.view import EngineView

log = structlog.get_logger()

_REST_SECONDS = 0.05
"""Between two messages of a member that are heard."""
_PAIR_SECONDS = 1.0
"""Between two pairs for a seat: its job may not fill the engine's places by asking again and again."""


@dataclass(frozen=True)
class Visitor:
    """A process that asks to come in."""

    peer: Peer
    connection: socket.socket
    disposal: Disposal


class Hall:
    """The loop's thread changes it; other threads read views of it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._engines: dict[str, Engine] = {}
        """By device."""
        self._riders: dict[str, Rider] = {}
        """By seat; those that are in."""
        self._records: dict[str, Record] = {}
        """By seat, of those too that are not in any more."""
        self._paired: dict[str, float] = {}
        """By seat, when it got its last pair."""
        self._numbers = count(1)

    def engine(self, device: str) -> EngineView | None:
        """The device's engine; None: there is none that takes riders in."""
        found = self._engines.get(device)
        return EngineView(found.since, found.seats, found.sums, found.ended, found.uid) if found else None

    def joined(self, device: str) -> int:
        """How many jobs are joined with the device's engine."""
        return sum(self._account(rider).since is not None for rider in self._on(device))

    def counts(self, seat: str, uid: str) -> TenantCounts:
        """What a pod has done in a seat."""
        record = self._records.get(seat)
        account = record.account if record and record.uid == uid else Account()
        return account.counts(time.monotonic())

    def engine_comes(self, device: str, vet: Callable[[int], str], visitor: Visitor, hello: EngineHello) -> None:
        """Raises `AttachRefused`, `OSError`: then it is not in. `vet` tells its pod, or raises those."""
        uid, pid = vet(visitor.peer.pid), visitor.peer.pid
        before = self._engines.get(device)
        if before is not None:
            if before.uid == uid and before.peer.pid != pid:
                raise AttachRefused("another process of the engine takes its riders in")
            self._engine_goes(before, same=before.peer.pid == pid)
        now = time.monotonic()
        engine = Engine(
            uid, visitor.peer, visitor.connection, visitor.disposal, device=device, seats=hello.seats, since=now
        )
        self._engines[device] = engine
        engine.enter(self._loop, partial(self._hear_engine, engine), partial(self._engine_ends, engine))
        for rider in self._on(device):
            if not rider.pair or rider.joined_pid == pid:
                self._note(rider, self._account(rider).joined(now))
        log.info("an engine takes riders in", device=device, seats=hello.seats)

    def rider_comes(self, seat: str, vet: Callable[[int], tuple[str, str]], visitor: Visitor, hello: JobHello) -> None:
        """Raises `AttachRefused`, `OSError`: then it is not in. `vet` tells its pod and its device, or raises those."""
        uid, device = vet(visitor.peer.pid)
        before = self._riders.get(seat)
        if before is not None:
            if before.peer.pid != visitor.peer.pid:
                raise AttachRefused("the seat belongs to another process, which still runs", pod=before.uid)
            self._rider_goes(before)
        rider = Rider(
            uid, visitor.peer, visitor.connection, visitor.disposal, seat=seat, device=device, pair=hello.pair
        )
        if hello.pair:
            self._join(rider)
        else:
            engine = self._engines.get(device)
            self._enter(rider, joined=engine is not None and engine.ended is None)
            self._welcome(rider)

    def close(self) -> None:
        """Lets everybody go; who rides rides on. The loop has ended."""
        for member in (*self._engines.values(), *self._riders.values()):
            member.close()

    def _join(self, rider: Rider) -> None:
        engine, now = self._engine_for(rider), time.monotonic()
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            try:
                say(engine.connection, Guest(number=next(self._numbers), pod=rider.uid), ends[0])
            except OSError as error:
                raise AttachRefused(f"the engine of device {rider.device} does not answer") from error
            self._paired[rider.seat] = now
            rider.joined_pid = engine.peer.pid
            self._enter(rider, joined=True)
            self._welcome(rider, ends[1])
        finally:
            rider.disposal.close(*ends)

    def _engine_for(self, rider: Rider) -> Engine:
        engine = self._engines.get(rider.device)
        if engine is None:
            raise AttachRefused(f"no engine of device {rider.device} takes riders in now")
        if engine.ended is not None:
            raise AttachRefused(f"nothing rides in the engine of device {rider.device} any more: {engine.ended}")
        if sum(other.pair for other in self._on(rider.device)) >= engine.seats:
            raise AttachRefused(f"all seats in the engine of device {rider.device} are taken")
        if time.monotonic() - self._paired.get(rider.seat, float("-inf")) < _PAIR_SECONDS:
            raise AttachRefused("the seat has just got an engine; ask again in a second")
        return engine

    def _welcome(self, rider: Rider, *ends: socket.socket) -> None:
        try:
            say(rider.connection, Welcome(), *ends)
        except OSError:
            # It has gone already, or does not read.
            self._rider_goes(rider)

    def _enter(self, rider: Rider, *, joined: bool) -> None:
        self._riders[rider.seat] = rider
        rider.enter(self._loop, partial(self._hear_rider, rider), partial(self._rider_ends, rider))
        account = self._account(rider)
        self._note(rider, account.joined(time.monotonic()) if joined else account)

    def _account(self, rider: Rider) -> Account:
        record = self._records.get(rider.seat)
        return record.account if record and record.uid == rider.uid else Account()

    def _note(self, rider: Rider, account: Account) -> None:
        self._records[rider.seat] = Record(rider.uid, account)

    def _on(self, device: str) -> list[Rider]:
        return [rider for rider in list(self._riders.values()) if rider.device == device]

    def _part(self, device: str) -> None:
        now = time.monotonic()
        for rider in self._on(device):
            self._note(rider, self._account(rider).parted(now))

    def _hear_engine(self, engine: Engine) -> None:
        if self._engines.get(engine.device) is not engine:
            return
        try:
            state = read(EngineState, self._heard(engine))
        except (ValueError, OSError, EOFError) as error:
            self._tell_of(error, engine)
            self._engine_goes(engine)
            return
        engine.sums = state.sums
        if state.ended is not None and engine.ended is None:
            log.error("nothing rides in an engine any more", device=engine.device, reason=state.ended)
            self._part(engine.device)
        engine.ended = engine.ended or state.ended

    def _hear_rider(self, rider: Rider) -> None:
        if self._riders.get(rider.seat) is not rider:
            return
        try:
            progress = read(JobProgress, self._heard(rider))
        except (ValueError, OSError, EOFError) as error:
            self._tell_of(error, rider)
            self._rider_goes(rider)
            return
        self._note(rider, self._account(rider).progressed(progress, time.monotonic()))

    def _heard(self, member: Member) -> bytes:
        """The member's next message. Raises `EOFError` at its end, `OSError`."""
        data = receive(member.connection)
        if not data:
            raise EOFError
        until = time.monotonic() + _REST_SECONDS
        self._loop.rest(member.connection, lambda: time.monotonic() >= until)
        return data

    def _tell_of(self, error: Exception, member: Member) -> None:
        if isinstance(error, ValueError):
            log.warning("what was said at a ride socket is not understood", pid=member.peer.pid, reason=str(error))

    def _engine_ends(self, engine: Engine) -> None:
        if self._engines.get(engine.device) is engine:
            self._engine_goes(engine)

    def _rider_ends(self, rider: Rider) -> None:
        if self._riders.get(rider.seat) is rider:
            self._rider_goes(rider)

    def _engine_goes(self, engine: Engine, *, same: bool = False) -> None:
        """`same`: its process comes in anew, and who rides there rides on."""
        del self._engines[engine.device]
        engine.leave(self._loop)
        if not same:
            self._part(engine.device)

    def _rider_goes(self, rider: Rider) -> None:
        del self._riders[rider.seat]
        rider.leave(self._loop)
        self._note(rider, self._account(rider).parted(time.monotonic()))
