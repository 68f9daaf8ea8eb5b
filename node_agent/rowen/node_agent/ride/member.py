"""Who has come in at a ride socket: a device's engine, or a seat's job."""

import os
import socket
from dataclasses import dataclass, field

from rowen.crds.ride.messages import StepSums
from rowen.node_agent.attach.disposal import Disposal
from rowen.node_agent.attach.loop import Handle, Loop
from rowen.node_agent.attach.peer import Peer
from rowen.node_agent.ride.account import Account


@dataclass
class Member:
    """A process with its connection, until it is let go."""

    uid: str
    """Of its pod; empty where it is not known."""
    peer: Peer
    connection: socket.socket
    disposal: Disposal

    def enter(self, loop: Loop, hear: Handle, end: Handle) -> None:
        """`hear` is called when it says something, `end` when its process has ended. Raises `OSError`: then neither."""
        loop.watch(self.peer.pidfd, end)
        try:
            loop.watch(self.connection, hear)
        except OSError:
            loop.unwatch(self.peer.pidfd)
            raise

    def leave(self, loop: Loop) -> None:
        """It is heard no more."""
        loop.unwatch(self.peer.pidfd)
        loop.unwatch(self.connection)
        self.close()

    def close(self) -> None:
        """Without a loop."""
        os.close(self.peer.pidfd)
        self.disposal.close(self.connection)


@dataclass
class Engine(Member):
    """A device's, which takes riders in."""

    device: str
    seats: int
    since: float
    """When it came (seconds, monotonic clock)."""
    sums: StepSums | None = None
    """As it last told; None: it has told nothing yet."""
    ended: str | None = None
    """Why nothing rides in it any more."""
    guests: tuple[str, ...] = ()
    """UIDs of the pods that it last told it serves."""
    left: dict[str, int] = field(default_factory=dict)
    """Those of them that have left their seats, and at how many looks in a row they had."""


@dataclass
class Rider(Member):
    """A job in a seat."""

    seat: str
    device: str
    """In whose engine it rides."""
    pair: bool
    """Whether it has one end of a pair."""
    joined_pid: int | None = None
    """The engine's process that has the other end."""


@dataclass(frozen=True)
class Owner:
    """The process that a seat belongs to until it has ended, whether it is in or has hung up."""

    uid: str
    """Of its pod."""
    device: str
    """In whose engine it rides."""
    pid: int
    pidfd: int
    """Its own one: that of a member is closed when it is let go."""


@dataclass(frozen=True)
class Record:
    """What is kept of a seat's last pod."""

    uid: str
    device: str
    account: Account
