"""The key-value cache takes what the weights leave."""

import errno
import json
import math
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoConfig

from rowen.crds.job.worker import ExitCode
from rowen.runtime.batch import precision
from rowen.runtime.batch.memory import (
    LEAST_SEQUENCES,
    MOST_SEQUENCES,
    OVERHEAD_BYTES,
    cache_bytes,
    sequences_in,
    start_failure,
    useful_bytes,
)
from rowen.runtime.batch.serving.refusal import is_refusal
from rowen.runtime.batch.weights import weights_bytes
from rowen.runtime.failure import WorkerError

CONFIG = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "max_position_embeddings": 8192,
}
WEIGHTS = 1000


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model-00001.safetensors").write_bytes(bytes(WEIGHTS))
    return tmp_path


def test_it_takes_what_is_left(model: Path) -> None:
    assert cache_bytes(model, OVERHEAD_BYTES + WEIGHTS + 5000, "auto") == 5000


def test_it_takes_no_more_than_it_can_use(model: Path) -> None:
    assert cache_bytes(model, 2**50, "auto") == useful_bytes(CONFIG) == (256 * 8192 + 128) * 2 * 32 * 8 * 128 * 4


def test_too_little_memory_is_said_in_numbers(model: Path) -> None:
    with pytest.raises(WorkerError, match="weights 1000") as caught:
        cache_bytes(model, OVERHEAD_BYTES, "auto")
    assert caught.value.reason == "MemoryTooSmall"


@pytest.mark.parametrize("halves", [torch.bfloat16, torch.float16])
def test_weights_that_are_stored_in_16_bits_take_twice_that_in_float32(tmp_path: Path, halves: torch.dtype) -> None:
    file = tmp_path / "model-00001-of-00002.safetensors"
    # The configuration names no type, as it may: the files count.
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    save_file({"a": torch.zeros(30, 10, dtype=halves), "b": torch.zeros(500), "c": torch.zeros(7)}, file)
    save_file({"d": torch.zeros(11, dtype=halves)}, tmp_path / "model-00002-of-00002.safetensors")
    stored = sum(path.stat().st_size for path in tmp_path.glob("*.safetensors"))
    assert weights_bytes(tmp_path, "auto") == stored
    assert weights_bytes(tmp_path, "float32") == stored + 2 * (300 + 11)
    memory = OVERHEAD_BYTES + stored + 5000
    assert cache_bytes(tmp_path, memory, "float32") == 5000 - 2 * (300 + 11)
    assert cache_bytes(tmp_path, memory, "auto") == 5000


@pytest.mark.parametrize(
    ("index", "names", "counted"),
    [
        (None, ["a", "b"], {"a", "b"}),
        (None, ["a", "consolidated", "consolidated.01"], {"consolidated", "consolidated.01"}),
        ("model", ["a", "b", "copy"], {"a", "b"}),
        ("model", ["consolidated", "a", "b"], {"consolidated"}),
        ("consolidated", ["consolidated-a", "consolidated-b", "a"], {"consolidated-a", "consolidated-b"}),
    ],
)
def test_the_files_that_vllm_loads_count(
    tmp_path: Path, index: str | None, names: list[str], counted: set[str]
) -> None:
    for number, name in enumerate(names):
        (tmp_path / f"{name}.safetensors").write_bytes(bytes(10**number))
    if index:
        listed = {name: f"{name}.safetensors" for name in ("a", "b", "consolidated-a", "consolidated-b")}
        (tmp_path / f"{index}.safetensors.index.json").write_text(json.dumps({"weight_map": listed}))
    assert weights_bytes(tmp_path, "auto") == sum(10 ** names.index(name) for name in counted)


@pytest.mark.parametrize("index", ["[]", "{", '{"weight_map": [1]}', '{"weight_map": {"a": {}}}'])
def test_a_damaged_index_leaves_all_files(model: Path, index: str) -> None:
    (model / "model.safetensors.index.json").write_text(index)
    assert weights_bytes(model, "auto") == WEIGHTS


def test_a_file_that_cannot_be_read_is_the_users_error(model: Path) -> None:
    (model / "x.safetensors").mkdir()
    with pytest.raises(WorkerError) as caught:
        cache_bytes(model, 2**50, "float32")
    assert (caught.value.reason, caught.value.code) == ("ModelMissing", ExitCode.USER_ERROR)


@pytest.mark.parametrize(("offsets", "halves"), [([8, 2], 0), ([0, 10**400], 1), ([0, 6], 0)])
def test_a_header_that_lies_counts_for_no_more_than_the_file(tmp_path: Path, offsets: list[int], halves: int) -> None:
    header = json.dumps({"a": {"dtype": "BF16", "shape": [1], "data_offsets": offsets}}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(6))
    size = file.stat().st_size
    assert weights_bytes(tmp_path, "float32") == size + (halves * size or max(0, offsets[1] - offsets[0]))


