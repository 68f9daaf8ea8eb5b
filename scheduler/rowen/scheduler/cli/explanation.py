"""Why a job is where it is, on a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from rowen.crds.common import is_true
from rowen.crds.job.offline_job_status import CandidateExplanation, OfflineJobStatus, Throughput
from rowen.scheduler.cli.tables import table
from rowen.scheduler.model.mode import mode_told, seatless


def show(
    job: str,
    status: OfflineJobStatus,
    console: Console,
    candidates: Sequence[CandidateExplanation] | None = None,
    alone: str | None = None,
) -> None:
    """Prints conditions, throughput, the candidates' factors, and what decided each of them.

    `candidates` stand in for the one that the status names; `alone` says why Rowen does not look at the job.
    """

    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    finished = is_true(status.conditions, "Finished")
    for condition in status.conditions:
        told = ": ".join(filter(None, (condition.reason, condition.message)))
        say(f"{condition.type:<10} {condition.status:<8} {told}")
    if status.throughput is not None:
        say(_throughput_told(status.throughput, finished=finished))
    if alone is not None:
        say(f"{job}: {alone}")
        return
    if status.explanation is None:
        missed = "it ended before the scheduler looked at it"
        say(f"{job}: {missed if finished else 'the scheduler has not looked at it yet'}")
        return
    if finished:
        say("Where the scheduler placed it last:")
    elif status.assignment is not None:
        say("As it was predicted when it was placed:")
    say(status.explanation.message)
    show_candidates(status.explanation.candidates if candidates is None else candidates, console)


def _throughput_told(found: Throughput, *, finished: bool) -> str:
    figures = {
        "alone on a device": found.solo_tokens_per_second,
        "predicted now": None if finished else found.predicted_tokens_per_second,
        "measured": found.measured_tokens_per_second,
    }
    told = ", ".join(f"{value:g} {name}" for name, value in figures.items() if value is not None) or "not known yet"
    part = "" if found.measured_fraction is None else f" ({found.measured_fraction:.2f} of that alone)"
    return f"tokens per second: {told}{part}"


def show_candidates(candidates: Sequence[CandidateExplanation], console: Console) -> None:
    """Prints their factors, and what decided each of them."""
    lines = _factors(candidates) if candidates else []
    for line in (*lines, *(f"{_name(candidate)}: {candidate.reason}" for candidate in candidates)):
        console.print(line, markup=False, soft_wrap=True)


def show_answer(answer: Mapping[str, Any], added: int, console: Console) -> None:
    """Prints where the jobs that were added would go, or why not."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    for job in answer["jobs"][:added]:
        subject, present = f"{job['namespace']}/{job['name']}", job.get("present")
        if present:
            say(f"{subject} is on {_place(present)} and stays there")
            subject = "a new one in its stead"
        if job["action"] != "place":
            say(f"{subject} would not be placed: {job['message']}")
        else:
            why = seatless(job.get("notSeated") or "")
            say(f"{subject} would go to {_place(job)}{mode_told(job.get('mode'))}: {_throughput(job)}{why}")
        show_candidates([CandidateExplanation.from_wire(entry) for entry in job.get("candidates", ())], console)


def _place(of: Mapping[str, Any]) -> str:
    return f"{of['node']}/{'+'.join(of['devices'])}"


def _throughput(job: Mapping[str, Any]) -> str:
    told = f"predicted {job['predictedFraction']:.2f} of its throughput alone"
    rate = job.get("predictedTokensPerSecond")
    return told + (f", {rate:g} tokens per second" if rate is not None else "; tokens per second are not known yet")


def _name(candidate: CandidateExplanation) -> str:
    return f"{candidate.node}/{'+'.join(candidate.devices)}"


def _factors(candidates: Sequence[CandidateExplanation]) -> list[str]:
    rows = []
    for candidate in candidates:
        factors = (
            candidate.idle, candidate.memory, candidate.alignment, candidate.sharing, candidate.predicted_fraction
        )  # fmt: skip
        mode = candidate.mode or "Preempt"
        rows.append(("*" if candidate.chosen else "", _name(candidate), mode, *(f"{factor:.2f}" for factor in factors)))
    return table(("", "CANDIDATE", "MODE", "IDLE", "MEMORY", "ALIGN", "SHARING", "PREDICTED"), rows)
