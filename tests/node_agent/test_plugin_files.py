"""The plugin for engines, as the node keeps it."""

import os
import subprocess
import sys

import pytest

from rowen.node_agent.devices import plugin_files
from rowen.node_agent.devices.plugin_files import install_plugin

FOUND = """
import sys
from importlib.metadata import entry_points
(found,) = [each for each in entry_points(group="vllm.general_plugins") if each.name == "rowen"]
found.load()()
print(sys.modules["rowen.runtime.vllm.plugin"].__file__)
"""


def test_python_finds_it_on_its_path_without_anything_else(tmp_path):
    install_plugin(tmp_path)
    plugin = tmp_path / "plugin"
    # -S: nothing that is installed beside Python.
    ran = subprocess.run(
        [sys.executable, "-S", "-c", FOUND], env={"PYTHONPATH": str(plugin)}, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip() == str(plugin / "rowen/runtime/vllm/plugin.py")


def test_any_user_can_read_it_and_nobody_write(tmp_path):
    umask = os.umask(0o077)
    try:
        install_plugin(tmp_path)
    finally:
        os.umask(umask)
    for path in (tmp_path / "plugin").resolve().rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)


def test_engines_keep_the_files_that_they_have(tmp_path, monkeypatch):
    install_plugin(tmp_path)
    before = (tmp_path / "plugin").resolve()
    install_plugin(tmp_path)
    assert (tmp_path / "plugin").resolve() == before
    monkeypatch.setattr(plugin_files, "_METADATA", "Metadata-Version: 2.1\nName: rowen-engine\nVersion: 1\n")
    install_plugin(tmp_path)
    after = (tmp_path / "plugin").resolve()
    assert after != before
    for folder in (before, after):
        assert (folder / "rowen/runtime/vllm/plugin.py").is_file()


def test_what_a_killed_agent_left_is_no_plugin(tmp_path):
    (tmp_path / "plugin.part/rowen").mkdir(parents=True)
    (tmp_path / "plugin.part/rowen/stray.py").touch()
    (tmp_path / "plugin.new").symlink_to("nowhere")
    install_plugin(tmp_path)
    assert not (tmp_path / "plugin/rowen/stray.py").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"plugin", (tmp_path / "plugin").resolve().name}


def test_an_agent_without_the_files_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(plugin_files, "PACKAGES", ("rowen.nowhere",))
    with pytest.raises(FileNotFoundError, match=r"rowen\.nowhere is not here"):
        install_plugin(tmp_path)
