"""Types of arrays."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Cells = NDArray[np.uint64]
"""Bitmaps of 64 cells."""
