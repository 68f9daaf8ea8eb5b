"""Builds the gate library, a plain shared library, beside the packages that pyproject.toml lists."""

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

setup(
    package_dir={f"rowen.{name}": f"{folder}/rowen/{name}" for name, folder in FOLDERS.items()},
    ext_modules=[
        Extension(
            "rowen.node_agent.native.librowen",
            sources=sorted(map(str, NATIVE.glob("*.c"))),
            depends=sorted(map(str, NATIVE.glob("*.h"))),
            extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"],
            extra_link_args=["-Wl,-z,now", "-pthread", "-ldl"],
        )
    ],
)
