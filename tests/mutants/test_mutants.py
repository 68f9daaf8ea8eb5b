"""What `make mutants` says is so: mutants are what they should be, tests see them, and its lists are not stale."""

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import mutants.__main__ as runner
import pytest
from mutants.__main__ import check_equals, draw
from mutants.changes import Mutant, changes, mutants
from mutants.policies import TESTS, Equal, StaleError, TestFiles, equals, modules
from mutants.trial import Outcome, Unchanged, outcomes, unchanged

# A policy that needs nothing else, so that a trial is short.
MODULE = "rowen.node_agent.tries"


@pytest.mark.parametrize(
    ("source", "others"),
    [
        ("x = a < 1", {"x = a <= 1", "x = a >= 1", "x = a < 2", "x = a < 0"}),
        ("x = a in b", {"x = a not in b"}),
        ("x = a not in b", {"x = a in b"}),
        ("x = min(a)", {"x = max(a)"}),
        ("x = a and not b", {"x = a or not b", "x = a and b"}),
        ("x = [a for a in b if a]", {"x = [a for a in b if not (a)]"}),
        ("def f(a: int | None = None, *, b: str | None = None) -> int | None: return a * b", {
            "def f(a: int | None = None, *, b: str | None = None) -> int | None: return a / b"}),
        ("x: int | None = a", set()),
        ("@dataclass(frozen=True)\nclass A: pass", set()),
    ],
)  # fmt: skip
def test_changes(source: str, others: set[str]) -> None:
    made = mutants("m", source, changes(source))
    assert {" ".join(one.source.split()) for one in made} == others


def test_conditions_are_negated_wherever_they_stand() -> None:
    source = "if a:\n    pass\nelif b:\n    pass\nx = c if d else e\n"
    made = {(one.line, one.was, " ".join(one.becomes.split())) for one in mutants("m", source, changes(source))}
    assert made == {
        (1, "if a:", "if not a:"),
        (3, "elif b:", "elif not (b):"),
        (5, "x = c if d else e", "x = c if not d else e"),
    }


def test_a_draw_is_the_same_each_time_and_another_with_another_seed() -> None:
    drawn = draw(MODULE, 5, 1)
    assert (len(drawn), drawn) == (5, draw(MODULE, 5, 1))
    assert drawn != draw(MODULE, 5, 2)
    assert len(draw(MODULE, 0, 1)) > 5


def test_tests_run_against_the_mutant_and_not_against_the_module(tmp_path: Path) -> None:
    """Some that they do not notice, one that they do, one that takes the process with it, one that never ends."""
    importlib.import_module(MODULE)
    test = tmp_path / "test_it.py"
    test.write_text(f"from {MODULE} import number\ndef test(): assert number() in (1, 2)\n")
    plain = unchanged(MODULE, [[test]], 60)
    assert (plain.passed, plain.loaded) == (False, True)

    def fared(timeout_seconds: float, *bodies: str) -> dict[str, Outcome]:
        made = [Mutant(MODULE, 1, f"def number():\n    {body}\n", "", body) for body in bodies]
        return {one.becomes: outcome for one, outcome in outcomes(made, [[test]], timeout_seconds)}

    # No tests, a wrong command line: these are no test's verdict.
    troubles = [f"import pytest; pytest.exit('', returncode={code})" for code in (3, 4, 5)]
    assert set(fared(60, *troubles).values()) == {Outcome.SURVIVED}
    assert fared(60, "return 1", "return 2", "return 3", "import os; os._exit(0)") == {
        "return 1": Outcome.SURVIVED,
        "return 2": Outcome.SURVIVED,
        "return 3": Outcome.KILLED,
        "import os; os._exit(0)": Outcome.KILLED,
    }
    assert fared(1, "while True: pass") == {"while True: pass": Outcome.TIMED_OUT}
    assert not hasattr(sys.modules[MODULE], "number")


def test_a_mutant_is_gone_when_it_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test, folder = tmp_path / "test_it.py", tmp_path / "here"
    test.write_text(
        f"from {MODULE} import number\nimport tempfile\ndef test(): tempfile.mkdtemp(); assert number() == 1\n"
    )
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    made = [Mutant(MODULE, 1, f"def number(): return {value}\n", "", "") for value in (1, 2)]
    found = [(outcome, list(folder.iterdir())) for one in made for _, outcome in outcomes([one], [[test]], 60)]
    assert found == [(Outcome.SURVIVED, []), (Outcome.KILLED, [])]


