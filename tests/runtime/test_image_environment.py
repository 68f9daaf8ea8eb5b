"""The runtime image has no compiler."""

import re
import subprocess
import sys

from runtime.server import environment

from rowen.crds.generate import REPOSITORY

LOG_PROBABILITIES = """
import torch
from vllm.v1.sample.ops.logprobs import batched_count_greater_than
print(batched_count_greater_than(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([[2.0]])).tolist())
"""
"""What vLLM does for each token where log probabilities are asked for."""


def test_what_vllm_compiles_by_itself_runs_without_a_compiler() -> None:
    dockerfile = (REPOSITORY / "dockerfiles" / "runtime.Dockerfile").read_text()
    switches = dict(re.findall(r"\b(TORCH\w+)=(\S+)", dockerfile))
    settings = environment(**switches, PATH="/nonexistent")
    command = [sys.executable, "-c", LOG_PROBABILITIES]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "[2]", done.stderr[-2000:]
