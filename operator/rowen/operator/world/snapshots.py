"""Snapshots for the policies, taken from the store, and who is concerned by a change."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog
from pydantic import ValidationError

from rowen.crds.harvest.node_harvest import OnlineTenant
from rowen.crds.names import JOB_UID_LABEL, SERVICE_LABEL
from rowen.kube.heartbeat import Beat
from rowen.operator.decision import Refusal, Trial
from rowen.operator.jobs.snapshot import JobSnapshot, job_snapshot
from rowen.operator.jobs.start import waited
from rowen.operator.jobs.start_wait import StartWait
from rowen.operator.pods.owners import controller_of
from rowen.operator.pods.view import pod_view
from rowen.operator.services.adoption import may_own
from rowen.operator.services.snapshot import ServiceSnapshot, service_snapshot
from rowen.operator.world.engines import engine_address
from rowen.operator.world.listening import Listening, extended
from rowen.operator.world.reports import Report, Sign, noticed, read_report, service_devices
from rowen.operator.world.store import Key, Store

Manifest = Mapping[str, Any]
_KEPT_SECONDS = 600.0
"""How long a node's last heartbeat is remembered that may have been deleted by hand."""
_log = structlog.get_logger()


@dataclass(frozen=True)
class _Seen:
    version: str
    sign: Sign
    report: Report


