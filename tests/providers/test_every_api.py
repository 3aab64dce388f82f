"""Every public API before every outside provider: each case is answered in the client's own API, or refused by name."""

from collections.abc import AsyncIterator

import pytest
from tests.providers.answers import ERRORS, KEY, SIGNATURE
from tests.providers.bedrock_answers import ALL_FORMATS
from tests.providers.client_apis import APIS, PDF, PICTURE, ClientApi
from tests.providers.fake import Heard, Said
from tests.providers.houses import House, before

from smg_core.hooks import ConceptsLost

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("house",), keep=2)]

CALL = ("get_weather", {"city": "Paris"})
FINISHES = {
    "Chat Completions": {"text": "stop", "tool": "tool_calls", "length": "length", "refusal": "stop"},
    "Messages": {"text": "end_turn", "tool": "tool_use", "length": "max_tokens", "refusal": "refusal"},
    "Responses": {"text": "completed", "tool": "completed", "length": "max_output_tokens", "refusal": "completed"},
    "generateContent": {"text": "STOP", "tool": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"},
    "Interactions": {"text": "completed", "tool": "requires_action", "length": "incomplete", "refusal": "completed"},
}
FILTERED = {
    "Chat Completions": "content_filter",
    "Messages": "refusal",
    "Responses": "content_filter",
    "generateContent": "SAFETY",
    "Interactions": "failed",
}
STATUSES = {
    "rejected": 400,
    "too_long": 400,
    "credentials": 502,
    "unfunded": 429,
    "limited": 429,
    "overloaded": 503,
    "late": 504,
    "failed": 502,
    "no_model": 404,
}
OF_MESSAGES = {"unfunded": 402, "overloaded": 529}


@pytest.fixture(scope="module", params=ALL_FORMATS)
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with before(ALL_FORMATS[request.param]) as found:
        yield found


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> ClientApi:
    return APIS[request.param]


def name_of(api: ClientApi) -> str:
    return next(name for name, each in APIS.items() if each is api)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_text_is_told(house: House, api: ClientApi, stream: bool) -> None:
    house.says("text")

    answer = await house.ask(api, api.body("text"), stream=stream)

    assert answer.status_code == 200, answer.text
    assert (api.pieces(answer.content) if stream else api.text(answer.json())) == "Hello"
    name, value = house.form.key
    assert [each.headers.get(name) for each in house.provider.asked] == [value]
    assert KEY not in answer.text


@pytest.mark.parametrize("case", ["tool", "forced", "parallel"])
async def test_calls_are_told(house: House, api: ClientApi, case: str) -> None:
    house.says("tool" if case == "forced" else case)

    answer = await house.ask(api, api.body(case))

    assert answer.status_code == 200, answer.text
    expected = [CALL, ("get_weather", {"city": "Rome"})] if case == "parallel" else [CALL]
    assert api.calls(answer.json()) == expected
    streamed = await house.ask(api, api.body(case), stream=True)
    assert streamed.status_code == 200
    assert "Paris" in streamed.text


async def test_an_answer_of_a_schema_is_told(house: House, api: ClientApi) -> None:
    house.says("json")

    answer = await house.ask(api, api.body("json"))

    if not house.form.schemas:
        assert answer.status_code == 400
        assert "to no schema" in answer.text
        return
    assert answer.status_code == 200, answer.text
    assert api.text(answer.json()) == '{"city":"Paris"}'
    assert "additionalProperties" in house.provider.asked[0].body.decode()


@pytest.mark.full
@pytest.mark.parametrize(("case", "data"), [("picture", PICTURE), ("pdf", PDF)])
async def test_pictures_and_documents_are_sent(house: House, api: ClientApi, case: str, data: str) -> None:
    house.says("text")

    answer = await house.ask(api, api.body(case))

    if case == "pdf" and not house.form.documents:  # the gateway reads it, and finds that it is none
        assert answer.status_code == 400
        assert "damaged" in answer.text
        return
    assert answer.status_code == 200, answer.text
    assert data in house.provider.asked[0].body.decode()
    assert "x-smg-lossy" not in answer.headers


@pytest.mark.parametrize("case", ["text", "tool", "length", "refusal"])
async def test_why_an_answer_ended_is_told(house: House, api: ClientApi, case: str) -> None:
    house.says(case)

    answer = await house.ask(api, api.body(case))

    assert answer.status_code == 200, answer.text
    expected = FINISHES[name_of(api)][case]
    if case == "refusal" and house.form.filters:
        expected = FILTERED[name_of(api)]
    assert api.finish(answer.json()) == expected


@pytest.mark.parametrize("stream", [False, True])
async def test_reasoning_is_shown_beside_the_text(house: House, api: ClientApi, stream: bool) -> None:
    house.says("thinking")

    answer = await house.ask(api, api.body("thinking"), stream=stream)

    if not house.form.signs and answer.status_code == 400:  # a provider that is not told how much to reason
        assert "its models are chosen by whether they reason" in answer.text
        return
    assert answer.status_code == 200, answer.text
    assert (api.pieces(answer.content) if stream else api.text(answer.json())) == "Hello"
    assert "Let me see" in answer.text


@pytest.mark.parametrize("case", ["thinking_tool", "hidden_tool"])
async def test_signed_reasoning_goes_back_as_it_came(house: House, api: ClientApi, case: str) -> None:
    house.says(case)
    body = api.body("thinking_tool")
    answer = await house.ask(api, body)
    if not house.form.signs and answer.status_code == 400:  # a provider that is not told how much to reason
        assert "its models are chosen by whether they reason" in answer.text
        return
    assert answer.status_code == 200, answer.text
    assert api.calls(answer.json()) == [CALL]
    assert SIGNATURE not in answer.text
    house.says("text")

    again = await house.ask(api, api.again(body, answer.json()))

    assert again.status_code == 200, again.text
    wants = house.form.kind == "deepseek" and case == "hidden_tool"  # it had no reasoning to give back, and wants some
    assert ("reasoning=" in again.headers.get("x-smg-lossy", "")) == wants
    assert (SIGNATURE in house.provider.asked[0].body.decode()) == house.form.signs
    assert "sunny" in house.provider.asked[0].body.decode()


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_is_cut_off_is_an_error(house: House, api: ClientApi, stream: bool) -> None:
    house.says("cut")

    answer = await house.ask(api, api.body("text"), stream=stream)

    if stream:
        assert answer.status_code == 200
        assert api.pieces(answer.content) == "Hel"
        assert "error" in answer.text
    else:
        assert answer.status_code in (502, 503), answer.text


@pytest.mark.parametrize("case", ERRORS)
async def test_a_refusal_is_told_in_the_clients_own_words(house: House, api: ClientApi, case: str) -> None:
    house.says(case)

    answer = await house.ask(api, api.body("text"))

    expected = STATUSES[case]
    if name_of(api) == "Messages":
        expected = OF_MESSAGES.get(case, expected)
    assert answer.status_code == expected, answer.text
    assert api.error(answer.json())
    assert "internal.example" not in answer.text
    assert case != "limited" or answer.headers["retry-after"] == "7"


async def test_what_a_provider_is_not_told_is_named_in_the_head(house: House) -> None:
    house.says("text")
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "reasoning_content": "Hm"}]
    body = {"model": "m", "messages": [*turns, {"role": "user", "content": "And?"}]}

    for stream in (False, True):
        answer = await house.http.post("/v1/chat/completions", json={**body, "stream": stream})
        assert answer.status_code == 200, answer.text
        if house.form.returned:
            assert "x-smg-lossy" not in answer.headers
            assert house.provider.asked[-1].json["messages"][1][house.form.returned] == "Hm"
        else:
            assert answer.headers["x-smg-lossy"].startswith("reasoning=left out"), answer.headers
            assert house.observer.of(ConceptsLost)[-1].concepts == ("reasoning",)


FREE_TEXT = {
    "Chat Completions": [{"type": "custom", "custom": {"name": "run"}}],
    "Responses": [{"type": "custom", "name": "run"}],
}


@pytest.mark.parametrize("name", FREE_TEXT)
async def test_a_tool_of_free_text_is_a_function_to_those_who_know_no_other(house: House, name: str) -> None:
    if house.form.kind in ("openai-responses", "azure"):  # which knows such tools: tests of its format tell of them
        return
    api = APIS[name]

    def says(heard: Heard) -> Said:
        stream = house.form.streams["tool"].replace(b"get_weather", b"run").replace(b"city", b"input")
        known = house.form.streams.get("free_text", stream)
        return Said(known, kind=house.form.content_type) if "input" in heard.body.decode() else Said(b"")

    house.provider.script = says
    house.provider.heard.clear()

    answer = await house.ask(api, {**api.body("text"), "tools": FREE_TEXT[name]})

    assert answer.status_code == 200, answer.text
    assert '"input":"Paris"' in answer.text.replace(": ", ":")
    assert "function_call" not in answer.text or name == "Chat Completions"
