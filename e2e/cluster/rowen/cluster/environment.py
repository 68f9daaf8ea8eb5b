"""What a user's shell needs to work on the cluster: kubectl, `kubectl rowen` and KUBECONFIG."""

import os
import shutil
import sys
from pathlib import Path
from shlex import quote

from rowen.cluster.layout import CHECKOUT, DEFAULT_ROOT, Layout
from rowen.cluster.modes import existing, mode
from rowen.cluster.modes.mode import Mode

# Holds what a user of the cluster calls, and nothing else of the Python environment, such as its python.
COMMANDS = Path(sys.prefix) / "commands"


def kubeconfig(layout: Layout) -> str:
    """Absolute path of the cluster's kubeconfig, or paths. Raises `ClusterError` where it is the user's to give."""
    # kind and local keep theirs in one place, so nobody has to ask which of the two it is.
    paths = existing.path().split(os.pathsep) if mode.given() is Mode.EXISTING else [str(layout.kubeconfig)]
    return os.pathsep.join(str(Path(path).absolute()) for path in paths if path)


def exports(layout: Layout) -> str:
    """Lines for a POSIX shell. The folders come last in PATH: nothing that the user has is shadowed."""
    folders = "".join(f":{quote(str(folder.absolute()))}" for folder in (layout.bin, COMMANDS))
    return f'export PATH="$PATH"{folders}\nexport KUBECONFIG={quote(kubeconfig(layout))}'


def missing(layout: Layout) -> list[str]:
    """What these lines promise and is not there, each with what to do about it."""
    found = []
    for path in map(Path, kubeconfig(layout).split(os.pathsep)):
        if not path.exists():
            ours = mode.given() is not Mode.EXISTING
            found.append(f"{path} is missing; " + ("`make cluster` writes it" if ours else "KUBECONFIG names it"))
        elif not os.access(path, os.R_OK):
            found.append(f"{path} may be read by the user who brought the cluster up, and not by you")
    folders = os.pathsep.join([os.environ.get("PATH", ""), str(layout.bin), str(COMMANDS)])
    for program, target in (("kubectl", "make tools"), ("kubectl-rowen", "make venv")):
        if shutil.which(program, path=folders) is None:
            found.append(f"{program} is not installed yet; `{target}` does it")
    return found


def line() -> str:
    """The line to paste into any shell, in any folder."""
    settings = {}
    if mode.given() is Mode.EXISTING:
        settings = {"CLUSTER": str(Mode.EXISTING), "KUBECONFIG": kubeconfig(Layout())}
    root = Layout().root.absolute()
    if root != Path(DEFAULT_ROOT):
        settings["ROWEN_DEV_ROOT"] = str(root)
    words = "".join(f"{name}={quote(value)} " for name, value in settings.items())
    return f'eval "$({words}make --no-print-directory -sC {quote(str(CHECKOUT))} env)"'
