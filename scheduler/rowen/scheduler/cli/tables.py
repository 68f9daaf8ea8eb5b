"""Tables for people."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console

from rowen.crds.base import quantity_text
from rowen.scheduler.cli.survey import Overview


def table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """The lines of a plain table: an object is one line, however long, so that `grep` finds it; None is a `-`."""
    cells = [list(headings), *(["-" if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def show_overview(found: Overview, console: Console) -> None:
    """Nodes, services, jobs by state, and who leads."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    for name, leader in found.leaders.items():
        say(f"{name}: {leader}")
    where = f"in namespace {found.namespace}" if found.namespace else "in all namespaces"
    told = ", ".join(f"{count} {state}" for state, count in found.jobs.items()) or "none"
    say(f"jobs {where}: {told}")
    say("")
    if found.nodes:
        say("\n".join(table(_NODE_HEADINGS, map(_node_row, found.nodes))))
        say("")
    if found.services:
        say("\n".join(table(_SERVICE_HEADINGS, map(_service_row, found.services))))
    elif not found.unread:
        say(f"no OnlineService {where}")
    for reason in found.unread:
        say(f"not shown: {reason}")


_NODE_HEADINGS = ("NODE", "DEVICES", "HARVESTABLE", "TENANTS", "IDLE", "HARVESTED", "LENT", "HEARTBEAT", "REPORT AGE")
_SERVICE_HEADINGS = ("NAMESPACE", "SERVICE", "READY", "SLO", "TTFT", "TPOT", "MODE", "HARVEST", "HARVESTED")


def _node_row(node: Mapping[str, Any]) -> list[object]:
    if "problem" in node:
        return [node["name"], node["problem"], *[""] * (len(_NODE_HEADINGS) - 2)]
    figures = [node[key] for key in ("devices", "harvestable", "tenants", "idle", "harvested", "lent")]
    return [node["name"], *figures, _heartbeat(node), _age(node["reportedSecondsAgo"])]


def _service_row(service: Mapping[str, Any]) -> list[object]:
    ready = f"{service['ready'] or 0}/{service['replicas'] or 0}"
    rest = [service[key] for key in ("sloMet", "ttft", "tpot", "mode", "harvest", "harvested")]
    return [service["namespace"], service["name"], ready, *rest]


def _heartbeat(row: Mapping[str, Any]) -> str | None:
    ago = _age(row["heartbeatSecondsAgo"])
    return f"{ago} (silent)" if row["silent"] else ago


def _age(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.0f}s"


_DEVICE_HEADINGS = ("NODE", "DEVICE", "TYPE", "IDLE", "HARVESTED", "HEARTBEAT", "SERVICE", "SEATS", "SHARE", "TENANTS")
_OWNERS = {
    "FIXED": "fixed",
    "ONLINE": "used",
    "AHEAD": "ahead",
    "OFFLINE": "offline",
    "FREE": "free",
}


def device_lines(devices: Iterable[Mapping[str, Any]], *, wide: bool = False) -> list[str]:
    """Every device; with whose its memory is where `wide`."""
    rows = [_device_row(device, wide=wide) for device in devices]
    return table((*_DEVICE_HEADINGS, *(_OWNERS if wide else ())), rows) if rows else ["no node reports a device"]


def cut(lines: list[str], most: int) -> list[str]:
    """The first of the lines, and how many more there are."""
    return lines if len(lines) <= most else [*lines[: most - 1], f"{len(lines) - most + 1} more: --node shows one node"]


def _seats(device: Mapping[str, Any]) -> str | None:
    """Those that are taken in its engine, and how much rides; None where its engine takes no jobs in."""
    found = device["coServing"]
    if found is None:
        return None
    if found.get("ended"):
        return f"ended: {found['ended']}"
    rate = sum(found[f"{kind}TokensPerSecond"] for kind in ("forward", "solo", "row"))
    return f"{len(device['riders'])}/{found['seats']}, {rate:.0f} tokens/s"


def _share(device: Mapping[str, Any]) -> str | None:
    """What offline work might use of it beside requests, and for how much of the time; None: nothing."""
    found = device["spatial"]
    return f"{found['share']:.0%}, {found['openFraction']:.0%} of the time" if found else None


def _tenants(device: Mapping[str, Any]) -> str | None:
    """Each with its mode, unless it stands still while there are requests."""
    marks = {**dict.fromkeys(device["sharers"], " (shares)"), **dict.fromkeys(device["riders"], " (rides)")}
    return ",".join(f"{each}{marks.get(each, '')}" for each in device["tenants"]) or None


def _device_row(device: Mapping[str, Any], *, wide: bool) -> list[object]:
    if "problem" in device:
        return [device["node"], device["problem"], *[""] * (len(_DEVICE_HEADINGS) - 2 + (len(_OWNERS) if wide else 0))]
    pool = device["pool"] or {}
    memory = [quantity_text(pool[owner]) if owner in pool else None for owner in _OWNERS.values()]
    return [
        device["node"],
        device["device"],
        device["type"],
        f"{device['idle']:.0%}" if device["harvestable"] else None,
        f"{device['harvested']:.0%}",
        _heartbeat(device),
        device["service"],
        _seats(device),
        _share(device),
        _tenants(device),
        *(memory if wide else ()),
    ]
