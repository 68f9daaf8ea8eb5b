"""What of a pass is written when some of its withdrawals were not taken."""

from scheduler.builders import job, placed

from rowen.scheduler.decision import Action, Outcome
from rowen.scheduler.monitor.lease import Loss, Reason
from rowen.scheduler.promises import after_withdrawals


def revoked(name: str, node: str, *devices: str) -> Outcome:
    return Outcome(placed(job(name), node, *devices), Action.REVOKE, "", loss=Loss(Reason.SUSPENDED, ""))


def given(name: str, node: str, *devices: str, action: Action = Action.PLACE) -> Outcome:
    return Outcome(job(name), action, "", placement=placed(job(name), node, *devices).placement)


def left(outcomes: list[Outcome], *taken: str) -> list[str]:
    return [outcome.job.name for outcome in after_withdrawals(outcomes, {f"uid-{name}" for name in taken})]


def test_what_was_withdrawn_is_given_away() -> None:
    assert left([revoked("a", "n", "d0"), given("b", "n", "d0")], "a") == ["b"]


def test_what_was_not_withdrawn_is_not() -> None:
    outcomes = [
        revoked("a", "n", "d0", "d1"), revoked("b", "n", "d2"),
        given("c", "n", "d1", "d3"), given("d", "n", "d2"), given("e", "m", "d0"), Outcome(job("f"), Action.WAIT, ""),
    ]  # fmt: skip
    assert left(outcomes, "b") == ["d", "e", "f"]


def test_who_stays_beside_it_keeps_its_lease() -> None:
    assert left([revoked("a", "n", "d0"), given("b", "n", "d0", action=Action.KEEP)]) == ["b"]