def test_a_run_that_is_terminated_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "mutants", "--module", MODULE]
    with subprocess.Popen(command, cwd=TESTS, env=environment) as process:
        until = time.monotonic() + 60.0
        while not list(tmp_path.glob("*/output")) and time.monotonic() < until:
            time.sleep(0.01)
        process.terminate()
        assert process.wait(60) == 143
    assert list(tmp_path.iterdir()) == []


def test_a_trial_that_no_module_survives_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(asked: list[Mutant], *_: object) -> Iterator[tuple[Mutant, Outcome]]:
        return iter([(one, Outcome.KILLED) for one in asked])

    monkeypatch.setattr(runner, "unchanged", lambda *_: Unchanged(True, True, 0.1, ""))
    monkeypatch.setattr(runner, "outcomes", killed)
    with pytest.raises(StaleError, match="without a change it is killed"):
        runner._check_unchanged(MODULE, [])


def test_tests_that_do_not_import_the_module_are_found_out(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("def test(): pass\n")
    result = unchanged(MODULE, [[test]], 60)
    assert (result.passed, result.loaded) == (True, False)


@pytest.mark.parametrize("module", modules())
def test_each_policy_has_fast_tests(module: str) -> None:
    assert all(path.is_file() for part in TestFiles.read().of(module) for path in part)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('slow = ["gone.py"]\n[concerning]\n"rowen" = ["operator"]', "not in tests: gone.py"),
        ('slow = []\n[concerning]\n"rowen" = ["gone"]', "not in tests: gone"),
        ('slow = []\n[concerning]\n"rowen" = ["operator"]\n"rowen.gone" = ["operator"]', "no policy for rowen.gone"),
    ],
)
def test_a_stale_list_of_tests_is_an_error(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "tests.toml"
    path.write_text(content)
    with pytest.raises(StaleError, match=complaint):
        TestFiles.read(path)


def test_a_policy_without_tests_is_an_error() -> None:
    with pytest.raises(StaleError, match=r"no tests are named for rowen\.gone"):
        TestFiles({"rowen.operator": ["operator"]}, frozenset()).of("rowen.gone")
    with pytest.raises(StaleError, match=r"no fast test for rowen\.operator\.gone"):
        TestFiles({"rowen.operator": ["operator/test_liveness.py"]}, frozenset({"operator/test_liveness.py"})).of(
            "rowen.operator.gone"
        )


def test_what_is_called_equal_is_a_mutant_that_there_is() -> None:
    (one,) = draw(MODULE, 1, 0)
    assert check_equals(MODULE, [Equal(MODULE, one.was, one.becomes, "so it is")])
    with pytest.raises(StaleError, match="has no mutant"):
        check_equals(MODULE, [Equal(MODULE, one.was, one.was, "it is not")])


def test_what_is_called_equal_stands_at_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "module.py"
    monkeypatch.setattr(runner, "path_of", lambda _: path)
    entry = Equal("m", "x = 0", "x = 1", "so it is")
    path.write_text("def f():\n    x = 0\n")
    assert check_equals("m", [entry]) == [entry]
    path.write_text("def f():\n    x = 0\ndef g():\n    x = 0\n")
    with pytest.raises(StaleError, match="m has 2 mutants 'x = 0' -> 'x = 1'"):
        check_equals("m", [entry])


def test_what_is_kept_as_equal_has_reasons() -> None:
    assert all(entry.reason and entry.was != entry.becomes for entry in equals())


def test_an_entry_for_a_module_that_is_no_policy_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "equal.toml"
    path.write_text('[[equal]]\nmodule = "rowen.gone"\nwas = "a"\nbecomes = "b"\nreason = "c"\n')
    with pytest.raises(StaleError, match=r"no policies: rowen\.gone"):
        equals(path)
    path.write_text('[[equal]]\nmodule = "rowen.gone"\nwas = "a"\nbecomes = "b"\n')
    with pytest.raises(StaleError, match="reason"):
        equals(path)
