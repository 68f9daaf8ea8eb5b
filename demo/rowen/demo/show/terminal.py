"""The report of a run in a terminal, and what to try next."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rowen.cluster import environment
from rowen.demo.mode import Mode
from rowen.demo.show.report import DeviceSummary, Report, Run
from rowen.demo.show.view import bound, milliseconds
from rowen.demo.verdict.checks import Check
from rowen.demo.verdict.memory import MIB, MemorySummary
from rowen.demo.verdict.riding import RideSummary
from rowen.demo.verdict.statistics import percentile, tpots, ttfts


def show(report: Report, run: Run, console: Console) -> None:
    """Prints the figures and the checks."""
    table = Table(title="What the users of the service saw", title_justify="left")
    beside = ["before there were jobs"] if run.alone else []
    for title in ("", "p50", "p99", "at the SLO's percentile", "SLO", *beside):
        table.add_column(title, justify="left" if not title else "right")
    for name, of, target in (
        ("time to first token", ttfts, run.objective.ttft),
        ("time per output token", tpots, run.objective.tpot),
    ):
        found = [percentile(of(run.outcomes), percent) for percent in (50, 99, target.percentile)]
        alone = [milliseconds(percentile(of(run.alone), target.percentile))] if run.alone else []
        table.add_row(name, *map(milliseconds, found), bound(target), *alone)
    console.print(table)
    if run.outcomes:
        console.print(report.replayer.told().capitalize(), highlight=False, soft_wrap=True)
    if report.replayer_before is not None:
        answered = sum(outcome.error is None for outcome in run.alone)
        console.print(
            f"Before there were jobs {answered} of {len(run.alone)} requests were answered; "
            f"{report.replayer_before.told()}",
            highlight=False,
            soft_wrap=True,
        )
    for device in report.devices:
        console.print(_device_line(device), highlight=False, soft_wrap=True)
        if device.memory is not None:
            console.print(_memory_line(device.name, device.memory), highlight=False, soft_wrap=True)
    console.print()
    for check in report.checks:
        console.print(Text.assemble(_mark(check), (check.name, "bold"), f": {check.evidence}"), soft_wrap=True)
    console.print(_verdict(report))


def _device_line(device: DeviceSummary) -> str:
    serving = f"{device.name}: serving {device.online_share:.0%} of the time"
    if device.riding is not None:
        return f"{serving}; {_ride_words(device.riding)}"
    return (
        f"{serving}, offline jobs {device.offline_share:.0%} ({device.harvested_of_idle:.0%} of the idle time); "
        f"{device.preemptions} preemptions, stopped in p50 {device.stop_ms_p50:.2f} ms, p99 {device.stop_ms_p99:.2f} ms"
    )


def _ride_words(riding: RideSummary) -> str:
    ridden = riding.ridden
    return (
        f"while requests were replayed jobs rode in {ridden.riding_steps} of its engine's {ridden.steps} steps "
        f"(seconds in which anything rode, by reports a second apart: {riding.share:.0%} of the time); "
        f"tokens of fine-tuning: {ridden.forward} forward in steps, {ridden.solo} outside of them, {ridden.backward} "
        f"backward; of batch rows: {ridden.rows}"
    )


def _memory_line(name: str, memory: MemorySummary) -> str:
    return (
        f"{name}: of the pool the service had up to {memory.online_max / MIB:.0f} MiB, in use up to "
        f"{memory.online_used_max / MIB:.0f}, offline jobs up to {memory.offline_max / MIB:.0f}; {memory.reclaims} "
        f"reclaims took {memory.reclaimed / MIB:.0f} MiB back for the service or new pods"
    )


def _verdict(report: Report) -> Text:
    missed, count = sum(not check.passed for check in report.checks), len(report.checks)
    if not missed:
        return Text(f"All {count} checks hold.", style="bold green")
    if report.passed:
        slow = f"{count - missed} of {count} checks hold; for the other {missed} this machine is too slow."
        return Text(slow, style="bold yellow")
    if all(check.passed or check.slow or check.busy for check in report.checks):
        busy = f"{count - missed} of {count} checks hold; for the others this machine was too busy or is too slow: "
        return Text(f"{busy}nothing is shown by that, so run it again with less beside it.", style="bold yellow")
    return Text(f"{missed} of {count} checks do not hold.", style="bold red")


def _mark(check: Check) -> Text:
    if check.passed:
        return Text(" ok   ", style="bold green")
    if check.busy:
        return Text(" BUSY ", style="bold yellow")
    if check.slow:
        return Text(" SLOW ", style="bold yellow")
    return Text(" FAIL ", style="bold red")


def _hints(mode: Mode, namespace: str) -> list[tuple[str, str]]:
    """Commands, and what each shows."""
    job = f"-n {namespace} support-lora"
    hints = [
        ("kubectl get rowen -A", "all of Rowen's objects; ojob,osvc: without the nodes"),
        (f"kubectl describe ojob {job}", "conditions, events, why it was placed where it was"),
        (f"kubectl rowen explain {job}", "the scheduler's reasons"),
        ("kubectl get nh -o yaml", "what the agents see of their devices"),
        (f"kubectl port-forward -n {namespace} service/chat 8000", "then: curl localhost:8000/v1/models"),
        ("kubectl port-forward -n rowen-agent daemonset/rowen-agent 9090", "then: curl localhost:9090/metrics"),
    ]
    if mode is Mode.CO_SERVE:
        hints += [
            (f"kubectl get ojob,osvc -n {namespace} -o wide", "the mode of jobs and of the service"),
            ("kubectl rowen top --watch", "seats of the engine, who has one, and what rides"),
            ("make demo", "in the checkout: the same jobs while the engine is idle"),
        ]
    else:
        hints.append(("make demo MODE=CoServe", "in the checkout: the same jobs inside the engine"))
    return [*hints, ("make down", "in the checkout: takes the cluster away again")]


def show_next(mode: Mode, namespace: str, folder: Path, console: Console) -> None:
    """Prints what to try next."""
    hints = "\n".join(f"  {command:<62}  {shows}" for command, shows in _hints(mode, namespace))
    console.print(
        f"""
Open {folder / "timeline.png"} for the picture; {folder / "report.json"} has every request.

What to try next, in any shell, after this line:
  {environment.line()}

{hints}""",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
