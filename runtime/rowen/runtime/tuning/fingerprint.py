"""A digest of a model's files: another model under the same path has another one."""

import hashlib
import json
import os
from fnmatch import fnmatchcase
from io import BufferedReader
from pathlib import Path

from rowen.runtime.failure import WorkerError, reading
from rowen.runtime.tensor_header import read_header

WHOLE_BYTES = 64 * 2**20
"""Larger files of weights are not read whole."""
SAMPLE_BYTES = 16 * 2**10
"""Of a larger file so much is read at the beginning, in the middle and at the end of each tensor."""
STRETCH_BYTES = 16 * 2**20
"""The same of each stretch of so many bytes where tensors have no known place."""

_SMALL = (
    "config.json", "adapter_config.json", "*.safetensors.index.json", "pytorch_model*.bin.index.json",
    "tokenizer*.json", "tokenizer.model*", "*.model", "*tekken*.json", "special_tokens_map.json", "added_tokens.json",
    "*vocab*.json", "vocab.*", "dict.txt", "emoji.json", "byte_maps.json", "*.tokenizer", "merges.txt",
    "chat_template.*",
)  # fmt: skip
# A configuration or an index may name weights as it likes.
_TENSORS = ("*.safetensors",)
_PICKLES = ("pytorch_model*.bin", "adapter_model.bin")


def model_digest(folder: Path) -> str:
    """Digest of the files in the folder that are loaded. Raises `WorkerError`."""
    digest = hashlib.sha256()
    with reading("ModelMissing", folder):
        loaded = sorted(path for path in folder.iterdir() if _is_loaded(path.name) and path.is_file())
    for path in loaded:
        with reading("ModelMissing", path), path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            digest.update(json.dumps([path.name, size, _content_digest(stream, path, size)]).encode())
    return digest.hexdigest()


def _is_loaded(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in (*_SMALL, *_TENSORS, *_PICKLES))


def _content_digest(stream: BufferedReader, path: Path, size: int) -> str:
    if size > WHOLE_BYTES and any(fnmatchcase(path.name, pattern) for pattern in _TENSORS):
        return _sampled_digest(stream, *_tensors(stream, size))
    if size > WHOLE_BYTES and any(fnmatchcase(path.name, pattern) for pattern in _PICKLES):
        stretches = [(at, min(at + STRETCH_BYTES, size)) for at in range(0, size, STRETCH_BYTES)]
        return _sampled_digest(stream, 0, stretches)
    return hashlib.file_digest(stream, "sha256").hexdigest()


def _sampled_digest(stream: BufferedReader, head: int, places: list[tuple[int, int]]) -> str:
    """Digest of the first `head` bytes, and of samples of each place."""
    stream.seek(0)
    digest = hashlib.sha256(stream.read(head))
    for begin, end in places:
        for offset in (begin, (begin + end) // 2, end - SAMPLE_BYTES):
            place = max(offset, begin)
            stream.seek(place)
            digest.update(stream.read(min(SAMPLE_BYTES, end - place)))
    return digest.hexdigest()


def _tensors(stream: BufferedReader, size: int) -> tuple[int, list[tuple[int, int]]]:
    """Length of a safetensors file's header, and where each tensor begins and ends. Raises `WorkerError`."""
    try:
        header, data = read_header(stream)
        offsets = [tensor["data_offsets"] for key, tensor in header.items() if key != "__metadata__"]
        places = sorted((data + int(begin), data + int(end)) for begin, end in offsets)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise WorkerError("ModelMissing", f"{stream.name} is damaged: {type(error).__name__}: {error}") from error
    if not all(data <= begin <= end <= size for begin, end in places):
        raise WorkerError("ModelMissing", f"{stream.name} is damaged: a tensor lies outside of it")
    return data, places
