"""A job's `args` and its adapter, before anything is loaded."""

import json
from pathlib import Path

import pytest

from rowen.crds.job.worker import ExitCode
from rowen.runtime.batch.serving.adapter import Adapter, read_adapter
from rowen.runtime.batch.serving.arguments import given_arguments, server_arguments
from rowen.runtime.batch.serving.server import serving
from rowen.runtime.failure import WorkerError


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--no-such-thing"], "unrecognized arguments: --no-such-thing"),
        (["--max-num-seqs=few"], "argument --max-num-seqs: invalid"),
        (["--dtype", "float7"], "argument --dtype: invalid choice"),
        (["--tool-call-parser"], "argument --tool-call-parser: expected one argument"),
        (["--served-model=x"], "args: --served-model-name: the job decides that"),
        (["--tensor-par=2", "--headles"], "args: --tensor-parallel-size, --headless: the job decides that"),
        (["-tp", "2"], "args: --tensor-parallel-size: the job decides that"),
        (["word"], "args: 'word' belongs to no argument"),
        (["--help"], "args: an argument that starts no server"),
        (["--enable-auto-tool-choice"], "--enable-auto-tool-choice requires --tool-call-parser"),
        (["--chat-template=/nowhere"], "args: The supplied chat template string (/nowhere)"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_named(args: list[str], said: str) -> None:
    with pytest.raises(WorkerError) as caught:
        given_arguments(args)
    assert (caught.value.reason, caught.value.code) == ("SpecInvalid", ExitCode.USER_ERROR)
    assert said in caught.value.message


def test_what_the_job_says_goes_before_what_is_chosen(tmp_path: Path) -> None:
    args = ["--max-num-seqs=7", "--tool-call-parser", "hermes", "--enable-auto-tool-choice"]
    assert given_arguments(args).tool_call_parser == "hermes"
    adapter = Adapter(tmp_path / "a=b,c", 16)
    chosen = server_arguments(tmp_path, "mine", adapter, "float32", 100, 2**20, args)
    assert (chosen.model, chosen.served_model_name) == (str(tmp_path), ["mine"])
    assert (chosen.max_num_seqs, chosen.dtype, chosen.kv_cache_memory_bytes) == (7, "float32", 2**20)
    [module] = chosen.lora_modules
    assert (module.name, module.path, chosen.max_lora_rank) == (adapter.name, str(adapter.folder), 16)


@pytest.mark.parametrize(("rank", "room"), [(1, 1), (4, 8), (16, 16), (17, 32), (512, 512)])
def test_an_adapter_has_room_for_its_rank(rank: int, room: int, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": rank}))
    assert read_adapter(tmp_path) == Adapter(tmp_path, room)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "holds no adapter_config.json"),
        ("{", "names no rank r from 1 to 512"),
        ("[]", "names no rank r from 1 to 512"),
        ('{"r": 0}', "names no rank r from 1 to 512"),
        ('{"r": 513}', "names no rank r from 1 to 512"),
    ],
)
def test_what_is_no_adapter_is_the_users_error(content: str | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "adapter_config.json").write_text(content)
    with pytest.raises(WorkerError, match=said) as caught:
        read_adapter(tmp_path)
    assert (caught.value.reason, caught.value.code) == ("ModelMissing", ExitCode.USER_ERROR)


@pytest.mark.parametrize(
    ("arg", "said"), [("--reasoning-parser=nobodys", "'nobodys' not found"), ("--max-num-seqs=0", "max_num_seqs")]
)
async def test_what_vllm_refuses_of_a_model_is_the_users_error(arg: str, said: str, tiny_model: Path) -> None:
    arguments = server_arguments(tiny_model, "mine", None, "float32", 4, 2**20, [arg])
    with pytest.raises(WorkerError, match=said) as caught:
        async with serving(arguments, "", lambda tokens: None):
            pass
    assert (caught.value.reason, caught.value.code) == ("ModelUnsuitable", ExitCode.USER_ERROR)
