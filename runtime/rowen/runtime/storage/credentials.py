"""The credentials of an address: files of a mounted Secret, for this address alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rowen.crds.job.worker import ExitCode, Location
from rowen.crds.names import SECRETS_DIRECTORY
from rowen.runtime.failure import WorkerError, reading

SERVICE_ACCOUNT_KEY = "service-account.json"
"""Key of a Secret for `gs://`: a Google service account's JSON."""
HUB_TOKEN_KEY = "HF_TOKEN"  # noqa: S105 - the name of a key
"""Key of a Secret for the hub."""


def options(location: Location) -> dict[str, Any]:
    """Arguments of the address's fsspec filesystem.

    What the Secret does not say, and everything without one, is the pod's own: its environment and service account.
    Raises `WorkerError` for a Secret that is not there, or has no key that means something for such an address.
    """
    if location.secret_name is None:
        return {}
    protocol = location.where.partition("://")[0]
    known = _KEYS[protocol]
    folder = Path(SECRETS_DIRECTORY) / location.secret_name
    values = {key: value for key in known if (value := secret_value(folder / key)) is not None}
    # The kubelet keeps links of its own (`..data`) even in the place of a Secret that is not there.
    if not folder.is_dir() or all(entry.name.startswith("..") for entry in folder.iterdir()):
        # Whoever makes it may be a little late.
        raise WorkerError("SpecInvalid", f"there is no Secret {location.secret_name}, or it is empty", ExitCode.RETRY)
    if not values:
        expected = ", ".join(known)
        message = f"Secret {location.secret_name} has no key for {protocol}:// (expected one of {expected})"
        raise WorkerError("SpecInvalid", message)
    return _OPTIONS[protocol](values, folder)


def hub_token(secret_name: str | None) -> str | None:
    """The hub token in a Secret; None without a Secret. Raises `WorkerError`."""
    token: str | None = options(Location(where="hf://", secret_name=secret_name)).get("token")
    return token


def _s3(values: dict[str, str], _folder: Path) -> dict[str, Any]:
    named = {
        "key": values.get("AWS_ACCESS_KEY_ID"),
        "secret": values.get("AWS_SECRET_ACCESS_KEY"),
        "token": values.get("AWS_SESSION_TOKEN"),
        "endpoint_url": values.get("AWS_ENDPOINT_URL"),
    }
    region = {"client_kwargs": {"region_name": values["AWS_REGION"]}} if "AWS_REGION" in values else {}
    return {name: value for name, value in named.items() if value is not None} | region


def _gs(_values: dict[str, str], folder: Path) -> dict[str, Any]:
    return {"token": str(folder / SERVICE_ACCOUNT_KEY)}


def _hf(values: dict[str, str], _folder: Path) -> dict[str, Any]:
    return {"token": values[HUB_TOKEN_KEY]}


_KEYS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION"),
    "gs": (SERVICE_ACCOUNT_KEY,),
    "hf": (HUB_TOKEN_KEY,),
}
_OPTIONS: dict[str, Callable[[dict[str, str], Path], dict[str, Any]]] = {"s3": _s3, "gs": _gs, "hf": _hf}


def secret_value(file: Path) -> str | None:
    """The value of a mounted Secret's key, without the newline that editors put there; None without such a key.

    Raises `WorkerError`, with nothing of the value, for one that is no text or that no header of a request can hold:
    libraries would tell it in their errors.
    """
    if not file.exists():
        return None
    with reading("SpecInvalid", file):
        value = file.read_bytes().decode("ascii", "replace").strip()
    if file.name != SERVICE_ACCOUNT_KEY and not (value.isascii() and value.isprintable()):
        message = f"Secret {file.parent.name}: {file.name} is not one line of ASCII characters"
        raise WorkerError("SpecInvalid", message)
    return value
