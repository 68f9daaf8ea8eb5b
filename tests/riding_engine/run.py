"""Runs all scenarios in one engine and prints how each ended, as JSON: `MODEL ADAPTER`."""

import json
import sys
import traceback
from pathlib import Path

from riding_engine.bench import Bench
from riding_engine.scenarios import LAST, SCENARIOS, Case


def main() -> None:
    model, adapter = Path(sys.argv[1]), Path(sys.argv[2])
    bench = Bench(model, adapter)
    case = Case(bench, model, bench.answers())
    results: dict[str, str | None] = {}
    for scenario in (*SCENARIOS.values(), LAST):
        try:
            scenario(case)
            results[scenario.__name__] = None
        except Exception:
            results[scenario.__name__] = traceback.format_exc(limit=-4)
        print(scenario.__name__, results[scenario.__name__] or "ok", file=sys.stderr, flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
