"""Good runs of the demo, for the tests of its report."""

import time
from collections import Counter
from typing import Any

from outcomes import outcome
from pools import reading

from rowen.crds.harvest.co_serving import CoServing
from rowen.crds.harvest.device_detail import DeviceDetail
from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.demo.mode import Mode
from rowen.demo.show.report import Run
from rowen.demo.show.world import DeviceRecord, World
from rowen.demo.verdict.checks import PodEvidence
from rowen.demo.verdict.objective import Objective, Target
from rowen.demo.verdict.riding import Ridden, RideReading
from rowen.demo.verdict.timeline import ServedRequest, Transition

START = 1000.0
FOUND = PodEvidence(adapter_tokens=48, base_loss=6.9, adapter_loss=4.2, input_rows=120, output_rows=120)


def harvest(service: str = "chat") -> DeviceDetail:
    return DeviceDetail.from_wire({
        "id": "cpu1", "type": "cpu", "memoryBytes": 2**33, "harvestable": True, "gateOpen": True, "idleFraction": 0.6,
        "harvestedFraction": 0.5, "preemptions": 2,
        "online": {
            "pod": "default/chat-1", "service": service, "attached": True,
        },
        "tenants": [{
            "pod": "default/support-lora-0", "job": "support-lora", "attached": True,
        }],
    })  # fmt: skip


def finished(reason: str = "Completed") -> OfflineJobStatus:
    condition = {"type": "Finished", "status": "True", "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    progress = {"completed": 10, "total": 10}
    return OfflineJobStatus.from_wire({"conditions": [condition], "progress": progress, "state": reason})


def world() -> World:
    known = World(since=time.time())
    record = DeviceRecord(harvest())
    record.see(
        [Transition(at, at + 0.0003, at + 2, 0.0003, 1) for at in (1002.0, 1010.0)],
        [ServedRequest(1004.0, 0.05, 0.02, 1, True), ServedRequest(1012.0, 0.06, 0.02, 0, True)],
    )
    record.present = [(990.0, 1030.0)]
    record.pool = [reading(999.0, ahead=4, offline=96), reading(1003.0, used=10, ahead=2, offline=88, reclaims=8)]
    known.devices = {("rowen-node-1", "cpu1"): record}
    known.jobs = {"support-lora": finished(), "nightly-summaries": finished()}
    known.observations = 60
    return known


def run(**changes: Any) -> Run:
    given: dict[str, Any] = {
        "mode": Mode.PREEMPT,
        "service": "chat",
        "jobs": ("support-lora", "nightly-summaries"),
        "objective": Objective(Target(99, 0.5), Target(99, 0.06)),
        "started": START,
        "seconds": 20.0,
        "expected_requests": 2,
        "outcomes": [outcome(1002.0, seconds=2.0), outcome(1010.0, seconds=2.0)],
        "alone": [],
        "world": world(),
        "found": FOUND,
    }
    return Run(**(given | changes))


def riding(**changes: Any) -> Run:
    """Both jobs rode from five seconds before the replay to half of it, and nothing was behind the gate."""
    known = world()
    record = known.devices["rowen-node-1", "cpu1"]
    tenants = [tenant.model_copy(update={"mode": "CoServe"}) for tenant in record.harvest.tenants]
    record.harvest = record.harvest.model_copy(update={"tenants": tenants, "co_serving": CoServing(seats=8)})
    record.transitions, record.requests, record.present = {}, {}, []
    record.see(
        [Transition(at, at, at + 2, 0.0, 0) for at in (1002.0, 1010.0)],
        [ServedRequest(at, 0.05, 0.02, 0, True) for at in (1004.0, 1012.0)],
    )
    record.rides = [RideReading(START + at, _ridden(min(at, 10) + 5)) for at in range(-5, 31)]
    known.modes = {name: Counter({"CoServe": 30}) for name in known.jobs}
    return run(mode=Mode.CO_SERVE, world=known, **changes)


def _ridden(seconds: int) -> Ridden:
    per_second = {"forward": 10, "solo": 20, "backward": 30, "rows": 5, "steps": 4, "riding_steps": 2}
    return Ridden(**{name: count * seconds for name, count in per_second.items()})
