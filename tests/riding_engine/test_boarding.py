"""Which engines something can ride in, and what those do that nothing can."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.config import CompilationMode, CUDAGraphMode
from vllm.v1.executor import Executor, UniProcExecutor
from vllm.v1.executor.multiproc_executor import MultiprocExecutor

from rowen.crds.ride.terms import LatencyBound, RideTerms
from rowen.runtime.coserve.planning.planner import Planner
from rowen.runtime.coserve.planning.predictor import Predictor
from rowen.runtime.coserve.training.architecture import ArchitectureUnsupported
from rowen.runtime.vllm.riding import boarding
from rowen.runtime.vllm.riding.obstacle import obstacle
from rowen.runtime.vllm.riding.worker import riding

BOUND = LatencyBound(percentile=99, seconds=1)
TERMS = RideTerms(ttft=BOUND, tpot=BOUND, memory_bytes=2**26)


def config(model: Path | None = None) -> Any:
    return SimpleNamespace(
        parallel_config=SimpleNamespace(world_size_across_dp=1),
        compilation_config=SimpleNamespace(mode=CompilationMode.NONE, cudagraph_mode=CUDAGraphMode.NONE),
        quant_config=None,
        load_config=SimpleNamespace(load_format="auto", download_dir=None),
        speculative_config=None,
        scheduler_config=SimpleNamespace(async_scheduling=False),
        model_config=SimpleNamespace(
            model=str(model), revision=None, hf_overrides={}, runner_type="generate", dtype=torch.float32
        ),
        use_v2_model_runner=False,
    )


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Executor, "get_class", lambda _: UniProcExecutor)


def test_an_eager_engine_of_one_process_takes_riders_in() -> None:
    assert obstacle(config()) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda each: vars(each.compilation_config).update(mode=CompilationMode.VLLM_COMPILE), "--enforce-eager"),
        (lambda each: vars(each.compilation_config).update(cudagraph_mode=CUDAGraphMode.FULL), "--enforce-eager"),
        (lambda each: vars(each.parallel_config).update(world_size_across_dp=2), "several processes"),
        (lambda each: vars(each).update(quant_config=object()), "quantised"),
        (lambda each: vars(each.load_config).update(load_format="dummy"), "safetensors"),
        (lambda each: vars(each.model_config).update(hf_overrides={"rope_theta": 1}), "overridden"),
        (lambda each: vars(each).update(speculative_config=object()), "speculative"),
        (lambda each: vars(each.model_config).update(runner_type="pooling"), "no text"),
        (lambda each: vars(each.scheduler_config).update(async_scheduling=True), "asynchronously"),
        (lambda each: vars(each).update(use_v2_model_runner=True), "second model runner"),
    ],
)
def test_others_say_why_they_do_not(change: Callable[[Any], None], words: str) -> None:
    found = config()
    change(found)
    assert words in (obstacle(found) or "")


def test_a_worker_in_another_process_is_told_with_what_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Executor, "get_class", lambda _: MultiprocExecutor)
    assert "UniProcExecutor" in (obstacle(config()) or "")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(boarding, "log", SimpleNamespace(warning=lambda _, reason: lines.append(reason)))
    monkeypatch.setattr(boarding, "engine_terms", lambda: TERMS)
    monkeypatch.setattr(boarding, "engine_planner", lambda: Planner(TERMS, Predictor()))
    monkeypatch.setenv("ROWEN_ENGINE_RIDE_SOCKET", "/nonexistent")
    return lines


def test_without_terms_there_is_no_conductor(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boarding, "engine_terms", lambda: None)
    assert boarding.board(config(), torch.nn.Module()) is None
    assert said == []


def test_an_unsuitable_engine_is_only_watched(
    said: list[str], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = config(model)
    half.model_config.dtype = torch.float16
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text('{"model_type": "gpt2"}')
    for each in (config(model), half, config(other), config(tmp_path / "nowhere")):
        assert boarding.board(each, torch.nn.Module()) is not None
    monkeypatch.delenv("ROWEN_ENGINE_RIDE_SOCKET")
    assert boarding.board(config(model), torch.nn.Module()) is not None
    words = ("layers that were expected", "float16", "gpt2", "no folder", "takes no riders in")
    for word, line in zip(words, said, strict=True):
        assert word in line


def test_a_model_that_cannot_be_learned_on_gets_no_hooks(
    said: list[str], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ArchitectureUnsupported("its weights cannot be read")

    hooked: list[object] = []
    monkeypatch.setattr(boarding, "MachineLearner", fails)
    monkeypatch.setattr(boarding, "Hooks", lambda *_: hooked.append(1))
    assert boarding.board(config(model), torch.nn.Module()) is not None
    assert (hooked, said) == ([], ["its weights cannot be read"])


def test_an_engine_without_memory_for_any_task_says_so_and_takes_batches(
    said: list[str], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[dict[str, Any]] = []
    hosts: list[Any] = []
    monkeypatch.setattr(boarding, "log", SimpleNamespace(warning=lambda _, **values: warnings.append(values)))
    monkeypatch.setattr(boarding, "Hooks", lambda *_: None)
    monkeypatch.setattr(boarding, "Seat", lambda _, host, __: hosts.append(host))
    monkeypatch.setattr(boarding, "Boarded", lambda *_: None)
    for memory_bytes in (2**20, 2**30):
        terms = RideTerms(ttft=BOUND, tpot=BOUND, memory_bytes=memory_bytes)
        monkeypatch.setattr(boarding, "engine_terms", lambda terms=terms: terms)
        assert boarding.board(config(model), torch.nn.Module()) is not None
    [warning] = warnings
    assert warning["bytes"] == 2**20 < warning["least_task"]
    assert [host.most_tokens > 0 for host in hosts] == [True, True]


def test_an_engine_whose_seat_fails_is_only_watched(
    said: list[str], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(boarding, "Hooks", lambda *_: None)
    monkeypatch.setattr(boarding, "Seat", fails)
    monkeypatch.setattr(boarding, "log", SimpleNamespace(exception=said.append))
    # Else batch rows would be planned by what nobody measures.
    assert boarding.board(config(model), torch.nn.Module()) is not None
    assert said == ["nothing rides in this engine"]


class Worker:
    """What vLLM's does, as far as riders see it."""

    vllm_config = None
    model_runner = SimpleNamespace(get_model=lambda: None)
    result: Any = None

    def load_model(self) -> None: ...

    def execute_model(self, _: Any) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def sample_tokens(self, _: Any) -> str:
        return "tokens"

    def start_weight_update(self) -> str:
        return "changed"

    def shutdown(self) -> None: ...


class Conductor:
    def __init__(self) -> None:
        self.told: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.told.append(name)


def test_a_worker_tells_its_conductor_of_each_step() -> None:
    conductor = Conductor()
    board: Any = lambda *_: conductor  # noqa: E731
    worker: Any = riding(Worker, board)()
    worker.load_model()
    worker.execute_model(None)
    assert worker.sample_tokens(None) == "tokens"
    # Nothing to choose tokens from.
    worker.result = "empty"
    assert worker.execute_model(None) == "empty"
    worker.result = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        worker.execute_model(None)
    assert worker.start_weight_update() == "changed"
    worker.shutdown()
    assert conductor.told == ["begin", "finish", "begin", "finish", "begin", "fail", "end", "close"]


def test_a_worker_without_a_conductor_is_vllms() -> None:
    def fails(*_: object) -> Any:
        raise ZeroDivisionError

    for board in (fails, lambda *_: None):
        worker: Any = riding(Worker, board)()
        worker.load_model()
        worker.execute_model(None)
        assert worker.sample_tokens(None) == "tokens"
        worker.shutdown()
