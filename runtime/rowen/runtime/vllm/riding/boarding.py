"""What it takes that something can ride in an engine, put together once its model is loaded."""

import os
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from rowen.crds.names import ENGINE_RIDE_SOCKET_ENV
from rowen.crds.ride.terms import RideTerms
from rowen.runtime.coserve.planning.planner import Planner
from rowen.runtime.coserve.seat.host import Host
from rowen.runtime.coserve.seat.seat import Seat
from rowen.runtime.coserve.shared import engine_planner, engine_terms
from rowen.runtime.coserve.task import Target
from rowen.runtime.coserve.training.architecture import Architecture, ArchitectureUnsupported, read_architecture
from rowen.runtime.coserve.training.checks import check_task
from rowen.runtime.coserve.training.files import ModelFiles
from rowen.runtime.coserve.training.learner import MachineLearner
from rowen.runtime.coserve.training.memory import workspace_bytes
from rowen.runtime.coserve.training.weights import weight_files
from rowen.runtime.log import get_logger
from rowen.runtime.vllm.riding.boarded import Boarded
from rowen.runtime.vllm.riding.conductor import Conductor
from rowen.runtime.vllm.riding.hooks import Hooks
from rowen.runtime.vllm.riding.obstacle import obstacle
from rowen.runtime.vllm.riding.unsuitable import UnsuitableError
from rowen.runtime.vllm.riding.waker import Waker

if TYPE_CHECKING:
    from torch.nn import Module
    from vllm.config import VllmConfig

log = get_logger()

_LENT_PART = 4
"""Of the riders' memory: what gradients may have of it that are lent."""
_TYPES = (torch.float32, torch.bfloat16)


def board(config: "VllmConfig", model: "Module") -> Conductor | None:
    """The conductor of this engine; None: it has no terms. Where nothing can ride, which is said, it only watches."""
    terms, planner = engine_terms(), engine_planner()
    if terms is None or planner is None:
        return None
    try:
        return _boarded(config, model, terms, planner)
    except (UnsuitableError, ArchitectureUnsupported) as error:
        log.warning("nothing rides in this engine", reason=str(error))
    except Exception:
        log.exception("nothing rides in this engine")
    # Rows that come all the same are planned with what steps take.
    return Conductor(planner, None, Waker())


def _boarded(config: "VllmConfig", model: "Module", terms: RideTerms, planner: Planner) -> Conductor:
    agent = os.environ.get(ENGINE_RIDE_SOCKET_ENV)
    if not agent:
        raise UnsuitableError("its agent takes no riders in")
    reason = obstacle(config)
    if reason is not None:
        raise UnsuitableError(reason)
    folder = _folder(config)
    architecture = read_architecture(folder)
    if config.model_config.dtype not in _TYPES:
        raise UnsuitableError(f"it computes in {config.model_config.dtype}")
    with ExitStack() as undo:
        files = undo.enter_context(closing(_files(folder)))
        learner = MachineLearner(folder, terms.memory_bytes, config.model_config.dtype)
        _look_at_memory(learner, terms, architecture)
        host, waker = _host(folder, architecture, learner), Waker()
        # Once nothing of the model can be unsuitable any more: they stay.
        hooks = Hooks(model, architecture.layers)
        seat = Seat(agent, host, waker.wake)
        undo.pop_all()
    return Conductor(planner, Boarded(learner, seat, hooks, files), waker)


def _look_at_memory(learner: MachineLearner, terms: RideTerms, architecture: Architecture) -> None:
    """Says where no task has room: each is refused then. Batch rows take none of that memory."""
    least = workspace_bytes(architecture, 1)
    if learner.memory_bytes < least:
        log.warning(
            "no fine-tuning rides in this engine: coServe.memory is too small",
            bytes=terms.memory_bytes,
            least_task=least,
            copied_matrix=learner.copy_bytes,
        )


def _files(folder: Path) -> ModelFiles:
    """Raises `UnsuitableError`."""
    try:
        return ModelFiles(weight_files(folder))
    except (OSError, ValueError, KeyError) as error:
        raise UnsuitableError(f"the model's weights cannot be read: {error}") from error


def _host(folder: Path, architecture: Architecture, learner: MachineLearner) -> Host:
    return Host(
        model=folder,
        dtype=learner.dtype,
        layers=architecture.layers,
        sizes={target: architecture.widths(target) for target in Target},
        most_tokens=learner.memory_bytes // (4 * architecture.hidden),
        most_lent_bytes=learner.memory_bytes // _LENT_PART,
        check=partial(check_task, architecture=architecture, dtype=learner.dtype, memory_bytes=learner.memory_bytes),
    )


def _folder(config: "VllmConfig") -> Path:
    """Where vLLM read the model. Raises `UnsuitableError`."""
    model = config.model_config
    if Path(model.model).is_dir():
        return Path(model.model)
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                model.model, revision=model.revision, cache_dir=config.load_config.download_dir, local_files_only=True
            )
        )
    except Exception as error:
        raise UnsuitableError(f"its model's files are in no folder of this machine: {error}") from error
