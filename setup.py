"""Builds the gate libraries, plain shared libraries, beside the packages that pyproject.toml lists."""

from collections.abc import Iterable
from pathlib import Path

from setuptools import Extension, setup

# setuptools looks for packages in several folders, but builds them all from the last one unless it is told.
FOLDERS = {
    "crds": "crds",
    "operator": "operator",
    "scheduler": "scheduler",
    "node_agent": "node_agent",
    "runtime": "runtime",
    "demo": "demo",
    "cluster": "e2e/cluster",
}
NATIVE = Path("node_agent/native")
# What both gate libraries are built from.
SHARED = ("page", "priority", "tenant")
GPU = NATIVE / "nvidia"
HEADERS = sorted(map(str, [*NATIVE.glob("*.h"), *GPU.glob("*.h")]))


def _library(name: str, sources: Iterable[Path]) -> Extension:
    return Extension(
        f"rowen.node_agent.native.{name}",
        sources=sorted(map(str, sources)),
        depends=HEADERS,
        extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"],
        extra_link_args=["-Wl,-z,now", "-pthread", "-ldl"],
    )


setup(
    package_dir={f"rowen.{name}": f"{folder}/rowen/{name}" for name, folder in FOLDERS.items()},
    ext_modules=[
        _library("librowen", NATIVE.glob("*.c")),
        _library("librowen_nvidia", [*(NATIVE / f"{name}.c" for name in SHARED), *GPU.glob("*.c")]),
    ],
)
