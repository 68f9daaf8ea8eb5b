"""The jobs of the co-serving example ride in the engine of its service, and that of the spatial one does not."""

from typing import Any

import pytest
import yaml

from rowen.crds.generate import REPOSITORY
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.service.online_service import OnlineServiceSpec
from rowen.scheduler.model.rider import rider_of, served_by

EXAMPLES = REPOSITORY / "examples"


def specs(kind: str, folder: str = "coserve") -> dict[str, Any]:
    """By file."""
    found = {path.name: yaml.safe_load(path.read_text()) for path in sorted((EXAMPLES / folder).glob("*.yaml"))}
    return {name: manifest["spec"] for name, manifest in found.items() if manifest["kind"] == kind}


@pytest.mark.parametrize("name", specs("OfflineJob"))
def test_it_rides(name: str) -> None:
    [service] = specs("OnlineService").values()
    served = served_by(OnlineServiceSpec.from_wire(service), "default")
    rider = rider_of(OfflineJobSpec.from_wire(specs("OfflineJob")[name]))
    assert served is not None
    assert rider is not None
    assert (rider.model, rider.obstacle_in(served.args)) == (served.model, "")


def test_it_runs_beside_an_engine_of_another_model() -> None:
    [service], [job] = (list(specs(kind, "spatial").values()) for kind in ("OnlineService", "OfflineJob"))
    spec, rider = OnlineServiceSpec.from_wire(service), rider_of(OfflineJobSpec.from_wire(job))
    assert spec.harvest.mode == "Spatial"
    assert served_by(spec, "default") is None
    assert spec.engine is not None
    assert rider is not None
    assert rider.model != spec.engine.model.reference
