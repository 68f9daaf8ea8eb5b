"""What the seat has to know of the engine that it takes riders in for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from rowen.runtime.coserve.task import Target, Task


@dataclass(frozen=True)
class Host:
    """An engine, as its riders see it."""

    model: Path
    """Folder with the files that it serves."""
    dtype: torch.dtype
    """It computes in."""
    layers: int
    sizes: Mapping[Target, tuple[int, int]]
    """Inputs and outputs of each linear layer."""
    most_tokens: int
    """Of a task: more are refused before they are looked at."""
    most_lent_bytes: int
    """Of all gradients that guests have, but for those of the one who got the last. Beyond it they are taken back."""
    check: Callable[[Task], None]
    """Called on the seat's thread for each task. Raises `TaskUnsuitable`."""
