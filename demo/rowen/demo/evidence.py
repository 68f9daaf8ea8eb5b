"""Runs in a pod with the volumes: reads what the jobs left, and loads the adapter in vLLM.

Prints one JSON object (`rowen.demo.verdict.checks.PodEvidence`) as its last line. It travels to the pod as text
and so imports nothing of Rowen.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

_PROMPTS = ("How do I reset my password?", "My order has not arrived.", "Where can I see my invoices?")
_TOKENS = 16


def batch_rows(input_path: Path, output_path: Path) -> dict[str, int]:
    """Counts of the batch: rows, results, and what is missing, doubled, unknown or failed."""
    wanted = [json.loads(line)["custom_id"] for line in input_path.read_bytes().splitlines() if line.strip()]
    results: Counter[str] = Counter()
    unreadable = failed = total = 0
    # Text would be split at U+2028 and its like, too, which an answer may have.
    for line in output_path.read_bytes().splitlines() if output_path.exists() else []:
        total += 1
        try:
            row = json.loads(line)
            results[row["custom_id"]] += 1
        except (ValueError, KeyError, TypeError):
            unreadable += 1
            continue
        failed += row.get("error") is not None
    return {
        "input_rows": len(wanted),
        "output_rows": total,
        "missing": len(set(wanted) - set(results)),
        "doubled": sum(count - 1 for count in results.values()),
        "unknown": unreadable + sum(count for name, count in results.items() if name not in set(wanted)),
        "failed_rows": failed,
    }


def adapter(model: Path, folder: Path) -> dict[str, Any]:
    """Loads the adapter in vLLM and answers some prompts with it and without it."""
    import torch
    from vllm import LLM, SamplingParams
    from vllm.lora.request import LoRARequest

    torch.set_num_threads(1)
    rank = json.loads((folder / "adapter_config.json").read_text())["r"]
    llm = LLM(
        model=str(model),
        dtype="bfloat16",
        enforce_eager=True,
        enable_lora=True,
        max_lora_rank=rank,
        max_model_len=128,
        max_num_seqs=len(_PROMPTS),
        kv_cache_memory_bytes=64 * 2**20,
    )
    sampling = SamplingParams(temperature=0, max_tokens=_TOKENS, ignore_eos=True)
    plain = llm.generate(list(_PROMPTS), sampling, use_tqdm=False)
    adapted = llm.generate(
        list(_PROMPTS), sampling, lora_request=LoRARequest("adapter", 1, str(folder)), use_tqdm=False
    )
    answers = [list(output.outputs[0].token_ids) for output in adapted]
    return {
        "adapter_tokens": sum(len(answer) for answer in answers),
        "adapter_differs": answers != [list(output.outputs[0].token_ids) for output in plain],
    }


def losses(folder: Path) -> dict[str, float]:
    """Held-out losses that the tuner wrote beside the adapter; empty where it wrote none."""
    path = folder / "metrics.json"
    if not path.exists():
        return {}
    metrics = json.loads(path.read_text())
    return {"base_loss": metrics["base_loss"], "adapter_loss": metrics["adapter_loss"]}


def main() -> int:
    """Collects the evidence."""
    parser = argparse.ArgumentParser()
    for name in ("--model", "--adapter", "--input", "--output"):
        parser.add_argument(name, type=Path, required=True)
    arguments = parser.parse_args()
    found: dict[str, Any] = batch_rows(arguments.input, arguments.output) | losses(arguments.adapter)
    try:
        found |= adapter(arguments.model, arguments.adapter)
    except Exception as error:
        found["adapter_error"] = f"{type(error).__name__}: {error}"[:2000]
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
