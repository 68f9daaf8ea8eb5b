"""Locates the gate libraries that were built beside this package."""

from pathlib import Path

LIBRARIES = ("librowen", "librowen_nvidia")
"""`librowen` for agents, engines and tenants on a CPU; `librowen_nvidia` for tenants on a GPU."""


def library_path(name: str = "librowen") -> Path:
    """Path of one of `LIBRARIES`. Raises `FileNotFoundError` when it is not built."""
    found = sorted(Path(__file__).parent.glob(f"{name}.*so"))
    if not found:
        raise FileNotFoundError(f"{name}.so is not built: run `python setup.py build_ext --inplace`")
    return found[0]
