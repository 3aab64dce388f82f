"""Engines behind a path: every call goes below it."""

import asyncio

import pytest

from smg_core.engines.kinds.http import HTTP_KINDS, takes_extras
from smg_core.engines.kinds.kind import EnginePlace
from smg_core.engines.kinds.opening import open_engine
from smg_core.errors import SmgError

pytestmark = pytest.mark.anyio

BELOW = "/behind/a%20proxy"


@pytest.mark.parametrize("dialect", [each.name for each in HTTP_KINDS])
@pytest.mark.parametrize("path", [BELOW, f"{BELOW}/v1"])
async def test_every_question_is_asked_below_the_path_of_the_workers_url(dialect: str, path: str) -> None:
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}"
        engine = await open_engine(EnginePlace(url, dialect, connect_timeout=60))
        assert await engine.health()
        with pytest.raises(SmgError):  # an empty object describes no model
            await engine.describe()
        await engine.close()

    assert len(asked) > 1
    assert all(each.startswith(f"{BELOW}/") for each in asked)
    assert not any("/v1/v1" in each for each in asked)


@pytest.mark.parametrize(
    ("dialect", "host", "extras"),
    [
        ("auto", "gpu-0", True),
        ("vllm", "gpu-0", True),  # the settings', for engines that speak gRPC
        ("auto", "api.openai.com", False),
        ("auto", "eu.api.openai.com", False),
        ("auto", "ours.openai.azure.com", False),
        ("auto", "not-api.openai.com", True),
        ("auto", "api.openai.com.example", True),
        ("openai", "api.openai.com", True),
        ("openai-strict", "gpu-0", False),
    ],
)
def test_fields_of_engines_are_sent_to_all_but_openai_and_servers_that_are_said_to_be_like_it(
    dialect: str, host: str, extras: bool
) -> None:
    assert takes_extras(dialect, host) is extras
