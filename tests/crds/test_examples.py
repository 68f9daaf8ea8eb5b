"""The examples are accepted as they stand."""

from pathlib import Path

import pytest
from kubectl import Kubectl

from rowen.crds.generate import REPOSITORY

FOLDERS = ("examples", "examples/elastic")
EXAMPLES = sorted(path for folder in FOLDERS for path in (REPOSITORY / folder).glob("*.yaml"))


def test_there_are_examples() -> None:
    assert {str(path.parent.relative_to(REPOSITORY)) for path in EXAMPLES} == set(FOLDERS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_accepted(kubectl: Kubectl, path: Path) -> None:
    outcome = kubectl.run("apply", "--dry-run=server", "--validate=strict", "-f", str(path))
    assert outcome.ok, outcome.text