class World:
    """Reads the store as the policies need it, and remembers what only time tells.

    `most_gap_seconds` is the longest time without a sign of the API server in which a report would still be heard.
    """

    def __init__(
        self,
        store: Store,
        runtime_image: str,
        start_deadline_seconds: float,
        most_gap_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._runtime_image = runtime_image
        self._start_deadline_seconds = start_deadline_seconds
        self._most_gap_seconds = most_gap_seconds
        self._clock = clock
        self._reports: dict[str, _Seen] = {}
        self._beats: dict[str, Sign] = {}
        self._waits: dict[Key, tuple[str, StartWait]] = {}
        self._trials: dict[Key, tuple[str, Trial]] = {}
        self._listening: Listening | None = None
        self._listened_seconds = 0.0

    def heard_event(self) -> None:
        """The watch has delivered something."""
        if self._listening:
            self._listening = extended(self._listening, self._clock(), self._most_gap_seconds)

    def heard_listing(self) -> None:
        """Everything was listed; listening begins with that."""
        now = self._clock()
        before = self._listening or Listening(now, now, self._listened_seconds)
        self._listening = extended(before, now, self._most_gap_seconds)

    def heard_nothing(self) -> None:
        """A listing has failed: what changes meanwhile may be missed, until the next one."""
        self._listened_seconds = self._heard_seconds()
        self._listening = None

    def heard_beat(self, beat: Beat) -> None:
        """A node has given a heartbeat, or its last one was seen first."""
        self._beats[beat.node] = noticed(self._beats.get(beat.node), beat.renewed, self._clock())

    def job(self, key: Key, now: float, refusal: Refusal | None = None) -> JobSnapshot | None:
        """The job's snapshot; None where it is gone. Raises `pydantic.ValidationError`."""
        job = self._store.get(key)
        if job is None:
            return None
        uid = job["metadata"]["uid"]
        pods = tuple(pod_view(pod) for pod in self._store.group("Pod", uid) if _controls(pod, uid))
        assignment = (job.get("status") or {}).get("assignment") or {}
        nodes = {pod.node for pod in pods if pod.node} | {assignment.get("node")}
        reports = {node: report for node in nodes if node and (report := self.report(node))}
        snapshot = job_snapshot(job, pods, reports, self._runtime_image, self._start_deadline_seconds, refusal)
        snapshot = replace(snapshot, engine=engine_address(self._store, snapshot, now))
        return replace(
            snapshot, wait=self._wait(key, snapshot, now), listening=self._listening, trial=self._trial(key, snapshot)
        )

    def _trial(self, key: Key, snapshot: JobSnapshot) -> Trial | None:
        """That of a new job; the first status tells of it."""
        uid, trial = self._trials.get(key, (snapshot.uid, None))
        if uid != snapshot.uid or snapshot.status.observed_generation is not None:
            self._trials.pop(key, None)
            return None
        return trial

    def tried(self, key: Key, uid: str, trial: Trial) -> None:
        """Remembers what the API server said to a dry run of the new job's pod, until its status tells."""
        self._trials[key] = (uid, trial)

    def _wait(self, key: Key, snapshot: JobSnapshot, now: float) -> StartWait | None:
        """The wait of that very job: one of the same name that was there before has nothing to do with it."""
        uid, before = self._waits.pop(key, (snapshot.uid, None))
        wait = waited(snapshot, before if uid == snapshot.uid else None, now, self._heard_seconds())
        if wait:
            self._waits[key] = (snapshot.uid, wait)
        return wait

    def _heard_seconds(self) -> float:
        return self._listening.seconds if self._listening else self._listened_seconds

    def forget(self) -> None:
        """Drops what is remembered of jobs that are gone, and of nodes that have long been silent."""
        self._waits = {key: wait for key, wait in self._waits.items() if self._store.get(key)}
        self._trials = {key: trial for key, trial in self._trials.items() if self._store.get(key)}
        since = self._clock() - _KEPT_SECONDS
        self._beats = {node: sign for node, sign in self._beats.items() if sign.heard >= since}

    def service(self, key: Key, now: float, refusal: Refusal | None = None) -> ServiceSnapshot | None:
        """The service's snapshot; None where it is gone. Raises `pydantic.ValidationError`."""
        service = self._store.get(key)
        if service is None:
            return None
        reference = service["spec"].get("workloadRef")
        pods = [pod_view(pod) for pod in self._store.group("Pod", f"{key.namespace}/{key.name}")]
        # The pods of an adopted workload are not watched.
        held = None if reference else {(pod.node, pod.name) for pod in pods}
        devices = [
            device
            for report in self._fresh_reports(key, now)
            for device in service_devices(report, key.namespace, key.name, held)
        ]
        return service_snapshot(
            service,
            workload=self.workload(key),
            cluster_service=self._store.get(Key("Service", key.namespace, key.name)),
            pods=pods,
            devices=devices,
            runtime_image=self._runtime_image,
            refusal=refusal,
        )

    def workload(self, service: Key) -> Manifest | None:
        """The workload that a service has adopted, or else the Deployment of its name; None where it is not there."""
        reference = (self._store.get(service) or {"spec": {}})["spec"].get("workloadRef")
        kind, name = (reference["kind"], reference["name"]) if reference else ("Deployment", service.name)
        return self._store.get(Key(kind, service.namespace, name))

    def strangers(self, service: Key, now: float) -> list[Key]:
        """Pods that nodes report as engines of no service that there is, and that may be the adopted workload's."""
        found = self._store.get(service) if service.kind == "OnlineService" else None
        reference = found["spec"].get("workloadRef") if found else None
        if reference is None:
            return []
        pods = [
            Key("Pod", service.namespace, online.pod.name)
            for online in self._engines(service.namespace, now)
            if not self.has_service(online.pod.namespace, online.service)
            and may_own(reference["kind"], reference["name"], online.pod.name)
        ]
        # An engine on several devices is reported with each.
        return list(dict.fromkeys(pods))

    def _engines(self, namespace: str, now: float) -> Iterator[OnlineTenant]:
        for harvest in self._store.group("NodeHarvest", f"{namespace}/"):
            report = self.report(harvest["metadata"]["name"])
            for device in report.devices if report and report.fresh(now) else ():
                if device.online and device.online.pod.namespace == namespace:
                    yield device.online

    def has_service(self, namespace: str, name: str | None) -> bool:
        """Whether there is an OnlineService of that name."""
        return self._store.get(Key("OnlineService", namespace, name or "")) is not None

    def report(self, node: str) -> Report | None:
        """The node's report, with its last sign of life; None where neither is there."""
        read, beat = self._read(node), self._beats.get(node)
        if beat is None:
            return read
        # An agent of the release before sends no heartbeats, and may have taken the place of one that did.
        return (read or Report(node, None)).also(beat)

    def _read(self, node: str) -> Report | None:
        """The node's report, with the last sign of life that it is itself."""
        manifest = self._store.get(Key("NodeHarvest", "", node))
        if manifest is None:
            self._reports.pop(node, None)
            return None
        version = manifest["metadata"]["resourceVersion"]
        known = self._reports.get(node)
        if known and known.version == version:
            return known.report
        try:
            read = read_report(manifest)
            sign = noticed(known.sign if known else None, read.time, self._clock())
        except ValidationError as error:
            # It may be a newer agent's. That it changes is a sign of life all the same.
            _log.warning("report.unreadable", node=node, error=str(error))
            read, sign = Report(node, None), Sign(None, None, self._clock())
        report = replace(read, time=sign.time, heard=sign.heard)
        self._reports[node] = _Seen(version, sign, report)
        return report

    def concerned(self, kind: str, manifest: Manifest) -> Iterator[Key]:
        """The jobs and services whose decision may change with this object."""
        metadata = manifest["metadata"]
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        if kind in ("OfflineJob", "OnlineService"):
            yield Key(kind, namespace, name)
        elif kind == "NodeHarvest":
            yield from self._concerned_by_report(name)
        else:
            owner = controller_of(manifest)
            if owner and owner[0] in ("OfflineJob", "OnlineService"):
                yield Key(owner[0], namespace, owner[1])
            service = (metadata.get("labels") or {}).get(SERVICE_LABEL)
            if service:
                yield Key("OnlineService", namespace, service)
            if kind in ("Deployment", "StatefulSet"):
                yield from self._adopters(kind, namespace, name)

    def _concerned_by_report(self, node: str) -> Iterator[Key]:
        report = self.report(node)
        for device in report.devices if report else ():
            if device.online and self.has_service(device.online.pod.namespace, device.online.service):
                yield Key("OnlineService", device.online.pod.namespace, str(device.online.service))
            elif device.online:
                yield from self._adopting(device.online.pod.namespace)
            for tenant in device.tenants:
                if tenant.job:
                    yield Key("OfflineJob", tenant.pod.namespace, tenant.job)

    def _adopters(self, kind: str, namespace: str, name: str) -> Iterator[Key]:
        for key in self._adopting(namespace):
            reference = (self._store.get(key) or {})["spec"]["workloadRef"]
            if (reference["kind"], reference["name"]) == (kind, name):
                yield key

    def _adopting(self, namespace: str) -> Iterator[Key]:
        """Services of a namespace that have adopted a workload."""
        for service in self._store.group("OnlineService", namespace):
            yield Key("OnlineService", namespace, service["metadata"]["name"])

    def _fresh_reports(self, service: Key, now: float) -> Iterator[Report]:
        """Of the nodes that name the service: all nodes for each service would be nodes × services."""
        for harvest in self._store.group("NodeHarvest", f"{service.namespace}/{service.name}"):
            report = self.report(harvest["metadata"]["name"])
            if report and report.fresh(now):
                yield report


def groups(kind: str, manifest: Manifest) -> frozenset[str]:
    """What a pod belongs to: its job's uid, or namespace/name of its service. Of a report, the services on its node.

    Of a service that has adopted a workload, its namespace.
    """
    if kind == "NodeHarvest":
        return frozenset(_services(manifest))
    if kind == "OnlineService" and (manifest.get("spec") or {}).get("workloadRef"):
        return frozenset((manifest["metadata"]["namespace"],))
    if kind != "Pod":
        return frozenset()
    labels = manifest["metadata"].get("labels") or {}
    if JOB_UID_LABEL in labels:
        return frozenset((str(labels[JOB_UID_LABEL]),))
    if SERVICE_LABEL in labels:
        return frozenset((f"{manifest['metadata']['namespace']}/{labels[SERVICE_LABEL]}",))
    return frozenset()


def _services(harvest: Manifest) -> Iterator[str]:
    """Namespace/name of the services that a report names, and `namespace/` of all engines."""
    for device in (harvest.get("status") or {}).get("devices") or ():
        online = device.get("online") or {}
        namespace, service = str(online.get("pod") or "").partition("/")[0], online.get("service")
        if namespace:
            yield f"{namespace}/"
        if namespace and service:
            yield f"{namespace}/{service}"


def _controls(pod: Manifest, uid: str) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner[2] == uid
