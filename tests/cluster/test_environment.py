"""`make env`: one line puts kubectl, `kubectl rowen` and KUBECONFIG into a shell, from any folder."""

import shutil
import site
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rowen.cluster import environment
from rowen.cluster.layout import Layout

CHECKOUT = Path(__file__).parents[2]


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """State of a cluster, below a folder with a name that needs quotes."""
    folder = tmp_path / "it's $HOME"
    program(folder / "bin/kubectl")
    (folder / "kubeconfig").write_text("clusters: []\n")
    return folder


@pytest.fixture
def variables(tmp_path: Path, root: Path) -> dict[str, str]:
    """Of a user whose PATH knows make, and neither kubectl nor this Python environment."""
    found = shutil.which("make")
    assert found is not None
    (tmp_path / "path").mkdir()
    (tmp_path / "path/make").symlink_to(found)
    return {"PATH": str(tmp_path / "path"), "HOME": str(tmp_path), "ROWEN_DEV_ROOT": str(root)}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A set-up checkout whose path needs quotes."""
    folder = tmp_path / "my checkout"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True, timeout=60)
    packages = next((folder / ".venv/lib").glob("python*/site-packages"))
    (packages / "real.pth").write_text(f"import site; site.addsitedir({site.getsitepackages()[0]!r})\n")
    (folder / ".venv/.installed").touch()
    program(folder / ".venv/commands/kubectl-rowen")
    shutil.copy(CHECKOUT / "Makefile", folder)
    return folder


def shell(script: str, variables: Mapping[str, str], folder: Path = Path("/")) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-euc", script], env=variables, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def pasted(checkout: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    script = f"""
    eval "$(make -s -C '{checkout}' env)"
    command -v kubectl; command -v kubectl-rowen; echo "$KUBECONFIG"; command -v python python3 pip || echo no python
    """
    return shell(script, variables)


def test_one_line_brings_the_commands_and_the_kubeconfig(checkout: Path, root: Path, variables: dict[str, str]) -> None:
    done = pasted(checkout, variables)
    assert done.stdout.splitlines() == [
        str(root / "bin/kubectl"),
        str(checkout / ".venv/commands/kubectl-rowen"),
        str(root / "kubeconfig"),
        "no python",
    ]
    assert done.stderr == ""


def test_what_the_user_has_comes_first(checkout: Path, tmp_path: Path, variables: dict[str, str]) -> None:
    mine = program(tmp_path / "path/kubectl")
    assert pasted(checkout, variables).stdout.splitlines()[0] == str(mine)


@pytest.mark.parametrize(
    ("settings", "arguments", "used"),
    [
        ({"KUBECONFIG": "/production"}, "", "root"),
        ({}, "KUBECONFIG=/production", "root"),
        ({"KUBECONFIG": "/production", "CLUSTER": "kind"}, "", "root"),
        ({"KUBECONFIG": "/production", "CLUSTER": "existing"}, "", "production"),
        ({}, "KUBECONFIG=/production CLUSTER=existing", "production"),
        ({"CLUSTER": "existing"}, "", ""),
    ],
)
def test_no_recipe_reaches_the_users_own_cluster_by_accident(
    checkout: Path, root: Path, variables: dict[str, str], settings: dict[str, str], arguments: str, used: str
) -> None:
    (checkout / "shown.mk").write_text('include Makefile\nshown:\n\t@echo "$${KUBECONFIG-}"\n')
    done = shell(f"make -sC '{checkout}' -f shown.mk {arguments} shown", {**variables, **settings})
    expected = {"root": str(root / "kubeconfig"), "production": "/production", "": ""}
    assert done.stdout == f"{expected[used]}\n"


@pytest.mark.parametrize("cluster", ["local", "kind"])
def test_local_and_kind_keep_theirs_in_one_place(
    checkout: Path, root: Path, variables: dict[str, str], cluster: str
) -> None:
    assert str(root / "kubeconfig") in pasted(checkout, {**variables, "CLUSTER": cluster}).stdout.splitlines()


def test_an_existing_clusters_kubeconfig_is_kept(checkout: Path, tmp_path: Path, variables: dict[str, str]) -> None:
    mine = tmp_path / "mine"
    mine.touch()
    (checkout / "beside").touch()
    existing = {**variables, "CLUSTER": "existing", "KUBECONFIG": f"{mine}:beside"}
    done = pasted(checkout, existing)
    assert f"{mine}:{checkout / 'beside'}" in done.stdout.splitlines()
    assert done.stderr == ""


def test_before_there_is_a_cluster_the_line_works_and_says_so(
    checkout: Path, root: Path, variables: dict[str, str]
) -> None:
    (root / "kubeconfig").unlink()
    (root / "bin/kubectl").unlink()
    done = shell(f"make -s -C '{checkout}' env", variables)
    assert done.returncode == 0
    assert [line.partition("=")[0] for line in done.stdout.splitlines()] == ["export PATH", "export KUBECONFIG"]
    assert f"{root / 'kubeconfig'} is missing; `make cluster` writes it" in done.stderr
    assert "kubectl is not installed yet; `make tools` does it" in done.stderr


def test_before_anything_is_set_up_nothing_is_exported(checkout: Path, variables: dict[str, str]) -> None:
    (checkout / ".venv/.installed").unlink()
    done = shell(f"make -s -C '{checkout}' env", variables)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "run `make cluster` first" in done.stderr


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"CLUSTER": "existing"}, "CLUSTER=existing needs KUBECONFIG"),
        ({"CLUSTER": "existing", "KUBECONFIG": "/no/such"}, "/no/such is missing; KUBECONFIG names it"),
        ({"CLUSTER": "minikube"}, "CLUSTER=minikube: it may be local, kind, existing"),
    ],
)
def test_wrong_settings_are_told_on_stderr(
    checkout: Path, variables: dict[str, str], settings: dict[str, str], told: str
) -> None:
    done = shell(f"make -s -C '{checkout}' env", {**variables, **settings})
    assert told in done.stderr
    assert told not in done.stdout


def test_the_line_that_is_told_works_whatever_make_is_told_to_print(
    root: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLUSTER", raising=False)
    line = environment.line()
    done = shell(f'{line}; command -v kubectl-rowen; echo "$KUBECONFIG"', {**variables, "MAKEFLAGS": "w"})
    assert done.stdout.splitlines() == [str(CHECKOUT / ".venv/commands/kubectl-rowen"), str(root / "kubeconfig")]
    assert done.stderr == ""


def test_the_line_says_which_cluster_it_was(
    tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "my kubeconfig"
    mine.touch()
    monkeypatch.setenv("CLUSTER", "existing")
    monkeypatch.setenv("KUBECONFIG", str(mine))
    assert shell(f'{environment.line()}; echo "$KUBECONFIG"', variables).stdout.splitlines() == [str(mine)]


def test_the_line_says_where_the_state_is(root: Path, variables: dict[str, str]) -> None:
    told = subprocess.run(
        [sys.executable, "-c", "from rowen.cluster import environment; print(environment.line())"],
        env=variables, capture_output=True, text=True, timeout=60, check=True,
    ).stdout.strip()  # fmt: skip
    del variables["ROWEN_DEV_ROOT"]
    assert shell(f'{told}; echo "$KUBECONFIG"', variables).stdout.splitlines() == [str(root / "kubeconfig")]


def test_somebody_elses_kubeconfig_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The administrator's is readable by the user who brought the cluster up; root may read all."""
    monkeypatch.delenv("CLUSTER", raising=False)
    monkeypatch.setattr(environment.os, "access", lambda path, mode: False)
    assert f"{root / 'kubeconfig'} may be read by" in environment.missing(Layout(root))[0]
