"""`kubectl rowen`."""

import asyncio
import io
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import samples
import yaml
from apiserver import ApiServer
from rich.console import Console
from scheduler.cli.commands import failed, invoke
from typer.testing import CliRunner

from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.kube.client import Client
from rowen.kube.kinds import OFFLINE_JOBS
from rowen.kube.objects import apply
from rowen.scheduler.cli import lookup, question, session
from rowen.scheduler.cli.app import app
from rowen.scheduler.cli.explanation import show, show_answer

STATUS = OfflineJobStatus.from_wire(
    {
        "conditions": [
            {"type": "Placed", "status": "False", "reason": "Waiting", "message": "[n] idle", "lastTransitionTime": "x"}
        ],
        "throughput": {"soloTokensPerSecond": 100.0},
        "explanation": {
            "message": "no candidate holds",
            "candidates": [
                {
                    "node": "n", "devices": ["cpu0"], "idle": 0.12, "memory": 1, "alignment": 1, "sharing": 0.5,
                    "predictedFraction": 0.06, "chosen": False, "reason": "idle 0.12 < SLA 0.20",
                }
            ],
        },
    }
)  # fmt: skip


def shown(status: OfflineJobStatus, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    show("j", status, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_holds_every_factor() -> None:
    told = shown(STATUS)
    for part in (
        "Waiting: [n] idle",
        "tokens per second: 100 alone on a device",
        "no candidate holds",
        "n/cpu0",
        "0.12",
        "0.50",
        "0.06",
    ):
        assert part in told


def test_what_decided_is_one_line_however_narrow_the_terminal_is() -> None:
    told = shown(STATUS, width=40).splitlines()
    assert "n/cpu0: idle 0.12 < SLA 0.20" in told
    assert any(line.endswith("Waiting: [n] idle") for line in told)


def test_a_condition_without_a_message_is_told_by_its_reason() -> None:
    bare = {**STATUS.to_wire()["conditions"][0], "type": "Running", "status": "True", "reason": "Active", "message": ""}
    told = shown(OfflineJobStatus.from_wire({**STATUS.to_wire(), "conditions": [bare]}))
    assert [line.split() for line in told.splitlines() if "Active" in line] == [["Running", "True", "Active"]]


def test_an_answer_does_not_say_that_a_job_waits_that_can_never_be_placed() -> None:
    never = {"namespace": "a", "name": "j", "action": "wait", "message": "it can never fit: spec.devices is 9, n has 8"}
    console = Console(file=io.StringIO(), width=160)
    show_answer({"jobs": [never]}, 1, console)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "a/j would not be placed: it can never fit: spec.devices is 9, n has 8\n"


def test_of_a_finished_job_the_placement_is_told_as_its_last() -> None:
    heading = "Where the scheduler placed it last:"
    assert heading not in shown(STATUS)
    for status, told in (("True", True), ("False", False)):
        finished = {**STATUS.to_wire()["conditions"][0], "type": "Finished", "status": status}
        assert (heading in shown(OfflineJobStatus.from_wire({**STATUS.to_wire(), "conditions": [finished]}))) is told


def test_of_a_job_that_has_its_place_the_factors_are_told_as_those_of_its_placement() -> None:
    heading = "As it was predicted when it was placed:"
    assert heading not in shown(STATUS)
    lease = {"durationSeconds": 30}
    held = {
        "id": "a",
        "node": "n",
        "devices": ["d"],
        "predictedFraction": 0.5,
        "time": "2026-01-01T00:00:00Z",
        "lease": lease,
    }
    placed = shown(OfflineJobStatus.from_wire({**STATUS.to_wire(), "assignment": held}))
    assert placed.index(heading) < placed.index("no candidate holds")


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ({}, "tokens per second: not known yet\n"),
        (
            {"solo": 1200.0, "predicted": 480.0, "measured": 600.0},
            "tokens per second: 1200 alone on a device, 480 predicted now, 600 measured (0.50 of that alone)\n",
        ),
        ({"measured": 600.0}, "tokens per second: 600 measured\n"),
    ],
)
def test_throughput_is_told_in_words(figures: dict[str, float], told: str) -> None:
    throughput = {f"{name}TokensPerSecond": value for name, value in figures.items()}
    part = {"measuredFraction": 0.5} if "solo" in figures else {}
    assert told in shown(OfflineJobStatus.from_wire({"throughput": {**throughput, **part}}))


