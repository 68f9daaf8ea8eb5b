"""The policy modules, and the fast tests that concern each."""

import importlib.util
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
_FOLDER = Path(__file__).parent
_CONTRACT = "policies do no I/O"


class StaleError(Exception):
    """A file of this folder names what is not there."""


def modules() -> list[str]:
    """The policies: what import-linter's contract of that name lists."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["name"] == _CONTRACT]
    return sorted(contract["source_modules"])


def path_of(module: str) -> Path:
    """A module's file. Raises `StaleError` where it has none."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise StaleError(f"pyproject.toml: {module} is listed as a policy and is no module")
    return Path(spec.origin)


@dataclass(frozen=True)
class TestFiles:
    """Which tests concern which modules: `tests.toml`."""

    concerning: dict[str, list[str]]
    """Folders and files under `tests` by a module, or by a package for all modules in it; the longest name counts.

    They run in this order."""
    slow: frozenset[str]
    """Files that are left out."""

    __test__ = False

    @classmethod
    def read(cls, path: Path = _FOLDER / "tests.toml") -> "TestFiles":
        """Raises `StaleError` where an entry concerns no policy, or names what is not there."""
        content = tomllib.loads(path.read_text())
        read = cls(content["concerning"], frozenset(content["slow"]))
        named = [name for names in read.concerning.values() for name in names]
        if missing := sorted(name for name in {*named, *read.slow} if not (TESTS / name).exists()):
            raise StaleError(f"{path.name}: not in tests: {', '.join(missing)}")
        needed = {read._entry(module) for module in modules() if read._fitting(module)}
        if idle := sorted(set(read.concerning) - needed):
            raise StaleError(f"{path.name}: no policy for {', '.join(idle)}")
        return read

    def of(self, module: str) -> list[list[Path]]:
        """The test files of a module by entry; in each those that name it come first, since they notice most."""
        found: list[list[Path]] = []
        for name in self.concerning[self._entry(module)]:
            place = TESTS / name
            files = sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
            new = [path for path in files if not any(path in part for part in found)]
            fast = [path for path in new if path.relative_to(TESTS).as_posix() not in self.slow]
            found.append(sorted(fast, key=lambda path: module not in path.read_text()))
        if not any(found):
            raise StaleError(f"tests.toml: no fast test for {module}")
        return [files for files in found if files]

    def _entry(self, module: str) -> str:
        if not (fitting := self._fitting(module)):
            raise StaleError(f"tests.toml: no tests are named for {module}")
        return max(fitting, key=len)

    def _fitting(self, module: str) -> list[str]:
        return [name for name in self.concerning if f"{module}.".startswith(f"{name}.")]


@dataclass(frozen=True)
class Equal:
    """A mutant that no test can tell from the module, and why."""

    module: str
    was: str
    becomes: str
    reason: str


def equals(path: Path = _FOLDER / "equal.toml") -> list[Equal]:
    """Those known. Raises `StaleError` where an entry is not as it should be."""
    try:
        found = [Equal(**entry) for entry in tomllib.loads(path.read_text()).get("equal", [])]
    except TypeError as error:
        raise StaleError(f"{path.name}: {error}") from error
    if strangers := sorted({entry.module for entry in found} - set(modules())):
        raise StaleError(f"{path.name}: no policies: {', '.join(strangers)}")
    return found
