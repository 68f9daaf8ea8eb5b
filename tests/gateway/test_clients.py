"""The other ways in which OpenAI's client is used: without waiting, and with words of the caller's own."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from accounts import rule
from gateway.conftest import Team
from gateway.rig import Gateway, row
from gateway.test_batches import tell

WINDOW = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}


@pytest.fixture
async def client(team: Team, gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    http = httpx.AsyncClient(verify=gateway.trusted, trust_env=False)
    url = gateway.url(team.namespace)
    async with openai.AsyncOpenAI(api_key=team.token, base_url=url, http_client=http, max_retries=0) as found:
        yield found


async def make(client: openai.AsyncOpenAI, file_id: str) -> openai.types.Batch:
    return await client.batches.create(input_file_id=file_id, **WINDOW)  # type: ignore[arg-type]


async def test_a_batch_by_the_client_that_does_not_wait(
    team: Team, client: openai.AsyncOpenAI, upload: Any, tmp_path: Path
) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_bytes(await (await client.files.content(upload(row("1"), row("2")))).aread())
    file = await client.files.create(file=path, purpose="batch")
    assert (file.filename, file.bytes) == (path.name, path.stat().st_size)
    assert await client.files.retrieve(file.id) == file
    async with client.files.with_streaming_response.content(file.id) as content:
        assert b"".join([block async for block in content.iter_bytes()]) == path.read_bytes()
    batch = await make(client, file.id)
    assert (await client.batches.retrieve(batch.id)).request_counts == batch.request_counts
    assert (await client.batches.cancel(batch.id)).status == "cancelling"
    await tell(team, batch, ("Suspended", "True", "Suspended"), ("Running", "False", "Suspended"))
    ended = await client.batches.retrieve(batch.id)
    assert (ended.status, ended.output_file_id) == ("cancelled", None)
    assert ended.cancelled_at
    assert (await client.files.delete(file.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await client.files.content(file.id)


async def test_the_client_that_does_not_wait_goes_from_page_to_page(client: openai.AsyncOpenAI, upload: Any) -> None:
    files = [upload(row(str(number))) for number in range(3)][::-1]
    batches = [(await make(client, files[0])).id for _ in range(5)][::-1]
    assert [batch.id async for batch in client.batches.list(limit=2)] == batches
    assert [file.id async for file in client.files.list(limit=1)] == files
    first = await client.batches.list(limit=3)
    assert first.has_next_page()
    last = await first.get_next_page()
    assert ([batch.id for batch in last.data], last.has_next_page()) == (batches[3:], False)


async def test_headers_of_the_callers_own(team: Team, upload: Any) -> None:
    """A token for one call counts for that call alone; what the gateway does not know changes nothing."""
    file_id, unknown = upload(row("1")), {"OpenAI-Organization": "o", "X-Request-Id": "1"}
    assert team.client.files.retrieve(file_id, extra_headers=unknown).id == file_id
    token = await team.user("ben", rule("rowen.dev", ["offlinejobs"], ["get", "list"]))
    reader = {"Authorization": f"Bearer {token}"}
    assert [file.id for file in team.client.files.list(extra_headers=reader)] == [file_id]
    with pytest.raises(openai.PermissionDeniedError, match="offlinejobs"):
        team.client.batches.create(input_file_id=file_id, extra_headers=reader, **WINDOW)  # type: ignore[arg-type]
    with pytest.raises(openai.AuthenticationError):
        team.client.batches.list(extra_headers={"Authorization": "Basic YTpi"})
    assert team.client.batches.create(input_file_id=file_id, extra_headers=unknown, **WINDOW).id  # type: ignore[arg-type]


async def test_a_field_that_is_nobodys_is_refused(team: Team, upload: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        team.client.batches.create(
            input_file_id=upload(row("1")), extra_body={"priority": 1}, **WINDOW  # type: ignore[arg-type]
        )  # fmt: skip
    assert caught.value.param == "priority"
