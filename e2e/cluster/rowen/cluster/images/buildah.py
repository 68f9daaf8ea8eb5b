"""Building and pushing images without a Docker engine, in a store of our own."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rowen.cluster import files
from rowen.cluster.layout import Layout
from rowen.cluster.process.shell import run, succeeds

# Configuration of this machine that a build must see to reach its package index.
MACHINE_CONFIG = (
    ("/etc/ssl/certs", "/etc/ssl/certs"),
    ("/etc/pip.conf", "/etc/pip.conf"),
    ("~/.config/pip/pip.conf", "/root/.config/pip/pip.conf"),
    ("~/.config/uv/uv.toml", "/root/.config/uv/uv.toml"),
)
UV_CONFIG = Path("/etc/uv/uv.toml")


def _environment(layout: Layout) -> dict[str, str]:
    """chroot isolation needs no privilege beyond what we have and keeps the machine's network."""
    config = layout.root / "containers/storage.conf"
    store = layout.root / "containers"
    files.write(config, f'[storage]\ndriver = "overlay"\ngraphroot = "{store}/graph"\nrunroot = "{store}/run"\n')
    return {"BUILDAH_ISOLATION": "chroot", "BUILDAH_FORMAT": "oci", "CONTAINERS_STORAGE_CONF": str(config)}


def buildah(layout: Layout, *words: str | Path, timeout: float = 120, log: Path | None = None) -> str:
    return run(["buildah", *words], timeout=timeout, env=_environment(layout), log=log)


def exists(layout: Layout, image: str) -> bool:
    """Whether the image is in our store."""
    return succeeds(["buildah", "inspect", "--type", "image", image], env=_environment(layout))


def from_files(layout: Layout, image: str, content: Sequence[tuple[Path, str]], config: Sequence[str]) -> None:
    """An image that holds nothing but these files."""
    container = buildah(layout, "from", "scratch").strip()
    try:
        for source, target in content:
            buildah(layout, "copy", container, source, target, timeout=600)
        buildah(layout, "config", *config, container)
        buildah(layout, "commit", container, image, timeout=600)
    finally:
        buildah(layout, "rm", container)


def build(layout: Layout, image: str, dockerfile: Path, context: Path, arguments: Mapping[str, str], log: Path) -> None:
    """Build a Dockerfile, with the machine's package caches mounted so that nothing is fetched twice."""
    words: list[str | Path] = ["build", "--layers", "--force-rm", "--file", dockerfile, "--tag", image]
    for name, value in arguments.items():
        words += ["--build-arg", f"{name}={value}"]
    for volume in _volumes(layout):
        words += ["--volume", volume]
    buildah(layout, *words, context, timeout=3600, log=log)


def _volumes(layout: Layout) -> list[str]:
    caches = {
        "/root/.cache/uv": Path(os.environ.get("UV_CACHE_DIR", "~/.cache/uv")).expanduser(),
        "/root/.cache/pip": Path(os.environ.get("PIP_CACHE_DIR", "~/.cache/pip")).expanduser(),
    }
    for path in caches.values():
        path.mkdir(parents=True, exist_ok=True)
    config = [(Path(source).expanduser(), target) for source, target in MACHINE_CONFIG]
    config.append((_uv_config(layout), str(UV_CONFIG)))
    return [f"{path}:{target}" for target, path in caches.items()] + [
        f"{path}:{target}:ro" for path, target in config if path.exists()
    ]


def _uv_config(layout: Layout) -> Path:
    """Unlike pip, uv trusts the machine's certificates only when told to."""
    if UV_CONFIG.exists():
        return UV_CONFIG
    ours = layout.root / "containers/uv.toml"
    files.write(ours, "system-certs = true\n")
    return ours


def push(layout: Layout, image: str, reference: str) -> None:
    """Push to a registry elsewhere."""
    buildah(layout, "push", "--quiet", image, f"docker://{reference}", timeout=3600)


def push_uncompressed(layout: Layout, image: str, reference: str) -> None:
    """Push to the registry on this machine, layers as they are.

    `buildah push --disable-compression` compresses all the same; keeping the digests does not.
    """
    words = ["skopeo", "copy", "--quiet", "--preserve-digests", "--dest-tls-verify=false"]
    run([*words, f"containers-storage:{image}", f"docker://{reference}"], timeout=1800, env=_environment(layout))


def unmount(layout: Layout) -> None:
    """The overlay driver leaves its own folder mounted."""
    succeeds(["umount", str(layout.root / "containers/graph/overlay")])
