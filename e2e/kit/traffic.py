"""Online requests, and what became of them."""

import asyncio
import threading
import time
from dataclasses import dataclass

import httpx

_PAUSE_SECONDS = 0.5
_SHORT = "how do I return an order"


@dataclass(frozen=True)
class Answer:
    """One request as its client saw it."""

    sent: float
    """Monotonic seconds."""
    ttft_seconds: float | None
    error: str | None


async def _ask(client: httpx.AsyncClient, model: str, prompt: str | list[int], tokens: int) -> Answer:
    sent = time.monotonic()
    first: float | None = None
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": tokens,
        "stream": True,
        "ignore_eos": True,
    }
    try:
        async with client.stream("POST", "/v1/completions", json={**body, "stream": True}) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if first is None and line.startswith("data: {"):
                    first = time.monotonic() - sent
    except httpx.HTTPError as error:
        return Answer(sent, first, f"{type(error).__name__}: {error}")
    return Answer(sent, first, None if first is not None else "no token")


class Background:
    """Traffic that runs beside a test and is looked at afterwards.

    One request after another with a pause between them: however slow the machine is, it leaves time for offline work.
    """

    def __init__(self, url: str, model: str) -> None:
        self._url, self._model = url, model
        self.answers: list[Answer] = []

    async def _run(self, stop: asyncio.Event) -> None:
        async with httpx.AsyncClient(base_url=self._url, timeout=30, trust_env=False) as client:
            while not stop.is_set():
                self.answers.append(await _ask(client, self._model, _SHORT, 16))
                await asyncio.sleep(_PAUSE_SECONDS)

    def __enter__(self) -> "Background":
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(self._stop),))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=60)

    @property
    def errors(self) -> list[str]:
        """What went wrong, by request."""
        return [answer.error for answer in self.answers if answer.error]


def burst(url: str, model: str, prompts: list[list[int]], tokens: int) -> list[Answer]:
    """What becomes of requests that come all at once."""

    async def run() -> list[Answer]:
        async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as client:
            return await asyncio.gather(*(_ask(client, model, prompt, tokens) for prompt in prompts))

    return asyncio.run(run())
