"""`kubectl-rowen` as a program of its own."""

import os
import signal
import subprocess
import sys

import pytest
from apiserver import ApiServer

RUN = "import sys; from rowen.scheduler.cli.command import main; {before}; sys.argv[1:] = {arguments}; main()"


def run(arguments: list[str], before: str = "") -> subprocess.CompletedProcess[str]:
    program = RUN.format(before=before or "pass", arguments=arguments)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


def test_it_calls_itself_what_the_user_typed() -> None:
    done = run(["explain", "--help"])
    assert done.returncode == 0
    assert "Usage: kubectl rowen explain" in done.stdout


@pytest.mark.parametrize("library", ["typer", "rich", "aiohttp", "kubernetes", "pydantic"])
def test_a_missing_library_is_told_in_one_line(library: str) -> None:
    done = run(["explain", "j"], f"sys.modules[{library!r}] = None")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {library} is not installed; ")
    assert "pip install '.[cli]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_fault_of_rowens_own_is_no_missing_library() -> None:
    done = run(["explain", "j"], "sys.modules['rowen.scheduler.cli.lookup'] = None")
    assert "Traceback" in done.stderr


def test_a_watch_ends_with_ctrl_c_and_says_nothing_about_it(api_server: ApiServer) -> None:
    # A shell's background task, as these tests may be, ignores it, and its children do.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = RUN.format(before=heeding, arguments=["top", "--watch"])
    environment = os.environ | {"KUBECONFIG": str(api_server.kubeconfig)}
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as watching:
        assert watching.stdout is not None
        assert watching.stdout.read(1)
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=60)
    assert watching.returncode == 130
    assert "Traceback" not in errors.decode()