def test_a_damaged_file_counts_as_it_lies_there(model: Path) -> None:
    assert weights_bytes(model, "float32") == WEIGHTS


@pytest.mark.parametrize(("gpu", "instructions", "dtype"), [(0, 0, "float32"), (0, 1, "auto"), (1, 0, "auto")])
def test_a_cpu_without_instructions_for_16_bits_computes_in_float32(
    monkeypatch: pytest.MonkeyPatch, model: Path, gpu: bool, instructions: bool, dtype: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: instructions)
    assert precision.chosen(model) == dtype


def test_quantized_weights_stay_with_their_kernels(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    quantization = {"quantization_config": {"quant_method": "fp8"}}
    for config in (CONFIG | quantization, {"text_config": quantization}, {"compression_config": {"format": "int"}}):
        (model / "config.json").write_text(json.dumps(config))
        assert precision.chosen(model) == "auto"
    for text in ("[", "[]", json.dumps(CONFIG | {"text_config": "x", "quantization_config": None})):
        (model / "config.json").write_text(text)
        assert precision.chosen(model) == "float32"
    (model / "hf_quant_config.json").write_text("{}")
    assert precision.chosen(model) == "auto"


def vllm_source(path: str) -> str:
    """Of the version that is installed."""
    vllm = find_spec("vllm")
    assert vllm is not None
    assert vllm.origin is not None
    return (Path(vllm.origin).parent / path).read_text()


def test_a_cache_without_a_token_is_too_little_memory() -> None:
    message = "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token."
    assert message[: message.index(":")] in vllm_source("v1/core/kv_cache_utils.py")
    failure = start_failure("ValueError", message, "weights and vLLM leave 4096 bytes", refused=True)
    assert (failure.reason, failure.code) == ("MemoryTooSmall", ExitCode.USER_ERROR)
    assert "4096 bytes" in failure.message


@pytest.mark.parametrize(
    ("kind", "refused", "reason", "code"),
    [
        ("TooLittleError", True, "MemoryTooSmall", ExitCode.USER_ERROR),
        ("UnsuitableError", True, "ModelUnsuitable", ExitCode.USER_ERROR),
        ("ValueError", True, "ModelUnsuitable", ExitCode.USER_ERROR),
        ("RuntimeError", False, "Failed", ExitCode.RETRY),
    ],
)
def test_another_failure_of_vllm_is_told(kind: str, refused: bool, reason: str, code: ExitCode) -> None:
    failure = start_failure(kind, "the words of vLLM", "weights and vLLM leave 4096 bytes", refused=refused)
    assert (failure.reason, failure.code) == (reason, code)
    assert "the words of vLLM" in failure.message


@pytest.mark.parametrize(
    ("words", "source"),
    [("Available memory on node", "v1/worker/cpu_worker.py"), ("Free memory on device", "v1/worker/utils.py")],
)
def test_memory_that_others_of_the_node_take_is_no_refusal(words: str, source: str) -> None:
    assert words in vllm_source(source)
    message = f"{words} 0 (1.0/8.0 GiB) on startup is less than what is wanted"
    assert start_failure("ValueError", message, "", refused=True).code is ExitCode.RETRY


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (ValueError("no such value"), True),
        (KeyError("parser"), True),
        (ImportError("no such library"), True),
        (NotImplementedError("not on a CPU"), True),
        (RuntimeError("an operation failed"), False),
        (OSError(errno.EIO, "disk"), False),
        (MemoryError(), False),
    ],
)
def test_what_the_next_attempt_would_meet_is_a_refusal(error: Exception, refused: bool) -> None:
    assert is_refusal(error) is refused


def test_what_is_made_of_a_refusal_is_one() -> None:
    error = RuntimeError("Failed to load 0th LogitsProcessor plugin no.such:thing")
    error.__cause__ = ImportError("no module no")
    assert is_refusal(error)


def test_what_a_disk_is_behind_is_none() -> None:
    error = ValueError("no model there")
    error.__cause__ = OSError(errno.EIO, "disk")
    assert not is_refusal(error)


TOKEN_NUMBERS = 2 * 32 * 8 * 128


@pytest.mark.parametrize(
    ("tokens", "length", "dtype", "sequences"),
    [
        (100 * 256, 8192, "auto", 100),
        (100 * 256 - 1, 8192, "auto", 99),
        (100 * 256, 8192, "float32", 50),
        (100 * 256, 128, "auto", 200),
        (10**9, 8192, "auto", MOST_SEQUENCES),
        (1, 8192, "auto", LEAST_SEQUENCES),
    ],
)
def test_the_number_of_sequences_follows_the_cache(
    tokens: int, length: int, dtype: str, sequences: int, model: Path
) -> None:
    (model / "config.json").write_text(json.dumps(CONFIG | {"max_position_embeddings": length}))
    assert sequences_in(model, tokens * TOKEN_NUMBERS * 2, dtype) == sequences


