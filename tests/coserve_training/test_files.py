"""Whether the files of a model are still those that are mapped."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from descriptors import open_descriptors

from rowen.runtime.coserve.training.files import ModelFiles, ModelFilesChanged


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "one.safetensors", tmp_path / "other.safetensors"]
    for path in paths:
        path.write_bytes(bytes(100))
        os.utime(path, (1, 1))
    return paths


@pytest.fixture
def files(paths: list[Path]) -> Iterator[ModelFiles]:
    files = ModelFiles(paths)
    yield files
    files.close()


def cut(path: Path) -> None:
    state = path.stat()
    os.truncate(path, 50)
    # Who cuts it short may hide when.
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def write_over(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"x")


@pytest.mark.parametrize("change", [cut, write_over])
def test_a_file_that_is_changed_in_place_is_named(
    paths: list[Path], files: ModelFiles, change: Callable[[Path], None]
) -> None:
    files.check(10.0)
    change(paths[1])
    with pytest.raises(ModelFilesChanged, match=r"other\.safetensors"):
        files.check(11.0)


def test_a_file_that_is_replaced_or_removed_is_mapped_as_it_was(
    paths: list[Path], files: ModelFiles, tmp_path: Path
) -> None:
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "new").rename(paths[0])
    paths[1].unlink()
    files.check(10.0)


def test_they_are_looked_at_once_a_second(paths: list[Path], files: ModelFiles) -> None:
    files.check(10.0)
    write_over(paths[0])
    files.check(10.9)
    with pytest.raises(ModelFilesChanged):
        files.check(11.1)


def test_where_one_is_missing_none_stays_open(paths: list[Path], tmp_path: Path) -> None:
    before = open_descriptors()
    with pytest.raises(FileNotFoundError):
        ModelFiles([*paths, tmp_path / "none.safetensors"])
    assert open_descriptors() == before
