"""What stands in a folder, to be compared before and after."""

import stat
from pathlib import Path

Tree = dict[str, tuple[int, bytes | str | None]]


def tree(folder: Path) -> Tree:
    """Everything below the folder: mode, and content or target."""
    found: Tree = {}
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        content: bytes | str | None = None
        if stat.S_ISLNK(mode):
            content = str(path.readlink())
        elif stat.S_ISREG(mode):
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (mode, content)
    return found
