"""Who is in: engines that take riders in, the jobs in the seats, and who rides where."""

import contextlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

import structlog

from rowen.crds.ride.messages import EngineHello, EngineState, Guest, JobHello, JobProgress, Leaver, Welcome
from rowen.node_agent.attach.disposal import Disposal
from rowen.node_agent.attach.entrance import AttachRefused
from rowen.node_agent.attach.loop import Loop
from rowen.node_agent.attach.peer import Peer
from rowen.node_agent.devices.counts import TenantCounts
from rowen.node_agent.ride.account import Account
from rowen.node_agent.ride.member import Engine, Member, Owner, Record, Rider
from rowen.node_agent.ride.speech import read, receive, say
from rowen.node_agent.ride.view import EngineView

log = structlog.get_logger()

_REST_SECONDS = 0.05
"""Between two messages of a member that are heard."""
_PAIR_SECONDS = 1.0
"""Between two pairs for a seat: its job may not fill the engine's places by asking again and again."""
_LOOK_SECONDS = 1.0
"""Between two looks for guests that are to go."""


@dataclass(frozen=True)
class Visitor:
    """A process that asks to come in."""

    peer: Peer
    connection: socket.socket
    disposal: Disposal


class Hall:
    """The loop's thread changes it; other threads read views of it."""

    def __init__(self, loop: Loop, has_gone: Callable[[str], bool]) -> None:
        """`has_gone`: whether a pod, by its UID, is known to have no seat any more."""
        self._loop = loop
        self._has_gone = has_gone
        self._engines: dict[str, Engine] = {}
        """By device."""
        self._riders: dict[str, Rider] = {}
        """By seat; those that are in."""
        self._owners: dict[str, Owner] = {}
        """By seat."""
        self._records: dict[str, Record] = {}
        """By seat, of those too that are not in any more."""
        self._paired: dict[str, float] = {}
        """By seat, when it got its last pair."""
        self._numbers = count(1)
        self._next_look = 0.0
        """Seconds, monotonic clock."""

    def engine(self, device: str) -> EngineView | None:
        """The device's engine; None: there is none that takes riders in."""
        found = self._engines.get(device)
        return EngineView(found.since, found.seats, found.sums, found.ended, found.uid) if found else None

    def joined(self, device: str) -> int:
        """How many jobs are joined with the device's engine, by what either side says: a job may have hung up here."""
        engine = self._engines.get(device)
        here = {rider.uid for rider in self._on(device) if self._account(rider).since is not None}
        return len(here.union(engine.guests if engine else ()))

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
        engine.enter(self._loop, partial(self._hear_engine, engine), partial(self._engine_ends, engine))
        self._engines[device] = engine
        for rider in self._on(device):
            if not rider.pair or rider.joined_pid == pid:
                self._note(rider, self._account(rider).joined(now))
        log.info("an engine takes riders in", device=device, seats=hello.seats)

    def rider_comes(self, seat: str, vet: Callable[[int], tuple[str, str]], visitor: Visitor, hello: JobHello) -> None:
        """Raises `AttachRefused`, `OSError`: then it is not in. `vet` tells its pod and its device, or raises those."""
        uid, device = vet(visitor.peer.pid)
        owner = self._owners.get(seat)
        if owner is not None and owner.pid != visitor.peer.pid:
            raise AttachRefused("the seat belongs to another process, which still runs", pod=owner.uid)
        rider = Rider(
            uid, visitor.peer, visitor.connection, visitor.disposal, seat=seat, device=device, pair=hello.pair
        )
        if hello.pair:
            self._join(rider)
        else:
            engine = self._engines.get(device)
            self._own(rider)
            self._enter(rider, joined=engine is not None and engine.ended is None)
            self._welcome(rider)

    def look(self) -> None:
        """Once a second has engines let those guests go whose process has ended, or whose pod has no seat any more."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        for engine in self._engines.values():
            engine.left = {uid: engine.left.get(uid, 0) + 1 for uid in engine.guests if self._has_left(uid, engine)}
            for uid, looks in engine.left.items():
                # At the first one it may not have told yet that it has let it go by itself, as it mostly has.
                if looks > 1:
                    self._dismiss(engine, uid, first=looks == 2)

    def close(self) -> None:
        """Lets everybody go; who rides rides on. The loop has ended."""
        for member in (*self._engines.values(), *self._riders.values()):
            member.close()
        for owner in self._owners.values():
            os.close(owner.pidfd)

    def _join(self, rider: Rider) -> None:
        engine, now = self._engine_for(rider), time.monotonic()
        # The engine has no guest of whose end nobody would hear.
        self._own(rider)
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
        # Its own former place becomes free with this one.
        others = {other.uid for other in self._on(rider.device) if other.pair}.union(engine.guests) - {rider.uid}
        if len(others) >= engine.seats:
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
        """In the place of the same process's former connection, if there is one. Raises `OSError`."""
        rider.enter(self._loop, partial(self._hear_rider, rider), partial(self._rider_ends, rider))
        before = self._riders.get(rider.seat)
        if before is not None:
            self._rider_goes(before)
        self._riders[rider.seat] = rider
        account = self._account(rider)
        self._note(rider, account.joined(time.monotonic()) if joined else account)

    def _own(self, rider: Rider) -> None:
        """The seat is its process's. Raises `OSError`."""
        owner = Owner(rider.uid, rider.device, rider.peer.pid, os.dup(rider.peer.pidfd))
        try:
            self._loop.watch(owner.pidfd, partial(self._owner_ends, rider.seat, owner))
        except OSError:
            os.close(owner.pidfd)
            raise
        self._disown(rider.seat)
        self._owners[rider.seat] = owner

    def _disown(self, seat: str) -> None:
        owner = self._owners.pop(seat, None)
        if owner is not None:
            self._loop.unwatch(owner.pidfd)
            os.close(owner.pidfd)

    def _owner_ends(self, seat: str, owner: Owner) -> None:
        if self._owners.get(seat) is owner:
            self._disown(seat)

    def _has_left(self, uid: str, engine: Engine) -> bool:
        """A pod that this agent has not seen ride there may come to it yet: the agent before has let it in."""
        place = uid, engine.device
        was_in = any((record.uid, record.device) == place for record in self._records.values())
        is_in = any((owner.uid, owner.device) == place for owner in self._owners.values())
        return (was_in and not is_in) or self._has_gone(uid)

    def _dismiss(self, engine: Engine, uid: str, *, first: bool) -> None:
        if first:
            log.warning("an engine serves a guest that has left its seat", device=engine.device, pod=uid)
        # One that does not listen now is told again.
        with contextlib.suppress(OSError):
            say(engine.connection, Leaver(left=uid))

    def _account(self, rider: Rider) -> Account:
        record = self._records.get(rider.seat)
        return record.account if record and record.uid == rider.uid else Account()

    def _note(self, rider: Rider, account: Account) -> None:
        self._records[rider.seat] = Record(rider.uid, rider.device, account)

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
        engine.sums, engine.guests = state.sums, state.guests
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
