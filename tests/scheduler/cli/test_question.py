"""What `kubectl rowen` asks the scheduler."""

from typing import Any

import pytest

from rowen.scheduler.cli import question
from rowen.scheduler.cli.question import candidates

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


async def test_a_job_that_is_not_explained_yet_has_no_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> dict[str, Any]:
        return {"namespace": "ns", "name": "j"}

    monkeypatch.setattr(question, "ask", nothing)
    nobody: Any = None
    assert await candidates(nobody, "rowen-system/rowen-scheduler", "token", "ns", "j") == []
