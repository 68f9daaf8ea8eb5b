"""What is wrong with what a user gave, field by field and in words: errors of pydantic and of JSON, said for people."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any

from pydantic import ValidationError

from rowen.crds.base import NAME_PATTERN, QUANTITY_PATTERN

_ITSELF = ("extra_forbidden", "missing", "value_error")
_PATTERNS = {
    QUANTITY_PATTERN: "an amount of memory was expected, as 4Gi or 500M",
    NAME_PATTERN: "a name was expected: a-z, 0-9, - and ., with a letter or digit at both ends",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong."""

    field: str
    """As `curve[1]` or `spec.devices`; empty: the whole."""
    words: str
    """What was expected; nothing of what was given."""
    given: object = None
    expects: bool = False
    """Whether `words` are what was expected instead of `given`."""
    unknown: bool = False
    """Whether there is no such field."""


class FieldFaultsError(ValueError):
    """What a validator has found in fields below its own: field, from there, and what was expected of it."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{field}: {words}" for field, words in faults))
        self.faults = faults


def faults(error: ValidationError) -> list[Fault]:
    """Each fault once, in the model's order."""
    problems: list[Mapping[str, Any]] = [dict(problem) for problem in error.errors(include_url=False)]
    return [fault for problem in problems if not _follows(problem, problems) for fault in _told(problem)]


def field_name(location: tuple[int | str, ...]) -> str:
    """As `containers[0].env`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def not_json(error: ValueError) -> str:
    """What is said of a line that the JSON parser refuses. Its own words would count lines anew."""
    if isinstance(error, JSONDecodeError):
        return f"not JSON: {error.msg.removesuffix(' at').rstrip(': ')} at character {error.pos + 1}"
    return f"not JSON: {error}"


def _follows(problem: Mapping[str, Any], problems: list[Mapping[str, Any]]) -> bool:
    """Whether it is only that entries with faults of their own do not count."""
    where = problem["loc"]
    below = (other["loc"][: len(where)] == where and len(other["loc"]) > len(where) for other in problems)
    return problem["type"] == "too_short" and any(below)


def _told(problem: Mapping[str, Any]) -> Iterator[Fault]:
    where, kind, given = field_name(problem["loc"]), problem["type"], problem["input"]
    error = problem.get("ctx", {}).get("error")
    if isinstance(error, FieldFaultsError):
        yield from (Fault(f"{where}.{field}".removeprefix("."), words) for field, words in error.faults)
        return
    yield Fault(where, _words(kind, problem), given, kind not in _ITSELF, kind == "extra_forbidden")


def _words(kind: str, problem: Mapping[str, Any]) -> str:
    context = problem.get("ctx", {})
    match kind:
        case "extra_forbidden":
            return "there is no such field"
        case "missing":
            return "it is missing"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "an object with fields was expected"
        case "tuple_type" | "list_type":
            return "a list was expected"
        case "too_short" | "too_long" | "string_too_short" | "string_too_long":
            return _length(kind, context)
        case "string_pattern_mismatch":
            pattern = context["pattern"]
            return _PATTERNS.get(pattern, f"text that matches {pattern} was expected")
    message: str = problem["msg"]
    return message.removeprefix("Value error, ").replace("Input should", "it should")


def _length(kind: str, context: Mapping[str, Any]) -> str:
    least = kind.endswith("short")
    number, unit = context["min_length" if least else "max_length"], "character" if "string" in kind else "item"
    verb = "was" if number == 1 else "were"
    return f"{'at least' if least else 'at most'} {number} {unit}{'' if number == 1 else 's'} {verb} expected"
