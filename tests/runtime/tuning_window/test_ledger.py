"""What the window tells of its handles."""

import torch
from memory.local_arena import LocalArena
from memory.open_ledger import OpenLedger
from runtime.tuning_window.models import HANDLE_BYTES, LAYER_HANDLES, LAYERS, WHOLE, layers, llama, loss_of

from rowen.runtime.tuning.window.window import Window

TOKENS = 2 * 9
"""Of a batch of `loss_of`."""


class Book(OpenLedger):
    """With the price of each layer."""

    def costs(self) -> list[int]:
        """Of the layers' handles: what it costs to lose the first one of each layer."""
        firsts = range(0, WHOLE, LAYER_HANDLES)
        return [sum(self.tokens[o] for o, handles in self.handles.items() if first in handles) for first in firsts]


def test_a_layer_costs_the_more_the_sooner_it_is_needed() -> None:
    model, book = llama(), Book()
    seen: list[list[int]] = []
    layers(model)[2].mlp.register_forward_hook(lambda *_: seen.append(book.costs()))
    with Window(model, layers(model), LocalArena(WHOLE, HANDLE_BYTES), ledger=book):
        loss_of(model, 0).backward()
        with torch.no_grad():
            loss_of(model, 0)
    # Five layers forward and back: from the forward pass of the third, those behind it are needed again sooner.
    far, near = [TOKENS // 7, TOKENS // 6], [TOKENS // 2, TOKENS // 3]
    forward = [TOKENS // 8, TOKENS // 7, TOKENS, *near]
    backward = [TOKENS // 3, TOKENS // 2, TOKENS, TOKENS // 7, TOKENS // 8]
    evaluation = [TOKENS // 4, TOKENS // 5, TOKENS, *near]
    assert seen == [forward, backward, evaluation], far
    assert (book.tokens, book.handles) == ({}, {})


def test_an_input_costs_a_pass_until_it_is_gone_back_through() -> None:
    model, book = llama(), Book()
    arena = LocalArena(WHOLE + 1, HANDLE_BYTES)
    with Window(model, layers(model), arena, ledger=book, input_handles=1):
        owners = len(book.handles)
        loss = loss_of(model, 0)
        inputs = [owner for owner, handles in book.handles.items() if handles == {WHOLE}]
        assert len(inputs) == LAYERS - 1
        assert {book.tokens[owner] for owner in inputs} == {TOKENS}
        loss.backward()
        loss_of(model, 0).backward()
        # Some may wait to be tidied away until the next one comes.
        assert len(book.handles) <= owners + 1
    assert not book.handles
