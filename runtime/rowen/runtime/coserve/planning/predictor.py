"""What steps and parts take: what was measured, over a model, over a default (LLMStation, section 4.2)."""

from collections.abc import Callable
from dataclasses import replace

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.ratio import Ratio
from rowen.runtime.coserve.planning.riders import SEEN, Riders
from rowen.runtime.coserve.planning.step_model import StepModel

_MOST_CELLS = 4096
_BEGUN = 1
"""A kind of load is as if it had been seen once, as predicted."""
_KNOWN = 5
"""Observations from which on it is known, and says something of the machine."""
_TRUST = 3.0
"""Observations with which the measured counts as much as the model, beside the first."""
_SURE = 12
"""As many observations three that agree are worth, where they say that a kind of load takes another time now."""
_TELLING = 0.2
"""Part of a step that a window has to take, measured or by prediction, for the step to say what windows cost."""
_MOST_RATIO = 8.0
"""No window is thought to cost more or less than so many times what the model says: beyond it was something else."""
_LARGE = 0.1
"""Part of a step that a window takes by prediction, from which on it counts, and is as large as it may be."""
_FOLLOW = 0.1
"""Weight of a step's context per token, among those before."""
_FIRST_TOKENS = 16
_GROWTH = 2
_LEAST_SECONDS = 1e-6
_STALE_STEPS = 2048
"""After which a kind of load that did not come again is as unknown as one that never came. What is said to take too
long is not tried, and would never be put right."""


