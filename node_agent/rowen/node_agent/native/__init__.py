"""Locates the gate libraries that were built beside this package."""

from pathlib import Path


def library_path(name: str = "librowen") -> Path:
    """Path of a library: `librowen` for `cpu`, `librowen_nvidia`. Raises `FileNotFoundError` when it is not built."""
    found = sorted(Path(__file__).parent.glob(f"{name}.*so"))
    if not found:
        raise FileNotFoundError(f"{name}.so is not built: run `python setup.py build_ext --inplace`")
    return found[0]
