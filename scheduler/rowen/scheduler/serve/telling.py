"""From decisions to answers, for one caller. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from rowen.scheduler.decision import Outcome
from rowen.scheduler.history import History
from rowen.scheduler.model.mode import seatless
from rowen.scheduler.model.rider import ride_class
from rowen.scheduler.placement.search.choice import Page
from rowen.scheduler.placement.search.request import Candidate
from rowen.scheduler.serve.explanation import entries
from rowen.scheduler.serve.messages import (
    MOST_TOLD,
    CandidateReply,
    ExplainReply,
    ExplanationReply,
    JobReply,
    PlaceReply,
    PredictionReply,
    WhatIfReply,
)
from rowen.scheduler.serve.sight import Sight, labels_of, neighbours
from rowen.scheduler.serve.whatif import Prospect
from rowen.scheduler.snapshot import JobKey, JobView, Placement, Snapshot


class Teller:
    """Answers from one snapshot, with the eyes of one caller."""

    def __init__(self, snapshot: Snapshot, history: History, sight: Sight) -> None:
        self._snapshot, self._history, self._sight = snapshot, history, sight
        self._labels = labels_of(snapshot) if sight.namespaces is not None else frozenset[str]()

    def prediction(self, prospect: Prospect, job: JobView) -> PredictionReply:
        """Where the job would go, or why nowhere."""
        choice, best = prospect.choice, prospect.choice.chosen
        if best is not None:
            message = (
                f"would be placed on {best.place}: predicted {best.prediction.fraction:.2f} of its throughput alone"
                f"{self._words(seatless(prospect.not_seated))}"
            )
        else:
            message = self._words(prospect.refusal)
        rates = [profile.tokens_per_second for key, profile in self._history.profiles.items() if key[0] == job.workload]
        return PredictionReply(
            fits=best is not None,
            solo_tokens_per_second=max(rates, default=None),
            explanation=ExplanationReply(message=message, candidates=self._candidates(choice.candidates)),
        )

    def decision(self, outcomes: Iterable[Outcome], added: Mapping[JobKey, Placement | None]) -> WhatIfReply:
        """What one pass would decide: the jobs that were added first, the others of other namespaces as counts.

        `added`: where the job is that one stands for; None where there is no such job, or it has no place.
        """
        seen: list[Outcome] = []
        others: Counter[str] = Counter()
        for outcome in outcomes:
            if self._sight.sees(outcome.job.namespace):
                seen.append(outcome)
            else:
                others[outcome.action.value] += 1
        seen.sort(key=lambda outcome: outcome.job.uid not in added)
        told = [
            self._added(outcome, added[outcome.job.uid]) if outcome.job.uid in added else self._job(outcome)
            for outcome in seen[:MOST_TOLD]
        ]
        return WhatIfReply(jobs=told, left_off=len(seen) - len(told), others=dict(sorted(others.items())))

    def job(self, job: JobView, page: Page, look: Callable[[Page], Iterable[Candidate]]) -> ExplainReply:
        """What its status says; of one that waits `look` tells a page of candidates as of now."""
        status = job.status
        conditions = [condition.to_wire() for condition in status.conditions]
        for condition in conditions:
            condition["message"] = self._words(condition.get("message", ""))
        explanation = None
        if status.explanation is not None:
            held = job.finished or job.suspended or job.deleting or job.unreadable
            waits = job.placement is None and not held
            told = (
                self._candidates(look(page))
                if waits
                else [
                    CandidateReply(**(dict(one) | {"reason": self._words(one.reason)}))
                    for one in status.explanation.candidates[page.offset : page.end]
                ]
            )
            explanation = ExplanationReply(message=self._words(status.explanation.message), candidates=told)
        return ExplainReply(
            namespace=job.namespace,
            name=job.name,
            conditions=conditions,
            assignment=status.assignment,
            throughput=status.throughput,
            explanation=explanation,
        )

    def _words(self, text: str) -> str:
        return self._sight.words(text, self._labels)

    def _candidates(self, candidates: Iterable[Candidate], *, chosen: bool = False) -> list[CandidateReply]:
        replies = []
        for told in entries(candidates, self._words, chosen=chosen):
            beside = neighbours(self._snapshot, told.node, told.devices, self._sight)
            replies.append(CandidateReply(**dict(told), jobs=list(beside.named), other_jobs=beside.others))
        return replies

    def _added(self, outcome: Outcome, held: Placement | None) -> JobReply:
        more = {
            "candidates": self._candidates(outcome.candidates, chosen=outcome.chosen),
            "present": PlaceReply(node=held.node, devices=list(held.devices)) if held else None,
        }
        return self._job(outcome).model_copy(update=more)

    def _job(self, outcome: Outcome) -> JobReply:
        placement = outcome.placement
        return JobReply(
            namespace=outcome.job.namespace,
            name=outcome.job.name,
            action=outcome.action.value,
            node=placement.node if placement else None,
            devices=list(placement.devices) if placement else [],
            mode=placement.mode if placement else None,
            predicted_fraction=None if outcome.fraction is None else round(outcome.fraction, 3),
            predicted_tokens_per_second=self._rate(outcome),
            message=self._words(outcome.message),
            not_seated=self._words(outcome.not_seated) or None,
        )

    def _rate(self, outcome: Outcome) -> float | None:
        placement, prediction = outcome.placement, outcome.prediction
        node = self._snapshot.nodes.get(placement.node) if placement else None
        if placement is None or node is None or prediction is None:
            return None
        types = {view.type for view in map(node.device, placement.devices) if view is not None}
        workload = ride_class(outcome.job.workload) if placement.rides else outcome.job.workload
        rate = self._history.predicted(workload, prediction, *types)
        return None if rate is None else round(rate, 1)
