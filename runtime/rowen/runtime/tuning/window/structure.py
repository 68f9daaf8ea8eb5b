"""Nested lists, dictionaries and the like, taken apart into their tensors and the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten


@dataclass(frozen=True)
class _Hole:
    """In place of a tensor."""

    tensor: int


@dataclass(frozen=True)
class Structure:
    """What is left without the tensors."""

    spec: TreeSpec
    leaves: list[Any]

    @property
    def constants(self) -> list[Any]:
        """The leaves that are no tensors."""
        return [leaf for leaf in self.leaves if not isinstance(leaf, _Hole)]

    def filled(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The value with these tensors."""
        leaves = [tensors[leaf.tensor] if isinstance(leaf, _Hole) else leaf for leaf in self.leaves]
        return tree_unflatten(leaves, self.spec)


def take_apart(value: Any) -> tuple[Structure, list[torch.Tensor]]:
    """The structure and the tensors, each once however often it occurs."""
    leaves, spec = tree_flatten(value)
    tensors = list({id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}.values())
    numbers = {id(tensor): number for number, tensor in enumerate(tensors)}
    return Structure(spec, [_Hole(numbers[id(leaf)]) if id(leaf) in numbers else leaf for leaf in leaves]), tensors
