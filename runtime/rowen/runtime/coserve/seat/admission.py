"""Whom an engine works for."""

import torch

from rowen.runtime.coserve.seat.host import Host
from rowen.runtime.coserve.task import Target
from rowen.runtime.coserve.wire.layout import AdapterLayout
from rowen.runtime.coserve.wire.messages import WIRE_VERSION, Hello

_PRECISIONS = {"Float32": torch.float32, "BFloat16": torch.bfloat16}


class Unwelcome(Exception):  # noqa: N818
    """The guest is let go. The message is for its people."""

    def __init__(self, message: str, *, retry: bool = False) -> None:
        """With `retry` it may come again."""
        super().__init__(message)
        self.message = message
        self.retry = retry


def admit(hello: Hello, host: Host, digest: str) -> AdapterLayout:
    """How the guest's weights lie in memory. `digest` is that of the served model. Raises `Unwelcome`."""
    if hello.version != WIRE_VERSION:
        # The next attempt's worker may be of another release, and so may the engine's next pod.
        raise Unwelcome(f"the job's worker speaks version {hello.version}, the engine {WIRE_VERSION}", retry=True)
    if hello.model != digest:
        raise Unwelcome("the engine serves another model than the job's base model")
    if _PRECISIONS[hello.precision] != host.dtype:
        engine = str(host.dtype).removeprefix("torch.")
        raise Unwelcome(f"the engine computes in {engine}, and the job asks for precision {hello.precision}")
    _check_places(hello.places, host)
    return AdapterLayout(hello.rank, tuple(hello.places), host.sizes)


def _check_places(places: list[tuple[int, Target]], host: Host) -> None:
    if len(set(places)) < len(places):
        raise Unwelcome("a linear layer is adapted twice")
    for layer, target in places:
        if layer >= host.layers or target not in host.sizes:
            raise Unwelcome(f"the engine has no {target} in layer {layer}")
