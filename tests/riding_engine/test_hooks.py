"""A window's rows on their way through a model's linear layers."""

from typing import Any

import pytest
import torch
from torch import nn

from rowen.runtime.coserve.learner import Linear
from rowen.runtime.vllm.riding.hooks import Hooks
from rowen.runtime.vllm.riding.unsuitable import UnsuitableError

LAYERS, WIDTH = 2, 6


class Window:
    """Its rows are a number and its place's; it keeps what comes back."""

    tokens, whole_tokens, context = 3, 3, 6

    def __init__(
        self,
        dtype: torch.dtype = torch.float32,
        fails_at: tuple[int, Linear] | None = None,
        first_layer: int = 0,
    ) -> None:
        self.first_layer = first_layer
        self.left: list[tuple[int, Linear]] = []
        self.outputs: list[torch.Tensor] = []
        self._dtype, self._fails_at = dtype, fails_at

    def enter(self, layer: int, linear: Linear) -> torch.Tensor:
        if (layer, linear) == self._fails_at:
            raise ZeroDivisionError
        return torch.full((self.tokens, WIDTH), 10.0 * layer + list(Linear).index(linear), dtype=self._dtype)

    def leave(self, layer: int, linear: Linear, outputs: torch.Tensor) -> None:
        self.left.append((layer, linear))
        self.outputs.append(outputs.clone())

    def finish(self) -> None:
        raise AssertionError

    def abandon(self) -> None:
        raise AssertionError


class Passed(nn.Module):
    """A decoder's linear layers one after the other, as vLLM names them."""

    def __init__(self) -> None:
        from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod

        super().__init__()
        self.passed: list[Any] = []
        draw = torch.Generator().manual_seed(0)
        self.layers = nn.ModuleList()
        for _ in range(LAYERS):
            layer = nn.Module()
            for block, names in (("self_attn", ("qkv_proj", "o_proj")), ("mlp", ("gate_up_proj", "down_proj"))):
                layer.add_module(block, nn.Module())
                for name in names:
                    # Of vLLM's layers no more than what the hooks look at: all of them need its configuration.
                    linear = LinearBase.__new__(LinearBase)
                    nn.Module.__init__(linear)
                    # Of whole numbers, so that sums are exact in whatever order a CPU's kernels add.
                    weight = torch.randint(-4, 5, (WIDTH, WIDTH), generator=draw).float()
                    linear.weight = nn.Parameter(weight, requires_grad=False)
                    linear.quant_method = UnquantizedLinearMethod.__new__(UnquantizedLinearMethod)
                    linear.quant_method._gemm_impl = lambda _, x, weight, bias: nn.functional.linear(x, weight, bias)
                    getattr(layer, block).add_module(name, linear)
                    self.passed.append(linear)
            self.layers.append(layer)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [linear.quant_method.apply(linear, x, torch.ones(WIDTH)) for linear in self.passed]


@pytest.fixture
def model() -> Passed:
    return Passed()


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(mine, others) for mine, others in zip(one, other, strict=True))


X = torch.arange(4.0 * WIDTH).reshape(4, WIDTH)


def test_rows_go_along_and_come_back(model: Passed) -> None:
    expected = model(X)
    hooks = Hooks(model, LAYERS)
    assert same(model(X), expected)
    window = Window()
    hooks.arm(window)
    assert same(model(X), expected)
    ride = hooks.disarm()
    assert ride is not None
    assert ride.is_through
    assert ride.error is None
    assert window.left == [(layer, linear) for layer in range(LAYERS) for linear in Linear]
    for linear, outputs, place in zip(model.passed, window.outputs, window.left, strict=True):
        rows = window.enter(*place)
        assert torch.allclose(outputs, nn.functional.linear(rows, linear.weight, torch.ones(WIDTH)))
    assert hooks.disarm() is None
    assert same(model(X), expected)


def test_a_window_may_ride_from_a_later_layer_on(model: Passed) -> None:
    expected = model(X)
    hooks = Hooks(model, LAYERS)
    window = Window(first_layer=1)
    hooks.arm(window)
    assert same(model(X), expected)
    ride = hooks.disarm()
    assert ride is not None
    assert ride.is_through
    assert window.left == [(1, linear) for linear in Linear]


@pytest.mark.parametrize("window", [Window(fails_at=(1, Linear.OUTPUT)), Window(torch.float64)])
def test_a_window_that_fails_gets_off(model: Passed, window: Window) -> None:
    expected = model(X)
    hooks = Hooks(model, LAYERS)
    hooks.arm(window)
    assert same(model(X), expected)
    ride = hooks.disarm()
    assert ride is not None
    assert not ride.is_through
    assert isinstance(ride.error, (ZeroDivisionError, TypeError))


def test_layers_that_are_passed_otherwise_have_no_riders(model: Passed) -> None:
    hooks = Hooks(model, LAYERS)
    for order in (model.passed[:-1], model.passed[::-1], [*model.passed, model.passed[0]]):
        model.passed, whole = order, model.passed
        expected = [nn.functional.linear(X, linear.weight, torch.ones(WIDTH)) for linear in order]
        hooks.arm(Window())
        assert same(model(X), expected)
        model.passed = whole
        ride = hooks.disarm()
        assert ride is not None
        assert not ride.is_through
        assert ride.error is None


def test_without_hooks_the_layers_are_as_they_were(model: Passed) -> None:
    hooks = Hooks(model, LAYERS)
    hooks.arm(Window())
    hooks.remove()
    hooks.remove()
    assert not any("apply" in vars(linear.quant_method) for linear in model.passed)
    assert hooks.disarm() is None


def test_a_model_of_other_layers_is_unsuitable(model: Passed) -> None:
    with pytest.raises(UnsuitableError, match="Passed is not made of the layers that were expected"):
        Hooks(model, LAYERS + 1)
    model.passed[0].quant_method = object()
    with pytest.raises(UnsuitableError, match=r"layers\.0\.self_attn\.qkv_proj is no plain linear layer"):
        Hooks(model, LAYERS)
    model.passed[0].quant_method = model.passed[1].quant_method
    with pytest.raises(UnsuitableError, match="share what computes them"):
        Hooks(model, LAYERS)
