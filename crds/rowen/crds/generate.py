"""Writes everything that is derived from the models: `python -m rowen.crds.generate [--check]`.

The CustomResourceDefinitions go to `crds/` and, as copies, to the chart; the API reference goes to `docs/`.
With `--check` nothing is written: the exit status is 1 when a file differs, and its name is printed.
"""

import argparse
import sys
from pathlib import Path

import yaml

from rowen.crds.definition.manifest import definition
from rowen.crds.definition.reference import reference
from rowen.crds.kinds import KINDS
from rowen.crds.names import GROUP

REPOSITORY = Path(__file__).resolve().parents[3]
_HEADER = "# Generated from the models in crds/rowen/crds by `python -m rowen.crds.generate`: do not edit.\n"


class _PlainDumper(yaml.SafeDumper):
    """Repeats a value instead of pointing to it: anchors are hard to read, and not every tool knows them."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def generated_files() -> dict[str, str]:
    """Text by path, relative to the repository's root."""
    files = {"docs/api.md": reference(KINDS)}
    for kind in KINDS:
        text = _HEADER + yaml.dump(definition(kind), Dumper=_PlainDumper, sort_keys=False, width=110)
        for folder in ("crds", "charts/rowen/crds"):
            files[f"{folder}/{GROUP}_{kind.plural}.yaml"] = text
    return files


def stale_files(root: Path) -> list[str]:
    """Generated files that are absent or differ from the models."""
    return [name for name, text in generated_files().items() if _read(root / name) != text]


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Generate CRDs and the API reference from the models.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is out of date")
    arguments = parser.parse_args()
    stale = stale_files(REPOSITORY)
    if arguments.check:
        for name in stale:
            sys.stderr.write(f"{name} differs from the models: run python -m rowen.crds.generate\n")
        return 1 if stale else 0
    files = generated_files()
    for name in stale:
        (REPOSITORY / name).parent.mkdir(parents=True, exist_ok=True)
        (REPOSITORY / name).write_text(files[name], encoding="utf-8")
        sys.stdout.write(f"{name}\n")
    return 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
