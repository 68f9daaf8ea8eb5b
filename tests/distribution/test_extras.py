"""Each extra of pyproject.toml names what its part of Rowen imports, so that installing it is enough."""

import importlib
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
PACKAGES = ("cluster", "crds", "demo", "gateway", "kube", "node_agent", "operator", "runtime", "scheduler", "simulator")
CLI = frozenset(
    f"rowen.scheduler.cli.{name}"
    for name in (
        "app", "command", "explanation", "lookup", "question", "session", "survey", "tables", "worker_logs",
    )
)  # fmt: skip
# These run in the runtime image: one by its module, the other as text.
IN_THE_RUNTIME_IMAGE = frozenset({"rowen.demo.samples", "rowen.demo.evidence"})


@cache
def imports() -> grimp.ImportGraph:
    return grimp.build_graph(*(f"rowen.{name}" for name in PACKAGES), include_external_packages=True)


def declared(extra: str) -> set[str]:
    """Distributions of an extra, with those that all parts need."""

    def names(requirements: list[str]) -> Iterator[str]:
        for requirement in map(Requirement, requirements):
            if requirement.name == PROJECT["name"]:
                for inner in requirement.extras:
                    yield from names(PROJECT["optional-dependencies"][inner])
            else:
                yield canonicalize_name(requirement.name)

    return set(names([*PROJECT["dependencies"], *PROJECT["optional-dependencies"][extra]]))


def imported(package: str, without: frozenset[str] = frozenset()) -> dict[str, set[str]]:
    """What a package or module imports from elsewhere, through Rowen's own modules too; the distributions of each."""
    graph = imports()
    own = {module for module in graph.modules if f"{module}.".startswith(f"{package}.")} - without
    own |= {upstream for module in own for upstream in graph.find_upstream_modules(module)} - without
    used = {name for module in own for name in graph.find_modules_directly_imported_by(module)}
    outside = {name for name in used if name.split(".")[0] not in {"rowen", *sys.stdlib_module_names}}
    known = packages_distributions()
    return {name: {canonicalize_name(found) for found in known.get(name, [name])} for name in outside}


@pytest.mark.parametrize(
    ("extra", "package", "without"),
    [
        ("cli", "rowen.scheduler.cli.app", frozenset()),
        ("cli", "rowen.scheduler.cli.command", frozenset()),
        ("demo", "rowen.demo", IN_THE_RUNTIME_IMAGE),
        ("operator", "rowen.operator", frozenset()),
        ("scheduler", "rowen.scheduler", CLI),
        ("gateway", "rowen.gateway", frozenset()),
        ("agent", "rowen.node_agent", frozenset()),
        ("simulator", "rowen.simulator", frozenset()),
        ("runtime", "rowen.runtime", frozenset()),
        ("runtime", "rowen.demo.samples", frozenset()),
    ],
)
def test_an_extra_declares_what_is_imported(extra: str, package: str, without: frozenset[str]) -> None:
    found = imported(package, without)
    assert found
    assert {name for name, distributions in found.items() if not distributions & declared(extra)} == set()


def test_the_command_line_asks_for_no_more_than_it_imports() -> None:
    used = set().union(*imported("rowen.scheduler.cli.command").values())
    assert declared("cli") - used <= {"structlog"}  # for every part, whether it logs or not


def test_the_programs_exist() -> None:
    for program in PROJECT["scripts"].values():
        module, _, function = program.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
