"""Pairs of an online load and an offline job: what is replayed against which model, beside which worker."""

from dataclasses import dataclass, replace

from traffic.traffic import TRACES

from rowen.demo.traffic.excerpt import EXCERPT, load
from rowen.demo.traffic.scaling import DEMO, Request, Scaling, scale

STARTS = {"bursty": (5.0, 61.0, 149.0), "pauses": (14.0, 80.0, 104.0), "steady": (200.0, 500.0, 600.0)}
"""Load shape → where its stretches begin, in seconds: bursts, bursts with pauses, and steady chat."""
_STEADY = replace(DEMO, keep=0.17, prompt_factor=1 / 32, output_max=16)
_KEEP_FACTOR = {"large": 1.0, "small": 2.0}
"""A smaller model gets more of the requests."""


@dataclass(frozen=True)
class Pair:
    """One of them."""

    load: str
    """Of `STARTS`."""
    size: str
    """Of the model, of `colocation.SIZES`."""
    job: str
    """Kind of the offline job, of `colocation.JOBS`."""

    @property
    def name(self) -> str:
        """In figures."""
        return f"{self.load}_{self.size}_{self.job}"

    def requests(self, start: float, seconds: float) -> list[Request]:
        """Of a stretch of its trace."""
        rows = load(TRACES["conv"] if self.load == "steady" else EXCERPT)
        return scale(rows, self._rules(), start=start, seconds=seconds)

    def _rules(self) -> Scaling:
        rules = _STEADY if self.load == "steady" else DEMO
        return replace(rules, keep=min(1.0, rules.keep * _KEEP_FACTOR[self.size]))


# By size and job, since servers and tenants are started anew for each of these.
PAIRS = (
    *(Pair(shape, "large", job) for job in ("tuner", "batch") for shape in STARTS),
    *(Pair(shape, "small", job) for job in ("tuner", "batch") for shape in ("bursty", "steady")),
)
