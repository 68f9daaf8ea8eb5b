"""Answers the same requests again and again in a real engine that jobs ride in: `MODEL ADAPTER AGENT`.

Says that it is ready once it has answered them with nobody there, and what has become of it when its input ends.
"""

import json
import select
import sys
from pathlib import Path

from riding_engine.bench import Bench

from rowen.runtime.coserve.seat import guest


def main() -> None:
    model, adapter, agent = sys.argv[1:]
    # Steps of so small a model are little but Python, which the seat's thread waits for. Guests would rest for that.
    sys.setswitchinterval(0.0001)
    guest._SEAT_PART = 1
    bench = Bench(Path(model), Path(adapter), agent)
    expected = bench.answers()
    print(json.dumps({"ready": True}), flush=True)
    rounds = wrong = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        rounds += 1
        wrong += bench.answers() != expected
    sums = bench.conductor._tally.sums()
    print(json.dumps({"rounds": rounds, "wrong": wrong, "sums": sums.model_dump()}), flush=True)


if __name__ == "__main__":
    main()