def test_of_a_job_that_is_over_nothing_is_predicted_now() -> None:
    finished = {**STATUS.to_wire()["conditions"][0], "type": "Finished", "status": "True"}
    throughput = {"predictedTokensPerSecond": 9.79, "measuredTokensPerSecond": 12.0}
    told = shown(OfflineJobStatus.from_wire({"conditions": [finished], "throughput": throughput}))
    assert "tokens per second: 12 measured\n" in told


def test_a_job_that_was_not_seen_yet() -> None:
    assert "has not looked at it yet" in shown(OfflineJobStatus())


def test_a_job_that_ended_before_it_was_seen() -> None:
    ended = {"type": "Finished", "status": "True", "reason": "InvalidTemplate"}
    told = shown(OfflineJobStatus.from_wire({"conditions": [{**ended, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}))
    assert "it ended before the scheduler looked at it" in told
    assert "yet" not in told


def explain(monkeypatch: pytest.MonkeyPatch, kubeconfig: Path | str, *arguments: str) -> str:
    """The one line that a failed `explain` prints."""
    return failed(monkeypatch, kubeconfig, "explain", *arguments)


@pytest.mark.parametrize(("options", "namespace"), [([], "default"), (["-n", "nowhere"], "nowhere")])
def test_a_wrong_name_is_told_with_the_namespace(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch, options: list[str], namespace: str
) -> None:
    told = explain(monkeypatch, api_server.kubeconfig, "none", *options)
    assert told.startswith(f"error: there is no OfflineJob none in namespace {namespace}; ")
    assert "kubectl get offlinejobs -A" in told


async def test_a_job_is_looked_for_in_its_namespace_only(
    api_server: ApiServer, kube: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = samples.offline_job("j")
    await apply(kube, OFFLINE_JOBS, {**job, "metadata": {**job["metadata"], "namespace": namespace}}, manager="test")
    for name in ("j", "ojob/j", "offlinejob/j", "offlinejobs/j", "offlinejob.rowen.dev/j"):
        told = await asyncio.to_thread(invoke, monkeypatch, api_server.kubeconfig, "explain", name, "-n", namespace)
        assert "the scheduler has not looked at it yet" in told
    told = await asyncio.to_thread(failed, monkeypatch, api_server.kubeconfig, "explain", "j")
    assert "no OfflineJob j in namespace default" in told


async def test_a_job_that_another_controller_manages_is_told(
    api_server: ApiServer, kube: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = samples.offline_job("j")
    meta, spec = {**job["metadata"], "namespace": namespace}, {**job["spec"], "managedBy": "example.com/other"}
    await apply(kube, OFFLINE_JOBS, {**job, "metadata": meta, "spec": spec}, manager="test")
    for options in ([], ["--candidates"]):
        told = await asyncio.to_thread(
            invoke, monkeypatch, api_server.kubeconfig, "explain", "j", "-n", namespace, *options
        )
        assert told == "j: managed by example.com/other: Rowen leaves it alone\n"
    told = await asyncio.to_thread(invoke, monkeypatch, api_server.kubeconfig, "status", "-n", namespace)
    assert f"jobs in namespace {namespace}: 1 managed by others" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([""], "'' cannot be the name of a job"),
        (["other/status"], "'other/status' cannot be the name of a job"),
        (["ojob/j/status"], "'ojob/j/status' cannot be the name of a job"),
        (["ojob/"], "'ojob/' cannot be the name of a job"),
        (["pod/j"], "'pod/j' cannot be the name of a job"),
        (["myojob/j"], "'myojob/j' cannot be the name of a job"),
        (["j?watch=true"], "'j?watch=true' cannot be the name of a job"),
        (["j", "-n", ""], "'' cannot be the namespace"),
        (["j", "-n", "a/b"], "'a/b' cannot be the namespace"),
    ],
)
def test_what_cannot_be_a_name_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    assert told in explain(monkeypatch, tmp_path / "never read", *arguments)


def test_a_missing_right_is_told(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch, namespace: str) -> None:
    told = explain(monkeypatch, api_server.kubeconfig_for("eve"), "j", "-n", namespace)
    assert (
        f'User "eve" cannot get resource "offlinejobs" in API group "rowen.dev" in the namespace "{namespace}"' in told
    )


@pytest.fixture
def config(api_server: ApiServer) -> dict[str, Any]:
    """The administrator's kubeconfig, to be spoilt."""
    found: dict[str, Any] = yaml.safe_load(api_server.kubeconfig.read_text())
    return found


def written(folder: Path, config: dict[str, Any]) -> Path:
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def test_refused_credentials_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]) -> None:
    config["users"][0]["user"] = {"token": "expired"}
    path = written(tmp_path, config)
    assert explain(monkeypatch, path, "j") == f"error: the API server does not accept the credentials in {path}"


