"""What is known of each guest's windows and parts: one's adapter costs more, another's sequences are longer."""

from rowen.runtime.coserve.planning.part_model import PartModel
from rowen.runtime.coserve.planning.ratio import Ratio

SEEN = 4
"""As if it had been seen so often: from the beginning one slow moment moves a ratio by little."""


class Rider:
    """One guest."""

    __slots__ = ("context", "most_tokens", "parts", "ratio")

    def __init__(self, ratio: float = 1.0, context: float = 0.0) -> None:
        self.ratio = Ratio(value=ratio, count=SEEN)
        """What its windows take, over what the model says."""
        self.context = context
        """What each token of its windows attends to."""
        self.most_tokens = 0
        """Of its largest window."""
        self.parts: dict[str, PartModel] = {}
        """By phase."""


class Riders:
    """By their numbers. A newcomer is thought to cost as much as whoever costs most, until it shows what it does."""

    def __init__(self) -> None:
        self._here: dict[int | None, Rider] = {}
        self._gone = Rider()
        """The last one that has gone, or nobody."""

    def __getitem__(self, number: int | None) -> Rider:
        found = self._here.get(number)
        if found is None:
            like = max(self._all(), key=lambda rider: rider.ratio.value)
            found = self._here[number] = Rider(like.ratio.value, like.context)
        return found

    def part(self, number: int | None, phase: str) -> PartModel:
        """Of a guest's parts of that phase."""
        parts = self[number].parts
        found = parts.get(phase)
        if found is None:
            others = [rider.parts[phase] for rider in self._all() if phase in rider.parts]
            dearest = max(others, key=lambda part: part.least_seconds, default=None)
            found = parts[phase] = PartModel() if dearest is None else dearest.newcomer()
        return found

    def drop(self, number: int | None) -> None:
        """It has gone."""
        found = self._here.pop(number, None)
        if found is not None:
            found.parts = self._gone.parts | found.parts
            self._gone = found

    def _all(self) -> tuple[Rider, ...]:
        return (*self._here.values(), self._gone)
