"""/v1/files by OpenAI's own client."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import openai
import pytest
from accounts import account, rule, token
from apiserver import ApiServer
from gateway.conftest import Team
from gateway.rig import MOST_BYTES, PREFIX, Gateway
from gateway.rig import gateway as running
from operator_process import eventually
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


async def test_a_body_that_ends_in_the_middle_leaves_nothing(team: Team, gateway: Gateway) -> None:
    """As a caller that dies does."""
    host, port = "127.0.0.1", gateway.port
    _, writer = await asyncio.open_connection(host, port, ssl=gateway.trusted)
    head = (
        f"POST /namespaces/{team.namespace}/v1/files HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {team.token}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        '--b\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n{"half":'
    )
    writer.write(head.encode())
    await writer.drain()
    writer.close()
    assert list(team.client.files.list()) == []


async def test_a_killed_gateway_leaves_whole_files_or_none(
    team: Team, api_server: ApiServer, s3_server: S3Server, gateway_bucket: str, tmp_path: Path
) -> None:
    """Killed while uploads come, again and again: what is listed afterwards is as it was sent."""
    content = json.dumps({"text": "x" * 900_000}).encode()
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        with running(api_server, s3_server, gateway_bucket, folder) as mortal:
            client = mortal.client(team.token, team.namespace)

            def send(client: openai.OpenAI = client) -> None:
                with contextlib.suppress(openai.APIConnectionError):
                    while True:
                        client.files.create(file=("a.jsonl", content), purpose="batch")

            sending = [asyncio.create_task(asyncio.to_thread(send)) for _ in range(3)]

            async def more(known: int = number) -> bool:
                return len(team.client.files.list().data) > known

            await eventually(more)
            mortal.process.kill()
            await asyncio.gather(*sending)
    files = list(team.client.files.list())
    assert len(files) > 1
    assert {file.bytes for file in files} == {len(content)}
    assert all(team.client.files.content(file.id).read() == content for file in files)


async def test_a_storage_that_is_away_is_told_so_and_found_again(
    team: Team, api_server: ApiServer, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    own = S3Server(tmp_path_factory.mktemp("own-s3"))
    own.filesystem().call_s3("create_bucket", Bucket="own")
    with running(api_server, own, "own", tmp_path) as found:
        client = found.client(team.token, team.namespace)
        made = client.files.create(file=("a.jsonl", b"1"), purpose="batch")
        own.kill()
        with pytest.raises(openai.InternalServerError, match="storage") as caught:
            client.files.retrieve(made.id)
        assert caught.value.status_code == 503
        assert own.secret_key not in str(caught.value)
        own.start()
        assert client.files.content(made.id).read() == b"1"
    log = (tmp_path / "gateway.log").read_text()
    assert own.secret_key not in log
    assert team.token not in log
    own.kill()
