"""Whole answers of a provider of the client's own API that are none: cut off, garbled, an error, late."""

import asyncio
from collections.abc import AsyncIterator, Callable

import attrs
import pytest
from tests.providers.answers import KEY, script
from tests.providers.fake import Heard, Said
from tests.providers.houses import House, before
from tests.providers.test_bytes import JSON, PAIRS, WHOLE, Pair

from smg_core import Config
from smg_core.hooks import RequestFinished
from smg_core.pipeline.settings import TimeoutsConfig

pytestmark = pytest.mark.anyio

SOME = ("anthropic", "gemini", "openai-responses", "openai-chat")


@pytest.fixture(scope="module", params=SOME)
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Pair, House]]:
    async with before(PAIRS[request.param].form) as house:
        yield PAIRS[request.param], house


def said(one: Pair) -> bytes:
    return WHOLE[one.api].replace("%s", one.form.model).encode()


def saying(one: Pair, answer: Said) -> Callable[[Heard], Said]:
    """Says `answer`, and to questions about the model what it is."""
    return lambda heard: one.form.about(heard.path) if heard.method == "GET" else answer


async def asked(one: Pair, house: House, answer: Said) -> tuple[int, str, dict[str, str]]:
    house.provider.script = saying(one, answer)
    found = await house.http.post(one.whole, content=one.asked("m", stream=False).encode(), headers=JSON)
    return found.status_code, found.text, dict(found.headers)


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
async def test_an_answer_that_is_cut_off_is_an_error_and_never_a_short_one(
    pair: tuple[Pair, House], share: float
) -> None:
    one, house = pair
    whole = said(one)

    status, text, _ = await asked(one, house, Said(whole, kind="application/json", cut_at=int(len(whole) * share)))

    assert status in (502, 503, 529), text
    assert "Hel" not in text


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"null", b'{"type":"message"', b'{"object":"response","output":3}', b"\xff\xfe", b"<html>"],
)
async def test_what_is_no_answer_is_an_error(pair: tuple[Pair, House], body: bytes) -> None:
    one, house = pair

    status, text, _ = await asked(one, house, Said(body, kind="application/json"))

    assert status in (500, 502), text
    assert '"error"' in text


async def test_an_error_with_status_200_is_an_error(pair: tuple[Pair, House]) -> None:
    one, house = pair
    error = one.form.errors["overloaded"]

    status, text, _ = await asked(one, house, Said(error.body, kind="application/json"))

    assert status in (502, 503, 529), text
    assert '"error"' in text


async def test_a_refusal_says_when_to_come_again_and_shows_no_key(pair: tuple[Pair, House]) -> None:
    one, house = pair
    limited = one.form.errors["limited"]

    status, text, headers = await asked(one, house, limited)

    assert status == 429
    assert headers["retry-after"] == "7"
    assert KEY not in text


async def test_an_answer_that_comes_as_a_stream_all_the_same_is_told(pair: tuple[Pair, House]) -> None:
    one, house = pair

    status, text, _ = await asked(one, house, Said(one.form.streams["text"]))

    assert status == 200, text
    assert "Hello" in text
    assert '"event' not in text


async def test_a_request_takes_no_longer_than_its_own_bound() -> None:
    one = PAIRS["anthropic"]
    async with before(one.form, attrs.evolve(Config(), timeouts=TimeoutsConfig(request_s=0.3))) as house:
        house.provider.script = saying(one, Said(b"{", kind="application/json", held=True))

        answer = await house.http.post(one.whole, content=one.asked("m", stream=False).encode(), headers=JSON)

        assert answer.status_code == 504
        await house.provider.left.wait()  # which cancels the provider's work


async def test_a_client_that_leaves_closes_the_connection_and_is_counted() -> None:
    one = PAIRS["openai-responses"]
    async with before(one.form) as house:
        house.provider.script = saying(one, Said(b"{", kind="application/json", held=True))
        asking = asyncio.create_task(
            house.http.post(one.whole, content=one.asked("m", stream=False).encode(), headers=JSON)
        )
        while not house.provider.asked:
            await asyncio.sleep(0)
        asking.cancel()
        await house.provider.left.wait()

        assert house.observer.of(RequestFinished)
        house.provider.script = script(one.form, "text")
