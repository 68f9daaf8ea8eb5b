"""A digest of a model's files: another model under the same path has another one."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.header import read_header

WHOLE_BYTES = 64 * 2**20
"""Larger safetensors files are not read whole."""
SAMPLE_BYTES = 16 * 2**10
"""Of a larger file so much is read at the beginning, in the middle and at the end of each tensor."""


def model_digest(folder: Path) -> str:
    """Digest of the files in the folder, but for hidden ones. Raises `WorkerError`."""
    digest = hashlib.sha256()
    try:
        for path in sorted(folder.iterdir()):
            if path.is_file() and not path.name.startswith("."):
                digest.update(json.dumps([path.name, path.stat().st_size, _content_digest(path)]).encode())
    except (OSError, ValueError) as error:
        raise WorkerError("ModelMissing", f"{folder} cannot be read: {error}") from error
    return digest.hexdigest()


def _content_digest(path: Path) -> str:
    with path.open("rb") as stream:
        if path.suffix == ".safetensors" and os.fstat(stream.fileno()).st_size > WHOLE_BYTES:
            return _sampled_digest(stream)
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sampled_digest(stream: BinaryIO) -> str:
    header, data = read_header(stream)
    digest = hashlib.sha256(json.dumps(header).encode())
    for begin, end in _places(header, stream.name):
        for offset in (begin, (begin + end) // 2, end - SAMPLE_BYTES):
            place = max(offset, begin)
            stream.seek(data + place)
            digest.update(stream.read(min(SAMPLE_BYTES, end - place)))
    return digest.hexdigest()


def _places(header: dict[str, Any], name: str) -> list[tuple[int, int]]:
    """Where each tensor begins and ends in the data. Raises `ValueError`."""
    try:
        return sorted(
            (int(begin), int(end))
            for begin, end in (tensor["data_offsets"] for key, tensor in header.items() if key != "__metadata__")
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{name} has a tensor without data_offsets") from error
