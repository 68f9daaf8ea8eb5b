"""Made-up states of a pool."""

from typing import Any

from rowen.node_agent.memory.pool_status import Kind, MemberStatus, PoolStatus

BYTES = 4096
_COUNTS = (
    "granted", "owned", "held", "used", "wanted", "really_held", "overdrawn", "stubborn", "target", "pressures",
    "bound", "taken",
)  # fmt: skip


def member(number: int, kind: Kind = Kind.OFFLINE, **changes: Any) -> MemberStatus:
    return MemberStatus(number=number, kind=kind, **{**dict.fromkeys(_COUNTS, 0), "capacity": 1000, **changes})


def pool(*members: MemberStatus, total: int = 100, **changes: int) -> PoolStatus:
    counts = dict.fromkeys(
        ("deficit", "fixed", "reclaims", "handles_reclaimed", "handles_for_engines", "engines_absent"), 0
    )
    state = {"free": total, **counts, **changes}
    return PoolStatus(handle_bytes=BYTES, page_bytes=4096, total=total, members=members, **state)
