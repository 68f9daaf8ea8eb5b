"""Another model under the same path is another job."""

import os
from pathlib import Path

import pytest
import torch
from runtime.tuning_runs import spec
from safetensors.torch import save_file

from rowen.crds.job.worker import ExitCode
from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.fingerprint import SAMPLE_BYTES, STRETCH_BYTES, WHOLE_BYTES, model_digest
from rowen.runtime.tuning.tuner import job_digest

LENGTH_BYTES = 8
BROKEN = "/proc/self/mem"
"""A file that opens, and whose first byte is an input/output error."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.model").write_bytes(b"tokens")
    save_file({"a": torch.zeros(3, 3), "b": torch.zeros(5)}, folder / "model.safetensors")
    return folder


def change(path: Path, offset: int) -> None:
    """Another value in the byte at that offset."""
    with path.open("r+b") as stream:
        stream.seek(offset)
        byte = stream.read(1)[0]
        stream.seek(offset)
        stream.write(bytes([byte ^ 1]))


def test_any_byte_of_a_small_file_counts(model: Path) -> None:
    seen = {model_digest(model)}
    changes = 0
    for path in sorted(model.iterdir()):
        for offset in range(path.stat().st_size):
            change(path, offset)
            seen.add(model_digest(model))
            changes += 1
            change(path, offset)
    assert len(seen) == changes + 1


LOADED = [
    "config.json", "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin",
    "model-00001-of-00002.safetensors", "model.safetensors.index.json",
    "pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json",
    "consolidated.safetensors", "my.safetensors.index.json",
    "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
    "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "chat_template.jinja",
    "tekken.json", "tekken_240911.json", "tiktoken.model", "tokenizer.model.v3", "tokenizer.4.0.0.json", "spm.model",
    "vocab-src.json", "target_vocab.json", "dict.txt", "emoji.json", "byte_maps.json", "prophetnet.tokenizer",
]  # fmt: skip


@pytest.mark.parametrize("name", LOADED)
def test_every_file_that_is_loaded_counts(name: str, model: Path) -> None:
    (model / name).write_text("one")
    first = model_digest(model)
    (model / name).write_text("two")
    assert model_digest(model) != first


@pytest.mark.parametrize(
    "name",
    ["README.md", "results.jsonl", "data.json", "model.gguf", "generation_config.json", "consolidated.pth",
     "training_args.bin", "model.safetensors.part", "old-config.json", "notes.txt", "preprocessor_config.json"],
)  # fmt: skip
def test_a_foreign_file_beside_the_model_changes_nothing(name: str, model: Path) -> None:
    first = model_digest(model)
    (model / name).symlink_to(BROKEN)
    assert model_digest(model) == first


def test_a_file_more_or_of_another_name_counts(model: Path) -> None:
    first = model_digest(model)
    (model / "tokenizer.model").rename(model / "tokenizer.json")
    second = model_digest(model)
    (model / "added_tokens.json").write_text("")
    assert len({first, second, model_digest(model)}) == 3


def test_hidden_files_folders_and_times_do_not_count(model: Path) -> None:
    first = model_digest(model)
    (model / ".cache").write_text("x")
    (model / "adapter").mkdir()
    os.utime(model / "model.safetensors", (0, 0))
    assert model_digest(model) == first


def test_a_linked_file_counts_as_its_target(model: Path) -> None:
    first = model_digest(model)
    (model / "model.safetensors").rename(model / ".blob")
    (model / "model.safetensors").symlink_to(".blob")
    assert model_digest(model) == first


HEADER = (
    '{{"__metadata__": {{"format": "pt"}}, "a": {{"dtype": "U8", "shape": [{end}], "data_offsets": [0, {end}]}},'
    ' "b": {{"dtype": "U8", "shape": [{end}], "data_offsets": [{end}, {last}]}}}}'
)


def _sparse(path: Path, tensor_bytes: int) -> int:
    """Two tensors of zeros, without writing them. Returns where the first one begins."""
    header = HEADER.format(end=tensor_bytes, last=2 * tensor_bytes).encode()
    with path.open("wb") as stream:
        stream.write(len(header).to_bytes(LENGTH_BYTES, "little") + header)
        stream.truncate(LENGTH_BYTES + len(header) + 2 * tensor_bytes)
    return LENGTH_BYTES + len(header)


TENSOR_BYTES = WHOLE_BYTES
MIDDLE = TENSOR_BYTES // 2


@pytest.mark.parametrize("tensor", [0, 1])
@pytest.mark.parametrize(
    "offset",
    [0, SAMPLE_BYTES - 1, MIDDLE, MIDDLE + SAMPLE_BYTES - 1, TENSOR_BYTES - SAMPLE_BYTES, TENSOR_BYTES - 1],
)
def test_of_each_tensor_of_a_large_file_samples_count(offset: int, tensor: int, model: Path) -> None:
    data = _sparse(model / "model.safetensors", TENSOR_BYTES)
    first = model_digest(model)
    change(model / "model.safetensors", data + tensor * TENSOR_BYTES + offset)
    assert model_digest(model) != first


@pytest.mark.parametrize("offset", [SAMPLE_BYTES, MIDDLE - 1, MIDDLE + SAMPLE_BYTES, TENSOR_BYTES - SAMPLE_BYTES - 1])
def test_what_lies_between_the_samples_is_not_read(offset: int, model: Path) -> None:
    data = _sparse(model / "model.safetensors", TENSOR_BYTES)
    first = model_digest(model)
    change(model / "model.safetensors", data + offset)
    assert model_digest(model) == first


def test_the_header_of_a_large_file_counts(model: Path) -> None:
    _sparse(model / "model.safetensors", TENSOR_BYTES)
    first = model_digest(model)
    path = model / "model.safetensors"
    change(path, path.read_bytes()[:200].index(b'"pt"') + 1)
    assert model_digest(model) != first


@pytest.mark.parametrize("surplus", [0, 1])
def test_a_file_is_read_whole_up_to_a_size(surplus: int, model: Path) -> None:
    path = model / "model.safetensors"
    data = _sparse(path, WHOLE_BYTES // 4)
    os.truncate(path, WHOLE_BYTES + surplus)
    first = model_digest(model)
    change(path, data + SAMPLE_BYTES)
    assert (model_digest(model) == first) is bool(surplus)


LAST = WHOLE_BYTES // STRETCH_BYTES * STRETCH_BYTES


@pytest.mark.parametrize("name", ["pytorch_model.bin", "adapter_model.bin"])
@pytest.mark.parametrize(
    ("offset", "seen"),
    [
        (0, True), (SAMPLE_BYTES - 1, True), (SAMPLE_BYTES, False),
        (STRETCH_BYTES // 2 - 1, False), (STRETCH_BYTES // 2, True),
        (STRETCH_BYTES - SAMPLE_BYTES - 1, False), (STRETCH_BYTES - SAMPLE_BYTES, True),
        (STRETCH_BYTES + SAMPLE_BYTES - 1, True), (STRETCH_BYTES + SAMPLE_BYTES, False), (LAST, True),
    ],
)  # fmt: skip
def test_of_each_stretch_of_a_large_pickle_samples_count(offset: int, seen: bool, name: str, model: Path) -> None:
    path = model / name
    path.touch()
    os.truncate(path, WHOLE_BYTES + 1)
    first = model_digest(model)
    change(path, offset)
    assert (model_digest(model) != first) is seen


@pytest.mark.parametrize("name", ["pytorch_model.bin", "tokenizer.json"])
def test_what_is_small_or_holds_no_weights_is_read_whole(name: str, model: Path) -> None:
    path = model / name
    path.touch()
    os.truncate(path, WHOLE_BYTES + (path.suffix == ".json"))
    first = model_digest(model)
    change(path, SAMPLE_BYTES)
    assert model_digest(model) != first


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.model"])
def test_a_disk_that_fails_is_tried_again(name: str, model: Path) -> None:
    (model / name).unlink()
    (model / name).symlink_to(BROKEN)
    with pytest.raises(WorkerError, match=str(model / name)) as caught:
        model_digest(model)
    assert (caught.value.reason, caught.value.code) == ("Failed", ExitCode.RETRY)


def test_a_folder_that_is_gone_is_the_users_error(model: Path) -> None:
    with pytest.raises(WorkerError, match=str(model / "gone")) as caught:
        model_digest(model / "gone")
    assert (caught.value.reason, caught.value.code) == ("ModelMissing", ExitCode.USER_ERROR)


def _with_offsets(offsets: str) -> bytes:
    header = f'{{"a": {{"data_offsets": {offsets}}}}}'.encode()
    return len(header).to_bytes(LENGTH_BYTES, "little") + header


@pytest.mark.parametrize(
    "start",
    [
        bytes([255] * 8),
        bytes([8, *[0] * 7]) + b"no JSON!",
        bytes([2, *[0] * 7]) + b"[]",
        bytes([8, *[0] * 7]) + b'{"a": 1}',
        bytes([9, *[0] * 7]) + b'{"a": {}}',
        _with_offsets("[0, 9e999]"),
        _with_offsets("[-1, 8]"),
        _with_offsets("[8, 0]"),
        _with_offsets(f"[0, {2 * WHOLE_BYTES}]"),
    ],
    ids=["no header", "no JSON", "no object", "no tensor", "no offsets", "endless", "before", "turned", "beyond"],
)
def test_a_large_file_that_is_damaged_is_named(start: bytes, model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(start)
    os.truncate(path, WHOLE_BYTES + 1)
    with pytest.raises(WorkerError, match=str(path)) as caught:
        model_digest(model)
    assert caught.value.reason == "ModelMissing"


def test_the_job_changes_with_its_model(model: Path, tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"text": "a"}\n')
    job = spec(model, tmp_path / "data.jsonl", tmp_path / "out")
    first = job_digest(job, model, tmp_path / "data.jsonl")
    skipping = job.model_copy(update={"malformed_rows": "Skip"})
    assert job_digest(skipping, model, tmp_path / "data.jsonl") == first
    change(model / "model.safetensors", (model / "model.safetensors").stat().st_size - 1)
    assert job_digest(job, model, tmp_path / "data.jsonl") != first
    change(model / "model.safetensors", (model / "model.safetensors").stat().st_size - 1)
    assert job_digest(job, model, tmp_path / "data.jsonl") == first
    (tmp_path / "data.jsonl").write_text('{"text": "b"}\n')
    assert job_digest(job, model, tmp_path / "data.jsonl") != first
