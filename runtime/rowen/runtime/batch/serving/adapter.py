"""The LoRA adapter that answers with the model."""

import json
from dataclasses import dataclass
from pathlib import Path

from rowen.runtime.failure import WorkerError, input_failure, reading

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""vLLM makes room for one of these."""


@dataclass(frozen=True)
class Adapter:
    """An adapter in PEFT's format."""

    folder: Path
    rank: int
    """The room that vLLM makes for it."""

    @property
    def name(self) -> str:
        """What vLLM serves it as."""
        return str(self.folder)


def read_adapter(folder: Path) -> Adapter:
    """The adapter in the folder. Raises `WorkerError`."""
    path = folder / "adapter_config.json"
    with reading("ModelMissing", path):
        if not path.is_file():
            raise WorkerError("ModelMissing", f"adapter: {folder} holds no adapter_config.json")
        text = path.read_bytes()
    try:
        rank = int(json.loads(text)["r"])
        return Adapter(folder, next(each for each in _RANKS if each >= rank > 0))
    except (KeyError, RecursionError, TypeError, ValueError, StopIteration) as error:
        message = f"adapter: {path} names no rank r from 1 to {_RANKS[-1]}"
        raise input_failure("ModelMissing", message, error) from error
