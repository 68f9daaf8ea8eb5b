"""Which routes an engine has, asked of vLLM's own application."""

import httpx
import pytest
from vllm.entrypoints.launchers.app import build_app

from rowen.runtime.batch.riding.engine import _serves
from rowen.runtime.batch.serving.arguments import given_arguments
from rowen.runtime.batch.serving.routes import ROUTES


@pytest.mark.parametrize(
    ("task", "few"), [("generate", {"/v1/completions", "/v1/messages", "/tokenize"}), ("embed", {"/tokenize"})]
)
async def test_those_are_served_that_vllms_schema_names(task: str, few: set[str]) -> None:
    app = build_app(given_arguments(()), (task,), None)
    described = app.openapi()["paths"]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://vllm") as client:
        served = {route for route in ROUTES if await _serves(client, route)}
    assert served == {route for route in ROUTES if "post" in described.get(route, ())}
    assert few <= served
