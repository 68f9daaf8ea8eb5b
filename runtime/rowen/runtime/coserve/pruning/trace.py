"""The graph of a layer as torch computes it, traced with its way back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

from rowen.runtime.coserve.pruning.pruning import Joint, Operator

_VIEWS = frozenset(
    {"view", "_unsafe_view", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "slice", "detach", "alias",
     "select", "split", "unbind"}
)  # fmt: skip
_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm"})
_ATTENTION_COST = 1e9
"""Attention is never made again: its cost grows with the sequence."""


@dataclass(frozen=True)
class Traced:
    """A layer's graph, and which of its tensors are what."""

    joint: Joint
    inputs: str
    """Of the layer."""
    weights: frozenset[str]
    """And the angles."""
    gradients: Mapping[str, str]
    """By name of the parameter; with "" for the layer's inputs."""
    module: fx.GraphModule
    """Takes the gradient of the outputs, the inputs, the angles and the parameters in their order."""


def trace(layer: nn.Module, inputs: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor]) -> Traced:
    """Traces a decoder layer of transformers', with the gradients of its inputs and of all its parameters.

    Args:
        layer: The layer, adapters included.
        inputs: [1, tokens, hidden].
        angles: Cosines and sines of the positions, [1, tokens, head_size].
    """
    parameters = {name: weight.detach().requires_grad_() for name, weight in layer.named_parameters()}

    def forward(hidden: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, *weights: torch.Tensor) -> Any:
        named = dict(zip(parameters, weights, strict=True))
        outputs = functional_call(layer, named, (hidden,), {"position_embeddings": (cosines, sines)})
        return outputs[0] if isinstance(outputs, tuple) else outputs

    def joint(gradient: torch.Tensor, hidden: torch.Tensor, *others: torch.Tensor) -> Any:
        outputs = forward(hidden, *others)
        return outputs, torch.autograd.grad(outputs, [hidden, *others[2:]], gradient)

    arguments = (inputs.detach().requires_grad_(), *angles, *parameters.values())
    alone = make_fx(forward)(*arguments)
    calls = sum(node.op == "call_function" for node in alone.graph.nodes)
    return _read(make_fx(joint)(torch.empty_like(inputs), *arguments), calls, list(parameters))


def _read(module: fx.GraphModule, forward_calls: int, parameters: list[str]) -> Traced:
    nodes = list(module.graph.nodes)
    places = [node for node in nodes if node.op == "placeholder"]
    calls = [node for node in nodes if node.op == "call_function"]
    roots = _roots(nodes)
    makers = [_operator(node, roots) for node in calls if roots[node] is node]
    border = {roots[node].name for node in calls[:forward_calls]}
    outputs = nodes[-1].args[0]
    gradients = {
        name: roots[node].name for name, node in zip(["", *parameters], outputs[1], strict=True) if node is not None
    }
    constants = {node.name for node in nodes if node.op == "get_attr"}
    return Traced(
        Joint([each for each in makers if each.name in border], [each for each in makers if each.name not in border]),
        places[1].name,
        frozenset({place.name for place in places[2:]} | constants),
        gradients,
        module,
    )


def _roots(nodes: list[fx.Node]) -> dict[fx.Node, fx.Node]:
    """Of each node the one whose memory its tensor is in."""
    roots: dict[fx.Node, fx.Node] = {}
    for node in nodes:
        is_view = node.op == "call_function" and _name(node) in _VIEWS
        roots[node] = roots[node.all_input_nodes[0]] if is_view else node
    return roots


def _operator(node: fx.Node, roots: dict[fx.Node, fx.Node]) -> Operator:
    inputs = tuple(roots[each].name for each in node.all_input_nodes)
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return Operator(node.name, inputs, 0, _ATTENTION_COST)
    cost, name = 1.0, _name(node)
    if name in _PRODUCTS:
        # Each number of it is a sum of so many products.
        cost = 2.0 * node.all_input_nodes[-2].meta["val"].shape[-1]
    elif name == "getitem":
        cost = _ATTENTION_COST
    return Operator(node.name, inputs, value.numel() * value.itemsize, cost / value.itemsize)


def _name(node: fx.Node) -> str:
    """Of its operator, without its variant: `mm` of `aten.mm.default`."""
    packet = getattr(node.target, "overloadpacket", None)
    return str(packet).rpartition(".")[2] if packet is not None else str(getattr(node.target, "__name__", node.target))
