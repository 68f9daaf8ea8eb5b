"""Where the class stands among Rowen's schedulers, and in which engines it does nothing."""

from types import SimpleNamespace
from typing import Any

import pytest
from coserve_planning.machines import planner
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from rowen.runtime.coserve.planning.deferral import Deferral
from rowen.runtime.vllm.elastic.scheduler import ElasticScheduler
from rowen.runtime.vllm.riding.deferring import DeferringAsyncScheduler, DeferringScheduler, _obstacle, deferring
from rowen.runtime.vllm.rows.scheduler import RowRidingScheduler, riding_rows


@pytest.mark.parametrize("plain", [Scheduler, AsyncScheduler, ElasticScheduler])
def test_all_of_rowens_schedulers_stand_above_it(plain: type) -> None:
    deferral = Deferral(planner())
    made: Any = deferring(riding_rows(plain), deferral)
    assert made.rowen_deferral is deferral
    order = made.__mro__
    assert order.index(RowRidingScheduler) < order.index(DeferringScheduler) < order.index(Scheduler)
    assert (DeferringAsyncScheduler in order) == issubclass(plain, AsyncScheduler)
    if plain is ElasticScheduler:
        assert order.index(ElasticScheduler) < order.index(DeferringScheduler)
    assert deferring(plain, deferral).__name__ == f"Deferring{plain.__name__}"


def test_one_that_is_none_of_vllms_is_refused() -> None:
    with pytest.raises(TypeError, match="SimpleNamespace is no scheduler of vLLM's"):
        deferring(SimpleNamespace, Deferral(planner()))


def scheduler(threshold: int = 0, **changed: Any) -> Any:
    settings: dict[str, Any] = {
        "connector": None, "ec_connector": None, "max_num_encoder_input_tokens": 0, "is_encoder_decoder": False,
    }  # fmt: skip
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(long_prefill_token_threshold=threshold), **settings | changed
    )


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (scheduler(), None),
        (scheduler(connector=object()), "KV connector"),
        (scheduler(ec_connector=object()), "KV connector"),
        (scheduler(threshold=16), "prompts in pieces"),
        (scheduler(max_num_encoder_input_tokens=1), "inputs that are no text"),
        (scheduler(is_encoder_decoder=True), "inputs that are no text"),
    ],
)
def test_engines_in_which_it_cannot_be_said_what_a_prompt_takes(engine: Any, words: str | None) -> None:
    found = _obstacle(engine)
    assert found is None if words is None else words in str(found)
