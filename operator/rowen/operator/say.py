"""What a policy makes a condition say."""

from dataclasses import dataclass

from rowen.crds.common import ConditionStatus


@dataclass(frozen=True)
class Say:
    """A condition without its times."""

    status: ConditionStatus
    reason: str
    message: str = ""