@pytest.mark.parametrize("server", ["https://127.0.0.1:1", "https://no-such-host.invalid:6443"])
def test_a_server_that_cannot_be_reached_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], server: str
) -> None:
    config["clusters"][0]["cluster"]["server"] = server
    path = written(tmp_path, config)
    assert f"the API server that {path} names does not answer" in explain(monkeypatch, path, "j")


def test_a_server_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]
) -> None:
    monkeypatch.setattr(session, "LIMIT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{silent.getsockname()[1]}"
        assert "does not answer: no reply in time" in explain(monkeypatch, written(tmp_path, config), "j")


async def test_every_candidate_may_take_longer_than_an_answer(
    api_server: ApiServer, kube: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dozens of pages, and the scheduler rests after each."""
    job = samples.offline_job("j")
    await apply(kube, OFFLINE_JOBS, {**job, "metadata": {**job["metadata"], "namespace": namespace}}, manager="test")

    async def token(*_: Any) -> str:
        return "token"

    async def slow(*_: Any) -> list[Any]:
        await asyncio.sleep(session.LIMIT_SECONDS)
        return []

    monkeypatch.setattr(session, "LIMIT_SECONDS", 2.0)
    monkeypatch.setattr(question, "caller_token", token)
    monkeypatch.setattr(question, "candidates", slow)
    arguments = ("explain", "j", "-n", namespace, "--candidates")
    told = await asyncio.to_thread(invoke, monkeypatch, api_server.kubeconfig, *arguments)
    assert "the scheduler has not looked at it yet" in told


def test_a_cluster_without_rowen_is_told(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "OFFLINE_JOBS", replace(OFFLINE_JOBS, api_version="rowen.dev/v0"))
    assert "Rowen is not installed in it" in explain(monkeypatch, api_server.kubeconfig, "j")


@pytest.mark.parametrize(
    "text", ["", "hello", "{{ no yaml", "kind: Config", "current-context: none\nkind: Config\ncontexts: []"]
)
def test_a_kubeconfig_that_is_none_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    assert f"{path} cannot be used as a kubeconfig: " in explain(monkeypatch, path, "j")


def test_an_empty_kubeconfig_is_told_what_was_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert explain(monkeypatch, "/dev/null", "j") == (
        "error: /dev/null cannot be used as a kubeconfig: an object with clusters, users, contexts and current-context "
        "was expected"
    )


def test_a_missing_kubeconfig_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "none"
    assert f"there is no {path}; set KUBECONFIG" in explain(monkeypatch, path, "j")
    assert "there is no ~/.kube/config; set KUBECONFIG" in explain(monkeypatch, "", "j")


def test_help_names_the_command() -> None:
    told = CliRunner().invoke(app, ["--help"]).stdout
    assert all(f" {command} " in told for command in ("explain", "status", "top", "whatif", "logs"))


@pytest.mark.parametrize("command", [["status"], ["top"], ["explain", "j"], ["logs", "j"], ["whatif", "-f", "-"]])
def test_every_command_takes_a_kubeconfig_and_a_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], command: list[str]
) -> None:
    there = {"name": "there", "cluster": {**config["clusters"][0]["cluster"], "server": "https://127.0.0.1:1"}}
    config["clusters"].append(there)
    user = config["contexts"][0]["context"]["user"]
    config["contexts"].append({"name": "other", "context": {"cluster": "there", "user": user}})
    path = written(tmp_path, config)
    text = yaml.safe_dump(samples.offline_job("j"))
    options = ["--kubeconfig", str(path), "--context"]
    told = failed(monkeypatch, "/none", *command, *options, "none", text=text)
    assert f"{path} cannot be used as a kubeconfig: " in told
    if command[0] == "whatif":
        options = ["--service-account", "ann", *options]
    told = failed(monkeypatch, "/none", *command, *options, "other", text=text)
    assert f"the API server that {path} names does not answer" in told


def test_help_says_of_which_job_every_candidate_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    assert "Of a job that waits: every candidate." in CliRunner().invoke(app, ["explain", "--help"]).stdout
