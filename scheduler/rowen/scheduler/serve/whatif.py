"""Questions about a world that differs from the snapshot. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from rowen.scheduler.decision import Decision, decide
from rowen.scheduler.history import History
from rowen.scheduler.monitor.backoff import ahead
from rowen.scheduler.placement.census import build_fleet
from rowen.scheduler.placement.refused import refused
from rowen.scheduler.placement.search.choice import Page, fitting, survey, survey_page
from rowen.scheduler.placement.search.places import Places
from rowen.scheduler.placement.search.request import Candidate, Choice, Request
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, Snapshot


@dataclass(frozen=True, slots=True)
class Prospect:
    """Where a job would go, or why nowhere."""

    choice: Choice
    refusal: str
    """As its status would say it; empty where it would be placed."""


def predict(snapshot: Snapshot, history: History, job: JobView, now: float, policy: Policy) -> Prospect:
    """Where a job would go if it were alone in the queue, with the factors of the first candidates."""
    places, request = _alone(snapshot, history, job, now, policy)
    liked = survey(places.liked(request), places.fleet, policy)
    choice = liked if liked.chosen is not None else survey(request, places.fleet, policy)
    return Prospect(choice, refused(job, choice, places.fleet) if choice.chosen is None else "")


def candidates(
    snapshot: Snapshot, history: History, job: JobView, now: float, policy: Policy, page: Page
) -> list[Candidate]:
    """A page of all candidates of a job, as if it were alone in the queue."""
    places, request = _alone(snapshot, history, job, now, policy)
    liked = places.liked(request)
    held = liked if fitting(liked, places.fleet, policy) else request
    return survey_page(held, places.fleet, policy, page)


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

    A job that is added stands for the one of its name.
    """
    replaced = {*remove_jobs, *(job.label for job in add)}
    jobs = {uid: job for uid, job in snapshot.jobs.items() if job.label not in replaced}
    for uid, job in jobs.items():
        if job.placement is not None and job.placement.node in remove_nodes:
            jobs[uid] = replace(job, placement=None)
    gone = snapshot.jobs.keys() - jobs.keys()
    jobs |= {job.uid: job.within(snapshot.volumes) for job in add}
    pods = tuple(pod for pod in snapshot.pods if pod.job not in gone and pod.node not in remove_nodes)
    nodes = {name: node for name, node in snapshot.nodes.items() if name not in remove_nodes}
    return replace(snapshot, nodes=nodes, jobs=jobs, pods=pods)


def what_if(snapshot: Snapshot, history: History, now: float, policy: Policy) -> Decision:
    """What one pass would decide in that world."""
    return decide(snapshot, history, now, policy)
