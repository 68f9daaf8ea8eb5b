"""Which PersistentVolumeClaims a job's pod mounts."""

from typing import Any

import pytest

from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.pod.volume_claims import WorkerClaims, claim_names, worker_claims

MODEL = {"claimName": "models", "path": "m"}
HUB = {"huggingFace": {"repo": "org/m", "revision": "1"}}


def at(claim: str, path: str = "p") -> dict[str, str]:
    return {"claimName": claim, "path": path}


def spec(**fields: Any) -> OfflineJobSpec:
    return OfflineJobSpec.from_wire(fields)


def mounting(*volumes: Any) -> OfflineJobSpec:
    return spec(template={"spec": {"containers": [{"name": "m", "image": "i"}], "volumes": list(volumes)}})


def mounted(name: Any) -> dict[str, Any]:
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


@pytest.mark.parametrize(
    ("job", "worker", "names"),
    [
        (
            spec(fineTune={"baseModel": MODEL, "dataset": at("rows"), "output": at("out")}),
            WorkerClaims(("models", "rows"), ("out",)),
            ("models", "out", "rows"),
        ),
        (
            spec(fineTune={"baseModel": HUB, "dataset": at("data", "d"), "output": at("data", "o")}),
            WorkerClaims(("data",), ("data",)),
            ("data",),
        ),
        (
            spec(batchInference={"model": MODEL, "input": at("in"), "output": at("models", "o")}),
            WorkerClaims(("models", "in"), ("models",)),
            ("in", "models"),
        ),
        (mounting(mounted("b"), {"name": "t", "emptyDir": {}}, mounted("a"), mounted("b")), WorkerClaims(), ("a", "b")),
        (
            spec(
                batchInference={"model": HUB, "input": at("in"), "output": at("in", "o")},
                podTemplate={"spec": {"volumes": [mounted("cache"), {"name": "t", "emptyDir": {}}]}},
            ),
            WorkerClaims(("in",), ("in",)),
            ("cache", "in"),
        ),
        (mounting({"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}), WorkerClaims(), ()),
    ],
)
def test_the_claims_of_each_kind_of_work(job: OfflineJobSpec, worker: WorkerClaims, names: tuple[str, ...]) -> None:
    assert worker_claims(job) == worker
    assert claim_names(job) == names


@pytest.mark.parametrize("volume", [None, "v", [], {}, {"persistentVolumeClaim": "a"}, mounted(None), mounted(7)])
def test_a_volume_that_is_not_understood_names_none(volume: Any) -> None:
    assert claim_names(mounting(volume, mounted("a"))) == ("a",)


@pytest.mark.parametrize("template", [{}, {"spec": None}, {"spec": ["volumes"]}, {"spec": {"volumes": {"name": "v"}}}])
def test_a_template_that_is_not_understood_names_none(template: Any) -> None:
    assert claim_names(OfflineJobSpec.model_construct(template=template)) == ()
