"""A stand-in for python:3.11-slim-bookworm, made by debootstrap."""

import shutil
from pathlib import Path

from rowen.cluster.images import buildah
from rowen.cluster.layout import Layout
from rowen.cluster.process.shell import run

# Raise the number when the packages change.
BASE = "localhost/rowen-base:bookworm-1"
PACKAGES = ("ca-certificates", "libgomp1", "libstdc++6", "procps", "python3", "python3-pip", "python3-venv")
MIRROR_FILE = Path("/etc/apt/sources.list.d/debian.sources")


def ensure(layout: Layout) -> bool:
    """Make the image; returns whether it had to be made."""
    if buildah.exists(layout, BASE):
        return False
    folder = layout.root / "base"
    shutil.rmtree(folder, ignore_errors=True)
    # The cache is beside the target, so that an interrupted run does not fetch everything again.
    cache = layout.root / "cache/debootstrap"
    cache.mkdir(parents=True, exist_ok=True)
    options = ["--variant=minbase", f"--include={','.join(PACKAGES)}", f"--cache-dir={cache}"]
    log = layout.logs / "debootstrap.log"
    run(["debootstrap", *options, "bookworm", folder, *mirror()], timeout=900, log=log)
    _trim(folder)
    buildah.from_files(layout, BASE, [(folder, "/")], ["--cmd", "python3", "--env", "PYTHONUNBUFFERED=1"])
    shutil.rmtree(folder)
    return True


def mirror(sources: Path = MIRROR_FILE) -> list[str]:
    """The mirror this machine uses already; debootstrap's own default when it does not say."""
    if not sources.exists():
        return []
    uris = [line.split()[1] for line in sources.read_text().splitlines() if line.startswith("URIs:")]
    return uris[:1]


def _trim(folder: Path) -> None:
    """Drop what an image never needs, and make `python` be there as in the official image."""
    for name in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
    (folder / "usr/local/bin/python").symlink_to("/usr/bin/python3")
