"""What an image is made of: its Dockerfile and the files that it copies.

The tag of an image is a digest of exactly these, and the build sees nothing else,
so equal tags mean equal content and an unchanged image is neither built nor moved.
"""

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from rowen.cluster.errors import ClusterError

# Made by tools, different on every machine: never part of an image.
IGNORED = frozenset((".git", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".venv", "__pycache__", "build"))
IGNORED_SUFFIXES = (".pyc", ".egg-info", ".o")
# A file's time is part of a layer; a fixed one lets a layer be found again.
MTIME = 1_700_000_000


def copied(dockerfile: str) -> list[str]:
    """The source arguments of every COPY and ADD that reads the build context."""
    sources: list[str] = []
    for line in _logical_lines(dockerfile):
        word, _, rest = line.partition(" ")
        if word.upper() in ("COPY", "ADD"):
            sources += _sources(rest.strip())
    return sources


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, with their continuations joined."""
    pending = ""
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        pending += stripped.removesuffix("\\")
        if not stripped.endswith("\\"):
            yield pending
            pending = ""
    if pending:
        yield pending


def _sources(arguments: str) -> list[str]:
    flags = [word for word in arguments.split() if word.startswith("--")]
    if any(flag.startswith("--from=") for flag in flags):
        return []
    rest = arguments[arguments.index("[") :] if "[" in arguments else arguments
    words = json.loads(rest) if rest.startswith("[") else [w for w in shlex.split(rest) if not w.startswith("--")]
    return [str(word) for word in words[:-1]]


def files(context: Path, sources: Iterable[str]) -> list[Path]:
    """The files below `context` that the sources name, sorted, relative to it."""
    found: set[Path] = set()
    for source in sources:
        pattern = source.removeprefix("./").strip("/") or "."
        matches = [context] if pattern == "." else list(context.glob(pattern))
        if not matches:
            raise ClusterError(f"a Dockerfile copies {source}, which is not in {context}")
        for match in matches:
            found.update(_walk(match))
    return sorted(path.relative_to(context) for path in found)


def _walk(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for folder, names, leaves in os.walk(path):
        names[:] = sorted(name for name in names if not _ignored(name))
        yield from (Path(folder) / leaf for leaf in leaves if not _ignored(leaf))


def _ignored(name: str) -> bool:
    return name in IGNORED or name.endswith(IGNORED_SUFFIXES)


def tag(dockerfile: Path, context: Path, base: str) -> str:
    """Twelve digits that change with anything that goes into the image."""
    text = dockerfile.read_text()
    digest = hashlib.sha256(f"{base}\0{text}\0".encode())
    for path in files(context, copied(text)):
        whole = context / path
        executable = os.access(whole, os.X_OK)
        content = hashlib.sha256(whole.read_bytes()).hexdigest()
        digest.update(f"{path}\0{executable}\0{content}\0".encode())
    return digest.hexdigest()[:12]


def stage(dockerfile: Path, context: Path, target: Path) -> None:
    """Copy what the image is made of, and nothing else, to a folder to build from."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in files(context, copied(dockerfile.read_text())):
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(context / path, copy)
        copy.chmod(0o755 if os.access(context / path, os.X_OK) else 0o644)
    for folder, _, leaves in os.walk(target):
        for name in (".", *leaves):
            os.utime(Path(folder) / name, (MTIME, MTIME))