class Predictor:
    """Learns from each step what steps take. Not for several threads.

    In Harli's two stages: what a step takes alone, and what a window in it adds. Each is the model's times how far off
    it is these days (a loaded machine; of windows, each guest's adapter), which shows within a few steps. The sum is
    corrected by how far off it was for such loads (the cache).
    """

    def __init__(self) -> None:
        self.version = 0
        """Another one where predictions are no longer what they were."""
        self._model = StepModel()
        self._cells: dict[tuple[int | None, ...], Ratio] = {}
        self._machine = Ratio(count=SEEN)
        self._riders = Riders()
        self._steps = 0
        self._most_tokens = 0
        self._row_context = 0.0

    def seconds(self, load: Load) -> float:
        """What a step takes."""
        alone, added = self._model.stages(load)
        if load.ride_tokens:
            alone += self._riders[load.rider].ratio.value * added
        return self._corrected(load, load.ride_tokens, load.rider, alone)

    def riding(self, load: Load, rider: int | None = None) -> Callable[[int], float]:
        """What the step takes with so many tokens of that guest riding, in place of those that `load` may have."""
        known = self._riders[rider]
        model, context, riding = self._model, known.context, known.ratio.value
        base, tokens = model.base(load), load.decode_rows + load.prefill_tokens + load.row_tokens
        alone = model.with_ride(base, tokens, 0, 0.0)

        def seconds(ride_tokens: int) -> float:
            added = model.with_ride(base, tokens, ride_tokens, context * ride_tokens) - alone
            return self._corrected(load, ride_tokens, rider, alone + riding * added)

        return seconds

    def with_rows(self, load: Load) -> Callable[[int], float]:
        """What the step takes with so many tokens of batch rows; `load` has neither rows nor riders yet."""
        context = self._row_context

        def seconds(row_tokens: int) -> float:
            return self.seconds(replace(load, row_tokens=row_tokens, row_context=int(row_tokens * context)))

        return seconds

    def observe(self, load: Load, seconds: float) -> None:
        """A step was measured."""
        if seconds < _LEAST_SECONDS:
            return
        self._steps += 1
        self._note_sizes(load)
        alone, added = self._model.stages(load)
        changed = self._observe_stage(load, seconds, alone, added)
        if not changed:
            changed = self._observe_cell(load, seconds, alone, added)
        # The model learns it as it is: what lasts becomes the model's, and the corrections go back to 1.
        changed |= self._model.observe(load, seconds)
        self.version += changed

    def most_more_tokens(self, load: Load) -> int:
        """So many more may be tried: a step becomes at most twice as large as any that was measured."""
        tokens = load.decode_rows + load.prefill_tokens + load.row_tokens
        return max(_FIRST_TOKENS, _GROWTH * self._most_tokens) - tokens

    def most_ride_tokens(self, load: Load, rider: int | None = None) -> int:
        """The same of a window; nor is it more than twice as large as any of its guest's."""
        return min(self.most_more_tokens(load), max(_FIRST_TOKENS, _GROWTH * self._riders[rider].most_tokens))

    def expect(self, rider: int | None, token_context: float) -> None:
        """The next window of that guest was seen, and what each of its tokens attends to."""
        self._riders[rider].context = token_context
        self.version += 1

    def doubt(self, rider: int | None, steps: int) -> None:
        """For so many steps nothing rode, since that guest's windows are thought to cost too much."""
        self.version += self._riders[rider].ratio.forget(steps)

    def drop(self, rider: int) -> None:
        """That guest has gone."""
        self._riders.drop(rider)

    def part_seconds(self, phase: str, tokens: int, context: int, rider: int | None = None) -> float:
        """What a part of that guest takes; `context` is what its tokens attend to, summed."""
        return self._riders.part(rider, phase).seconds(tokens, context)

    def least_part_seconds(self, phase: str, rider: int | None = None) -> float:
        """What the smallest one takes."""
        return self._riders.part(rider, phase).least_seconds

    def observe_part(self, phase: str, tokens: int, context: int, seconds: float, rider: int | None = None) -> None:
        """A part was measured."""
        if tokens > 0 and seconds >= _LEAST_SECONDS:
            self._riders.part(rider, phase).observe(tokens, context, seconds)

    def part_tokens(self, phase: str, seconds: float, rider: int | None = None) -> int:
        """How large a part ends in time, 1 at least; its tokens are taken to attend to as much as the last one's."""
        return self._riders.part(rider, phase).tokens(seconds)

    def _observe_stage(self, load: Load, seconds: float, alone: float, added: float) -> bool:
        """Takes in how far off the stage is that the step tells of. True: it is another one now."""
        if not load.ride_tokens:
            cell = self._cell(load)
            return cell.count >= _KNOWN and self._machine.observe(seconds / max(_LEAST_SECONDS, alone * cell.value))
        ratio = self._riders[load.rider].ratio
        more, thought = seconds / self._machine.value - alone, ratio.value * added
        if max(added, thought) <= _LARGE * (alone + added):
            # What such a step takes beyond what was thought is hardly the window's doing.
            return False
        # A ratio that is too high is told of by windows that take less than it says.
        large = max(more, thought) if ratio.value > 1 else more
        if large > _TELLING * (alone + large):
            return ratio.observe(max(1 / _MOST_RATIO, min(_MOST_RATIO, more / added)))
        if thought > _LARGE * (alone + added):
            # And it keeps windows so small that none ever tells. Others are small by themselves.
            self.version += ratio.forget()
        return False

    def _observe_cell(self, load: Load, seconds: float, alone: float, added: float) -> bool:
        """Takes in how far off the sum is for such loads. True: by so much that it is another one now."""
        thought = alone + (self._riders[load.rider].ratio.value * added if added else 0.0)
        cell = self._cell(load)
        if not cell.observe(seconds / max(_LEAST_SECONDS, thought * self._machine.value), self._steps):
            return False
        cell.count = _SURE
        return True

    def _note_sizes(self, load: Load) -> None:
        tokens = load.decode_rows + load.prefill_tokens + load.ride_tokens + load.row_tokens
        self._most_tokens = max(self._most_tokens, tokens)
        if load.ride_tokens:
            rider = self._riders[load.rider]
            rider.context += _FOLLOW * (load.ride_context / load.ride_tokens - rider.context)
            if load.ride_tokens > rider.most_tokens:
                # The next one may be larger.
                rider.most_tokens = load.ride_tokens
                self.version += 1
        if load.row_tokens:
            self._row_context += _FOLLOW * (load.row_context / load.row_tokens - self._row_context)

    def _corrected(self, load: Load, ride_tokens: int, rider: int | None, seconds: float) -> float:
        cell = self._cells.get(_key(load, ride_tokens, rider))
        if cell is None or self._is_stale(cell):
            return seconds * self._machine.value
        trust = cell.count / (cell.count + _TRUST)
        return seconds * self._machine.value * (1 + trust * (cell.value - 1))

    def _is_stale(self, cell: Ratio) -> bool:
        return self._steps - cell.at > _STALE_STEPS

    def _cell(self, load: Load) -> Ratio:
        key = _key(load, load.ride_tokens, load.rider)
        found = self._cells.get(key)
        if found is None or self._is_stale(found):
            if len(self._cells) >= _MOST_CELLS:
                # The one that came first: what is asked for again is soon measured again.
                del self._cells[next(iter(self._cells))]
            found = self._cells[key] = Ratio(self._steps, count=_BEGUN)
        return found


def _key(load: Load, ride_tokens: int, rider: int | None) -> tuple[int | None, ...]:
    """Loads of one key are one kind: decode rows and guests one by one, all else by size."""
    return (
        load.decode_rows,
        (load.decode_context >> 9).bit_length(),
        load.prefill_tokens.bit_length(),
        (ride_tokens + 7) >> 3,
        rider if ride_tokens else None,
        load.row_tokens.bit_length(),
    )
