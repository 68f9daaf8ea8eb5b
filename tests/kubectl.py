"""kubectl against the test API server: what a user types, with what a user reads."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What a command said."""

    ok: bool
    text: str


@dataclass(frozen=True)
class Kubectl:
    """kubectl with a fixed kubeconfig and further fixed arguments."""

    kubeconfig: Path
    arguments: tuple[str, ...] = ()

    def with_arguments(self, *arguments: str) -> "Kubectl":
        """The same with further fixed arguments, e.g. a namespace or a user to act as."""
        return Kubectl(self.kubeconfig, (*self.arguments, *arguments))

    def run(self, *words: str, stdin: str | None = None) -> Outcome:
        """Runs it; output and errors come back as one text."""
        cache = self.kubeconfig.parent / "kubectl-cache"
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={self.kubeconfig}", f"--cache-dir={cache}", *self.arguments, *words],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
        )
        return Outcome(done.returncode == 0, done.stdout)

    def apply(self, manifest: dict[str, Any], *flags: str) -> Outcome:
        """Applies a manifest on the server."""
        return self.run("apply", "--server-side", *flags, "-f", "-", stdin=json.dumps(manifest))

    def get(self, *words: str) -> dict[str, Any]:
        """`kubectl get -o json`."""
        outcome = self.run("get", *words, "-o", "json")
        assert outcome.ok, outcome.text
        result: dict[str, Any] = json.loads(outcome.text)
        return result
