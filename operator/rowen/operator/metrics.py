"""The operator's Prometheus metrics."""

from collections.abc import Mapping

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from rowen.crds.service.online_service import HarvestLevel

_LEVELS: dict[HarvestLevel, int] = {"Full": 0, "Reduced": 1, "Stopped": 2}


class Metrics:
    """Counters and gauges of one operator."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self.reconciles = Counter("rowen_reconciles_total", "Reconciliations", ["kind", "result"], registry=registry)
        self.seconds = Histogram(
            "rowen_reconcile_seconds",
            "Time of one reconciliation",
            ["kind"],
            buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
            registry=registry,
        )
        self.event_age = Gauge(
            "rowen_last_event_age_seconds", "Time since the watch last delivered an event", registry=registry
        )
        self.leading = Gauge("rowen_leading", "1 while it works, 0 while it stands by", registry=registry)
        self.objects = Gauge("rowen_objects", "Objects by kind and state", ["kind", "state"], registry=registry)
        self.placed = Gauge(
            "rowen_placed_jobs", "Jobs that have a place, by mode and state", ["mode", "state"], registry=registry
        )
        self.guard = Gauge(
            "rowen_harvest_guard_level",
            "What the SLO guard keeps from a service: 0 nothing, 1 more than one job on a device, 2 all harvesting",
            ["namespace", "service"],
            registry=registry,
        )
        self.service = Gauge(
            "rowen_service_info",
            "1 for each service, with the mode in which it is harvested",
            ["namespace", "service", "mode"],
            registry=registry,
        )
        self._states: dict[str, set[str]] = {}
        self._placed: set[tuple[str, str]] = set()
        self._guarded: set[tuple[str, str]] = set()
        self._services: set[tuple[str, str, str]] = set()

    def count_objects(self, kind: str, states: dict[str, int]) -> None:
        """Publishes how many objects of a kind are in each state; a state that is gone disappears."""
        for state in self._states.get(kind, set()) - states.keys():
            self.objects.remove(kind, state)
        self._states[kind] = set(states)
        for state, number in states.items():
            self.objects.labels(kind, state).set(number)

    def placed_jobs(self, jobs: Mapping[tuple[str, str], int]) -> None:
        """Publishes how many jobs have a place, by mode and state; what no job is in any more disappears."""
        for each in self._placed - jobs.keys():
            self.placed.remove(*each)
        self._placed = set(jobs)
        for each, number in jobs.items():
            self.placed.labels(*each).set(number)

    def guard_levels(self, levels: Mapping[tuple[str, str], HarvestLevel]) -> None:
        """Publishes the level of every service, by namespace and name; one that is gone disappears."""
        for service in self._guarded - levels.keys():
            self.guard.remove(*service)
        self._guarded = set(levels)
        for service, level in levels.items():
            self.guard.labels(*service).set(_LEVELS[level])

    def services(self, services: set[tuple[str, str, str]]) -> None:
        """Publishes every service, by namespace, name and mode; one that is gone, or in another mode, disappears."""
        for service in self._services - services:
            self.service.remove(*service)
        self._services = services
        for service in services:
            self.service.labels(*service).set(1)
