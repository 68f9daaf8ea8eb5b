"""How much memory a model's weights take in vLLM."""

import json
from pathlib import Path
from typing import Any

from rowen.runtime.batch.precision import FLOAT32
from rowen.runtime.tensor_header import read_header

_HALVES = ("BF16", "F16")


def weights_bytes(model: Path, dtype: str) -> int:
    """Bytes of the weights of this folder that vLLM loads, when the model computes in this type. Raises `OSError`."""
    files = _loaded(model)
    stored = sum(path.stat().st_size for path in files)
    # Each number of two bytes takes two more.
    return stored + sum(map(_halves_bytes, files)) if dtype == FLOAT32 else stored


def _loaded(model: Path) -> list[Path]:
    """As vLLM chooses (`DefaultModelLoader`): a consolidated copy alone, and of several files those of the index."""
    consolidated = list(model.glob("consolidated*.safetensors"))
    files = consolidated or list(model.glob("*.safetensors"))
    index = model / f"{'consolidated' if consolidated else 'model'}.safetensors.index.json"
    named = _named(index) if index.exists() else set()
    return [path for path in files if path.name in named] if named else files


def _named(index: Path) -> set[Any]:
    try:
        return set(json.loads(index.read_bytes())["weight_map"].values())
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        # Whoever reads the weights says what is wrong with them.
        return set()


def _halves_bytes(file: Path) -> int:
    """Bytes of the file's 16-bit numbers."""
    with file.open("rb") as stream:
        try:
            header, _ = read_header(stream)
            places = [tensor["data_offsets"] for tensor in header.values() if tensor.get("dtype") in _HALVES]
            halves = sum(int(end) - int(begin) for begin, end in places)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            # As above.
            return 0
    return min(max(halves, 0), file.stat().st_size)
