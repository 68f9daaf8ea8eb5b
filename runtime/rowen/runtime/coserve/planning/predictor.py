"""What steps and parts take: what was measured, over a model, over a default (LLMStation, section 4.2)."""

from collections.abc import Callable
from dataclasses import replace

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.part_model import PartModel
from rowen.runtime.coserve.planning.ratio import Ratio
from rowen.runtime.coserve.planning.step_model import StepModel

_MOST_CELLS = 4096
_KNOWN = 4
"""Observations from which on a kind of load is known, and says something of the machine."""
_TRUST = 4.0
"""Observations with which the measured counts as much as the model."""
_TELLING = 0.2
"""Part of a step that a window has to take for the step to say what windows cost."""
_LARGE = 0.1
"""Part of a step that a window takes by prediction, from which on it is as large as it may be."""
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
    it is these days (a loaded machine, other adapters), which shows within a few steps. The sum is corrected by how far
    off it was for such loads (the cache).
    """

    def __init__(self) -> None:
        self.version = 0
        """Another one where predictions are no longer what they were."""
        self._model = StepModel()
        self._cells: dict[tuple[int, ...], Ratio] = {}
        self._machine = Ratio()
        self._riding = Ratio()
        self._parts: dict[str, PartModel] = {}
        self._steps = 0
        self._most_tokens = 0
        self._ride_context = 0.0
        self._row_context = 0.0

    def seconds(self, load: Load) -> float:
        """What a step takes."""
        alone, added = self._model.stages(load)
        return self._corrected(load, load.ride_tokens, alone + self._riding.value * added)

    def riding(self, load: Load) -> Callable[[int], float]:
        """What the step takes with so many tokens riding; `load` has none yet."""
        model, context, riding = self._model, self._ride_context, self._riding.value
        base, tokens = model.base(load), load.decode_rows + load.prefill_tokens + load.row_tokens
        alone = model.with_ride(base, tokens, 0, 0.0)

        def seconds(ride_tokens: int) -> float:
            added = model.with_ride(base, tokens, ride_tokens, context * ride_tokens) - alone
            return self._corrected(load, ride_tokens, alone + riding * added)

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
        raw = alone + self._riding.value * added
        if not changed:
            changed = self._cell(load).observe(seconds / max(_LEAST_SECONDS, raw * self._machine.value), self._steps)
        # The model learns it as it is: what lasts becomes the model's, and the corrections go back to 1.
        changed |= self._model.observe(load, seconds)
        self.version += changed

    def most_more_tokens(self, load: Load) -> int:
        """So many more may be tried: a step becomes at most twice as large as any that was measured."""
        tokens = load.decode_rows + load.prefill_tokens + load.row_tokens
        return max(_FIRST_TOKENS, _GROWTH * self._most_tokens) - tokens

    def part_seconds(self, phase: str, tokens: int, context: int) -> float:
        """What a part takes; `context` is what its tokens attend to, summed."""
        return self._part(phase).seconds(tokens, context)

    def observe_part(self, phase: str, tokens: int, context: int, seconds: float) -> None:
        """A part was measured."""
        if tokens > 0 and seconds >= _LEAST_SECONDS:
            self._part(phase).observe(tokens, context, seconds)

    def part_tokens(self, phase: str, seconds: float, token_context: float) -> int:
        """How large a part ends in time, 1 at least; `token_context` is what each of its tokens attends to."""
        return self._part(phase).tokens(seconds, token_context)

    def _observe_stage(self, load: Load, seconds: float, alone: float, added: float) -> bool:
        """Takes in how far off the stage is that the step tells of. True: it is another one now."""
        if not load.ride_tokens:
            cell = self._cell(load)
            return cell.count >= _KNOWN and self._machine.observe(seconds / max(_LEAST_SECONDS, alone * cell.value))
        more = seconds / self._machine.value - alone
        if min(more, added) > _TELLING * (alone + added):
            return self._riding.observe(more / added)
        if self._riding.value * added > _LARGE * (alone + added):
            # A ratio that is too high keeps windows so small that none ever tells. Others are small by themselves.
            self.version += self._riding.forget()
        return False

    def _note_sizes(self, load: Load) -> None:
        tokens = load.decode_rows + load.prefill_tokens + load.ride_tokens + load.row_tokens
        self._most_tokens = max(self._most_tokens, tokens)
        if load.ride_tokens:
            self._ride_context += _FOLLOW * (load.ride_context / load.ride_tokens - self._ride_context)
        if load.row_tokens:
            self._row_context += _FOLLOW * (load.row_context / load.row_tokens - self._row_context)

    def _part(self, phase: str) -> PartModel:
        found = self._parts.get(phase)
        if found is None:
            found = self._parts[phase] = PartModel()
        return found

    def _corrected(self, load: Load, ride_tokens: int, seconds: float) -> float:
        cell = self._cells.get(_key(load, ride_tokens))
        if cell is None or self._is_stale(cell):
            return seconds * self._machine.value
        trust = cell.count / (cell.count + _TRUST)
        return seconds * self._machine.value * (1 + trust * (cell.value - 1))

    def _is_stale(self, cell: Ratio) -> bool:
        return self._steps - cell.at > _STALE_STEPS

    def _cell(self, load: Load) -> Ratio:
        key = _key(load, load.ride_tokens)
        found = self._cells.get(key)
        if found is None or self._is_stale(found):
            if len(self._cells) >= _MOST_CELLS:
                # The one that came first: what is asked for again is soon measured again.
                del self._cells[next(iter(self._cells))]
            found = self._cells[key] = Ratio(self._steps)
        return found


def _key(load: Load, ride_tokens: int) -> tuple[int, ...]:
    """Loads of one key are one kind: decode rows one by one, all else by size."""
    return (
        load.decode_rows,
        (load.decode_context >> 9).bit_length(),
        load.prefill_tokens.bit_length(),
        (ride_tokens + 7) >> 3,
        load.row_tokens.bit_length(),
    )
