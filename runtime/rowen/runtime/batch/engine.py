"""vLLM in this process, as the batch loop sees it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog
from typing_extensions import override

from rowen.crds.base import quantity_text
from rowen.runtime.batch import precision
from rowen.runtime.batch.memory import MAX_SEQUENCES, bytes_left, cache_bytes, start_failure
from rowen.runtime.batch.requests import ChatRow, CompletionRow, Request
from rowen.runtime.batch.results import Answer
from rowen.runtime.failure import WorkerError
from rowen.runtime.memory.part import PoolPart
from rowen.runtime.vllm.elastic.attachment import attach
from rowen.runtime.vllm.elastic.geometry import TooLittleError, UnsuitableError

log = structlog.get_logger()

_ELASTIC = {
    "scheduler_cls": "rowen.runtime.vllm.elastic.scheduler.ElasticScheduler",
    "worker_cls": "rowen.runtime.vllm.elastic.worker.ElasticWorker",
}
_OWN_MEMORY = {"worker_cls": "rowen.runtime.vllm.seeded.SeededWorker"}
_COMPLETION_TOKENS = 16
"""What OpenAI's completions route takes for `max_tokens` when it is absent."""


class UnanswerableError(Exception):
    """The model cannot answer this request; the others are not touched."""


@dataclass(frozen=True)
class Length:
    """How many tokens a sequence may have, prompt and answer together."""

    model: int
    """Those that the model takes."""
    fitting: int
    """Those of them for which the job's memory is enough."""


@dataclass(frozen=True)
class StepResult:
    """What a step brought."""

    answers: dict[int, Answer]
    """Those that became complete, by input line."""
    tokens: int
    """Tokens worked through: new ones, and the prompts of requests that gave their first."""


class Engine(Protocol):
    """Answers requests, several at a time."""

    def add(self, request: Request) -> None:
        """Takes a request. Raises `UnanswerableError`."""

    def step(self) -> "StepResult":
        """Works on for a moment."""


class VllmEngine(Engine):
    """`Engine` on vLLM's `LLMEngine`, without a second process."""

    def __init__(self, model: Path, memory_bytes: int, part: PoolPart | None = None) -> None:
        """Loads the model. Raises `WorkerError` when it does not fit into so much memory.

        The cache takes some of that memory, or lies in the part of the device's pool, of which handles may be taken
        away at any moment. Sequences are no longer than the one or the other allows.
        """
        # No process of vLLM's own that would have to be gated, too. The threads are read when torch is loaded, which
        # looking at the model may do already.
        os.environ |= {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))),
        }
        dtype = precision.chosen(model)
        if part is None:
            cache, classes = cache_bytes(model, memory_bytes, dtype), _OWN_MEMORY
            given = f"weights and vLLM leave {quantity_text(cache)} for the cache"
        else:
            cache, classes = part.bytes, _ELASTIC
            given = part.in_words
            bytes_left(model, memory_bytes, dtype, 0)
            attach(part)
        from vllm import EngineArgs, LLMEngine

        arguments = EngineArgs(
            model=str(model),
            dtype=dtype,
            enforce_eager=True,
            max_num_seqs=MAX_SEQUENCES,
            # As long as the model and the cache allow.
            max_model_len=-1,
            kv_cache_memory_bytes=cache,
            distributed_executor_backend="vllm.v1.executor.uniproc_executor.UniProcExecutor",
            disable_log_stats=True,
            **classes,
        )
        config = arguments.create_engine_config()
        whole = int(config.model_config.max_model_len)
        try:
            self._engine = LLMEngine.from_vllm_config(config, disable_log_stats=True)
        except TooLittleError as error:
            raise WorkerError("MemoryTooSmall", str(error)) from error
        except UnsuitableError as error:
            raise WorkerError("ModelUnsuitable", str(error)) from error
        except ValueError as error:
            raise start_failure(error, given) from error
        self._tokenizer: Any = self._engine.get_tokenizer()
        self._tokens_of: dict[int, int] = {}
        self._length = Length(model=whole, fitting=int(self._engine.model_config.max_model_len))
        if self._length.fitting < whole:
            log.warning("the memory allows shorter sequences than the model", tokens=self._length.fitting, model=whole)

    @override
    def add(self, request: Request) -> None:
        from vllm import SamplingParams, TokensPrompt
        from vllm.exceptions import VLLMClientError

        row = request.row
        if row is None:
            raise UnanswerableError("no row")
        tokens = self._tokens(request)
        body = row.body
        max_tokens = answer_tokens(len(tokens), _wanted_tokens(row), self._length)
        try:
            parameters = SamplingParams(
                max_tokens=max_tokens,
                temperature=body.temperature,
                top_p=body.top_p,
                frequency_penalty=body.frequency_penalty,
                presence_penalty=body.presence_penalty,
                stop=body.stop,
                # Without a seed of its own a row takes its line number, so that attempts agree.
                seed=body.seed if body.seed is not None else request.line,
            )
            self._engine.add_request(str(request.line), TokensPrompt(prompt_token_ids=tokens), parameters)
        except (ValueError, VLLMClientError) as error:
            raise UnanswerableError(str(error)) from error

    @override
    def step(self) -> StepResult:
        answers, tokens = {}, 0
        for output in self._engine.step():
            line = int(output.request_id)
            so_far = len(output.prompt_token_ids) + len(output.outputs[0].token_ids)
            tokens += so_far - self._tokens_of.get(line, 0)
            self._tokens_of[line] = so_far
            if output.finished:
                del self._tokens_of[line]
                answers[line] = _answer(output)
        return StepResult(answers, tokens)

    def _tokens(self, request: Request) -> list[int]:
        row = request.row
        if isinstance(row, ChatRow):
            messages = [message.model_dump() for message in row.body.messages]
            try:
                encoded = self._tokenizer.apply_chat_template(
                    messages, add_generation_prompt=True, tokenize=True, return_dict=True
                )
            except Exception as error:
                raise UnanswerableError(f"the chat template refuses the messages: {error}") from error
            return list(encoded["input_ids"])
        prompt = row.body.prompt if row is not None else ""
        return list(prompt) if isinstance(prompt, list) else list(self._tokenizer(prompt)["input_ids"])


def answer_tokens(prompt: int, wanted: int | None, length: Length) -> int:
    """Most tokens of an answer to so many; without a wanted number those for which there is room.

    The model's own length cuts what is wanted. The memory never does. Raises `UnanswerableError`.
    """
    takes = f"the model takes {length.model}"
    if length.fitting < length.model:
        takes += f", of which {length.fitting} fit into the job's memory"
    if prompt >= length.fitting:
        raise UnanswerableError(f"the prompt has {prompt} tokens, {takes}")
    room = length.fitting - prompt
    if wanted is None:
        return room
    possible = min(wanted, length.model - prompt)
    if possible > room:
        raise UnanswerableError(f"the prompt has {prompt} tokens and {wanted} more are wanted, {takes}")
    return possible


def _wanted_tokens(row: CompletionRow | ChatRow) -> int | None:
    if isinstance(row, ChatRow):
        return row.body.max_completion_tokens or row.body.max_tokens
    return row.body.max_tokens or _COMPLETION_TOKENS


def _answer(output: Any) -> Answer:
    completion = output.outputs[0]
    return Answer(
        text=completion.text,
        finish_reason="length" if completion.finish_reason == "length" else "stop",
        prompt_tokens=len(output.prompt_token_ids),
        completion_tokens=len(completion.token_ids),
    )
