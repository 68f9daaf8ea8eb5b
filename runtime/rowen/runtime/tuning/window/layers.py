"""The layers of a model, and which of their tensors may leave memory."""

from collections.abc import Iterator, Sequence
from itertools import chain

import torch
from torch import nn


def layers_of(model: nn.Module) -> list[nn.Module]:
    """The layers of the list that holds the most weights. Raises `ValueError` for a model without a list of layers."""
    lists: list[nn.Module] = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    if not lists:
        raise ValueError(f"{type(model).__name__} has no list of layers (torch.nn.ModuleList)")
    largest: nn.Module = max(lists, key=lambda layers: sum(weight.nbytes for weight in layers.parameters()))
    return list(largest.children())


def movable_tensors(model: nn.Module, layers: Sequence[nn.Module]) -> list[list[torch.Tensor]]:
    """Of each layer the frozen floating-point tensors that belong to it alone.

    Numbers that are no floating-point numbers stay: as indices they must never be rubbish.
    """
    users: dict[int, set[int]] = {}
    for number, layer in enumerate(layers):
        for tensor in _tensors(layer):
            users.setdefault(tensor.data_ptr(), set()).add(number)
    shared = {tensor.data_ptr() for tensor in _tensors_outside(model, {id(layer) for layer in layers})}
    shared |= {address for address, numbers in users.items() if len(numbers) > 1}
    return [
        [tensor for tensor in _tensors(layer) if _is_movable(tensor) and tensor.data_ptr() not in shared]
        for layer in layers
    ]


def _tensors(module: nn.Module) -> chain[torch.Tensor]:
    return chain(module.parameters(), module.buffers())


def _tensors_outside(module: nn.Module, layers: set[int]) -> Iterator[torch.Tensor]:
    """Those that are reached without passing through a layer."""
    if id(module) not in layers:
        yield from chain(module.parameters(recurse=False), module.buffers(recurse=False))
        for child in module.children():
            yield from _tensors_outside(child, layers)


def _is_movable(tensor: torch.Tensor) -> bool:
    frozen = tensor.is_floating_point() and not tensor.requires_grad
    return frozen and tensor.is_contiguous() and tensor.numel() > 0 and tensor.device.type == "cpu"
