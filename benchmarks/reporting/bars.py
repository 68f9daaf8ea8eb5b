"""Bars: what a figure has to reach, said beside what it reached."""

from collections.abc import Mapping
from typing import Any, Literal

Bars = Mapping[str, tuple[float, Literal["at least", "at most"]]]
"""Figure name → (bar, on which side of it the figure has to be), in the figure's unit."""
_WORDS = {True: "kept", False: "MISSED", None: "no figure"}


def judged(figures: Mapping[str, Any], bars: Bars) -> dict[str, Any]:
    """Each bar beside whether it was kept; None where the figure has no value.

    `figures` are the report's rows. Raises `KeyError` for a bar without a figure of its name: it could not fail.
    """
    found = {}
    for name, (bar, direction) in bars.items():
        value = figures[name]["value"]
        kept = None if value is None else bool(value >= bar if direction == "at least" else value <= bar)
        found[name] = {"bar": bar, "direction": direction, "kept": kept}
    return found


def bar_lines(obj: Mapping[str, Any]) -> list[str]:
    """For people: a line for each bar of a report."""
    return [
        f"{name}: {obj['figures'][name]['value']} ({bar['direction']} {bar['bar']}): {_WORDS[bar['kept']]}"
        for name, bar in obj.get("bars", {}).items()
    ]
