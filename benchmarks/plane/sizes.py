"""How large a run is."""

from dataclasses import dataclass

from rowen.crds.names import NODE_LEASE_SECONDS

PROBES = 5
"""Jobs that are made when the API server is back, to see when they run."""


@dataclass(frozen=True)
class Sizes:
    """Times in seconds."""

    nodes: int
    jobs: int
    """Of them `held` run all along, and the others for some seconds."""
    steady: int
    """Held jobs that are made one after the other, for the time that a decision takes."""
    idle_seconds: float
    outage_seconds: float
    """Longer than a node's lease, so that a wrong withdrawal would show."""
    settle_seconds: float = 2.5 * NODE_LEASE_SECONDS
    """After the outage, in which one would show as well: two lives of a node's lease and more."""
    steady_per_second: float = 5.0
    place_limit_seconds: float = 900.0
    finish_limit_seconds: float = 2400.0
    """Of the burst's jobs, from the last one's assignment."""
    other_limit_seconds: float = 240.0
    """Of everything else that is waited for."""

    @property
    def held(self) -> int:
        """Jobs that are there when the parts are started again: a thousand, or half of all."""
        return min(1000, self.jobs // 2)


def sizes(nodes: int | None, jobs: int | None, *, quick: bool) -> Sizes:
    """Those of a full or a quick run, with another number of nodes or jobs. Raises `ValueError`."""
    whole = Sizes(50, 200, 40, 15.0, 40.0) if quick else Sizes(1000, 10_000, 300, 30.0, 60.0)
    nodes, jobs = nodes or whole.nodes, jobs or whole.jobs
    if nodes < 1 or jobs < 2:
        raise ValueError("at least one node and two jobs")
    steady = min(whole.steady, jobs // 2)
    return Sizes(nodes, jobs, steady, whole.idle_seconds, whole.outage_seconds)
