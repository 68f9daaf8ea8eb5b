"""Names of files and batches: they sort by the time at which they were made.

A batch and its job have one stem, and so have the batch's results: what belongs to what is in the names alone.
"""

import re
import secrets
from typing import Literal

Role = Literal["output", "errors"]
ROLES: tuple[Role, ...] = ("output", "errors")

_STEM = r"[0-9a-f]{27}"
_FILE = re.compile(rf"file-({_STEM})(?:-(output|errors))?")
_BATCH = re.compile(rf"batch_({_STEM})")
_JOB = re.compile(rf"batch-({_STEM})")


def new_stem(now: float) -> str:
    """Of something that is made now (Unix seconds): milliseconds in 11 digits, and 64 bits of chance."""
    return f"{round(now * 1000):011x}{secrets.token_hex(8)}"


def made_at(stem: str) -> int:
    """Unix seconds."""
    return int(stem[:11], 16) // 1000


def file_id(stem: str, role: Role | None = None) -> str:
    """An upload's id, or that of a batch's results."""
    return f"file-{stem}" + (f"-{role}" if role else "")


def batch_id(stem: str) -> str:
    """A batch's id."""
    return f"batch_{stem}"


def job_name(stem: str) -> str:
    """Name of the OfflineJob."""
    return f"batch-{stem}"


def result_name(stem: str, role: Role) -> str:
    """What the file of a batch's results is called."""
    return f"{batch_id(stem)}_{'output' if role == 'output' else 'error'}.jsonl"


def read_file(id_: str) -> tuple[str, Role | None] | None:
    """Stem and role of a file's id; None for anything else."""
    match = _FILE.fullmatch(id_)
    return (match[1], match[2]) if match else None  # type: ignore[return-value]


def read_batch(id_: str) -> str | None:
    """Stem of a batch's id; None for anything else."""
    match = _BATCH.fullmatch(id_)
    return match[1] if match else None


def read_job(name: str) -> str | None:
    """Stem of a job's name; None for anything else."""
    match = _JOB.fullmatch(name)
    return match[1] if match else None
