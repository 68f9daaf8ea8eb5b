"""What `kubectl rowen` asks the scheduler."""

from typing import Any

import pytest

from rowen.kube.errors import RefusedError
from rowen.scheduler.cli import question
from rowen.scheduler.cli.question import candidates
from rowen.scheduler.cli.session import CommandError

FIGURES = {"idle": 0.5, "memory": 1.0, "alignment": 1.0, "sharing": 1.0, "predictedFraction": 0.5}


class Scheduler:
    """Has so many candidates for a job, a node each."""

    def __init__(self, count: int) -> None:
        self.asked: list[str] = []
        self._count = count

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        assert method == "GET"
        path, _, query = path.partition("?")
        self.asked.append(query)
        limit, offset = (int(part.partition("=")[2]) for part in query.split("&"))
        nodes = range(self._count)[offset : offset + limit]
        told = [{"node": f"n{node}", "devices": ["cpu0"], "chosen": False, "reason": "", **FIGURES} for node in nodes]
        return {"explanation": {"message": "why", "candidates": told}}


@pytest.mark.parametrize(
    ("count", "offsets"), [(0, [0]), (1, [0]), (499, [0]), (500, [0, 500]), (501, [0, 500]), (1200, [0, 500, 1000])]
)
async def test_candidates_are_asked_for_until_a_page_is_not_full(count: int, offsets: list[int]) -> None:
    scheduler: Any = Scheduler(count)
    found = await candidates(scheduler, "rowen-system/rowen-scheduler", "token", "ns", "j")
    assert [one.node for one in found] == [f"n{number}" for number in range(count)]
    assert scheduler.asked == [f"limit=500&offset={offset}" for offset in offsets]


async def test_a_candidate_that_has_moved_to_the_next_page_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [[*range(500)], [499, 500]]

    async def ask(*_: Any) -> dict[str, Any]:
        told = [
            {"node": f"n{at}", "devices": ["cpu0"], "chosen": False, "reason": "", **FIGURES} for at in pages.pop(0)
        ]
        return {"explanation": {"message": "why", "candidates": told}}

    monkeypatch.setattr(question, "ask", ask)
    nobody: Any = None
    found = await candidates(nobody, "rowen-system/rowen-scheduler", "token", "ns", "j")
    assert [one.node for one in found] == [f"n{at}" for at in range(501)]


@pytest.mark.parametrize(("failures", "answers"), [(0, True), (2, True), (3, False)])
async def test_a_busy_scheduler_is_asked_three_times(
    monkeypatch: pytest.MonkeyPatch, failures: int, answers: bool
) -> None:
    pauses: list[float] = []
    tried: list[str] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    class Busy:
        async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
            tried.append(path)
            if len(tried) <= failures:
                raise RefusedError(503, "", 'too busy: {"detail": "too many questions at once"}', 2.0)
            return {"name": "j"}

    monkeypatch.setattr(question.asyncio, "sleep", pause)
    busy: Any = Busy()
    if answers:
        assert await question.ask(busy, "ns/scheduler", "token", "GET", "/v1/explain/ns/j", None) == {"name": "j"}
    else:
        with pytest.raises(CommandError, match="the scheduler answers: too many questions at once"):
            await question.ask(busy, "ns/scheduler", "token", "GET", "/v1/explain/ns/j", None)
    assert len(tried) == min(failures + 1, 3)
    assert [2.0 <= seconds <= 2.5 for seconds in pauses] == [True] * min(failures, 2)


async def test_a_job_that_is_not_explained_yet_has_no_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> dict[str, Any]:
        return {"namespace": "ns", "name": "j"}

    monkeypatch.setattr(question, "ask", nothing)
    nobody: Any = None
    assert await candidates(nobody, "rowen-system/rowen-scheduler", "token", "ns", "j") == []
