"""/v1/files by OpenAI's own client."""

from typing import Any

import openai
import pytest
from accounts import account, rule, token
from gateway.conftest import Team
from gateway.rig import MOST_BYTES, PREFIX, Gateway
from s3 import S3Server


async def test_a_file_is_kept_as_it_was_sent(team: Team, s3_server: S3Server, gateway_bucket: str) -> None:
    content = b'{"a": 1}\n' * 1000
    made = team.client.files.create(file=("my rows.jsonl", content), purpose="batch")
    assert (made.object, made.bytes, made.purpose, made.status) == ("file", len(content), "batch", "processed")
    assert made.filename == "my_rows.jsonl"
    assert team.client.files.retrieve(made.id) == made
    assert team.client.files.content(made.id).read() == content
    path = f"{gateway_bucket}/{PREFIX}/{team.namespace}/files/{made.id}/my_rows.jsonl"
    assert s3_server.filesystem().cat_file(path) == content
    assert team.client.files.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        team.client.files.retrieve(made.id)


async def test_files_are_listed_page_by_page(team: Team) -> None:
    ids = [team.client.files.create(file=(f"{n}.jsonl", b"x"), purpose="batch").id for n in range(5)]
    newest = list(reversed(ids))
    assert [file.id for file in team.client.files.list()] == newest
    assert [file.id for file in team.client.files.list(limit=2)] == newest, "the client asks for the next page"
    assert [file.id for file in team.client.files.list(order="asc")] == ids
    page = team.client.files.list(limit=2, after=newest[1])
    assert [file.id for file in page.data] == newest[2:4]
    assert page.has_more
    assert list(team.client.files.list(purpose="batch_output")) == []


@pytest.mark.parametrize("name", ["../../../other/files/x", "..", "", "a" * 500, "ü/ö?#%.jsonl"])
async def test_a_files_name_leads_nowhere(team: Team, s3_server: S3Server, gateway_bucket: str, name: str) -> None:
    made = team.client.files.create(file=(name or "x", b"1"), purpose="batch")
    (path,) = s3_server.filesystem().find(f"{gateway_bucket}/{PREFIX}/{team.namespace}")
    assert path == f"{gateway_bucket}/{PREFIX}/{team.namespace}/files/{made.id}/{made.filename}"
    assert len(made.filename) <= 200


async def test_what_is_no_upload_is_refused(team: Team) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        team.client.files.create(file=("a.jsonl", b"x"), purpose="fine-tune")
    assert (caught.value.param, caught.value.type) == ("purpose", "invalid_request_error")
    with pytest.raises(openai.BadRequestError, match="expires_after") as caught:
        team.client.files.create(
            file=("a.jsonl", b"x"), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
        )
    with pytest.raises(openai.APIStatusError) as large:
        team.client.files.create(file=("a.jsonl", b"x" * (MOST_BYTES + 1)), purpose="batch")
    assert large.value.status_code == 413
    with pytest.raises(openai.APIStatusError) as larger:
        team.client.files.create(file=("a.jsonl", b"x" * (2 * MOST_BYTES)), purpose="batch")
    assert larger.value.status_code == 413
    assert list(team.client.files.list()) == []


@pytest.mark.parametrize("id_", ["file-1", "file-" + "0" * 27, "file-" + "0" * 27 + "-output"])
async def test_there_is_no_such_file(team: Team, id_: str) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        team.client.files.retrieve(id_)
    assert isinstance(caught.value.body, dict)
    assert set(caught.value.body) == {"message", "type", "param", "code"}


async def test_a_token_is_needed(team: Team, gateway: Gateway) -> None:
    for wrong in ("sk-nobody", "a" * 20000, "x y"):
        with pytest.raises(openai.AuthenticationError):
            gateway.client(wrong, team.namespace).files.list()


async def test_who_may_read_jobs_may_read_files_and_no_more(team: Team, gateway: Gateway) -> None:
    made = team.client.files.create(file=("a.jsonl", b"x"), purpose="batch")
    reader = gateway.client(await team.user("ben", rule("rowen.dev", ["offlinejobs"], ["get", "list"])), team.namespace)
    assert reader.files.content(made.id).read() == b"x"
    for forbidden in (
        lambda: reader.files.create(file=("a.jsonl", b"x"), purpose="batch"),
        lambda: reader.files.delete(made.id),
    ):
        with pytest.raises(openai.PermissionDeniedError, match="offlinejobs"):
            forbidden()


async def test_another_namespaces_files_are_not_there(team: Team, gateway: Gateway, kube: Any) -> None:
    made = team.client.files.create(file=("a.jsonl", b"x"), purpose="batch")
    await account(kube, "default", "stranger")
    stranger = gateway.client(await token(kube, "default", "stranger"), team.namespace)
    with pytest.raises(openai.PermissionDeniedError):
        stranger.files.retrieve(made.id)
    with pytest.raises(openai.PermissionDeniedError):
        gateway.client(team.token, "default").files.list()


async def test_without_a_namespace_it_is_the_accounts_own(team: Team, gateway: Gateway) -> None:
    made = team.client.files.create(file=("a.jsonl", b"x"), purpose="batch")
    assert [file.id for file in gateway.client(team.token, None).files.list()] == [made.id]


@pytest.mark.parametrize("name", ["A_b", "a" * 64, "-a", "a."])
async def test_what_is_no_namespace_has_no_files(team: Team, gateway: Gateway, name: str) -> None:
    with pytest.raises(openai.NotFoundError, match="no name of a namespace"):
        gateway.client(team.token, name).files.list()
