"""Questions about a world that differs from the snapshot. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from rowen.scheduler.decision import Decision, decide
from rowen.scheduler.device import DeviceView
from rowen.scheduler.history import History
from rowen.scheduler.model.mode import seatless
from rowen.scheduler.monitor.backoff import ahead
from rowen.scheduler.placement.census import build_fleet
from rowen.scheduler.placement.refused import refused
from rowen.scheduler.placement.search.choice import Page, fitting, survey, survey_page
from rowen.scheduler.placement.search.places import Places
from rowen.scheduler.placement.search.request import Candidate, Choice, Request
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobKey, JobView, NodeView, Placement, PodKey, Snapshot


@dataclass(frozen=True, slots=True)
class Prospect:
    """Where a job would go, or why nowhere."""

    choice: Choice
    refusal: str
    """As its status would say it; empty where it would be placed."""
    not_seated: str = ""
    """Of one that would be placed beside an engine: why not in one."""


def predict(snapshot: Snapshot, history: History, job: JobView, now: float, policy: Policy) -> Prospect:
    """Where a job would go if it were alone in the queue, with the factors of the first candidates."""
    places, request = _alone(snapshot, history, job, now, policy)
    settled = places.settled(request)
    if settled.choice.chosen is not None and settled.choice.chosen.rides:
        others = survey(request, places.fleet, policy).candidates
        return Prospect(Choice((settled.choice.chosen, *others)), "")
    liked = survey(places.liked(request), places.fleet, policy)
    choice = liked if liked.chosen is not None else survey(request, places.fleet, policy)
    if choice.chosen is not None:
        return Prospect(choice, "", settled.not_seated)
    why = refused(job, choice, places)
    return Prospect(choice, why + seatless(settled.not_seated, why))


def candidates(
    snapshot: Snapshot, history: History, job: JobView, now: float, policy: Policy, page: Page
) -> list[Candidate]:
    """A page of all candidates of a job, as if it were alone in the queue."""
    places, request = _alone(snapshot, history, job, now, policy)
    seat = places.seat(request).candidate
    first = [seat] if seat is not None and page.offset == 0 else []
    if seat is not None:
        page = Page(max(0, page.offset - 1), page.limit - len(first))
    liked = places.liked(request)
    held = liked if fitting(liked, places.fleet, policy) else request
    return first + survey_page(held, places.fleet, policy, page)


def _alone(snapshot: Snapshot, history: History, job: JobView, now: float, policy: Policy) -> tuple[Places, Request]:
    fleet, held = build_fleet(snapshot, history, (), now, policy)
    job, backoffs = job.within(snapshot.volumes), ahead(history.backoffs, now).get(job.uid, {})
    standing = ((snapshot.jobs[uid], placement.node) for uid, (placement, _) in held.items())
    places = Places(fleet, history, policy, standing)
    return places, places.request(job, backoffs)


def absent(snapshot: Snapshot, remove_jobs: Collection[str], remove_nodes: Collection[str]) -> list[str]:
    """What is to be removed, and is not there, each in a few words."""
    jobs = sorted(set(remove_jobs) - {job.label for job in snapshot.jobs.values()})
    nodes = sorted(set(remove_nodes) - snapshot.nodes.keys())
    return [
        *(f"removeJobs: no OfflineJob {job} that Rowen manages" for job in jobs),
        *(f"removeNodes: no node {node}" for node in nodes),
    ]


def changed(
    snapshot: Snapshot, add: Collection[JobView], remove_jobs: Collection[str], remove_nodes: Collection[str]
) -> Snapshot:
    """The snapshot with jobs added, and with jobs (`namespace/name`) and nodes gone as if they had never been.

    A job that is added stands for the one of its name: it is as old, and the other's place is free.
    """
    replaced = {*remove_jobs, *(job.label for job in add)}
    jobs = {uid: job for uid, job in snapshot.jobs.items() if job.label not in replaced}
    for uid, job in jobs.items():
        if job.placement is not None and job.placement.node in remove_nodes:
            jobs[uid] = replace(job, placement=None)
    gone = snapshot.jobs.keys() - jobs.keys()
    created = {snapshot.jobs[uid].label: snapshot.jobs[uid].created for uid in gone}
    jobs |= {job.uid: replace(job.within(snapshot.volumes), created=created.get(job.label, job.created)) for job in add}
    leaving = {(pod.namespace, pod.name): pod.memory for pod in snapshot.pods if pod.job in gone}
    nodes = {name: _without(node, leaving) for name, node in snapshot.nodes.items() if name not in remove_nodes}
    pods = tuple(pod for pod in snapshot.pods if pod.job not in gone and pod.node not in remove_nodes)
    return replace(snapshot, nodes=nodes, jobs=jobs, pods=pods)


def _without(node: NodeView, leaving: Mapping[PodKey, int]) -> NodeView:
    """The node as it would report itself without these pods, which have so many bytes of their own on each device."""
    if leaving.keys().isdisjoint(node.tenancies):
        return node

    def rest(device: DeviceView) -> DeviceView:
        gone = {(each.namespace, each.pod) for each in device.tenants} & leaving.keys()
        freed = sum(leaving[pod] for pod in gone)
        return replace(
            device,
            tenants=tuple(each for each in device.tenants if (each.namespace, each.pod) not in gone),
            available=tuple(amount + freed for amount in device.available),
        )

    return replace(node, devices=tuple(map(rest, node.devices)))


def present(snapshot: Snapshot, add: Collection[JobView], remove_nodes: Collection[str]) -> Mapping[JobKey, Placement]:
    """Where the jobs are that those which are added stand for, by the latter's key: there they stay meanwhile."""
    held = {
        job.label: job.placement
        for job in snapshot.jobs.values()
        if job.placement is not None
        and job.placement.node not in remove_nodes
        and not (job.finished or job.suspended or job.deleting)
    }
    return {job.uid: held[job.label] for job in add if job.label in held}


def what_if(snapshot: Snapshot, history: History, now: float, policy: Policy) -> Decision:
    """What one pass would decide in that world."""
    return decide(snapshot, history, now, policy)
