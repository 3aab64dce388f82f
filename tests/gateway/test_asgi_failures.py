"""ASGI middleware that fails, wherever and however, has failed: the client gets an error in the envelope of its API where nothing
has left, keeps a whole answer that has, and the failure is told of the middleware. Every place, way and API is walked."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, over_http
from tests.gateway.test_plugin_failures import ENGINE, FAILED, GOOD_ENDS, STREAMED, WHOLE, check_envelope
from tests.gateway.test_plugins import listed

pytestmark = pytest.mark.anyio

HERE = "tests.gateway.test_asgi_failures"
WAYS = ("raise", "exit", "generator_exit", "cancel", "self_cancel", "self_cancel_and_wait")
_RAISED: dict[str, type[BaseException]] = {
    "raise": RuntimeError,
    "exit": SystemExit,
    "generator_exit": GeneratorExit,
    "cancel": asyncio.CancelledError,
}
_HEADS: dict[str, dict[str, Any]] = {
    "a line break in a header": {"headers": [(b"x-a", b"1\r\nx-b: 2")]},
    "a header without a name": {"headers": [(b"", b"1")]},
    "a header in letters": {"headers": [("x-a", "1")]},
    "headers that are none": {"headers": 7},
    "a status that is none": {"status": 99},
    "a status in letters": {"status": "200"},
    "a status of an interim answer": {"status": 100},
    "a length that is none": {"headers": [(b"content-length", b"-1")]},
    "two lengths": {"headers": [(b"content-length", b"3"), (b"content-length", b"4")]},
    "no type": {"type": None},
    "a type of nothing": {"type": "http.response.begin"},
}
"""What a middleware changes of an answer's head."""


async def do(way: str) -> None:
    if way.startswith("self_cancel"):
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        if way.endswith("wait"):
            await asyncio.sleep(0)
    elif way in _RAISED:
        raise _RAISED[way]("a secret of the middleware")


class Failing:
    """Does at a place what a way says."""

    def __init__(self, app: Any, place: str, way: str = "") -> None:
        self.app, self.place, self.way = app, place, way

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sends(message: Any) -> None:
            for each in await self.sent(message):
                await send(each)

        if self.place == "before":
            await do(self.way)
        if self.place == "never":
            return
        await self.app(scope, self.receiving(receive), sends)
        if self.place == "after":
            await do(self.way)

    def receiving(self, receive: Any) -> Any:
        async def received() -> Any:
            message = await receive()
            if self.way == "nothing":
                return None
            if self.way == "a body in letters":
                return {**message, "body": "abc"}
            await do(self.way)
            return message

        return received if self.place == "receive" else receive

    async def sent(self, message: Any) -> list[Any]:
        starts = message["type"] == "http.response.start"
        if self.place == "head" and starts:
            if self.way in _HEADS:
                return [{**message, **_HEADS[self.way]}]
            if self.way == "twice":
                return [message, message]
            if self.way == "missing":
                return []
            await do(self.way)
        if self.place == "body" and not starts:
            if self.way == "in letters":
                return [{**message, "body": "abc"}]
            if self.way == "never ends":
                return [{**message, "more_body": True}]
            await do(self.way)
        return [message]


def failing(place: str, way: str = "", **said: Any) -> dict[str, Any]:
    return {"source": f"{HERE}:Failing", "kind": "asgi", "config": {"place": place, "way": way}, **said}


def check_image_terms(house: House, times: int) -> None:
    """The middleware is told of as what failed, once for each request."""
    assert house.gateway.services.plugins.states["Failing"].counts.get("failed", 0) == times


BEFORE_ANYTHING = [
    *[("before", way) for way in WAYS],
    ("never", ""),
    *[("receive", way) for way in (*WAYS, "nothing", "a body in letters")],
    *[("head", way) for way in (*WAYS, *_HEADS, "missing") if way != "self_cancel"],
]


