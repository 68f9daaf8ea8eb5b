"""Plain vLLM on the same rows: all of them handed to `LLM.chat` at once."""

import json
import time
from pathlib import Path

from alone.timing import Run, say

from rowen.runtime.batch import precision

CACHE_BYTES = 512 * 2**20


def main() -> None:
    """Answers, and says how long it took."""
    asked = Run.asked()
    bodies = [json.loads(line)["body"] for line in Path(asked.data).read_bytes().splitlines()]
    from vllm import LLM, SamplingParams

    engine = LLM(
        asked.model,
        dtype=precision.chosen(Path(asked.model)),
        enforce_eager=not asked.compiled,
        kv_cache_memory_bytes=CACHE_BYTES,
        disable_log_stats=True,
    )
    parameters = [
        SamplingParams(max_tokens=body["max_tokens"], temperature=body["temperature"], ignore_eos=body["ignore_eos"])
        for body in bodies
    ]
    begin = time.monotonic()
    outputs = engine.chat([body["messages"] for body in bodies], parameters, use_tqdm=False)
    seconds = time.monotonic() - begin
    say(sum(len(output.prompt_token_ids) + len(output.outputs[0].token_ids) for output in outputs), seconds)


if __name__ == "__main__":
    main()
