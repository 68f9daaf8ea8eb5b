"""The committed YAML and reference are what the models say."""

from pathlib import Path

from rowen.crds.generate import REPOSITORY, generated_files, stale_files


def test_committed_files_match_the_models() -> None:
    assert stale_files(REPOSITORY) == [], "run python -m rowen.crds.generate"


def test_a_changed_and_an_absent_file_are_named(tmp_path: Path) -> None:
    changed, absent, *_ = generated_files()
    for name, text in generated_files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / changed).write_text("hand-edited")
    (tmp_path / absent).unlink()
    assert stale_files(tmp_path) == [changed, absent]


def test_the_chart_ships_the_same_definitions() -> None:
    names = [path.name for path in (REPOSITORY / "charts/rowen/crds").iterdir()]
    assert sorted(names) == sorted(path.name for path in (REPOSITORY / "crds").glob("*.yaml"))


def test_the_reference_tells_which_bounds_are_no_values_themselves() -> None:
    limits = {line.split("|")[1].strip(): line.split("|")[3].strip() for line in _rows()}
    assert limits["`fineTune.lora.dropout`"] == "≥ 0; < 1; default `0.0`"
    assert limits["`fineTune.learningRate`"] == "> 0; ≤ 1; default `0.001`"


def _rows() -> list[str]:
    return [line for line in generated_files()["docs/api.md"].splitlines() if line.startswith("| `fineTune.")]
