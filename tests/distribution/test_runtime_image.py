"""The runtime's image, as far as it can be tried without building it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCKERFILE = (REPOSITORY / "dockerfiles/runtime.Dockerfile").read_text()
ENVIRONMENT = "/opt/rowen"
FOUND = "import rowen.crds.names, rowen.runtime.log as found; print(found.__file__, found.__cached__)"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """What the image has at `/opt/rowen`, in another place and without the dependencies."""
    folder = tmp_path / "rowen"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    for source, target in re.findall(rf"^COPY (\S+) {ENVIRONMENT}(/code/\S+)$", DOCKERFILE, re.MULTILINE):
        copy = shutil.copytree if (REPOSITORY / source).is_dir() else shutil.copy
        (folder / target[1:]).parent.mkdir(parents=True, exist_ok=True)
        copy(REPOSITORY / source, folder / target[1:])
    [(run, _)] = re.findall(r"^RUN ((.+\\\n)*.*compileall .*/code)$", DOCKERFILE, re.MULTILINE)
    subprocess.run(["sh", "-c", run.replace(ENVIRONMENT, str(folder))], check=True, env=without_python())
    return folder


def without_python() -> dict[str, str]:
    """The environment of this process, but for what it tells Python: where to keep what it has compiled, say."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


@pytest.mark.parametrize("path", [None, "/volumes/mine"])
def test_rowen_is_found_whatever_pythonpath_a_job_sets(path: str | None, image: Path) -> None:
    settings = without_python() | dict(re.findall(r"(PYTHON\w+)=(\S+)", DOCKERFILE.replace(ENVIRONMENT, str(image))))
    settings |= {} if path is None else {"PYTHONPATH": path}
    found = subprocess.run([image / "bin/python", "-c", FOUND], env=settings, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    source, compiled = map(Path, found.stdout.split())
    assert source.is_relative_to(image / "code")
    assert compiled.is_file()
