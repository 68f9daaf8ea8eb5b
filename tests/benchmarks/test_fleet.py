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


def week(gain: float, saved: float, kept: float) -> fleet.Found:
    known = {"utilisation_gain_points": gain, "devices_saved": saved, "sla_attainment": kept}
    return dict.fromkeys(fleet.UNITS, 0.0) | known


@pytest.mark.parametrize(
    ("rowen", "missed"),
    [
        (week(34.6, 35.0, 0.99), set()),
        (week(34.5, 35.0, 0.99), {"utilisation_gain_points"}),
        (week(50.0, 34.9, 0.99), {"devices_saved_over_first_fit"}),
        (week(50.0, 40.0, 0.98), {"sla_attainment", "sla_attainment_over_best"}),
        (week(52.0, 35.0, 0.73), {"sla_attainment", "sla_attainment_over_best"}),
    ],
)
def test_a_worse_scheduler_misses_a_bar(rowen: fleet.Found, missed: set[str]) -> None:
    """The other arms: first fit gains more points; the best of the others keeps 0.99."""
    repeats = {name: [week(48.0, 36.0, 0.99)] for name in Name}
    repeats |= {Name.ROWEN: [rowen], Name.FIRST_FIT: [week(52.0, 35.0, 0.73)]}
    bars = fleet.told_of(repeats, 0)["bars"]
    assert bars.keys() == fleet.BARS.keys()
    assert {name for name, bar in bars.items() if bar["kept"] is False} == missed
    assert all(bar["kept"] is not None for bar in bars.values())


def test_arms_are_compared_under_the_same_seed() -> None:
    """Attainment is 0.1 better, as good, and 0.2 worse: each seed's best other arm is another one."""
    kept = {Name.ROWEN: (1.0, 0.8, 0.6), Name.FIRST_FIT: (0.9, 0.1, 0.1)}
    repeats = {name: [week(0.0, 0.0, one) for one in kept.get(name, (0.2, 0.8, 0.8))] for name in Name}
    rows = fleet.compared(repeats)
    assert rows["sla_attainment_over_best"][0] == 0.0
    assert rows["sla_attainment_over_best_least"][0] == pytest.approx(-0.2)


def test_what_cannot_be_compared_keeps_no_bar() -> None:
    bars = fleet.told_of({name: [dict.fromkeys(fleet.UNITS)] for name in Name}, 0)["bars"]
    assert {bar["kept"] for bar in bars.values()} == {None}
