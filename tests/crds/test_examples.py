"""The examples are accepted as they stand."""

from pathlib import Path

import pytest
from kubectl import Kubectl

from rowen.crds.generate import REPOSITORY

FOLDERS = (".", "jobs", "adopted", "coserve", "spatial")
EXAMPLES = sorted(path for folder in FOLDERS for path in (REPOSITORY / "examples" / folder).glob("*.yaml"))


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_accepted(kubectl: Kubectl, path: Path) -> None:
    outcome = kubectl.run("apply", "--dry-run=server", "--validate=strict", "-f", str(path))
    assert outcome.ok, outcome.text
