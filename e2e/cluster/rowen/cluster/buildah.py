"""Building and pushing images without a Docker engine."""

from collections.abc import Sequence
from pathlib import Path

from rowen.cluster.layout import REGISTRY
from rowen.cluster.shell import run, succeeds

# chroot: `RUN` needs no further privilege and keeps the network of the machine.
ENVIRONMENT = {"BUILDAH_ISOLATION": "chroot", "BUILDAH_FORMAT": "oci"}


def buildah(*words: str | Path, timeout: float = 120, log: Path | None = None) -> str:
    return run(["buildah", *words], timeout=timeout, env=ENVIRONMENT, log=log)


def exists(image: str) -> bool:
    """Whether the image is in the local store."""
    return succeeds(["buildah", "inspect", "--type", "image", image])


def from_files(image: str, files: Sequence[tuple[Path, str]], config: Sequence[str]) -> None:
    """An image that holds nothing but these files."""
    container = buildah("from", "scratch").strip()
    try:
        for source, target in files:
            buildah("copy", container, source, target, timeout=600)
        buildah("config", *config, container)
        buildah("commit", container, image, timeout=600)
    finally:
        buildah("rm", container)


def push(image: str, reference: str) -> None:
    """Push to the local registry; compressing would only cost time on one machine."""
    plain = ["--disable-compression", "--tls-verify=false"] if reference.startswith(REGISTRY) else []
    buildah("push", "--quiet", *plain, image, f"docker://{reference}", timeout=1800)
