"""vLLM's routes that answer a request with JSON."""

from typing import Any

_SAID = [{"role": "user", "content": "a"}]
_SCORED = {"text_1": "a", "text_2": "a"}
_RANKED = {"query": "a", "documents": ["a"]}

ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": _SAID, "max_tokens": 1},
    "/v1/completions": {"prompt": "a", "max_tokens": 1},
    "/v1/responses": {"input": "a", "max_output_tokens": 1},
    "/v1/messages": {"messages": _SAID, "max_tokens": 1},
    "/v1/embeddings": {"input": "a"},
    "/v2/embed": {"texts": ["a"]},
    "/v1/score": _SCORED,
    "/score": _SCORED,
    "/v1/rerank": _RANKED,
    "/v2/rerank": _RANKED,
    "/rerank": _RANKED,
    "/pooling": {"input": "a"},
    "/classify": {"input": "a"},
    "/tokenize": {"prompt": "a"},
}
"""With a small request to each, without its `model`. Which of them are served follows from the model."""
