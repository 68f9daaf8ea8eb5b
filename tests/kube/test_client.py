"""One request, one answer, on good and bad days."""

import asyncio
from pathlib import Path

import pytest
import yaml
from accounts import account, token
from aiohttp import web
from apiserver import ApiServer
from kube.odd import Answer, Odd, body, hung, status, streamed

from rowen.kube.client import Client, open_client, open_stranger
from rowen.kube.errors import LoginError, RefusedError, UnreachableError
from rowen.kube.kinds import SELF_REVIEWS

PATH = "/api/v1/things"


async def test_an_answer_is_an_object(odd: Odd, odd_client: Client) -> None:
    odd.say(PATH, body('{"a": 1}'))
    assert await odd_client.call("GET", PATH, query={"x": "a b&c"}) == {"a": 1}
    assert odd.queries(PATH) == [{"x": "a b&c"}]
    assert odd_client.namespace == "here"


@pytest.mark.parametrize(
    ("code", "reason", "passes"),
    [(403, "Forbidden", False), (404, "NotFound", False), (409, "Conflict", False), (408, "Timeout", True),
     (429, "TooManyRequests", True), (500, "InternalError", True), (503, "ServiceUnavailable", True)],
)  # fmt: skip
async def test_a_refusal_has_the_servers_own_words(
    odd: Odd, odd_client: Client, code: int, reason: str, passes: bool
) -> None:
    odd.say(PATH, status(code, reason, "no such luck", {"Retry-After": "7"}))
    with pytest.raises(RefusedError, match="no such luck") as caught:
        await odd_client.call("GET", PATH)
    error = caught.value
    assert (error.status, error.reason, error.passes, error.retry_after_seconds) == (code, reason, passes, 7.0)
    assert len(odd.asked) == 1, "nothing is tried again"


async def test_a_proxys_page_is_quoted(odd: Odd, odd_client: Client) -> None:
    odd.say(PATH, body("<html>" + "x" * 1000, 502, "text/html"))
    with pytest.raises(RefusedError, match=r"^502 Bad Gateway: <html>x{194}$") as caught:
        await odd_client.call("GET", PATH)
    assert (caught.value.passes, caught.value.reason, caught.value.retry_after_seconds) == (True, "", None)


async def test_text_is_left_as_it_is(odd: Odd, odd_client: Client) -> None:
    odd.say(PATH, body("a 1\nb 2\n", content_type="text/plain"), status(404, "NotFound", "no such pod"))
    assert await odd_client.text(f"{PATH}?since=1.5") == "a 1\nb 2\n"
    assert odd.queries(PATH) == [{"since": "1.5"}]
    with pytest.raises(RefusedError, match="no such pod"):
        await odd_client.text(PATH)


async def test_bytes_that_are_no_text_are_no_answer(odd: Odd, odd_client: Client) -> None:
    odd.say(PATH, streamed(b"\xff\xfe"))
    with pytest.raises(UnreachableError):
        await odd_client.text(PATH)


