"""kubectl as a function; every call and every wait is bounded."""

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

import yaml

CALL_SECONDS = 60
T = TypeVar("T")


class KubectlError(Exception):
    """kubectl refused; the text is what a user would have read."""


def kubectl(*args: str, stdin: str | None = None, timeout: float = CALL_SECONDS) -> str:
    """Standard output of `kubectl ARGS`. Raises `KubectlError` with its standard error."""
    done = subprocess.run(["kubectl", *args], input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise KubectlError(done.stderr.strip())
    return done.stdout


def apply(*manifests: dict[str, Any]) -> str:
    """`kubectl apply` of the manifests."""
    return kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))


def get(kind: str, name: str, namespace: str) -> dict[str, Any] | None:
    """The object, or None."""
    text = kubectl("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found")
    return json.loads(text) if text else None


def items(kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
    """Objects of a kind, by label selector."""
    return list(json.loads(kubectl("get", kind, "-n", namespace, "-l", selector, "-o", "json"))["items"])


def delete(kind: str, name: str, namespace: str, *flags: str) -> None:
    """Deletes and waits until the object is gone."""
    kubectl("delete", kind, name, "-n", namespace, "--ignore-not-found", *flags, timeout=120)


def wait_until(question: Callable[[], T], what: str, timeout_seconds: float, pause_seconds: float = 1.0) -> T:
    """The first true answer. Raises `TimeoutError` that says what did not happen."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_seconds:.0f} s: {what}; last answer {answer!r}")
        time.sleep(pause_seconds)


def condition(obj: dict[str, Any] | None, type_: str) -> dict[str, Any]:
    """The object's condition of that type; empty where there is none."""
    conditions = (obj or {}).get("status", {}).get("conditions", [])
    return next((entry for entry in conditions if entry["type"] == type_), {})


def wait_condition(
    kind: str, name: str, namespace: str, type_: str, *, status: str = "True", timeout_seconds: float = 120
) -> dict[str, Any]:
    """Waits for the condition; on a time-out shows the object's status."""

    def reached() -> dict[str, Any] | None:
        found = condition(get(kind, name, namespace), type_)
        return found if found.get("status") == status else None

    try:
        return wait_until(reached, f"{kind}/{name} {type_}={status}", timeout_seconds) or {}
    except TimeoutError as error:
        shown = json.dumps((get(kind, name, namespace) or {}).get("status"), indent=1)
        raise TimeoutError(f"{error}\n{shown}") from None
