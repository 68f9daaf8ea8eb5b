from collections.abc import Iterator

import pytest
from coserve_planning.machines import terms

from rowen.crds.names import RIDE_TERMS_ENV, SPATIAL_TERMS_ENV
from rowen.crds.ride.terms import SpatialTerms
from rowen.runtime.coserve.shared import engine_planner, engine_terms, spatial_terms


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(RIDE_TERMS_ENV, raising=False)
    monkeypatch.delenv(SPATIAL_TERMS_ENV, raising=False)
    for each in (engine_terms, engine_planner, spatial_terms):
        each.cache_clear()
    yield
    for each in (engine_terms, engine_planner, spatial_terms):
        each.cache_clear()


def test_without_terms_nothing_rides() -> None:
    assert engine_terms() is None
    assert engine_planner() is None


def test_all_of_a_process_share_one_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RIDE_TERMS_ENV, terms().model_dump_json(by_alias=True))
    assert engine_terms() == terms()
    assert engine_planner() is not None
    assert engine_planner() is engine_planner()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"tpot": {"percentile": 99, "seconds": -1}}', "3"])
def test_terms_that_make_no_sense_are_told_once(
    text: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(RIDE_TERMS_ENV, text)
    monkeypatch.setenv("ROWEN_ENGINE_SOCKET", "/nowhere")
    assert engine_planner() is None
    assert engine_planner() is None
    assert capfd.readouterr().err.count("ROWEN_RIDE_TERMS makes no sense: nothing rides") == 1


def test_the_terms_of_sharing_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spatial_terms() is None
    spatial_terms.cache_clear()
    given = SpatialTerms(ttft=terms().ttft, tpot=terms().tpot)
    monkeypatch.setenv(SPATIAL_TERMS_ENV, given.model_dump_json(by_alias=True))
    assert spatial_terms() == given
    assert engine_terms() is None


def test_terms_of_sharing_that_make_no_sense_are_told_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SPATIAL_TERMS_ENV, "{}")
    monkeypatch.setenv("ROWEN_ENGINE_SOCKET", "/nowhere")
    assert spatial_terms() is None
    assert spatial_terms() is None
    said = capfd.readouterr().err
    assert said.count("ROWEN_SPATIAL_TERMS makes no sense: nothing runs beside the engine's requests") == 1
