"""The images of `dockerfiles/`: built when their content changed, and brought to where pods start."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rowen.cluster import files
from rowen.cluster.console import console, step
from rowen.cluster.errors import ClusterError
from rowen.cluster.images import buildah, debootstrap, dockerfile
from rowen.cluster.layout import CHECKOUT, CONTROL_CPUS, REGISTRY, Layout
from rowen.cluster.modes import kind, mode
from rowen.cluster.modes.mode import Mode
from rowen.cluster.node import node
from rowen.cluster.process import cgroup
from rowen.cluster.process.shell import run
from rowen.cluster.services import registry

# What a Dockerfile's own `ARG BASE` says; part of the tag where nothing replaces it.
DEFAULT_BASE = "as written"
# GiB; a changed dependency layer of the runtime image takes some 13.
ENOUGH_DISK = 15


@dataclass(frozen=True)
class Image:
    """One image of the repository, and the tag its content gives it."""

    name: str
    dockerfile: Path
    tag: str

    @property
    def repository(self) -> str:
        return f"rowen/{self.name}"


def ensure(layout: Layout, where: Mode, names: list[str]) -> dict[str, str]:
    """Build and deliver images; returns and writes down their references by name."""
    base = debootstrap.BASE if where is Mode.LOCAL else DEFAULT_BASE
    images = [_describe(path, base) for path in _dockerfiles(names)]
    if not images:
        raise ClusterError(f"no *.Dockerfile in {CHECKOUT / 'dockerfiles'}")
    prefix = _registry(where)
    references = {image.name: f"{prefix}{image.repository}:{image.tag}" for image in images}
    deliver = {Mode.LOCAL: _local, Mode.KIND: _kind, Mode.EXISTING: _existing}[where]
    deliver(layout, images, references)
    known = json.loads(layout.images.read_text()) if layout.images.exists() else {}
    files.write(layout.images, json.dumps({**known, **references}, indent=2, sort_keys=True) + "\n")
    return references


def _dockerfiles(names: list[str]) -> list[Path]:
    folder = CHECKOUT / "dockerfiles"
    if not names:
        return sorted(folder.glob("*.Dockerfile"))
    paths = [folder / f"{name}.Dockerfile" for name in names]
    for path in paths:
        if not path.exists():
            raise ClusterError(f"there is no {path}")
    return paths


def _describe(path: Path, base: str) -> Image:
    return Image(path.name.removesuffix(".Dockerfile"), path, dockerfile.tag(path, CHECKOUT, base))


def _registry(where: Mode) -> str:
    if where is Mode.LOCAL:
        return f"{REGISTRY}/"
    if where is Mode.KIND:
        return ""
    given = os.environ.get("REGISTRY", "").rstrip("/")
    if not given:
        raise ClusterError("set REGISTRY to one that your cluster pulls from, as in REGISTRY=HOST/PROJECT")
    return f"{given}/"


def _local(layout: Layout, images: list[Image], references: dict[str, str]) -> None:
    missing = [image for image in images if not registry.has(image.repository, image.tag)]
    if missing:
        with step("Base image") as now:
            if not debootstrap.ensure(layout):
                now.skip("there")
    for image in images:
        with step(f"Image {image.name}") as now:
            now.note = references[image.name]
            if image not in missing:
                now.skip("in the registry")
                continue
            _build(layout, image, debootstrap.BASE)
            buildah.push_uncompressed(layout, f"localhost/{image.repository}:{image.tag}", references[image.name])
    with step("Images on the nodes"):
        prefetch(layout, list(references.values()))
    free = shutil.disk_usage(layout.root).free >> 30
    if free < ENOUGH_DISK:
        console.print(f"[yellow]only {free} GiB of disk left[/]: `python -m rowen.cluster prune` drops old images")


def _build(layout: Layout, image: Image, base: str) -> None:
    context = layout.root / "build" / f"context-{image.name}"
    dockerfile.stage(image.dockerfile, CHECKOUT, context)
    arguments = {} if base == DEFAULT_BASE else {"BASE": base}
    log = layout.logs / f"image-{image.name}.log"
    buildah.build(layout, f"localhost/{image.repository}:{image.tag}", image.dockerfile, context, arguments, log)


def prefetch(layout: Layout, references: list[str]) -> None:
    """Have both nodes pull at once, on all cores: unpacking is what takes the time."""

    def pull(each: node.Node) -> None:
        node.images(layout, each, "pull", references)

    groups = [each.system_group for each in node.NODES]
    for group in groups:
        cgroup.set_cpus(group, cgroup.all_cpus())
    try:
        with ThreadPoolExecutor(len(node.NODES)) as pool:
            list(pool.map(pull, node.NODES))
    finally:
        for group in groups:
            cgroup.set_cpus(group, CONTROL_CPUS)


def _kind(layout: Layout, images: list[Image], references: dict[str, str]) -> None:
    """Never run on the machine this was written on."""
    for image in images:
        with step(f"Image {image.name}"):
            _docker_build(image, references[image.name])
            kind.load(layout, references[image.name])


def _existing(layout: Layout, images: list[Image], references: dict[str, str]) -> None:
    docker = mode.docker_answers()
    for image in images:
        with step(f"Image {image.name}"):
            if docker:
                _docker_build(image, references[image.name])
                run(["docker", "push", references[image.name]], timeout=1800)
            else:
                _build(layout, image, DEFAULT_BASE)
                buildah.push(layout, f"localhost/{image.repository}:{image.tag}", references[image.name])


def _docker_build(image: Image, reference: str) -> None:
    run(["docker", "build", "-t", reference, "-f", image.dockerfile, CHECKOUT], timeout=3600)
