"""What a server of vLLM's says of itself."""

import asyncio
from dataclasses import dataclass
from typing import Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

_TOKENS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")


@dataclass(frozen=True)
class Counters:
    """At one moment."""

    seconds: float
    """Of the event loop's clock."""
    tokens: float
    """Of prompts and answers, since the server began."""
    waiting: float
    """Requests."""
    cache: float
    """Part of it that is in use."""

    @classmethod
    async def read(cls, client: httpx.AsyncClient) -> Self:
        """Asks the server."""
        response = await client.get("/metrics")
        return cls.of(response.raise_for_status().text, asyncio.get_running_loop().time())

    @classmethod
    def of(cls, text: str, seconds: float) -> Self:
        """From the text of its metrics."""
        found = {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("vllm:")
        }
        return cls(
            seconds,
            sum(found[name] for name in _TOKENS),
            found["vllm:num_requests_waiting"],
            found["vllm:kv_cache_usage_perc"],
        )
