"""Locates the gate library that was built beside this package."""

from pathlib import Path


def library_path() -> Path:
    """Path of librowen*.so. Raises `FileNotFoundError` when it has not been built."""
    found = sorted(Path(__file__).parent.glob("librowen*.so"))
    if not found:
        raise FileNotFoundError("librowen*.so is not built: run `python setup.py build_ext --inplace`")
    return found[0]
