"""Figures of many devices side by side."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rowen.scheduler.device import FIGURES
from rowen.scheduler.snapshot import NodeView

Numbers = NDArray[np.float64]


def side_by_side(nodes: Sequence[NodeView]) -> Numbers:
    """What a search looks at (`DeviceView.pack`), a row each: of all devices by node, then in the order of ids."""
    packed = b"".join([node.figures for node in nodes])
    return np.frombuffer(packed, np.float64).reshape(-1, FIGURES.size // 8)


def counts(nodes: Sequence[NodeView]) -> NDArray[np.intp]:
    """How many devices each node has."""
    return np.array([len(node.figures) for node in nodes], np.intp) // FIGURES.size
