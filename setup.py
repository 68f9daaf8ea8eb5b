"""Maps the namespace packages to their folders and builds the gate library, a plain shared library."""

from glob import glob

from setuptools import Extension, setup

setup(
    package_dir={
        f"rowen.{name}": f"{folder}/rowen/{name.replace('.', '/')}"
        for name, folder in {
            "crds": "crds",
            "operator": "operator",
            "scheduler": "scheduler",
            "node_agent": "node_agent",
            "runtime": "runtime",
        }.items()
    },
    ext_modules=[
        Extension(
            "rowen.node_agent.native.librowen",
            sources=sorted(glob("node_agent/native/*.c")),
            depends=sorted(glob("node_agent/native/*.h")),
            extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"],
            extra_link_args=["-Wl,-z,now", "-pthread", "-ldl"],
        )
    ],
)
