"""Who holds a device, and what rides in its engine, in the live view."""

import io

import pytest
from rich.console import Console

from rowen.crds.harvest.device_detail import DeviceDetail
from rowen.demo.show.devices import device_line, device_table, holder
from rowen.demo.show.world import DeviceRecord, World
from rowen.demo.verdict.riding import Ridden, RideReading

SERVING = {
    "seats": 8, "ridingFraction": 0.41, "forwardTokensPerSecond": 100, "soloTokensPerSecond": 200,
    "backwardTokensPerSecond": 290, "rowTokensPerSecond": 15,
}  # fmt: skip


def tenant(job, mode="Preempt", attached=True):
    return {"pod": "default/p", "job": job, "mode": mode, "attached": attached}


def device(*tenants, in_flight=0, gate_open=True, **fields):
    return DeviceDetail.from_wire({
        "id": "cpu1", "type": "cpu", "memoryBytes": 1, "harvestable": True, "gateOpen": gate_open, "idleFraction": 0.6,
        "harvestedFraction": 0.55, "preemptions": 7, "perRequestMax": 1, "inFlight": in_flight,
        "stops": {"p50": 0.0004, "p90": 0.0005, "p95": 0.0006, "p99": 0.0012},
        "online": {"pod": "default/p", "service": "chat", "attached": True}, "tenants": tenants, **fields,
    })  # fmt: skip


TUNE, ROWS = tenant("tune", "CoServe"), tenant("rows", "CoServe")


@pytest.mark.parametrize(
    ("given", "held"),
    [
        (device(tenant("tune"), in_flight=2), "online"),
        (device(tenant("tune"), in_flight=1), "online"),
        (device(tenant("tune")), "offline: tune"),
        (device(tenant("tune"), gate_open=False), "nobody"),
        (device(tenant("tune", attached=False)), "nobody"),
        (device(TUNE, ROWS), "riding: tune, rows"),
        (device(TUNE, gate_open=False, in_flight=1), "riding: tune"),
        (device(TUNE, gate_open=False, in_flight=2), "online; riding: tune"),
        (device(tenant("tune", "CoServe", attached=False)), "nobody"),
        (device(TUNE, tenant("other")), "offline: other; riding: tune"),
    ],
)
def test_holder(given, held):
    assert holder(given) == held


def record(*readings, **serving):
    found = DeviceRecord(device(TUNE, tenant("rows", "CoServe", attached=False), coServing={**SERVING, **serving}))
    found.rides = [RideReading(at, ridden) for at, ridden in enumerate(readings)]
    return found


def test_a_line_says_what_rides():
    found = record(Ridden(forward=500, solo=500), Ridden(forward=1500, solo=500, backward=400, rows=234))
    line = device_line(found)
    assert line == "riding: tune, seats 2 of 8, 315 tokens/s, 1,234 tokens ridden, in 41% of the steps"


def test_a_line_says_what_is_behind_the_gate():
    assert device_line(DeviceRecord(device(tenant("tune")))) == "offline: tune, harvested 55%, 7 preemptions"


@pytest.mark.parametrize("readings", [[], [Ridden(rows=100)]])
def test_before_anything_rode_there_is_a_line_too(readings):
    assert "0 tokens ridden" in device_line(record(*readings))


def test_where_riding_has_ended_the_line_says_why():
    assert "seats ended: the learner failed" in device_line(record(ended="the learner failed"))


def drawn(*records):
    console = Console(record=True, width=160, file=io.StringIO())
    console.print(device_table(World(devices={("node", f"cpu{at}"): one for at, one in enumerate(records)})))
    return console.export_text()


def test_the_table_has_seats_where_an_engine_takes_jobs_in():
    text = drawn(record(Ridden(), Ridden(rows=1234)), DeviceRecord(device(online=None)))
    for part in ("seats taken", "riding: tune", "2 of 8", "315", "1,234", "41%"):
        assert part in text
    assert "preemptions" not in text
    assert text.splitlines()[-1].split() == ["node/cpu1", "nobody", "60%", "-", "-", "-", "-"]


def test_the_table_has_stops_where_none_does():
    text = drawn(DeviceRecord(device(tenant("tune"))))
    for part in ("preemptions", "0.40 / 1.20 ms", "55%", "offline: tune"):
        assert part in text
    assert "seats" not in text
