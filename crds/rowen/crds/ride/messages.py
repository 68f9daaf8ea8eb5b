"""What is said at the agent's ride sockets: one JSON object per message (SOCK_SEQPACKET).

An engine connects to `ROWEN_ENGINE_RIDE_SOCKET`, says `EngineHello`, and then gets a `Guest` for each job, with one end
of a socket pair (SCM_RIGHTS), and a `Leaver` for a job that is to go. From time to time it says `EngineState`. A job
connects to `ROWEN_RIDE_SOCKET`, says `JobHello`, and gets a `Welcome`, with the other end of the pair; or without one,
and a reason, and is let go. Meanwhile it says `JobProgress`. What engine and job say to each other the agent does not
see (`rowen.runtime.coserve.wire`).
"""

from typing import Annotated

from pydantic import Field

from rowen.crds.base import ReadModel

RIDE_VERSION = 1
"""Of these messages. Who hears another one says so, and hangs up."""
LONGEST_MESSAGE = 16384
"""Bytes."""
MOST_SEATS = 8
"""Jobs that ride in one engine at once."""

MOST_COUNT = 2**63 - 1
Count = Annotated[int, Field(ge=0, le=MOST_COUNT)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PodUid = Annotated[str, Field(max_length=253)]


class EngineHello(ReadModel):
    """An engine takes riders in."""

    version: int = RIDE_VERSION
    seats: Annotated[int, Field(ge=1, le=MOST_SEATS)] = MOST_SEATS


class Guest(ReadModel):
    """A job's end of a pair comes along."""

    version: int = RIDE_VERSION
    number: Count
    """Unique for the life of the connection."""
    pod: PodUid
    """UID of its pod."""


class Leaver(ReadModel):
    """The engine is to let a pod's guest go: its process has ended, or its pod has no seat any more."""

    version: int = RIDE_VERSION
    left: PodUid
    """UID of the pod: an agent that came later does not know the guest's number."""


class StepSums(ReadModel):
    """What the engine's steps were made of, since the engine began. Counters only grow."""

    steps: Count = 0
    seconds: Seconds = 0.0
    """In steps."""
    decode_rows: Count = 0
    prefill_tokens: Count = 0
    riding_steps: Count = 0
    """Steps in which something rode."""
    forward_tokens: Count = 0
    """Of riders, inside steps."""
    solo_tokens: Count = 0
    """Of riders, forward outside of steps."""
    backward_tokens: Count = 0
    """Of riders."""
    riding_seconds: Seconds = 0.0
    """In parts between steps and while idle."""
    added_seconds: Seconds = 0.0
    """Of `seconds`, by which riders made steps longer: more than was predicted for the requests alone."""
    row_tokens: Count = 0
    """Of batch rows."""


class EngineState(ReadModel):
    """What rides, once a second at most."""

    sums: StepSums
    ended: Annotated[str, Field(max_length=256)] | None = None
    """Why nothing rides in this engine any more, for people; it serves on."""
    guests: Annotated[tuple[PodUid, ...], Field(max_length=MOST_SEATS)] = ()
    """UIDs of the pods whose ends of pairs it serves. An engine that names them understands `Leaver`."""


class JobHello(ReadModel):
    """A job asks for its engine."""

    version: int = RIDE_VERSION
    pair: bool = True
    """Whether it is to be joined with the engine; a batch reaches it by its address, and only tells its progress."""


class Welcome(ReadModel):
    """The job's end of the pair comes along, where it asked for one."""

    version: int = RIDE_VERSION
    reason: Annotated[str, Field(max_length=256)] | None = None
    """Why there is no engine now, for people: then no descriptor comes along, and the job may ask again."""


class JobProgress(ReadModel):
    """How far a riding job is."""

    completed: Count
    """Units done."""
    total: Count
    """Units in all; 0 while unknown."""
    tokens: Count
    """Tokens worked through in this attempt."""
