"""Which batches can ride as rows of an engine."""

import pytest

from rowen.crds.job.batch_inference import BatchInference
from rowen.crds.job.riding_rows import rows_obstacle

PLACES = {
    "model": {"claimName": "models", "path": "llama"},
    "input": {"claimName": "data", "path": "in.jsonl"},
    "output": {"claimName": "data", "path": "out.jsonl"},
}
TOOLS, PARSER = "--enable-auto-tool-choice", "--tool-call-parser=hermes"
TEMPLATE = "--chat-template=/templates/a.jinja"


def batch(*args: str, **more: object) -> BatchInference:
    return BatchInference.model_validate({**PLACES, "args": list(args), **more})


@pytest.mark.parametrize(
    ("job", "engine"),
    [
        ([], []),
        ([], ["--max-model-len=512", "--max-num-seqs", "16"]),
        ([], ["--enable-lora", "--lora-modules", "a=/a", "b=/b", "--max_loras=2", "--served-model-name=chat"]),
        (["--seed=3"], ["--seed", "3"]),
        (["--max-num-seqs=4", "--max_num_batched_tokens=64"], ["--max-num-seqs=16"]),
        (["--max-model-len=512"], ["--max-model-len", "512"]),
        ([TEMPLATE], ["--chat_template", "/templates/a.jinja"]),
        ([TOOLS, PARSER], [PARSER, TOOLS]),
    ],
)  # fmt: skip
def test_what_makes_no_difference_is_no_obstacle(job: list[str], engine: list[str]) -> None:
    assert rows_obstacle(batch(*job), engine) is None


@pytest.mark.parametrize(
    ("job", "engine", "named"),
    [
        (["--max-model-len=512"], [], "args: --max-model-len, which the engine has not"),
        (["--max-model-len=512"], ["--max-model-len=256"], "args: --max-model-len, which the engine has otherwise"),
        ([PARSER], ["--tool-call-parser=mistral"], "args: --tool-call-parser, which the engine has otherwise"),
        ([], [TEMPLATE], "the engine's --chat-template, which the job has not"),
        ([], ["--hf_overrides.top_k=1"], "the engine's --hf-overrides.top-k, which the job has not"),
        ([], ["--chat-temp", "x"], "the engine's --chat-temp, which the job has not"),
        ([], ["--api-key=secret"], "the engine's --api-key"),
        (["--max-num-queued-reqs=64"], ["--max-num-queued-reqs=64"], "the engine's --max-num-queued-reqs"),
        ([], ["--max_num_queued_tokens", "999"], "the engine's --max-num-queued-tokens"),
        ([TEMPLATE], [TEMPLATE, "--ssl-keyfile", "key.pem"], "the engine's --ssl-keyfile"),
        ([], ["--max-num-seqs", "8", "--dtype=half"], "the engine's --dtype, which the job has not"),
    ],
)  # fmt: skip
def test_what_changes_answers_is_named(job: list[str], engine: list[str], named: str) -> None:
    assert rows_obstacle(batch(*job), engine) == named


@pytest.mark.parametrize(
    "arg",
    [
        "--disable-sliding-window",
        "--hf-config-path=/c",
        "--code-revision=x",
        "--load-format=dummy",
        "--model-impl=transformers",
        "--mm-processor-kwargs={}",
        "--seed=1",
        "--max-log",
        "-x",
    ],
)
def test_what_is_not_known_to_make_no_difference_does(arg: str) -> None:
    name = arg.partition("=")[0]
    assert rows_obstacle(batch(), [arg]) == f"the engine's {name}, which the job has not"
    assert rows_obstacle(batch(arg), [arg]) is None


def test_a_key_is_not_told() -> None:
    assert "secret" not in (rows_obstacle(batch(), ["--api-key=secret"]) or "")


def test_an_adapter_is_not_served() -> None:
    adapted = batch(adapter={"claimName": "data", "path": "adapter"})
    assert rows_obstacle(adapted, []) == "adapter: the engine serves the model alone"
