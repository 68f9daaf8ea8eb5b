"""The tuner's layers' inputs in its part of the pool."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from memory.local_arena import LocalArena
from runtime.tuning_runs import spec
from typing_extensions import override

from rowen.demo.samples import Shape, write_model
from rowen.runtime.memory.part import PoolPart
from rowen.runtime.native import NoTenant
from rowen.runtime.tuning.results.folder import FolderResults
from rowen.runtime.tuning.tuner import Tuner
from rowen.runtime.worker import Progress

HANDLE_BYTES = 16384
LAYERS, LAYER_HANDLES = 4, 10
WHOLE = LAYERS * LAYER_HANDLES
CAPACITY = 64


class Watched(LocalArena):
    """Knows how many handles were wanted and inputs had at most."""

    def __init__(self, grant: int = CAPACITY) -> None:
        super().__init__(CAPACITY, HANDLE_BYTES, grant)
        self.most_inputs = self.most_wanted = 0

    @property
    def inputs(self) -> list[int]:
        """The handles that they have."""
        return [handle for handle in self.mapped if handle >= WHOLE]

    @override
    def want(self, handles: int) -> None:
        self.most_wanted = max(self.most_wanted, handles)

    @override
    def map(self, handles: Sequence[int]) -> int:
        with self.lock:
            count = super().map(handles)
            self.most_inputs = max(self.most_inputs, len(self.inputs))
            return count


class Robbed(Watched):
    """Handles are taken away, and the grant changes, at random whenever the tuner looks; who waits is given all."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._draw = random.Random(seed)
        self.inputs_taken = 0

    @property
    @override
    def taken(self) -> int:
        self._rob()
        return super().taken

    @override
    def lost(self) -> list[int]:
        self._rob()
        return super().lost()

    @override
    def wait(self, grant: int, timeout_seconds: float) -> bool:
        self.set_grant(CAPACITY)
        return True

    def _rob(self) -> None:
        with self.lock:
            if self._draw.random() > 0.04:
                return
            before = len(self.inputs)
            self.take(self._draw.sample(sorted(self.mapped), self._draw.randint(0, len(self.mapped))))
            self.inputs_taken += before - len(self.inputs)
            self.set_grant(self._draw.choice([0, LAYER_HANDLES, WHOLE, CAPACITY, CAPACITY, CAPACITY]))


def run(model: Path, dataset: Path, output: Path, part: PoolPart | None) -> dict[str, bytes]:
    output.mkdir()
    job = spec(model, dataset, output)
    results = FolderResults(output, model, 1)
    Tuner(job, model, dataset, results, Progress("steps", NoTenant()), part).run()
    return {path.name: path.read_bytes() for path in output.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "deep"
    write_model(folder, Shape(layers=LAYERS, hidden=64, intermediate=128, heads=2, key_value_heads=1))
    return folder


@pytest.fixture(scope="module")
def plain(model: Path, dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the tuner writes without a pool: adapter and losses."""
    return run(model, dataset, tmp_path_factory.mktemp("plain") / "out", None)


def test_they_lie_in_the_pool(model: Path, dataset: Path, plain: dict[str, bytes], tmp_path: Path) -> None:
    arena = Watched()
    assert run(model, dataset, tmp_path / "out", PoolPart(arena, CAPACITY)) == plain
    # Those of the largest batch take all that was asked for them.
    assert arena.most_wanted == WHOLE + arena.most_inputs
    assert arena.most_inputs > LAYERS - 1
    assert arena.mapped == set()


@pytest.mark.parametrize(
    ("handles", "grant", "inputs"),
    [(WHOLE + 4, WHOLE + 4, 4), (WHOLE, WHOLE, 0), (WHOLE - 1, WHOLE - 1, 0), (CAPACITY, 2 * LAYER_HANDLES + 4, 4)],
    ids=["some", "none", "less than all layers", "two layers and some"],
)
def test_they_get_what_the_layers_leave(
    handles: int, grant: int, inputs: int, model: Path, dataset: Path, plain: dict[str, bytes], tmp_path: Path
) -> None:
    arena = Watched(grant)
    assert run(model, dataset, tmp_path / "out", PoolPart(arena, handles)) == plain
    assert arena.most_inputs <= inputs
    assert bool(arena.most_inputs) == bool(inputs)
    assert arena.most_wanted <= max(WHOLE, handles)


@pytest.mark.parametrize("seed", range(3))
def test_taken_at_random_moments(
    seed: int, model: Path, dataset: Path, plain: dict[str, bytes], tmp_path: Path
) -> None:
    arena = Robbed(seed)
    assert run(model, dataset, tmp_path / "out", PoolPart(arena, CAPACITY)) == plain
    assert arena.inputs_taken > 0
