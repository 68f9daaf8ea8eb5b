"""An image with vLLM that knows nothing of Rowen, for the local cluster."""

import hashlib
import tempfile
from pathlib import Path

from rowen.cluster.images import buildah
from rowen.cluster.layout import REGISTRY, Layout
from rowen.cluster.services import registry

_DOCKERFILE = Path(__file__).parents[1] / "images" / "plain-vllm.Dockerfile"
_REPOSITORY = "rowen/plain-vllm"


def ensure(runtime: str) -> str:
    """Builds it on the runtime image of this reference, where it is not there yet. Returns its reference."""
    layout = Layout()
    tag = hashlib.sha256(runtime.encode() + _DOCKERFILE.read_bytes()).hexdigest()[:12]
    reference = f"{REGISTRY}/{_REPOSITORY}:{tag}"
    if not registry.has(_REPOSITORY, tag):
        image = f"localhost/{_REPOSITORY}:{tag}"
        base = f"localhost/{runtime.removeprefix(f'{REGISTRY}/')}"
        with tempfile.TemporaryDirectory() as nothing:
            log = layout.logs / "image-plain-vllm.log"
            buildah.build(layout, image, _DOCKERFILE, Path(nothing), {"BASE": base}, log)
        buildah.push_uncompressed(layout, image, reference)
    return reference
