"""The product's tuner, again and again in this process, with or without a window over its base model's layers."""

import ctypes
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import torch
from rig.tuning_job import Steps, tuning_spec

from rowen.demo import samples
from rowen.node_agent.memory.pool import HANDLE_BYTES, Pool
from rowen.node_agent.memory.pool_status import Kind
from rowen.node_agent.native import library_path
from rowen.runtime.memory.native_arena import NativeArena
from rowen.runtime.memory.part import PoolPart
from rowen.runtime.tuning import adapter
from rowen.runtime.tuning.results.folder import FolderResults
from rowen.runtime.tuning.tuner import Tuner
from rowen.runtime.tuning.window.layers import layers_of, movable_tensors
from rowen.runtime.tuning.window.places import find_places
from rowen.runtime.worker import Progress

WARM_UP_STEPS = 2
"""In which weights are loaded for the first time; they do not count."""
_BATCH_ROWS, _ROW_TOKENS = 2, 48
_MOST_STEPS = 10_000
_POLL_SECONDS = 0.0002
_LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class Place:
    """What the layers take in the arena."""

    layers: int
    layer_handles: int
    """Of the largest."""


class _EndedError(Exception):
    """The benchmark has seen enough of a job."""


class Tuning:
    """Jobs on one base model, whose layers have a place in an arena of a pool of their own."""

    def __init__(self, folder: Path, model: Path) -> None:
        """Writes data and outputs into the folder."""
        self._folder, self._model, self._numbers = folder, model, count()
        self._dataset = folder / "support.jsonl"
        with redirect_stdout(sys.stderr):
            samples.write_lines(self._dataset, samples.dialogues(samples.DIALOGUES))
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        base = adapter.load_base(model, mapped=True)
        layers = layers_of(base)
        movable = movable_tensors(base, layers)
        # A layer's last handle is filled in part.
        room = sum(tensor.numel() * torch.float32.itemsize for tensors in movable for tensor in tensors)
        handles = room // HANDLE_BYTES + 2 * len(layers)
        self._pool = Pool(handles, HANDLE_BYTES)
        admission = self._pool.admit(Kind.OFFLINE, handles)
        self._number = admission.number
        self._arena = NativeArena(ctypes.CDLL(str(library_path())), admission.arena, admission.memory)
        self._places = find_places(self._arena, movable, torch.float32, other_handles=0)
        # With room for all layers and no more: what is kept for the way back takes none of a window's handles.
        self._part = PoolPart(self._arena, sum(len(place.handles) for place in self._places))
        self.place = Place(len(layers), max(len(place.handles) for place in self._places))

    def close(self) -> None:
        """Ends the pool; the arena's addresses stay this process's."""
        self._pool.close()

    def grant(self, handles: int) -> None:
        """What the arena may hold from now on."""
        self._pool.share(self._number, handles, handles)
        self._pool.serve(time.monotonic(), offline_stopped=False)

    def wait_held(self, handles: int, *, least: bool) -> None:
        """Until the arena holds so many handles at least, or at most. Raises `RuntimeError` when it takes too long."""
        end = time.monotonic() + _LIMIT_SECONDS
        while True:
            self._pool.serve(time.monotonic(), offline_stopped=False)
            held = self._pool.status().of(self._number).held
            if held >= handles if least else held <= handles:
                return
            if time.monotonic() > end:
                raise RuntimeError(f"the tuner holds {held} handles, not {handles}, after {_LIMIT_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def speed(self, steps: int, handles: int | None) -> float:
        """Tokens per second of so many steps, with a window of so many handles; None: without one."""
        marks: list[tuple[float, int]] = []

        def step(completed: int, now: float, tokens: int) -> None:
            if completed >= WARM_UP_STEPS:
                marks.append((now, tokens))
            if completed >= WARM_UP_STEPS + steps:
                raise _EndedError

        if handles is not None:
            self.grant(handles)
        self._run(step, None if handles is None else self._part)
        (begin, before), (end, after) = marks[0], marks[-1]
        return (after - before) / (end - begin)

    def run_until(self, ended: threading.Event) -> None:
        """Trains with a window until it is said to end."""

        def step(_completed: int, _now: float, _tokens: int) -> None:
            if ended.is_set():
                raise _EndedError

        self._run(step, self._part)

    def _run(self, step: Callable[[int, float, int], None], part: PoolPart | None) -> None:
        output = self._folder / f"adapter-{next(self._numbers)}"
        output.mkdir()
        spec = tuning_spec(
            str(self._model),
            str(self._dataset),
            str(output),
            epochs=1000,
            batch_size=_BATCH_ROWS,
            sequence_length=_ROW_TOKENS,
            learning_rate=0.001,
            checkpoint_steps=_MOST_STEPS,
            seed=0,
        )
        results = FolderResults(output, self._model, 1)
        try:
            Tuner(spec, self._model, self._dataset, results, Progress("steps", Steps(step)), part).run()
        except _EndedError:
            pass
        finally:
            shutil.rmtree(output)

    def copied(self, times: int) -> list[float]:
        """How long it takes, in seconds, to copy the largest layer's weights out of the arena."""
        place = max(self._places, key=lambda place: len(place.handles))
        self.grant(len(place.handles))
        if self._arena.map(place.handles) < len(place.handles):
            raise RuntimeError("the pool has no room for a layer")
        host = [torch.zeros_like(move.inside) for move in place.moves]
        found = []
        for _ in range(times):
            for move in place.moves:
                move.inside.copy_(move.outside)
            begin = time.monotonic()
            for kept, move in zip(host, place.moves, strict=True):
                kept.copy_(move.inside)
            found.append(time.monotonic() - begin)
        self._arena.unmap(place.handles)
        return found
