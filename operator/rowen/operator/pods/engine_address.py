"""Where the engine answers to which a batch sends its rows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineAddress:
    """An engine, as a batch's pod is told of it."""

    url: str
    pod: str | None = None
    """Name of its pod, since its address may be another pod's one day; None where it was not told."""

    def reaches(self, engine: "EngineAddress") -> bool:
        """Whether what is sent here gets to that engine."""
        return self.url == engine.url and self.pod in (None, engine.pod)
