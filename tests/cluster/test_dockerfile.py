"""The tag of an image follows exactly what goes into it."""

from pathlib import Path

import pytest

from rowen.cluster.errors import ClusterError
from rowen.cluster.images import dockerfile

TEXT = """\
ARG BASE=python:slim
FROM ${BASE} AS build
# COPY nothing /
COPY requirements/agent.txt \\
     pyproject.toml /src/
FROM ${BASE}
COPY --from=build /venv /venv
COPY --chown=0:0 agent /src/agent
COPY ["one file.txt", "/srv/"]
RUN echo COPY this /that
"""


@pytest.fixture
def context(tmp_path: Path) -> Path:
    for name in (
        "requirements/agent.txt",
        "pyproject.toml",
        "agent/main.py",
        "agent/sub/x.py",
        "one file.txt",
        "other",
    ):
        path = tmp_path / "context" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "context/Dockerfile").write_text(TEXT)
    return tmp_path / "context"


def tag(context: Path, base: str = "base") -> str:
    return dockerfile.tag(context / "Dockerfile", context, base)


def test_only_copies_from_the_context_count() -> None:
    assert dockerfile.copied(TEXT) == ["requirements/agent.txt", "pyproject.toml", "agent", "one file.txt"]


def test_folders_are_walked_and_generated_files_left_out(context: Path) -> None:
    for name in ("agent/__pycache__/main.pyc", "agent/x.pyc", "agent/a.egg-info/top"):
        (context / name).parent.mkdir(exist_ok=True)
        (context / name).write_text("made by a tool")
    assert dockerfile.files(context, ["agent"]) == [Path("agent/main.py"), Path("agent/sub/x.py")]


def test_a_missing_source_is_a_plain_error(context: Path) -> None:
    with pytest.raises(ClusterError, match="copies nowhere"):
        dockerfile.files(context, ["nowhere"])


def test_tag_ignores_what_is_not_copied(context: Path) -> None:
    before = tag(context)
    (context / "other").write_text("changed")
    assert tag(context) == before


@pytest.mark.parametrize("change", ["agent/sub/x.py", "requirements/agent.txt", "Dockerfile", "agent/new.py"])
def test_tag_follows_each_input(context: Path, change: str) -> None:
    before = tag(context)
    with (context / change).open("a") as file:
        file.write("\n# changed\n")
    assert tag(context) != before


def test_tag_follows_the_base_and_the_executable_bit(context: Path) -> None:
    before = tag(context)
    assert tag(context, "another base") != before
    (context / "agent/main.py").chmod(0o755)
    assert tag(context) != before


def test_a_moved_file_changes_the_tag(context: Path) -> None:
    before = tag(context)
    (context / "agent/main.py").rename(context / "agent/sub/main.py")
    assert tag(context) != before


def test_the_staged_context_holds_the_inputs_alone(context: Path, tmp_path: Path) -> None:
    target = tmp_path / "staged"
    dockerfile.stage(context / "Dockerfile", context, target)
    staged = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert staged == {"requirements/agent.txt", "pyproject.toml", "agent/main.py", "agent/sub/x.py", "one file.txt"}
    assert {path.stat().st_mtime for path in target.rglob("*")} == {float(dockerfile.MTIME)}
