"""Where files and models are: on a volume, in object storage, on the Hugging Face hub."""

from posixpath import normpath
from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from rowen.crds.base import ApiModel, Name, exactly_one, rules

_PATH = r"^[A-Za-z0-9_.][A-Za-z0-9_./-]*$"
VolumePath = Annotated[str, Field(min_length=1, max_length=1024, pattern=_PATH)]
"""A path inside a volume, relative to its root."""
# The characters that no URI of these needs to quote; `?`, `#` and `%` would mean something.
_KEY = r"[A-Za-z0-9_.~=@+-]+(/[A-Za-z0-9_.~=@+-]+)*/?"
ReadableUri = Annotated[str, Field(min_length=1, max_length=1024, pattern=rf"^(s3|gs|hf)://{_KEY}$")]
"""An address in object storage (`s3://bucket/key`, `gs://bucket/key`) or on the hub (`hf://datasets/owner/name/file`)."""
WritableUri = Annotated[str, Field(min_length=1, max_length=1024, pattern=rf"^(s3|gs)://{_KEY}$")]
"""An address in object storage."""

_NO_PARENT = ("!has(self.path) || !self.path.split('/').exists(part, part == '..')", "path must not contain '..'")
_NO_PARENT_URI = ("!has(self.uri) || !self.uri.split('/').exists(part, part == '..')", "uri must not contain '..'")
_TOGETHER = ("has(self.claimName) == has(self.path)", "claimName and path go together")
_SECRET = ("!has(self.secretName) || has(self.uri)", "secretName goes with uri")
_MODEL_SECRET = (
    "!has(self.secretName) || has(self.uri) || has(self.huggingFace)",
    "secretName goes with uri or huggingFace",
)
_ONE_PLACE = exactly_one(["claimName", "uri"])


class _Place(ApiModel):
    """A file or folder on a PersistentVolumeClaim of the same namespace, or in object storage."""

    claim_name: Name | None = None
    """Name of the PersistentVolumeClaim."""
    path: VolumePath | None = None
    """Path inside the volume, relative to its root."""
    secret_name: Name | None = None
    """Secret of the same namespace with the credentials for the address; by default those of the pod's environment and
    service account count."""

    model_config = ConfigDict(json_schema_extra=rules(_ONE_PLACE, _TOGETHER, _SECRET, _NO_PARENT, _NO_PARENT_URI))


class InputPlace(_Place):
    """A file or folder that is read: on a PersistentVolumeClaim of the same namespace, or at an address."""

    uri: ReadableUri | None = None
    """Address in place of a volume: `s3://`, `gs://` or `hf://`."""


class OutputPlace(_Place):
    """A file or folder that is written: on a PersistentVolumeClaim of the same namespace, or in object storage."""

    uri: WritableUri | None = None
    """Address in place of a volume: `s3://` or `gs://`."""


class HuggingFaceModel(ApiModel):
    """A model on the Hugging Face hub; needs a network path to the hub from the pod."""

    repo: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[\w.-]+(/[\w.-]+)?$")]
    """Repository, e.g. `meta-llama/Llama-3.1-8B`."""
    revision: Annotated[str, Field(min_length=1, max_length=128)]
    """Commit, tag or branch; pin a commit for repeatable results."""


class ModelSource(ApiModel):
    """Where a model comes from: a folder on a volume, a folder in object storage, or the Hugging Face hub."""

    claim_name: Name | None = None
    """PersistentVolumeClaim that holds the model folder."""
    path: VolumePath | None = None
    """Folder of the model inside the volume."""
    uri: WritableUri | None = None
    """Folder of the model in object storage: `s3://` or `gs://`."""
    hugging_face: HuggingFaceModel | None = None
    """Model on the Hugging Face hub."""
    secret_name: Name | None = None
    """Secret of the same namespace with the credentials for the address or the hub."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            exactly_one(["claimName", "uri", "huggingFace"]),
            _TOGETHER,
            _MODEL_SECRET,
            _NO_PARENT,
            _NO_PARENT_URI,
        )
    )

    @property
    def reference(self) -> str:
        """Names the model within its namespace: two with the same one are the same model.

        An address is one of the server that its Secret may name.
        """
        if self.hugging_face is not None:
            return f"hf://{self.hugging_face.repo}@{self.hugging_face.revision}"
        if self.uri is not None:
            return f"{self.uri.rstrip('/')}{f' of {self.secret_name}' if self.secret_name else ''}"
        return f"{self.claim_name}/{normpath(str(self.path))}"

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        sources = (self.claim_name, self.uri, self.hugging_face)
        if sum(source is not None for source in sources) != 1 or (self.claim_name is None) != (self.path is None):
            raise ValueError("exactly one of claimName (with path), uri and huggingFace must be set")
        return self
