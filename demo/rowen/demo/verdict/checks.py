"""What the demo must have shown. Each check is a pure function of evidence; none passes without evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from rowen.crds.job.offline_job_status import CO_SERVE
from rowen.demo.traffic.replay import Outcome
from rowen.demo.verdict.before import Before
from rowen.demo.verdict.blame import blame
from rowen.demo.verdict.finding import Cause, Finding
from rowen.demo.verdict.lateness import Lateness
from rowen.demo.verdict.memory import MIB, MemorySummary
from rowen.demo.verdict.objective import Target
from rowen.demo.verdict.riding import Ridden
from rowen.demo.verdict.sample import Sample
from rowen.demo.verdict.statistics import percentile


@dataclass(frozen=True)
class Check:
    """A claim, whether it holds, and what it rests on."""

    name: str
    passed: bool
    evidence: str
    cause: Cause | None = None
    """Whose fault it is; of a missed objective only."""

    @property
    def slow(self) -> bool:
        """Whether it does not hold since the machine is too slow for the service alone."""
        return not self.passed and self.cause is Cause.SERVICE

    @property
    def busy(self) -> bool:
        """Whether it could not be judged since the machine was too busy."""
        return not self.passed and self.cause in (Cause.REPLAYER, Cause.BUSY)


_VERDICTS = {
    Cause.SERVICE: "The service alone; this machine is too slow for the objective at this load",
    Cause.TENANT: "Offline work",
    Cause.REPLAYER: "The replayer; this machine is too busy to measure on",
    Cause.UNKNOWN: "Whose fault is not known",
    Cause.BUSY: "Whose fault is not known, since this machine was too busy to measure on",
}


@dataclass(frozen=True)
class Readiness:
    """What was seen of the service while it was watched."""

    observations: int
    """How often it was looked at."""
    seconds: float
    """For how long."""
    lapses: tuple[str, ...]
    """Each time it was not Ready, was restarted or replaced."""


@dataclass(frozen=True)
class JobResult:
    """How a job stood at the end."""

    name: str
    finished: bool
    """Whether it ended, well or not."""
    succeeded: bool
    state: str
    message: str
    completed: int
    total: int


class PodEvidence(BaseModel):
    """What a pod with the volumes and vLLM found (`rowen.demo.evidence`)."""

    model_config = ConfigDict(frozen=True)

    adapter_error: str | None = None
    adapter_tokens: int = 0
    """Tokens that vLLM wrote with the adapter."""
    adapter_differs: bool = False
    """Whether its answers differ from the base model's."""
    base_loss: float | None = None
    """Held-out loss of the base model."""
    adapter_loss: float | None = None
    """Held-out loss with the adapter."""
    input_rows: int = 0
    output_rows: int = 0
    missing: int = 0
    """Rows of the input without a result."""
    doubled: int = 0
    """Results beyond the first of a row."""
    unknown: int = 0
    """Results of no row, or unreadable."""
    failed_rows: int = 0
    """Results that are errors."""


def service_ready(readiness: Readiness) -> Check:
    """The service was Ready throughout."""
    passed = readiness.observations > 1 and not readiness.lapses
    evidence = f"looked at {readiness.observations} times in {readiness.seconds:.0f} s; "
    evidence += "; ".join(readiness.lapses[:3]) if readiness.lapses else "Ready each time, same pods, no restart"
    return Check("service Ready throughout", passed, evidence)


