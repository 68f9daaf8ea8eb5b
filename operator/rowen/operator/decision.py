"""What a policy answers: the world as it should be, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rowen.kube.errors import is_invalid

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Removal:
    """A pod to delete."""

    pod: str
    """Its name."""
    uid: str
    """Its uid: a newer pod of the same name is left alone."""
    reason: str
    """Why, in a sentence."""
    force: bool = False
    """Without waiting for the kubelet, since its node is lost."""


@dataclass(frozen=True)
class Note:
    """A Kubernetes event on the reconciled object."""

    type: Literal["Normal", "Warning"]
    reason: str
    """CamelCase."""
    message: str


@dataclass(frozen=True)
class Refusal:
    """The API server did not take a child."""

    code: int
    """HTTP status; 0 where no answer came."""
    message: str

    @property
    def invalid(self) -> bool:
        """Whether the child itself is wrong."""
        return is_invalid(self.code, self.message)


@dataclass(frozen=True)
class Trial:
    """What the API server said to a dry run of the job's pod."""

    refusal: Refusal | None
    """None: it would take the pod."""


@dataclass(frozen=True)
class Decision:
    """What to do about one object; the shell applies it in the order of the fields, the status last."""

    reason: str
    """Why, for the log."""
    trial: Manifest | None = None
    """A pod to try in a dry run, with whose answer is decided anew; nothing else is done then."""
    removals: tuple[Removal, ...] = ()
    children: tuple[Manifest, ...] = ()
    """Objects to apply."""
    status: Mapping[str, Any] | None = None
    """The operator's part of the status, on the wire; None leaves it alone."""
    notes: tuple[Note, ...] = ()
    delete_object: bool = False
    """Delete the reconciled object itself."""
    requeue_seconds: float | None = None
    """Decide again after so long even if nothing happens."""
