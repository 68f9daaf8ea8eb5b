"""The plugin for vLLM as the node keeps it for engines: Python files that need nothing but vLLM's own packages."""

import hashlib
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("rowen.crds", "rowen.runtime")
"""As they are; of the second the engine's part alone is imported there."""
PLUGIN = "plugin"
_DISTRIBUTION = "rowen_engine-0.dist-info"
# By this Python's import system finds it, and by that vLLM.
_METADATA = "Metadata-Version: 2.1\nName: rowen-engine\nVersion: 0\n"
_ENTRY_POINTS = "[vllm.general_plugins]\nrowen = rowen.runtime.vllm.plugin:register\n"


def install_plugin(run_directory: Path) -> None:
    """Puts the plugin where containers find it. Raises `OSError`.

    Each content has a folder of its own, and a link leads to the newest: an engine keeps the files that it has, and one
    that starts anew in its pod gets those that fit the agent. They are some 1 MB, and gone with the node's next start.
    """
    sources = _sources()
    target = run_directory / f"{PLUGIN}-{_digest(sources)}"
    if not target.exists():
        _write(sources, target)
    link = run_directory / f"{PLUGIN}.new"
    link.unlink(missing_ok=True)
    link.symlink_to(target.name)
    link.replace(run_directory / PLUGIN)


def _sources() -> dict[str, bytes]:
    """Content by path."""
    found = {
        f"{_DISTRIBUTION}/METADATA": _METADATA.encode(),
        f"{_DISTRIBUTION}/entry_points.txt": _ENTRY_POINTS.encode(),
    }
    for package in PACKAGES:
        folder = _folder(package)
        prefix = Path(*package.split("."))
        found |= {str(prefix / path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.py"))}
    return found


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"{package} is not here: the agent's image has it for engines")
    return Path(spec.submodule_search_locations[0])


def _digest(sources: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, content in sources.items():
        digest.update(f"{path} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _write(sources: dict[str, bytes], target: Path) -> None:
    """All or nothing; readable for all, since containers run as any user."""
    temporary = target.parent / f"{PLUGIN}.part"
    if temporary.exists():  # of an agent that was killed
        shutil.rmtree(temporary)
    for name, content in sources.items():
        path = temporary / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
    for folder, _, _ in os.walk(temporary):
        Path(folder).chmod(0o755)
    temporary.rename(target)
