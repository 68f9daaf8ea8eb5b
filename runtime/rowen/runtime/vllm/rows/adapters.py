"""How many LoRA adapters a step may hold."""


class AdapterRoom:
    """What online requests leave of the adapters that the engine computes at once."""

    def __init__(self, most: int, used: set[int]) -> None:
        """`used`: ids of those that the step has already."""
        self._most, self._used = most, set(used)

    def takes(self, adapter: int | None) -> bool:
        """Whether a request with this adapter, or None, can be in the step; then it is."""
        if adapter is None or adapter in self._used:
            return True
        if len(self._used) >= self._most:
            return False
        self._used.add(adapter)
        return True
