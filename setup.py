"""Builds the gate libraries, plain shared libraries, beside the packages that pyproject.toml lists.

Only a node's agent needs them: a trainer's image may have no compiler.
"""

import shutil
from pathlib import Path

from setuptools import Extension, setup

# setuptools looks for packages in several folders, but builds them all from the last one unless it is told.
FOLDERS = {
    "crds": "crds",
    "kube": "kube",
    "operator": "operator",
    "scheduler": "scheduler",
    "gateway": "gateway",
    "node_agent": "node_agent",
    "runtime": "runtime",
    "simulator": "simulator",
    "demo": "demo",
    "cluster": "e2e/cluster",
}
NATIVE = Path("node_agent/native")
FOLDERS_OF = {
    "librowen": ("shared", "tenant", "cpu", "online", "agent", "memory"),
    "librowen_nvidia": ("shared", "tenant", "nvidia", "memory"),
}
HEADERS = sorted(map(str, NATIVE.rglob("*.h")))


def _sources(library: str) -> list[str]:
    return sorted(str(source) for folder in FOLDERS_OF[library] for source in (NATIVE / folder).rglob("*.c"))


def _library(name: str) -> Extension:
    return Extension(
        f"rowen.node_agent.native.{name}",
        sources=_sources(name),
        include_dirs=[str(NATIVE)],
        depends=HEADERS,
        extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"],
        extra_link_args=["-Wl,-z,now", "-pthread", "-ldl"],
        optional=shutil.which("cc") is None,
    )


setup(
    package_dir={f"rowen.{name}": f"{folder}/rowen/{name}" for name, folder in FOLDERS.items()},
    ext_modules=[_library(name) for name in FOLDERS_OF],
)