async def test_a_stranger_is_nobody_until_it_bears_a_token(
    api_server: ApiServer, kube: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a kubeconfig with a certificate the API server's address is taken, and whom to trust for it."""
    await account(kube, namespace, "ann")
    path = SELF_REVIEWS.path()
    review = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind}
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    async with await open_stranger() as stranger:
        with pytest.raises(RefusedError) as caught:
            await stranger.call("POST", path, body=review)
        assert caught.value.status in (401, 403)
        ann = stranger.bearing(await token(kube, namespace, "ann"))
        told = await ann.call("POST", path, body=review)
        assert told["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:ann"
        with pytest.raises(RefusedError) as caught:
            await stranger.bearing("nonsense").call("POST", path, body=review)
        assert caught.value.status == 401


DEEP = '{"a":' * 3000 + "1" + "}" * 3000


@pytest.mark.parametrize("text", ["<html>Welcome</html>", "", "[1]", "null", '{"a":', DEEP])
async def test_what_is_no_object_is_no_answer(odd: Odd, odd_client: Client, text: str) -> None:
    odd.say(PATH, body(text))
    with pytest.raises(UnreachableError):
        await odd_client.call("GET", PATH)


async def test_a_connection_that_is_cut_is_no_answer(odd: Odd, odd_client: Client) -> None:
    odd.say(PATH, streamed(b'{"a": ', then="cut"), body('{"a": 2}'))
    with pytest.raises(UnreachableError):
        await odd_client.call("GET", PATH)
    assert await odd_client.call("GET", PATH) == {"a": 2}


async def test_a_call_ends_in_time(odd: Odd, odd_client: Client) -> None:
    odd.say(PATH, hung(), streamed(b'{"a": ', then="hang"))
    for _ in range(2):
        async with asyncio.timeout(30):
            with pytest.raises(UnreachableError, match="no reply in time"):
                await odd_client.call("GET", PATH, timeout_seconds=0.3)


@pytest.mark.parametrize("refusal", [status(403, "Forbidden", "no"), status(429, "TooManyRequests", "later")])
async def test_a_refusal_touches_nobody_elses_calls(odd: Odd, odd_client: Client, refusal: Answer) -> None:
    go = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        await go.wait()
        return await body('{"a": 1}')(request)

    odd.say("/slow", slow)
    odd.say("/watch", streamed(b"one\n", b"two\n", then="hang"))
    odd.say("/no", refusal)
    async with odd_client.lines("/watch", {}, 20.0) as lines:
        assert await anext(lines) == b"one"
        others = [asyncio.create_task(odd_client.call("GET", "/slow")) for _ in range(20)]
        refused = await asyncio.gather(*(odd_client.call("GET", "/no") for _ in range(20)), return_exceptions=True)
        assert all(isinstance(error, RefusedError) for error in refused)
        go.set()
        assert await asyncio.gather(*others) == [{"a": 1}] * 20
        assert await anext(lines) == b"two"
    assert len(odd.queries("/no")) == 20


async def test_lines_come_as_they_are_sent(odd: Odd, odd_client: Client) -> None:
    long = b"x" * 3_000_000
    odd.say(PATH, streamed(b"on", b"e\ntw", b"o\n\n" + long + b"\nhalf a li"))
    async with odd_client.lines(PATH, {}, 20.0) as lines:
        assert [line async for line in lines] == [b"one", b"two", b"", long]


@pytest.mark.parametrize("then", ["cut", "hang"])
async def test_lines_that_stop_in_the_middle_are_an_error(odd: Odd, odd_client: Client, then: str) -> None:
    odd.say(PATH, streamed(b"one\nhalf", then=then))
    async with asyncio.timeout(30), odd_client.lines(PATH, {}, 0.5) as lines:
        assert await anext(lines) == b"one"
        with pytest.raises(UnreachableError):
            await anext(lines)


async def test_lines_can_be_refused(odd: Odd, odd_client: Client) -> None:
    odd.say(PATH, status(410, "Expired", "too old resource version"))
    with pytest.raises(RefusedError, match="too old"):
        async with odd_client.lines(PATH, {}, 5.0):
            pass


async def test_a_refusal_that_is_nested_too_deeply_is_quoted(odd: Odd, odd_client: Client) -> None:
    odd.say(PATH, body(DEEP, 500))
    with pytest.raises(RefusedError, match=r"^500 Internal Server Error: \{"):
        await odd_client.call("GET", PATH)


async def test_a_login_that_cannot_be_read_now_is_no_answer(
    odd: Odd, odd_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_descriptor_left(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(odd_client._api, "param_serialize", no_descriptor_left)
    with pytest.raises(UnreachableError, match="Too many open files"):
        async with odd_client.lines(PATH, {}, 5.0):
            pass
    with pytest.raises(UnreachableError, match="Too many open files"):
        await odd_client.call("GET", PATH)
    assert odd.asked == []


async def test_nobody_there_is_no_answer(odd: Odd) -> None:
    odd.url = "http://127.0.0.1:1"
    async with await odd.client() as client:
        with pytest.raises(UnreachableError):
            await client.call("GET", PATH)
        with pytest.raises(UnreachableError):
            async with client.lines(PATH, {}, 5.0):
                pass


@pytest.mark.parametrize(
    "text",
    ["", "hello", "{{ no yaml", "kind: Config", "current-context: none\nkind: Config\ncontexts: []",
     yaml.safe_dump({"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                     "clusters": [{"name": "a", "cluster": {"server": "https://a", "certificate-authority": "/none"}}],
                     "users": [{"name": "a", "user": {}}]})],
)  # fmt: skip
async def test_a_kubeconfig_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(LoginError):
        await open_client(str(path))


@pytest.mark.parametrize("text", ["", "hello", "[]", "current-context: a\ncontexts: 5"])
async def test_a_kubeconfig_of_another_shape_is_told_what_was_expected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(LoginError, match="an object with clusters, users, contexts and current-context was expected"):
        await open_client(str(path))


async def test_a_missing_kubeconfig_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(LoginError):
        await open_client()


@pytest.mark.parametrize("command", ["/none/plugin", "/bin/false", "/bin/true"])
async def test_an_exec_plugin_that_fails_is_no_login(
    tmp_path: Path, api_server: ApiServer, caplog: pytest.LogCaptureFixture, command: str
) -> None:
    found = yaml.safe_load(api_server.kubeconfig.read_text())
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": command}
    found["users"][0]["user"] = {"exec": plugin}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(found))
    with pytest.raises(LoginError, match="its exec plugin failed: "):
        await open_client(str(path))
    assert not caplog.records


async def test_the_library_says_nothing_of_a_missing_kubeconfig(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(LoginError):
        await open_client(str(tmp_path / "none"))
    assert not caplog.records
