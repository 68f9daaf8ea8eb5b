"""How often a container that the kubelet starts again has ended, and what it said last."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rowen.crds.text.clip import clipped
from rowen.kube.timestamps import unix_or_none

_MOST_WORDS = 256
"""Characters of what a container said that are repeated."""
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# The line that Python ends with. A library's warning may come after it, and frames of calls before it.
_ERROR = re.compile(r"\b[A-Z]\w*(Error|Exception)\b")


@dataclass(frozen=True)
class Ends:
    """The ends of a container whose pod has not been ready since."""

    container: str
    """Its name."""
    count: int
    """As the kubelet counts them for this pod."""
    reason: str
    """The kubelet's, of the last one: `OOMKilled`, `Error`, `Completed` …"""
    exit_code: int
    words: str
    """The telling line of what it said last; made safe to show, empty where it said nothing."""

    def in_words(self, what: str) -> str:
        """For people, after the pod's name. `what` is the container's part: engine, say."""
        times = "once" if self.count == 1 else f"{self.count} times, the last time"
        said = f": {self.words}" if self.words else ""
        return f"its {what} ended {times} with {self.reason} (exit code {self.exit_code}){said}"


def ends_of(entry: Mapping[str, Any], ready: Mapping[str, Any]) -> Ends | None:
    """The ends of a container, by its status and its pod's condition Ready; None without one.

    Also None once the pod was ready again: what keeps it from being ready now is something else.
    """
    state = entry.get("state") or {}
    last = state.get("terminated") or (entry.get("lastState") or {}).get("terminated")
    if not last or ready.get("status") == "True" or _was_ready_since(state, ready):
        return None
    return Ends(
        container=entry["name"],
        # The kubelet counts a restart when the container runs again.
        count=entry.get("restartCount", 0) + ("running" not in state),
        reason=last.get("reason") or "Error",
        exit_code=last.get("exitCode", 0),
        words=telling_line(last.get("message") or ""),
    )


def _was_ready_since(state: Mapping[str, Any], ready: Mapping[str, Any]) -> bool:
    """Whether the pod became unready while this run of the container lasted; both times are of the node's clock."""
    started = unix_or_none((state.get("running") or {}).get("startedAt"))
    turned = unix_or_none(ready.get("lastTransitionTime"))
    return started is not None and turned is not None and turned > started


def telling_line(message: str) -> str:
    """The last line that names an error, else the last one; without control characters, 256 characters at most."""
    lines = [line for line in map(_shown, message.splitlines()) if line]
    line = next((line for line in reversed(lines) if _ERROR.search(line)), lines[-1] if lines else "")
    return clipped(line, _MOST_WORDS)


def _shown(line: str) -> str:
    """Without colours and what a terminal or browser would act upon. A tenant wrote it."""
    plain = _COLOURS.sub("", line).replace("\t", " ")
    return "".join(char for char in plain if not unicodedata.category(char).startswith("C")).strip()
