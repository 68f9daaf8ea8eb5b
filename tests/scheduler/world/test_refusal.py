"""How long a refused write is held back."""

import pytest

from rowen.kube.errors import KubeError, RefusedError, UnreachableError
from rowen.scheduler.world.refusal import Refusal, judged, refused


def after(failures: int, gist: object, now: float = 0.0) -> Refusal:
    """So many failures in a row, all at `now`."""
    found: Refusal | None = None
    for _ in range(failures):
        found = refused(found, gist, now)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("failures", "gist", "same", "other"),
    [
        (1, "a", 2.0, 2.0),
        (3, "a", 8.0, 8.0),
        (4, "a", 16.0, 10.0),
        (8, "a", 256.0, 10.0),
        (9, "a", 300.0, 10.0),
        (5000, "a", 300.0, 10.0),
        (5, None, 32.0, 10.0),
        (6, None, 60.0, 10.0),
        (5000, None, 60.0, 10.0),
    ],
)
def test_waits_double_up_to_their_limits(failures: int, gist: str | None, same: float, other: float) -> None:
    found = after(failures, gist, 1000.0)
    assert found.count == failures
    assert (found.until(gist) - 1000.0, found.other - 1000.0) == (same, other)


@pytest.mark.parametrize(
    ("refusal", "gist", "now", "holds"),
    [
        (after(8, "a"), "a", 255.9, True),
        (after(8, "a"), "a", 256.0, False),
        (after(8, "a"), "b", 9.9, True),
        (after(8, "a"), "b", 10.0, False),
        (after(8, None), "b", 59.9, True),
        (after(8, None), "b", 60.0, False),
    ],
)
def test_what_was_refused_waits_longer_than_anything_else(refusal: Refusal, gist: str, now: float, holds: bool) -> None:
    assert refusal.holds(gist, now) == holds


def test_each_thing_waits_by_its_own_failures() -> None:
    """A withdrawal that is refused once waits as any first refusal, whatever became of assignments before it."""
    found = refused(after(9, "assignment"), "withdrawal", 1000.0)
    assert (found.until("withdrawal"), found.until("assignment"), found.until("else")) == (1002.0, 300.0, 1010.0)
    assert refused(found, "assignment", 1000.0).until("assignment") == 1300.0
    assert refused(found, "withdrawal", 1000.0).until("withdrawal") == 1004.0


def test_after_a_write_that_was_taken_the_next_failure_of_another_counts_as_a_first_one() -> None:
    found = refused(refused(None, "a", 0.0), "b", 0.0).forgiven("a")
    assert found is not None
    again = refused(found, "c", 1000.0)
    assert (again.count, again.until("else")) == (1, 1002.0)


def test_an_old_write_without_an_answer_frees_nothing_that_is_new() -> None:
    found = refused(refused(None, None, 0.0), "a", 1000.0)
    assert (found.until("a"), found.until("b")) == (1002.0, 1004.0)
    assert refused(found, None, 1100.0).until("a") == 1104.0


def test_what_was_refused_stays_refused_while_something_else_is_taken() -> None:
    found = refused(refused(after(8, "a"), "b", 0.0), None, 0.0)
    left = found.forgiven("b")
    assert left is not None
    assert (left.until("a"), refused(left, "b", 50.0).until("b")) == (256.0, 52.0)
    assert left.forgiven("a") is None
    assert after(3, None).forgiven("a") is None


def test_as_many_things_are_remembered_as_are_of_use() -> None:
    found = after(3, 0)
    for number in range(1, 16):
        found = refused(found, number, 0.0)
    assert refused(found, 0, 0.0).until(0) == 16.0
    assert refused(refused(found, 16, 0.0), 0, 0.0).until(0) == 2.0


NO_RIGHT = (
    'offlinejobs.rowen.dev "j" is forbidden: User "s" cannot patch resource "offlinejobs/status" in API group "r"'
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UnreachableError("no answer"), False),
        (RefusedError(401, "Unauthorized", "Unauthorized"), False),
        (RefusedError(403, "Forbidden", NO_RIGHT), False),
        (RefusedError(403, "Forbidden", "exceeded quota: who cannot have a resource"), True),
        (RefusedError(422, "Invalid", NO_RIGHT), True),
        (RefusedError(404, "NotFound", "no such job"), False),
        (RefusedError(429, "TooManyRequests", "later"), False),
        (RefusedError(400, "BadRequest", "no"), True),
    ],
)
def test_what_counts_against_a_job_is_refused_for_what_was_written(error: KubeError, expected: bool) -> None:
    assert judged(error) == expected
