"""Runs all scenarios in one engine per mode and prints how each ended, as JSON: `MODEL`."""

import json
import sys
import traceback
from typing import Any

from elastic.bench import Bench
from elastic.hostile_arena import HostileArena
from elastic.modes import MODES, Mode
from elastic.scenarios import ALL_ROWS, SCENARIOS, Expected

_engines: list[Bench] = []


def _alive(bench: Bench) -> Bench:
    # An engine that ends takes what vLLM keeps for the whole process with it.
    _engines.append(bench)
    return bench


def ended(bench: Bench, name: str, expected: Expected) -> str | None:
    """None, or what went wrong."""
    arena = bench.arena
    try:
        bench.scheduler.reset_prefix_cache()
        SCENARIOS[name](bench, expected)
    except Exception:
        return traceback.format_exc(limit=-4)
    finally:
        bench.hook = arena.on_wait = None
        arena.set_grant(arena.capacity)
    return None


def run_mode(model: str, mode: Mode, expected: Expected) -> dict[str, str | None]:
    settings: dict[str, Any] = {"block_size": mode.block_tokens, "enable_prefix_caching": mode.prefixes}
    bench = _alive(Bench(model, HostileArena(mode.handles, mode.handle_bytes), mode.asynchronous, **settings))
    results = {}
    for name in SCENARIOS:
        results[name] = ended(bench, name, expected)
        print(name, results[name] or "ok", file=sys.stderr, flush=True)
        if results[name] is not None:
            # What is left of it would be in the way of the next.
            break
    return results


def main() -> None:
    model, *names = sys.argv[1:]
    plain = _alive(Bench(model, None))
    expected = dict(zip(ALL_ROWS, plain.run(ALL_ROWS), strict=True))
    print(json.dumps({name: run_mode(model, MODES[name], expected) for name in names or MODES}))


if __name__ == "__main__":
    main()
