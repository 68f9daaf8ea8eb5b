"""Where the tokens of a group are on their way forward through the layers. Pure."""

from dataclasses import dataclass

from rowen.runtime.coserve.training.memory import WINDOW_TOKENS

LAYER_TOKENS = 16
"""With fewer of them, reading a layer's weights is most of what it takes."""


@dataclass(frozen=True)
class StepAhead:
    """Tokens in some layers."""

    begin: int
    end: int
    first_layer: int
    end_layer: int
    """Behind the last one of them."""

    @property
    def layers(self) -> int:
        """How many of them."""
        return self.end_layer - self.first_layer

    @property
    def work_tokens(self) -> int:
        """So many take about as long in one layer."""
        tokens = self.end - self.begin
        return tokens if self.layers == 1 else self.layers * max(tokens, LAYER_TOKENS)


class WayForward:
    """From the first token to the last: those of a window may be half way, the first ones a layer before the others.

    A step may only be taken once it was given, and none in between (`went`).
    """

    def __init__(self, size: int, layers: int) -> None:
        """Of so many tokens, none of which is through anything."""
        self.through = 0
        """Tokens that are through all layers."""
        self._size, self._layers = size, layers
        self._end = 0
        """Of the window that is half way; not above `through` where none is."""
        self._reached = 0
        """Layers that all of the window is through."""
        self._passed = 0
        """Up to this token, it is through one more."""

    @property
    def left(self) -> int:
        """Tokens that are not through."""
        return self._size - self.through

    def riding(self, most_tokens: int, window_tokens: int = WINDOW_TOKENS) -> StepAhead:
        """The next tokens through all layers that they have before them; a new window has `window_tokens` at most."""
        begin, end, first = self.through, self._end, self._reached
        if end <= begin:
            end = min(self._size, begin + window_tokens)
        elif self._passed > begin:
            end, first = self._passed, first + 1
        return StepAhead(begin, min(end, begin + most_tokens), first, self._layers)

    def ahead(self, most_tokens: int, window_tokens: int = WINDOW_TOKENS) -> list[StepAhead]:
        """A layer of a window as far as it goes, and as many more layers of all of it as fit; windows as above."""
        begin, end, first, passed = self.through, self._end, self._reached, self._passed
        if end <= begin:
            end = begin + even_share(self.left, min(most_tokens, window_tokens))
        each = max(end - begin, LAYER_TOKENS)
        if passed == begin and end - begin <= most_tokens:
            return [self._whole(begin, end, first, most_tokens // each)]
        step = StepAhead(passed, min(end, passed + most_tokens), first, first + 1)
        more = (most_tokens - max(step.end - passed, LAYER_TOKENS)) // each
        if step.end < end or more <= 0 or step.end_layer == self._layers:
            return [step]
        return [step, self._whole(begin, end, first + 1, more)]

    def _whole(self, begin: int, end: int, first: int, layers: int) -> StepAhead:
        """One layer at least."""
        return StepAhead(begin, end, first, min(self._layers, first + max(1, layers)))

    def went(self, step: StepAhead) -> None:
        """It was taken."""
        if step.end_layer == self._layers:
            self.through = step.end
            self._passed = max(self._passed, step.end)
            if self.through >= self._end:
                self._reached = 0
        elif step.end < self._end:
            self._passed = step.end
        else:
            self._end, self._reached, self._passed = step.end, step.end_layer, self.through


def even_share(left: int, most_tokens: int) -> int:
    """Tokens of the next of equally large windows: one of a few tokens takes nearly as long as a large one."""
    windows = -(-left // most_tokens)
    return -(-left // windows)
