"""The benchmark of the fleet: all arms have the same services, and figures are counted over the seeds."""

import fleet
import pytest

from rowen.simulator.variants import Name

SMALL = fleet.QUICK.model_copy(update={"nodes": 2, "seconds": 1800.0})


def test_all_arms_have_the_same_services() -> None:
    found = {name: fleet.run((name, 0), SMALL, fleet.DEMAND) for name in (Name.ROWEN, Name.FIRST_FIT)}
    same = ("utilisation_without_points", "harvestable_points")
    assert all(found[Name.ROWEN][figure] == found[Name.FIRST_FIT][figure] for figure in same)
    assert found[Name.ROWEN]["utilisation_gain_points"] > 0


def test_figures_are_medians_with_the_least_and_the_most() -> None:
    repeats = [dict.fromkeys(fleet.UNITS, value) for value in (1.0, 5.0, 2.0)]
    rows = fleet.figures(repeats)
    assert [rows[f"sla_attainment{end}"][0] for end in ("", "_least", "_most")] == [2.0, 1.0, 5.0]
    assert set(fleet.others(dict.fromkeys(Name, rows))) == {"first-fit", "idle-only", "no-alignment", "no-monitor"}


def test_without_anything_to_count_there_is_no_value() -> None:
    rows = fleet.figures([dict.fromkeys(fleet.UNITS)])
    assert isinstance(rows["sla_attainment"][0], fleet.Missing)
    assert "sla_attainment_least" not in rows


def test_both_traces_are_served() -> None:
    services = fleet.InTurn(1)
    conv, code = (services.between(service, 0.0, 3600.0) for service in (0, 1))
    assert code.inputs.mean() > 1.3 * conv.inputs.mean()
    assert len(conv) == pytest.approx(0.03 * 5.5 * 3600, rel=0.25)