@pytest.mark.full
@pytest.mark.sampled(keep=8)
@pytest.mark.parametrize(("place", "way"), BEFORE_ANYTHING)
async def test_a_failure_before_anything_has_left_is_told_in_the_envelope(tmp_path: Path, place: str, way: str) -> None:
    async with over_http(ENGINE, config=listed(tmp_path, failing(place, way))) as house:
        for asked in (WHOLE, STREAMED):
            for name, (path, sent) in asked.items():
                check_envelope((name, place, way), await house.http.post(path, json=sent))
        check_image_terms(house, len(WHOLE) + len(STREAMED))


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("way", [*WAYS, "never"])
async def test_what_is_open_and_has_touched_nothing_is_left_out(tmp_path: Path, way: str) -> None:
    place = "never" if way == "never" else "before"
    async with over_http(ENGINE, config=listed(tmp_path, failing(place, way, on_failure="open"))) as house:
        for name, (path, sent) in WHOLE.items():
            answer = await house.http.post(path, json=sent)
            inside = way.startswith("self_cancel") and not way.endswith("wait")
            if inside:  # it fails at the first thing that it waits for, within what it wraps
                check_envelope((name, way), answer)
            else:
                assert answer.status_code == 200, (name, way, answer.text)
        check_image_terms(house, len(WHOLE))


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("on_failure", ["closed", "open"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_whole_answer_stays_whole_where_its_middleware_fails_behind_it(
    tmp_path: Path, way: str, on_failure: str
) -> None:
    async with over_http(ENGINE, config=listed(tmp_path, failing("after", way, on_failure=on_failure))) as house:
        for asked in (WHOLE, STREAMED):
            for name, (path, sent) in asked.items():
                answer = await house.http.post(path, json=sent)
                where = name, way, answer.text
                assert answer.status_code == 200, where
                assert FAILED not in answer.text, where
                if asked is STREAMED and name not in ("gemini", "gemini array"):
                    assert any(end in answer.text.lower() for end in GOOD_ENDS), where
        check_image_terms(house, len(WHOLE) + len(STREAMED))


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize(
    ("place", "way"),
    [("head", "twice"), ("head", "self_cancel"), *[("body", way) for way in (*WAYS, "in letters", "never ends")]],
)
async def test_a_failure_within_an_answer_ends_a_stream_with_an_error_and_cuts_another_answer(
    tmp_path: Path, place: str, way: str
) -> None:
    async with over_http(ENGINE, config=listed(tmp_path, failing(place, way))) as house:
        for asked in (WHOLE, STREAMED):
            for name, (path, sent) in asked.items():
                try:
                    answer = await house.http.post(path, json=sent)
                except httpx.RemoteProtocolError:
                    assert asked is WHOLE or name == "gemini array", (name, way)
                    continue
                if asked is WHOLE and way in ("self_cancel", "never ends"):
                    assert answer.json(), (name, way)  # all of it had passed
                elif "data: " not in answer.text:
                    assert name == "gemini array", (name, way, answer.text)
                    assert way == "self_cancel"
                else:
                    assert answer.headers["content-type"].startswith("text/event-stream"), (name, way, answer.text)
                    assert FAILED in answer.text.rstrip("\n").rpartition("\n")[2], (name, way, answer.text)
                    assert "secret" not in answer.text
        check_image_terms(house, len(WHOLE) + len(STREAMED))


@pytest.mark.full
async def test_a_middleware_is_not_blamed_for_another_one(tmp_path: Path) -> None:
    """Each message is checked where it is sent: those around and within have not failed."""
    around = {"source": "tests.gateway.test_python_plugins:Watching", "kind": "asgi"}
    for place, way in (("head", "a status that is none"), ("receive", "raise"), ("after", "raise")):
        entries = [{**around, "name": "outer"}, failing(place, way), {**around, "name": "inner"}]
        async with over_http(ENGINE, config=listed(tmp_path, *entries)) as house:
            answer = await house.http.post(CHAT, json=body("Hi"))
            if place == "after":
                assert answer.status_code == 200, answer.text
            else:
                check_envelope((place, way), answer)
            check_image_terms(house, 1)
            for name in ("outer", "inner"):
                assert not house.gateway.services.plugins.states[name].counts.get("failed", 0), (place, name)
