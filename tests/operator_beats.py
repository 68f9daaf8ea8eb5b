"""A cluster whose nodes send no heartbeats."""

from rowen.kube.heartbeat import Beat
from rowen.kube.informer import Informer


class NoBeats(Informer[Beat]):
    """Asks nobody."""

    def __init__(self) -> None:
        """Without a client."""

    async def refresh(self) -> int:
        return 1
