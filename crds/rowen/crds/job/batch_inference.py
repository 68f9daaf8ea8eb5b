"""Batch inference: requests in a file, answers in another."""

from typing import Annotated

from pydantic import ConfigDict, Field

from rowen.crds.base import ApiModel, rules
from rowen.crds.job.apart import apart
from rowen.crds.job.place import InputPlace, ModelSource, OutputPlace
from rowen.crds.service.engine_args import BATCH_MESSAGE, BATCH_PATTERN

# Of a crash between two kinds of storage nobody could tell what was written.
_ALIKE = (
    "!has(self.errors) || has(self.errors.uri) == has(self.output.uri)",
    "errors and output must both be on a volume or both in object storage",
)


class BatchInference(ApiModel):
    """Batch inference over a file in the OpenAI batch format, through vLLM's own routes."""

    model: ModelSource
    """Model that answers."""
    adapter: InputPlace | None = None
    """Folder of a LoRA adapter that answers with the model, as a fine-tuning job writes it."""
    input: InputPlace
    """JSONL file of requests: `custom_id`, `method`, `url`, `body`."""
    output: OutputPlace
    """JSONL file of results: one line per request, each exactly once."""
    errors: OutputPlace | None = None
    """JSONL file of the results that are errors; by default they are among the others."""
    args: Annotated[list[Annotated[str, Field(max_length=1024)]], Field(max_length=64)] = []
    """Further arguments of vLLM's API server, e.g. `--tool-call-parser=hermes`; not those that the job decides."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            apart("output", "input"),
            apart("errors", "input"),
            apart("errors", "output"),
            _ALIKE,
            (f"!self.args.exists(arg, arg.matches('{BATCH_PATTERN}'))", BATCH_MESSAGE),
        )
    )
