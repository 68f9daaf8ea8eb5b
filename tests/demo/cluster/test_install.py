import json
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.service.online_service import OnlineServiceSpec
from rowen.demo.cluster.install import CLAIMS, Images, is_default, job_pods, prepare
from rowen.demo.cluster.pods import OneOff, manifest
from rowen.demo.cluster.readiness import pod_trouble
from rowen.demo.errors import DemoError
from rowen.demo.lock import only_run
from rowen.demo.mode import Mode
from rowen.demo.run import JOBS, SERVICE

EXAMPLES = Path(__file__).parents[3] / "examples"


def objects_of(path):
    return list(yaml.safe_load_all(path.read_text()))


def objects(folder):
    return [value for path in sorted(folder.glob("*.yaml")) for value in objects_of(path)]


@pytest.mark.parametrize("mode", Mode)
def test_each_modes_examples_are_the_demos_three_objects(mode):
    folder = mode.examples(EXAMPLES.parent)
    found = {(value["kind"], value["metadata"]["name"]): value["spec"] for value in objects(folder)}
    assert set(found) == {("OnlineService", SERVICE), *(("OfflineJob", name) for name in JOBS)}
    for name in JOBS:
        OfflineJobSpec.from_wire(found["OfflineJob", name])
    (service,) = objects_of(folder / "online-service.yaml")
    assert OnlineServiceSpec.from_wire(service["spec"]).harvest.mode == mode


@pytest.mark.parametrize("name", ["host-path", "default-class"])
def test_both_kinds_of_volumes_make_the_same_claims(name):
    values = yaml.safe_load_all((EXAMPLES / "volumes" / f"{name}.yaml").read_text())
    claims = [value["metadata"]["name"] for value in values if value["kind"] == "PersistentVolumeClaim"]
    assert sorted(claims) == sorted(CLAIMS)


def test_images_are_read(tmp_path):
    path = tmp_path / "images.json"
    path.write_text(json.dumps({"controlplane": "a:1", "agent": "b:1", "runtime": "c:1"}))
    assert Images.load(path).runtime == "c:1"


@pytest.mark.parametrize("text", ["", "{}", '{"agent": "b:1"}'])
def test_missing_images_are_told(tmp_path, text):
    path = tmp_path / "images.json"
    path.write_text(text)
    with pytest.raises(DemoError, match=r"images\.json"):
        Images.load(path)


def test_a_one_off_pod_is_restricted():
    pod = manifest(OneOff("p", "image:1", "true", CLAIMS, "1Gi"), "default")["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert "initContainers" not in pod
    container = pod["containers"][0]["securityContext"]
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert container["allowPrivilegeEscalation"] is False


def test_only_host_path_volumes_are_handed_over_by_root():
    pod = manifest(OneOff("p", "image:1", "true", CLAIMS, "1Gi", take_ownership=True), "default")["spec"]
    assert "chown 65532:65532 /volumes/models /volumes/data" in pod["initContainers"][0]["command"][-1]


def test_the_default_class_is_told_by_its_annotation():
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    assert is_default({"metadata": {"annotations": annotations}})
    assert not is_default({"metadata": {}})


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        ({"phase": "Succeeded"}, ""),
        (
            {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}]},
            "container c: ErrImagePull no",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "cpu"}]},
            "PodScheduled: Unschedulable cpu",
        ),
    ],
)
def test_a_pods_trouble_is_told(status, trouble):
    assert pod_trouble({"status": status}) == trouble


class FakeCluster:
    """Knows pods only."""

    def __init__(self, *jobs):
        self.jobs = jobs

    async def pods(self, selector):
        return [{"metadata": {"name": f"{job}-1", "labels": {selector: job}}} for job in self.jobs]


async def test_outputs_are_not_cleared_under_running_jobs():
    images = Images("a:1", "b:1", "c:1")
    with pytest.raises(DemoError, match="support-lora-1"):
        await prepare(FakeCluster("support-lora", "another"), images, JOBS, Path(), Console())


async def test_only_the_demos_jobs_count():
    assert await job_pods(FakeCluster("another"), JOBS) == []


def test_one_demo_at_a_time(tmp_path):
    with only_run(tmp_path), pytest.raises(DemoError, match="another demo"), only_run(tmp_path):
        pass
    with only_run(tmp_path):
        pass
