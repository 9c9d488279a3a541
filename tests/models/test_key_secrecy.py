"""A key is planted and every failure provoked, also by a server that repeats the key: it never shows anywhere."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import fakes
import pytest
from aiohttp import web
from commands import reading_config, recompact
from examples import examples
from growth import LINEAR, growth
from hypothesis import given, strategies as st
from loopback import served_app
from models_support import HELLO, Scripted, client
from odd_replies import CHAT, with_value
from run_files import select_rows
from sim_faults import KINDS, Faults
from sim_server import serve

from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.models.endpoint import Endpoint
from recompact.models.failures import ModelFailure, shorten
from recompact.models.openai import OpenAIModel
from recompact.models.secrets import names_variable, scrubber

KEY = "sk-planted/Key+4711=="


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    caplog.set_level(logging.DEBUG)


def shown(error: BaseException) -> str:
    """All that anyone could print of an error, its causes and its attributes included."""
    seen = [str(error), repr(error), repr(vars(error)), *traceback.format_exception(error)]
    for other in (error.__cause__, error.__context__):
        if other is not None:
            seen.append(shown(other))
    return "\n".join(seen)


async def provoke(url: str, timeout: float = 30.0, **settings: object) -> ModelFailure | None:
    async with client(url, key_env="PLANTED_KEY", timeout=timeout, **settings) as model:
        assert KEY not in repr(model) + repr(vars(model))
        try:
            await model.reply(HELLO)
        except ModelFailure as failure:
            return failure
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_faults(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with serve({"sim": Scripted()}, faults=Faults((kind,))) as server:
            failure = await provoke(server.base_url, 0.3 if kind in ("hang", "trickle") else 30.0)
            assert (failure is None) == (kind == "bad-arguments")
            assert failure is None or KEY not in shown(failure)

    asyncio.run(run())
    assert KEY not in caplog.text


@asynccontextmanager
async def parrot(status: int, content_type: str) -> AsyncIterator[str]:
    """A server that answers everything with the headers it was sent."""

    async def answer(http: web.Request) -> web.Response:
        told = http.headers["Authorization"]
        text = f'{{"error": {{"message": "you sent {told}", "code": "{told}"}}}}' if "json" in content_type else told
        return web.Response(text=text, status=status, content_type=content_type, headers={"X-Echo": told})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 429, 500])
def test_a_server_that_repeats_the_key(status: int, content_type: str, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with parrot(status, content_type) as url:
            failure = await provoke(url)
            assert failure is not None
            assert KEY not in shown(failure)
            assert "planted" not in str(failure)

    asyncio.run(run())
    assert KEY not in caplog.text


def test_no_connection(caplog: pytest.LogCaptureFixture) -> None:
    failure = asyncio.run(provoke("http://127.0.0.1:1/v1"))
    assert failure is not None
    assert KEY not in shown(failure) + caplog.text


@pytest.mark.parametrize("key", ["sk-two\nlines-secret", "sk-ümlaut-secret", "sk-tab\tsecret"])
def test_a_key_that_no_header_can_carry(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", key)
    with pytest.raises(InputError, match="PLANTED_KEY") as caught:
        OpenAIModel(Endpoint("m", "http://127.0.0.1:1/v1", key_env="PLANTED_KEY"))
    assert "secret" not in str(caught.value)


def test_space_around_a_key_is_not_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with serve({"sim": Scripted()}, require_key=KEY) as server:
            assert await provoke(server.base_url) is None

    monkeypatch.setenv("PLANTED_KEY", f" {KEY}\n")
    asyncio.run(run())


def test_a_password_in_the_address_is_refused() -> None:
    with pytest.raises(InputError, match="password") as caught:
        OpenAIModel(Endpoint("m", "https://me:secret@example.org/v1"))
    assert "secret" not in str(caught.value)


@asynccontextmanager
async def saying(status: int, text: str) -> AsyncIterator[str]:
    """A server that answers everything with this."""

    async def answer(http: web.Request) -> web.Response:
        return web.Response(text=text, status=status, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


PLAIN = "Zq7-4711/Xy+9Kd0LmN2pR5tV8wB=="  # looks like no key of anybody's


def forms(key: str) -> dict[str, str]:
    basic = base64.b64encode(f"user:{key}".encode()).decode()
    return {
        "as it is": key,
        "percent-encoded": quote(key, safe=""),
        "percent-encoded in lower case": quote(key, safe="").replace("%2B", "%2b").replace("%2F", "%2f"),
        "percent-encoded twice": quote(quote(key, safe=""), safe=""),
        "base64": base64.b64encode(key.encode()).decode(),
        "base64 for addresses": base64.urlsafe_b64encode(key.encode()).decode(),
        "basic authentication": basic,
        "hexadecimal": key.encode().hex(),
        "in JSON": json.dumps(f"{key}"),
        "its beginning": key[:12],
        "its end": key[-12:],
        "its middle": key[6:18],
    }


@given(st.integers(0, 320), st.sampled_from(sorted(forms(PLAIN))), st.sampled_from([200, 400, 403, 404, 409, 429, 500]))
@examples(40)
def test_a_key_is_scrubbed_before_a_text_is_shortened(before: int, form: str, status: int) -> None:
    """Wherever the text is cut, no part of the key is left that a search for it would find."""
    secret = forms(PLAIN)[form]
    body = json.dumps({"error": {"message": "x" * before + " " + secret + " and more", "code": secret}})

    async def run() -> str:
        async with saying(status, body) as url:
            failure = await provoke(url)
            assert failure is not None
            return shown(failure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLANTED_KEY", PLAIN)
        text = asyncio.run(run())
    for part in {secret[at : at + 8] for at in range(len(secret) - 7)} - {"dXNlcjpa"}:
        assert part not in text


@pytest.mark.parametrize("text", ["<html> {key} </html>", '{{"choices": "{key}"}}', '{{"odd": ["{key}"]}}'])
def test_a_key_in_an_answer_that_is_no_reply(text: str) -> None:
    async def run() -> str:
        async with saying(200, "x" * 100 + text.format(key=KEY)) as url:
            failure = await provoke(url)
            assert failure is not None
            return shown(failure)

    assert "sk-plant" not in asyncio.run(run())


@pytest.mark.parametrize("quoted", ["sk-planted", "sk-pl***711", "planted/Key+47", "pl****11", KEY])
def test_a_401_that_quotes_part_of_a_key_is_not_quoted(quoted: str) -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {quoted}.", "code": "invalid_api_key"}})

    async def run() -> ModelFailure:
        async with saying(401, body) as url:
            failure = await provoke(url)
            assert failure is not None
            return failure

    failure = asyncio.run(run())
    assert quoted not in shown(failure)
    assert "Incorrect" not in str(failure)
    assert "key in PLANTED_KEY" in str(failure)


PASTED = [
    "sk-proj-4711abcdef",
    "gsk_a8Jk2mQ0zP4rT6uXb9Lc",
    "AIzaSyD9x8mQ2w7ZkPq",
    "hf_QwErTyUiOpAsDfGhJkLzXcVbNm",
    "a key",
    "",
]


@pytest.mark.parametrize("pasted", PASTED)
def test_a_key_in_the_place_of_its_variables_name_is_recognised_and_not_printed(pasted: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="key_env of model m:") as caught:
        OpenAIModel(Endpoint("m", "http://127.0.0.1:1/v1", key_env=pasted))
    assert not pasted or pasted not in str(caught.value)
    config = tmp_path / "c.toml"
    config.write_text(f'[models.m]\nid = "m"\nkey_env = "{pasted}"\n[agent]\nmodel = "m"\n')
    for command in ("check", "collect", "adapt", "evaluate"):
        ended = recompact(command, config)
        assert ended.returncode == 2
        assert "key_env" in ended.stdout + ended.stderr
        assert not pasted or pasted not in ended.stdout + ended.stderr


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "MY_KEY_2", "KEY", "my_key", "AZURE_OPENAI_KEY_EU_WEST_1"])
def test_names_of_variables_are_taken(name: str) -> None:
    assert names_variable(name)


def test_a_key_in_the_wrong_type_of_value_is_not_printed(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    for line in (
        'key_env = ["sk-secret-4711"]',
        'extra_body = "sk-secret-4711"',
        'base_url = ["https://sk-secret-4711@x"]',
    ):
        config.write_text(f'[models.m]\nid = "m"\n{line}\n[agent]\nmodel = "m"\n')
        ended = recompact("check", config)
        assert ended.returncode == 2
        assert "secret" not in ended.stdout + ended.stderr


def test_extra_body_carries_no_key_into_the_run_or_into_an_error(tmp_path: Path) -> None:
    """What stands there is sent, but neither written down nor quoted."""
    received: list[str] = []
    finish = {"name": "finish", "arguments": json.dumps({"answer": "read"})}
    good = with_value(CHAT, ("choices", 0, "message", "tool_calls", 0, "function"), finish)

    async def answer(http: web.Request) -> web.Response:
        text = await http.text()
        received.append(text)
        if "book 1." in text:
            return web.json_response({"error": {"message": f"I do not take {text[-200:]}", "code": "odd"}}, status=400)
        return web.json_response(good)

    extra = '{ api_key = "Zq7-4711-in-the-body", top_k = 4, headers = { Authorization = "Token abc-in-a-header" } }'
    with served_app(answer) as url:
        config = tmp_path / "pages.toml"
        config.write_text(reading_config(f"{fakes.__file__}:pages_suite_4", url, model=f"extra_body = {extra}\n"))
        ended = recompact("collect", config)
        assert ended.returncode == 1, ended.stderr
        assert "[key]" in ended.stderr
        config.write_text(config.read_text().replace("Zq7-4711-in-the-body", "Zq8-rotated-in-the-body"))
        rotated = recompact("collect", config)  # another key is no other run
        assert rotated.returncode == 1, rotated.stderr
        config.write_text(config.read_text().replace("top_k = 4", "top_k = 5"))
        changed = recompact("collect", config)
        assert changed.returncode == 2
        assert "top_k: 4 -> 5" in changed.stderr
    assert all("in-the-body" in text and "in-a-header" in text for text in received)
    said = "".join(done.stdout + done.stderr for done in (ended, rotated, changed))
    path = tmp_path / "runs" / "pages.db"
    with Store.read(path) as store:
        assert store.metadata.identity["models"]["reader"]["extra_body"]["top_k"] == 4
        texts = [store.blob(row["hash"]).decode() for row in select_rows(store, "SELECT hash FROM texts")]
    for secret in ("in-the-body", "in-a-header"):
        assert secret not in said
        assert not any(secret in text for text in texts)
        assert not any(secret.encode() in file.read_bytes() for file in path.parent.iterdir())


@given(st.text(max_size=300))
def test_scrubbing_any_text_ends_and_leaves_no_key(text: str) -> None:
    assert KEY not in scrubber(KEY, PLAIN)(text + KEY + text)


@pytest.mark.parametrize("text", ["a", "sk", "*", " ", "["])
def test_the_time_to_shorten_an_error_grows_with_it_and_no_faster(text: str) -> None:
    def shortened(size: int) -> None:
        assert len(shorten(text * size, scrub=scrubber(KEY, PLAIN))) <= 301

    assert growth(shortened, 250_000) < LINEAR


def test_scrubber() -> None:
    scrub = scrubber(KEY)
    assert scrub(f"a {KEY} b sk-planted%2FKey%2B4711%3D%3D c") == "a [key] b [key] c"
    assert scrub("Incorrect API key provided: sk-abcd***wxyz.") == "Incorrect API key provided: [key]"
    assert scrubber("")("task-force of disk-usage") == "task-force of disk-usage"
