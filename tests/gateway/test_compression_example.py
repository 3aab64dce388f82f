"""The example of a middleware that compresses: what comes out is what went in, and no event waits for the next."""

import gzip
import importlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.conftest import CHAT, body, over_http
from tests.gateway.test_plugins import listed
from tests.gateway.test_python_plugins import PACED, Watching, asgi

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parent.parent.parent / "examples" / "plugins" / "compression"
ENTRY = {"source": "compress_answers:Compress", "kind": "asgi"}


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(FOLDER))
    Watching.said.clear()
    yield
    Watching.said.clear()


def example() -> Any:
    return importlib.import_module("compress_answers")


def inflater(coding: str) -> Any:
    return zlib.decompressobj(31) if coding == "gzip" else zstandard.ZstdDecompressor().decompressobj()


@pytest.mark.full
@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_each_event_of_a_stream_can_be_read_as_soon_as_it_is_there(tmp_path: Path, coding: str) -> None:
    headers = {"accept-encoding": coding}
    async with (
        over_http(PACED, config=listed(tmp_path, asgi("Watching"), ENTRY)) as house,
        house.http.stream("POST", CHAT, json=body("Hi", stream=True), headers=headers) as answer,
    ):
        assert answer.headers["content-encoding"] == coding
        raw = b"".join([piece async for piece in answer.aiter_raw()])

    said = inflater(coding).decompress(raw)
    assert said.endswith(b"data: [DONE]\n\n")
    reader, seen = inflater(coding), []
    for _, piece in Watching.said:
        seen.append(reader.decompress(piece))
        assert not seen[-1] or seen[-1].endswith(b"\n\n")  # whole events, whatever comes later
    assert (b"".join(seen), len([each for each in seen if each]) > 10) == (said, True)


async def test_small_answers_and_clients_that_take_no_coding_get_plain_text(tmp_path: Path) -> None:
    async with over_http(config=listed(tmp_path, {**ENTRY, "config": {"least": 100_000}})) as house:
        small = await house.http.post(CHAT, json=body("Hi"), headers={"accept-encoding": "gzip"})
        plain = await house.http.post(CHAT, json=body("Hi", stream=True), headers={"accept-encoding": "identity"})

    assert "content-encoding" not in small.headers
    assert "content-encoding" not in plain.headers
    assert small.json()["object"] == "chat.completion"
    assert plain.content.endswith(b"data: [DONE]\n\n")


async def test_the_weights_of_a_client_choose(tmp_path: Path) -> None:
    cases = {
        "gzip, zstd": "zstd",
        "gzip;q=1, zstd;q=0.5": "gzip",
        "zstd;q=0, gzip": "gzip",
        "*": "zstd",
        "*;q=0": "",
        "br, deflate": "",
        "": "",
        "GZIP ; q=0.1": "gzip",
        "gzip;q=x": "",
    }
    assert {each: example().chosen(each, ("zstd", "gzip")) for each in cases} == cases


@pytest.mark.full
@given(
    pieces=st.lists(st.binary(max_size=40_000), min_size=1, max_size=6),
    coding=st.sampled_from(["gzip", "zstd"]),
    level=st.integers(1, 9),
)
async def test_what_comes_out_is_what_went_in_however_it_was_cut(pieces: list[bytes], coding: str, level: int) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        for at, piece in enumerate(pieces, 1):
            await send({"type": "http.response.body", "body": piece, "more_body": at < len(pieces)})

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "headers": [(b"accept-encoding", coding.encode())]}
    await example().Compress(app, level=level, least=0)(scope, None, send)

    head, *bodies = sent
    assert dict(head["headers"])[b"content-encoding"] == coding.encode()
    raw = b"".join(each["body"] for each in bodies)
    assert (gzip.decompress(raw) if coding == "gzip" else inflater("zstd").decompress(raw)) == b"".join(pieces)
    assert [each["more_body"] for each in bodies] == [True] * (len(pieces) - 1) + [False]


@pytest.mark.parametrize("config", [{"codings": ["br"]}, {"codings": []}, {"level": 10}])
async def test_settings_that_cannot_be_used_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|not in"):
        example().Compress(None, **config)
