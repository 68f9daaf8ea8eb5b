"""`make mutants`: changes the policies one by one, and tells which changes the tests do not notice."""

import argparse
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from mutants.changes import Mutant, changes, mutants
from mutants.policies import Equal, StaleError, TestFiles, equals, modules, path_of
from mutants.trial import Outcome, outcomes, unchanged

_BAR = 0.9
_PATIENCE_SECONDS = 120.0
"""Of the processor, for the tests of a module, unchanged: those that take longer are not fast."""


class _Result(Counter[str]):
    """How many mutants of a module there were (`all`), and how they fared."""

    @property
    def noticed(self) -> int:
        """Those that count: an equal one cannot be noticed."""
        return self["killed"] + self["timed out"] + self["equal"]

    def line(self, name: str) -> str:
        parts = (self["all"], self["killed"], self["timed out"], self["survived"], self["equal"])
        return f"{name:48}" + "".join(f"{number:>10}" for number in parts)


_HEAD = f"{'':48}" + "".join(f"{word:>10}" for word in ("mutants", "killed", "timeouts", "survived", "equal"))


def main() -> int:
    """Returns the exit status: 1 for a bar that is not reached, 2 for files or tests that are not right."""
    options = _options()
    # So that the children end, and their folders go.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        results = _examine(options.module, options.count, options.seed)
    except StaleError as error:
        print(error, file=sys.stderr)
        return 2
    print(_HEAD)
    for name, result in results.items():
        print(result.line(name))
    total = _Result(sum(results.values(), start=Counter()))
    print(total.line("all"))
    share = total.noticed / max(1, total["all"])
    print(f"{share:.1%} noticed or equal; the bar is {_BAR:.0%}")
    return int(share < _BAR)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("--module", default="", help="a policy, or a package with policies; all when empty")
    parser.add_argument("--count", type=int, default=0, help="mutants of each module, drawn by chance; 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    return parser.parse_args()


def _examine(chosen: str, count: int, seed: int) -> dict[str, _Result]:
    tests, known = TestFiles.read(), equals()
    names = [name for name in modules() if f"{name}.".startswith(f"{chosen}.") or not chosen]
    if not names:
        raise StaleError(f"no policy is {chosen}: see the contract 'policies do no I/O' in pyproject.toml")
    results: dict[str, _Result] = {}
    for name in names:
        equal = [entry for entry in known if entry.module == name]
        results[name] = _examine_module(name, tests.of(name), equal, count, seed)
    return results


def _examine_module(
    name: str, tests: Sequence[Sequence[Path]], equal: Sequence[Equal], count: int, seed: int
) -> _Result:
    """Prints each mutant that survives."""
    began = time.monotonic()
    drawn = draw(name, count, seed)
    known = {(entry.was, entry.becomes) for entry in check_equals(name, equal)}
    asked = [mutant for mutant in drawn if (mutant.was, mutant.becomes) not in known]
    result = _Result(all=len(drawn), equal=len(drawn) - len(asked))
    limit_seconds = _check_unchanged(name, tests)
    for mutant, outcome in outcomes(asked, tests, limit_seconds):
        result[outcome.value] += 1
        if outcome is Outcome.SURVIVED:
            print(_picture(mutant), flush=True)
    lived, seconds = result["survived"], time.monotonic() - began
    print(f"{name}: {lived} of {len(drawn)} survive, {seconds:.0f} s", file=sys.stderr)
    return result


def draw(module: str, count: int, seed: int) -> list[Mutant]:
    """So many mutants of the module, the same ones for the same seed; all for 0."""
    source = path_of(module).read_text()
    order = changes(source)
    random.Random(f"{seed} {module}").shuffle(order)
    made = mutants(module, source, order)
    return [mutant for mutant, _ in zip(made, _numbers(count), strict=False)]


def _numbers(count: int) -> Iterator[int]:
    number = 0
    while not count or number < count:
        yield number
        number += 1


def check_equals(module: str, entries: Sequence[Equal]) -> Sequence[Equal]:
    """These, where each is one mutant that there is. Raises `StaleError` for another, or one at several places."""
    source = path_of(module).read_text()
    numbered = list(enumerate((line.strip() for line in source.splitlines()), 1))
    for entry in entries:
        lines = {number for number, line in numbered if line in entry.was.splitlines()}
        near = [change for change in changes(source) if change.line in lines]
        made = mutants(module, source, near)
        places = {one.source for one in made if (one.was, one.becomes) == (entry.was, entry.becomes)}
        if len(places) != 1:
            number = f"{len(places)} mutants" if places else "no mutant"
            raise StaleError(f"equal.toml: {module} has {number} {entry.was!r} -> {entry.becomes!r}")
    return entries


def _check_unchanged(name: str, tests: Sequence[Sequence[Path]]) -> float:
    """Seconds of the processor for a mutant. Raises `StaleError` where tests fail as they are, or do not concern it.

    Also where the module itself does not survive as a mutant without a change: then no other would, either.
    """
    result = unchanged(name, tests, _PATIENCE_SECONDS)
    if not result.passed:
        raise StaleError(f"{name}: its tests fail without a change, or are not fast\n{result.output[-3000:]}")
    if not result.loaded:
        raise StaleError(f"tests.toml: the tests for {name} do not import it")
    limit_seconds = 10.0 + 3 * result.seconds
    itself = [] if result.as_mutants else [Mutant(name, 0, path_of(name).read_text(), "", "")]
    for _, outcome in outcomes(itself, tests, limit_seconds):
        if outcome is not Outcome.SURVIVED:
            raise StaleError(f"{name}: as a mutant without a change it is {outcome.value}")
    return limit_seconds


def _picture(mutant: Mutant) -> str:
    lines = [f"{path_of(mutant.module)}:{mutant.line}"]
    lines += [f"- {line}" for line in mutant.was.splitlines()] + [f"+ {line}" for line in mutant.becomes.splitlines()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
