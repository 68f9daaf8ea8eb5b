"""What the kernel has to be told for some tests; they are skipped where it cannot be."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
GROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def huge_pages(count: int) -> Iterator[None]:
    """Has the kernel reserve huge pages, and puts it back."""
    before = HUGE_PAGES.read_text()
    if int(before):
        pytest.skip("the machine's huge pages are somebody's")
    try:
        HUGE_PAGES.write_text(str(count))
    except OSError as error:
        pytest.skip(f"no huge pages can be reserved: {error}")
    try:
        if int(HUGE_PAGES.read_text()) < count:
            pytest.skip("there is not enough memory for huge pages")
        yield
    finally:
        HUGE_PAGES.write_text(before)


def _memory_controller() -> tuple[Path, str, str]:
    """Where its groups are mounted, the group of this process, and the name of a limit."""
    first, second = "", ""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            first = path
        if not controllers:
            second = path
    if first:
        return GROUPS / "memory", first, "memory.limit_in_bytes"
    return GROUPS, second, "memory.max"


def _group() -> Path:
    """That this process makes."""
    mount, own, _ = _memory_controller()
    return mount / own.lstrip("/") / f"rowen-test-{os.getpid()}"


def active_file_bytes() -> int:
    """Of the group that was made: pages of files that were used more than once."""
    words = (_group() / "memory.stat").read_text().split()
    return int(words[words.index("active_file") + 1])


@contextlib.contextmanager
def memory_group(limit: int, view: str) -> Iterator[list[str]]:
    """A control group with that limit; yields the start of a command that enters it.

    `view`: "own": the group itself is entered; "inner": one without a limit within it; "container": it is entered, and
    is all that is mounted, as in a container.
    """
    mount, _, limit_name = _memory_controller()
    limited = _group()
    entered = limited / "inner" if view == "inner" else limited
    try:
        entered.mkdir(parents=True)
        (limited / limit_name).write_text(str(limit))
    except OSError as error:
        pytest.skip(f"no control group of memory can be made: {error}")
    enter = f'echo $$ > {entered}/cgroup.procs && exec "$0" "$@"'
    if view == "container":
        enter = enter.replace("exec", f"mount --bind {entered} {mount} && exec")
    try:
        yield ["unshare", "--mount", "sh", "-c", enter]
    finally:
        for group in dict.fromkeys((entered, limited)):
            group.rmdir()