def requests_answered(outcomes: Sequence[Outcome], expected: int) -> Check:
    """Every request of the replay was answered in full."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    evidence = f"{len(outcomes) - len(errors)} of {expected} requests answered in full"
    if errors:
        evidence += f"; first error: {errors[0]}"
    return Check("every request answered", expected > 0 and len(outcomes) == expected and not errors, evidence)


def objective_kept(
    latency: str,
    samples: Sequence[Sample],
    target: Target,
    doubt: str,
    replayer: Lateness,
    before: Before | None = None,
) -> Check:
    """The service kept its objective. Where not, whose fault that is.

    Args:
        latency: Name of the latency, for people.
        samples: It of all requests that were answered.
        target: The objective.
        doubt: Why the samples do not tell who is to blame; empty where they do.
        replayer: How late it was itself.
        before: The same requests before there were jobs, where they were sent then.
    """
    name = f"{latency} within the objective"
    if not samples:
        return Check(name, False, "no request has one")
    value = percentile([sample.seconds for sample in samples], target.percentile)
    evidence = (
        f"p{target.percentile} of {len(samples)} requests is {value * 1000:.1f} ms, the objective "
        f"{target.seconds * 1000:g} ms"
    )
    if value <= target.seconds:
        return Check(name, True, evidence)
    found = blame(samples, target, doubt, before)
    if found.cause is Cause.UNKNOWN and replayer.busy:
        found = Finding(Cause.BUSY, f"{replayer.told()}; {found.because}")
    return Check(name, False, f"{evidence}. {_VERDICTS[found.cause]}: {found.because}", found.cause)


def job_finished(job: JobResult) -> Check:
    """A job ended well."""
    evidence = f"{job.name}: {job.state}, {job.completed} of {job.total}. {job.message}".strip()
    return Check(f"{job.name} finished", job.finished and job.succeeded, evidence)


def adapter_loads(found: PodEvidence) -> Check:
    """The adapter loads in vLLM, which answers with it."""
    if found.adapter_error is not None:
        return Check("adapter loads in vLLM", False, found.adapter_error)
    differs = "differ from" if found.adapter_differs else "equal"
    evidence = f"{found.adapter_tokens} tokens written with it; answers {differs} the base model's"
    return Check("adapter loads in vLLM", found.adapter_tokens > 0, evidence)


def loss_is_lower(found: PodEvidence) -> Check:
    """The adapter's held-out loss is below the base model's."""
    name = "held-out loss lower than the base model's"
    if found.base_loss is None or found.adapter_loss is None:
        return Check(name, False, "the tuner left no held-out losses")
    evidence = f"{found.base_loss:.4f} before, {found.adapter_loss:.4f} after"
    return Check(name, found.adapter_loss < found.base_loss, evidence)


def rows_exactly_once(found: PodEvidence) -> Check:
    """Every row of the batch has exactly one result."""
    evidence = (
        f"{found.input_rows} rows, {found.output_rows} results: {found.missing} missing, {found.doubled} doubled, "
        f"{found.unknown} unknown, {found.failed_rows} errors"
    )
    whole = found.input_rows > 0 and found.output_rows == found.input_rows
    passed = whole and not (found.missing or found.doubled or found.unknown or found.failed_rows)
    return Check("batch output has every row exactly once", passed, evidence)


def preempted(preemptions: int, latencies_ms: tuple[float, float]) -> Check:
    """Offline work was preempted during the replay."""
    p50, p99 = latencies_ms
    evidence = f"{preemptions} preemptions of running offline work; stopped within p50 {p50:.2f} ms, p99 {p99:.2f} ms"
    return Check("preemptions happened", preemptions > 0, evidence)


def at_most_one_each(per_request: Sequence[int]) -> Check:
    """No request met more than one preemption. `per_request` holds the count of each request."""
    name = "no request met more than one preemption"
    if not per_request:
        return Check(name, False, "the agent recorded no request")
    met = sum(1 for count in per_request if count == 1)
    evidence = f"{len(per_request)} requests: {met} preempted offline work once, the most of any is {max(per_request)}"
    return Check(name, max(per_request) <= 1, evidence)


def memory_changed_owner(devices: Sequence[MemorySummary | None]) -> Check:
    """Offline work had memory of a pool, and some of it was taken back. `devices` are those of the service."""
    name = "memory changed its owner"
    known = [device for device in devices if device is not None]
    if not known:
        return Check(name, False, "no agent tells whose its device's memory is")
    lent, moved = max(device.offline_max for device in known), sum(device.reclaimed for device in known)
    reclaims = sum(device.reclaims for device in known)
    evidence = (
        f"offline jobs had up to {lent / MIB:.0f} MiB of the pool; {moved / MIB:.0f} MiB were taken back from them for "
        f"the service or new pods, in {reclaims} reclaims"
    )
    return Check(name, lent > 0 and moved > 0, evidence)


def rode_in_engine(modes: Mapping[str, Mapping[str, int]], ridden: Ridden) -> Check:
    """The engine computed all jobs, a fine-tuning one and a batch among them, and none ran beside it.

    Args:
        modes: By job, how often it was seen with a place in each mode.
        ridden: What the service's engines worked through for riders meanwhile.
    """
    seen = "; ".join(f"{job}: {_looks(of)}" for job, of in modes.items())
    evidence = (
        f"{seen}; while jobs were watched the engine worked through {ridden.tuned} tokens of fine-tuning forward, "
        f"{ridden.forward} of them in its steps, {ridden.backward} backward, and {ridden.rows} tokens of batch rows"
    )
    placed = bool(modes) and all(set(of) == {CO_SERVE} for of in modes.values())
    worked = ridden.tuned > 0 and ridden.backward > 0 and ridden.rows > 0
    return Check("all jobs rode in the engine", placed and worked, evidence)


def _looks(modes: Mapping[str, int]) -> str:
    return ", ".join(f"{mode} at {count} looks" for mode, count in sorted(modes.items())) or "never seen with a place"