def configured(folder: Path, config: object) -> int:
    """Bytes of the cache of a model with that configuration, when there is no end of memory."""
    text = config if isinstance(config, str) else json.dumps(config)
    (folder / "config.json").write_text(text)
    return cache_bytes(folder, 2**60, "auto")


def whole(length: int, layers: int, key_value_heads: int, head: int) -> int:
    # In whole blocks, and one of vLLM's own.
    tokens = (1 + MOST_SEQUENCES * math.ceil(length / 128)) * 128
    return tokens * 2 * layers * key_value_heads * head * 4


GEMMA_3 = {
    "model_type": "gemma3",
    "hidden_size": 7,
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27, "num_attention_heads": 16},
}  # fmt: skip
UNKNOWN = {"model_type": "nobody-knows", "text_config": CONFIG, "num_hidden_layers": 99}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # Heads and length are the architecture's own, its head is not hidden_size / heads, windows are not counted on.
        (GEMMA_3, whole(131072, 34, 4, 256)),
        ({"model_type": "llama4", "text_config": {"num_hidden_layers": 4}}, whole(131072, 4, 8, 128)),
        (CONFIG | {"model_type": "qwen2_5_vl"}, whole(8192, 32, 8, 128)),
        ({"model_type": "gpt2", "n_layer": 3, "n_head": 4, "n_embd": 64, "n_positions": 99}, whole(99, 3, 4, 16)),
        (UNKNOWN, whole(8192, 32, 8, 128)),
        (UNKNOWN | {"text_config": "none"} | CONFIG, whole(8192, 32, 8, 128)),
        (UNKNOWN | {"text_config": {}, "head_dim": 5} | CONFIG, whole(8192, 32, 8, 5)),
        (CONFIG | {"head_dim": None, "num_key_value_heads": None}, whole(8192, 32, 32, 128)),
        ({name: value for name, value in CONFIG.items() if name != "num_key_value_heads"}, whole(8192, 32, 32, 128)),
        (CONFIG | {"auto_map": {"AutoConfig": "evil.Config"}}, whole(8192, 32, 8, 128)),
    ],
    ids=[
        "gemma 3", "llama 4", "qwen-vl", "gpt-2", "text part of an unknown one", "unknown one",
        "fields outside the part", "null", "no key-value heads", "remote code",
    ],
)  # fmt: skip
def test_the_text_part_counts(config: object, expected: int, model: Path) -> None:
    (model / "evil.py").write_text("raise SystemExit")
    assert configured(model, config) == expected


@pytest.mark.parametrize(
    ("config", "said"),
    [
        *(
            ({key: value for key, value in CONFIG.items() if key != name}, f"{name} is missing")
            for name in ("num_hidden_layers", "num_attention_heads", "hidden_size", "max_position_embeddings")
        ),
        ({"model_type": "mamba"}, "num_attention_heads is missing"),
        (UNKNOWN | {"text_config": {"num_attention_heads": 0}}, "num_attention_heads is 0, expected a whole number"),
        (CONFIG | {"model_type": "llama", "num_hidden_layers": "two"}, "num_hidden_layers is 'two', expected"),
        (CONFIG | {"num_key_value_heads": [4, 8]}, "num_key_value_heads is [4, 8], expected"),
        ("[]", "it is not a JSON object"),
        ("{", "Expecting property name"),
        ("[" * 5000, "maximum recursion depth exceeded"),
    ],
)
def test_a_configuration_that_does_not_tell_is_the_users_error(config: object, said: str, model: Path) -> None:
    with pytest.raises(WorkerError) as caught:
        configured(model, config)
    assert (caught.value.reason, caught.value.code) == ("ModelMissing", ExitCode.USER_ERROR)
    assert f"{model / 'config.json'}: {said}" in caught.value.message


def test_a_disk_that_fails_is_tried_again(model: Path) -> None:
    (model / "config.json").unlink()
    (model / "config.json").symlink_to("/proc/self/mem")
    with pytest.raises(WorkerError, match=str(model / "config.json")) as caught:
        cache_bytes(model, 2**60, "auto")
    assert (caught.value.reason, caught.value.code) == ("Failed", ExitCode.RETRY)


def test_a_disk_that_fails_at_the_second_look_does_not_change_the_size(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> None:
        raise OSError("cannot load the configuration") from OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(AutoConfig, "from_pretrained", gone)
    with pytest.raises(WorkerError) as caught:
        cache_bytes(model, 2**60, "auto")
    assert (caught.value.reason, caught.value.code) == ("Failed", ExitCode.RETRY)


def test_no_configuration_is_the_users_error(model: Path) -> None:
    (model / "config.json").unlink()
    with pytest.raises(WorkerError) as caught:
        cache_bytes(model, 2**60, "auto")
    assert (caught.value.reason, caught.value.code) == ("ModelMissing", ExitCode.USER_ERROR)
