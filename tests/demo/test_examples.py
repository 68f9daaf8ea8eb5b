"""The amounts of memory in `examples/` and `examples/helm/`, which belong together."""

from pathlib import Path

import pytest
import yaml

from rowen.crds.base import quantity_bytes
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.service.online_service import OnlineServiceSpec

EXAMPLES = Path(__file__).parents[2] / "examples"
MIB = 2**20
TOKEN_BYTES = 8 * 1024
"""Of the demo's model: keys and values of 8 layers with 4 heads of 64 numbers of 2 bytes."""


def parts():
    """What the service and both jobs have for themselves, and at most, in bytes."""
    specs = [
        OfflineJobSpec.from_wire(yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())["spec"])
        for name in ("nightly-summaries", "support-lora")
    ]
    service = OnlineServiceSpec.from_wire(yaml.safe_load((EXAMPLES / "online-service.yaml").read_text())["spec"])
    return [(quantity_bytes(each.memory), quantity_bytes(each.memory_limit)) for each in (service.engine, *specs)]


@pytest.mark.parametrize("name", ["local.yaml", "one-core.yaml"])
def test_service_and_both_jobs_fit_on_a_device_and_compete_for_its_pool(name):
    for device in yaml.safe_load((EXAMPLES / "helm" / name).read_text())["agent"]["devices"]:
        pool = quantity_bytes(device["memory"]) - sum(own for own, _ in parts())
        shares = [most - own for own, most in parts()]
        assert 0 < pool < sum(shares)
        assert all(share % quantity_bytes(device["handle"]) == 0 for share in shares)
        assert shares[0] == pool, "the service may have all of it"


def test_the_service_has_room_for_all_requests_that_it_takes_at_once():
    args = dict(argument.split("=") for argument in yaml.safe_load(
        (EXAMPLES / "online-service.yaml").read_text())["spec"]["engine"]["args"])  # fmt: skip
    own, most = parts()[0]
    assert int(args["--max-num-seqs"]) * int(args["--max-model-len"]) * TOKEN_BYTES < most - own
