"""What a pool of memory is at the moment, and each of its members."""

from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """What a member's process is."""

    ONLINE = 1
    OFFLINE = 2


@dataclass(frozen=True)
class MemberStatus:
    """One member, in handles."""

    number: int
    kind: Kind
    granted: int
    owned: int
    """Most that it may hold by the grants still in effect, or what it really holds, whichever is more."""
    held: int
    """As the member says; so are the next two."""
    used: int
    wanted: int
    really_held: int
    """What its memory file holds, rounded up."""
    overdrawn: int
    """Of these, beyond every grant."""
    stubborn: int
    """Kept beyond a grant that was lowered, for longer than the member was given to return it."""
    target: int
    """Of an online member: what it shall own now."""
    pressures: int
    """Of an online member: times that its target was raised to meet a need."""
    capacity: int
    """Most that it may ever hold."""
    bound: int
    """Of an online member: most that it may own."""
    taken: int
    """Taken from it so far."""


@dataclass(frozen=True)
class PoolStatus:
    """The pool, in handles."""

    handle_bytes: int
    page_bytes: int
    """Of the kernel's pages that the handles consist of."""
    total: int
    free: int
    deficit: int
    """What the fixed part and online members lacked after the last round."""
    fixed: int
    """Kept from all members."""
    reclaims: int
    """Rounds in which handles were taken."""
    handles_reclaimed: int
    handles_for_engines: int
    """Of these: the others were for the fixed part."""
    engines_absent: int
    """What engines own that have not handed over yet what they had of the last agent's pool."""
    members: tuple[MemberStatus, ...]

    def of(self, number: int) -> MemberStatus:
        """Raises `KeyError` when there is no such member."""
        for member in self.members:
            if member.number == number:
                return member
        raise KeyError(number)
