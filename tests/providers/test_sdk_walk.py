"""Every official SDK before every provider in every case: the SDK reads the answer by its own types, or raises its own error."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.providers.answers import ERRORS, KEY, SIGNATURE
from tests.providers.bedrock_answers import ALL_FORMATS
from tests.providers.chat_answers import MORE_CHAT_FORMATS
from tests.providers.client_apis import APIS, PICTURE
from tests.providers.houses import House, before
from tests.providers.sdks import SDKS, Sdk

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("house",), keep=1)]

KINDS = {**ALL_FORMATS, **MORE_CHAT_FORMATS}
CALL = ("get_weather", {"city": "Paris"})
STATUSES = {"limited": 429, "unfunded": 429, "no_model": 404, "rejected": 400, "too_long": 400}


@pytest.fixture(scope="module", params=KINDS)
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with before(KINDS[request.param]) as found:
        yield found


@asynccontextmanager
async def sdk(house: House, name: str) -> AsyncIterator[Sdk]:
    async with SDKS[name](house.gateway) as found:
        yield found


@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize("case", ["text", "tool", "forced", "json", "picture", "thinking"])
async def test_an_sdk_reads_a_whole_answer(house: House, name: str, case: str) -> None:
    api = APIS[name]
    house.says({"forced": "tool", "picture": "text"}.get(case, case))
    async with sdk(house, name) as client:
        if case == "json" and not house.form.schemas:
            with pytest.raises(client.faults, match="to no schema"):
                await client.whole(api.body(case))
            return
        if case == "thinking" and house.form.kind == "mistral":
            with pytest.raises(client.faults, match="chosen by whether they reason"):
                await client.whole(api.body(case))
            return
        answer = await client.whole(api.body(case))

    if case in ("tool", "forced"):
        assert api.calls(answer) == [CALL]
    else:
        assert api.text(answer) == ('{"city":"Paris"}' if case == "json" else "Hello")
    if case == "picture":
        sent = house.provider.asked[0].body.decode()
        if (
            house.form.kind == "gemini"
        ):  # which takes both alphabets, and Google's own library has written the other one
            sent = sent.replace("-", "+").replace("_", "/")
        assert PICTURE in sent
    assert case != "thinking" or "Let me see" in repr(answer)


@pytest.mark.parametrize("name", SDKS)
async def test_an_sdk_reads_a_stream_and_a_cut_one_is_its_error(house: House, name: str) -> None:
    api = APIS[name]
    async with sdk(house, name) as client:
        house.says("text")
        assert await client.text_of_stream(api.body("text")) == "Hello"
        house.says("cut")
        with pytest.raises(client.faults):
            await client.text_of_stream(api.body("text"))
        with pytest.raises(client.faults):
            await client.whole(api.body("text"))


@pytest.mark.parametrize("name", SDKS)
async def test_an_sdk_sends_reasoning_back_with_the_results_of_calls(house: House, name: str) -> None:
    api = APIS[name]
    house.says("thinking_tool")
    async with sdk(house, name) as client:
        asked = "thinking_tool" if house.form.signs or house.form.returned else "tool"
        body = api.body(asked)
        answer = await client.whole(body)
        assert api.calls(answer) == [CALL]

        house.says("text")
        again = await client.whole(api.again(body, answer))

    assert api.text(again) == "Hello"
    sent = house.provider.asked[0].body.decode()
    assert "sunny" in sent
    assert not house.form.signs or SIGNATURE in sent


@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize("error", ERRORS)
async def test_an_sdk_raises_its_own_error_for_each_class(house: House, name: str, error: str) -> None:
    api = APIS[name]
    house.says(error)
    async with sdk(house, name) as client:
        for asked in (client.whole, client.text_of_stream):
            with pytest.raises(client.faults) as raised:
                await asked(api.body("text"))
            fault: Any = raised.value
            status = getattr(fault, "status_code", None) or getattr(fault, "code", None)
            expected = STATUSES.get(error)
            if name == "Messages" and error == "unfunded":
                expected = 402
            if status is None:  # told in the stream, which Responses has begun by then
                assert (name, error) == ("Responses", "overloaded")
            else:
                assert status == expected if expected else status >= 500
            assert KEY not in str(fault)
