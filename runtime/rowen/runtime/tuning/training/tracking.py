"""Where losses are shown while a job trains."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from torch.utils.tensorboard import SummaryWriter
from transformers import TrainerCallback
from transformers.integrations.integration_utils import TensorBoardCallback, WandbCallback

from rowen.crds.job.fine_tune import WeightsAndBiases
from rowen.crds.names import SECRETS_DIRECTORY
from rowen.runtime.failure import WorkerError
from rowen.runtime.storage.credentials import secret_value

log = structlog.get_logger()

_KEY, _SERVER = "WANDB_API_KEY", "WANDB_BASE_URL"
_START_SECONDS, _END_SECONDS = 60.0, 60.0
_DONE, _FAILED = 0, 1
"""Exit codes, by which the run is shown as finished or failed."""


class Events:
    """TensorBoard's events of this attempt."""

    def __init__(self, folder: Path) -> None:
        """They are written into the folder, which is this process's own."""
        self._writer = SummaryWriter(str(folder))
        self._folder = folder

    def callback(self) -> TrainerCallback:
        """Writes what the trainer logs."""
        return TensorBoardCallback(self._writer)  # type: ignore[no-untyped-call]

    def so_far(self) -> bytes:
        """All events until now."""
        self._writer.flush()
        [path] = self._folder.iterdir()
        return path.read_bytes()


@contextmanager
def weights_and_biases(
    wanted: WeightsAndBiases | None, job: str, digest: str, scratch: Path
) -> Iterator[list[TrainerCallback]]:
    """Callbacks that show the run there; all attempts at a job are one run, failed until the next of them goes on.

    The job does not depend on it: when the server is away this is said in the log. Raises `WorkerError` for a secret
    that lacks its key or has no URL where one should be.
    """
    run = None if wanted is None else _started(wanted, job, digest, scratch)
    if run is None:
        yield []
        return
    try:
        yield [WandbCallback()]  # type: ignore[no-untyped-call]
    except BaseException:
        _finish(run, _FAILED)
        raise
    _finish(run, _DONE)


def _finish(run: Any, exit_code: int) -> None:
    try:
        run.finish(exit_code)
    except Exception as error:
        # Its helper may have died in any way.
        log.warning("Weights & Biases does not complete the run", error=str(error))


def _started(wanted: WeightsAndBiases, job: str, digest: str, scratch: Path) -> Any:
    """The run; None, said in the log, when the server does not take it. Raises `WorkerError`."""
    import wandb

    secret = Path(SECRETS_DIRECTORY) / wanted.secret_name
    key, server = secret_value(secret / _KEY), secret_value(secret / _SERVER)
    if key is None:
        raise WorkerError("SpecInvalid", f"weightsAndBiases.secretName: {wanted.secret_name} has no {_KEY}")
    settings = wandb.Settings(
        api_key=key, init_timeout=_START_SECONDS, finish_timeout=_END_SECONDS, console="off", root_dir=str(scratch)
    )
    if server is not None:
        try:
            settings.base_url = server
        except ValueError as error:
            message = f"weightsAndBiases.secretName: {_SERVER} of {wanted.secret_name} is no URL"
            raise WorkerError("SpecInvalid", message) from error
    try:
        return wandb.init(project=wanted.project, name=job or None, id=digest[:32], resume="allow", settings=settings)
    except wandb.Error as error:
        log.warning("Weights & Biases does not take the run: nothing is shown there", error=str(error))
        return None
