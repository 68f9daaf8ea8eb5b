"""Causal attention of a stretch of a sequence to all of the sequence up to it."""

import torch
from torch.nn import functional

BLOCK_TOKENS = 32
"""Whose scores are computed at once on the way back: few enough to stay in a processor's cache."""


def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """[tokens, heads, head_size] of queries [tokens, heads, head_size]; its last token is the last one of the keys.

    Keys and values: [context, key_heads, head_size].
    """
    tokens, context = len(queries), len(keys)
    mask = None if tokens == context else _reach(tokens, context, queries.device)
    outputs = functional.scaled_dot_product_attention(
        queries.transpose(0, 1)[None],
        keys.transpose(0, 1)[None],
        values.transpose(0, 1)[None],
        attn_mask=mask,
        is_causal=mask is None,
        enable_gqa=queries.shape[1] != keys.shape[1],
    )
    return outputs[0].transpose(0, 1)


def attend_backward(
    gradient: torch.Tensor,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    key_gradient: torch.Tensor,
    value_gradient: torch.Tensor,
) -> torch.Tensor:
    """Gradient of the queries in float32; those of keys and values are added to theirs, which are float32.

    Shapes as in `attend`. With P the softmax of the scores S: dS = P * (dP - sum(dP * P)), row by row.
    """
    tokens, heads, _ = queries.shape
    context, key_heads, _ = keys.shape
    group = heads // key_heads
    found = torch.empty_like(queries, dtype=torch.float32)
    for head in range(key_heads):
        of_head = slice(head * group, (head + 1) * group)
        own_keys, own_values = keys[:, head].float(), values[:, head].float()
        for begin in range(0, tokens, BLOCK_TOKENS):
            end = min(begin + BLOCK_TOKENS, tokens)
            reach = context - tokens + end
            found[begin:end, of_head] = _block_backward(
                gradient[begin:end, of_head].float(),
                queries[begin:end, of_head].float(),
                own_keys[:reach],
                own_values[:reach],
                key_gradient[:reach, head],
                value_gradient[:reach, head],
            )
    return found


def _block_backward(
    gradient: torch.Tensor,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    key_gradient: torch.Tensor,
    value_gradient: torch.Tensor,
) -> torch.Tensor:
    """The same for the heads [tokens, group, head_size] of one head of keys [reach, head_size]."""
    tokens, group, size = queries.shape
    reach, scale = len(keys), size**-0.5
    rows, given = queries.reshape(-1, size), gradient.reshape(-1, size)
    scores = (rows @ keys.t()).mul_(scale)
    _hide_future(scores.view(tokens, group, reach))
    weights = torch.softmax(scores, -1)
    value_gradient.addmm_(weights.t(), given)
    change = given @ values.t()
    change.sub_((change * weights).sum(-1, keepdim=True)).mul_(weights)
    key_gradient.addmm_(change.t(), rows, alpha=scale)
    return (change @ keys).mul_(scale).view(tokens, group, size)


def _hide_future(scores: torch.Tensor) -> None:
    """Of scores [tokens, group, reach], whose last token is the last of the reach."""
    tokens = len(scores)
    future = torch.ones(tokens, tokens, dtype=torch.bool, device=scores.device).triu_(1)
    scores[:, :, -tokens:].masked_fill_(future[:, None], float("-inf"))


def _reach(tokens: int, context: int, device: torch.device) -> torch.Tensor:
    """What each token may attend to, [tokens, context]."""
    return torch.ones(tokens, context, dtype=torch.bool, device=device).tril_(context - tokens)
