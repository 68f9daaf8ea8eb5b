"""Requests with a seed whose prompt takes several steps."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from runtime.server import environment

WORKER = "rowen.runtime.vllm.seeded.SeededWorker"
ANSWERS = """
import json, sys
from vllm import LLM, SamplingParams, TokensPrompt
model, worker, tokens = sys.argv[1:]
llm = LLM(
    model, dtype="float32", enforce_eager=True, worker_cls=worker, max_num_batched_tokens=int(tokens), max_num_seqs=2,
    max_model_len=256, kv_cache_memory_bytes=2**23, disable_log_stats=True,
    distributed_executor_backend="vllm.v1.executor.uniproc_executor.UniProcExecutor",
)
prompts = [TokensPrompt(prompt_token_ids=[5 + (7 * start + n) % 400 for n in range(90)]) for start in range(3)]
parameters = [SamplingParams(max_tokens=12, temperature=1.0, seed=3 + n, ignore_eos=True) for n in range(3)]
outputs = llm.generate(prompts, parameters, use_tqdm=False)
print(json.dumps([list(output.outputs[0].token_ids) for output in outputs]), flush=True)
"""


def answers(model: Path, step_tokens: int) -> list[list[int]]:
    settings = environment(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR")
    command = [sys.executable, "-c", ANSWERS, str(model), WORKER, str(step_tokens)]
    ended = subprocess.run(command, capture_output=True, text=True, env=settings, timeout=200)
    assert ended.returncode == 0, ended.stderr[-4000:]
    found: list[list[int]] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.timeout(420)
def test_the_length_of_a_step_does_not_change_what_a_seed_gives(tiny_model: Path) -> None:
    whole, in_parts = answers(tiny_model, 256), answers(tiny_model, 32)
    assert whole == in_parts
    assert len({tuple(answer) for answer in whole}) == 3
