"""Writing files so that nobody ever reads half of one."""

from pathlib import Path


def write(path: Path, text: str, *, mode: int = 0o644) -> bool:
    """Write `text` unless it is there already; returns whether it was not.

    Untouched matters: kube-proxy ends when its configuration is merely rewritten.
    """
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.new")
    scratch.unlink(missing_ok=True)
    scratch.touch(mode=mode)
    scratch.write_text(text)
    scratch.replace(path)
    return True
