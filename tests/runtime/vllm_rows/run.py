"""Runs all scenarios in one engine per way of scheduling and prints how each ended, as JSON: `MODEL`."""

import json
import sys
import traceback

from runtime.vllm_rows.engine import MODES, RowEngine
from runtime.vllm_rows.scenarios import LONG, ONLINE, ROWS, SCENARIOS, Answers


def expected(engine: RowEngine) -> Answers:
    """What an engine answers that knows no rows, each request by itself."""
    answers = {}
    for row in [*ONLINE, *ROWS, LONG]:
        name = engine.submit(row)
        engine.finish()
        answers[row] = engine.answer(name)
    return answers


def main() -> None:
    model, *chosen = sys.argv[1:]
    plain = RowEngine(model, None)
    answers = expected(plain)
    engines = [plain]
    results: dict[str, dict[str, str | None]] = {}
    for mode in MODES:
        # An engine that ends takes what vLLM keeps for the whole process with it.
        engine = RowEngine(model, mode)
        engines.append(engine)
        results[mode] = {}
        for name in chosen or SCENARIOS:
            try:
                SCENARIOS[name](engine, answers)
                engine.forget()
            except Exception:
                results[mode][name] = traceback.format_exc(limit=-5)
                # What is left of it would be in the way of the next.
                break
            results[mode][name] = None
    print(json.dumps(results))


if __name__ == "__main__":
    main()
