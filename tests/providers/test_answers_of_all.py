"""Faults that answers are known to have behind translations, looked for in every API before every provider."""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator

import attrs
import pytest
from tests.providers.answers import script
from tests.providers.bedrock_answers import ALL_FORMATS
from tests.providers.chat_answers import CHAT_FORMATS
from tests.providers.client_apis import APIS, SCHEMA, ClientApi
from tests.providers.fake import Heard, Said
from tests.providers.houses import House, before

from smg_core.sse import SseReader

pytestmark = pytest.mark.anyio

SEAL = re.compile(r"gw1\.[A-Za-z0-9_-]+|[A-Za-z0-9_-]{80,}={0,2}")  # the latter are bytes in base64
USAGE = re.compile(rb'("usage(?:Metadata)?"):\{(?:[^{}]|\{[^{}]*\})*\}')


KINDS = [kind for kind in ALL_FORMATS if kind not in CHAT_FORMATS or kind == "azure"]
"""Of the providers of Chat Completions, whose answers one decoder reads, one."""


@pytest.fixture(scope="module", params=KINDS)
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with before(ALL_FORMATS[request.param]) as found:
        yield found


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> ClientApi:
    return APIS[request.param]


@pytest.mark.sampled(per=("house",))
@pytest.mark.parametrize("case", ["thinking_tool", "hidden_tool"])
async def test_what_signs_reasoning_is_the_same_in_a_stream_and_in_a_whole_answer(
    house: House, api: ClientApi, case: str
) -> None:
    if not house.form.signs:
        return
    house.says(case)

    whole = await house.ask(api, api.body("thinking_tool"))
    streamed = await house.ask(api, api.body("thinking_tool"), stream=True)

    found = set(SEAL.findall(whole.text))
    assert len(found) == 1
    assert set(SEAL.findall(streamed.text)) == found


@pytest.mark.sampled(per=("house",))
@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_without_counts_is_whole(house: House, api: ClientApi, stream: bool) -> None:
    if house.form.content_type != "text/event-stream":
        return

    def uncounted(heard: Heard) -> Said:
        said = script(house.form, "text")(heard)
        return Said(USAGE.sub(rb"\1:null", said.body), said.status, said.kind)

    house.provider.script = uncounted

    answer = await house.ask(api, api.body("text"), stream=stream)

    assert answer.status_code == 200, answer.text
    assert (api.pieces(answer.content) if stream else api.text(answer.json())) == "Hello"
    assert "error" not in answer.text.replace('"error":null', "")


async def test_every_block_and_item_of_a_stream_begins_and_ends_once(house: House) -> None:
    house.says("parallel")
    for name in ("Messages", "Responses"):
        answer = await house.ask(APIS[name], APIS[name].body("parallel"), stream=True)
        events = [json.loads(each.data) for each in SseReader().feed(answer.content)]
        begun: Counter[int] = Counter()
        ended: Counter[int] = Counter()
        for each in events:
            place = each.get("index", each.get("output_index", -1))
            if each["type"] in ("content_block_start", "response.output_item.added"):
                begun[place] += 1
            elif each["type"] in ("content_block_stop", "response.output_item.done"):
                ended[place] += 1
        assert begun == ended, answer.text
        assert set(begun.values()) == {1}, answer.text
        assert events[0]["type"] in ("message_start", "response.created")
        assert events[-1]["type"] in ("message_stop", "response.completed")


async def test_an_answer_names_its_role_and_has_counts_from_its_beginning(house: House) -> None:
    house.says("text")

    chat = await house.ask(APIS["Chat Completions"], APIS["Chat Completions"].body("text"), stream=True)
    messages = await house.ask(APIS["Messages"], APIS["Messages"].body("text"), stream=True)

    chunks = [json.loads(each.data) for each in SseReader().feed(chat.content)[:2]]
    first = next(each for each in chunks if each["choices"])  # before it Azure tells of its filter
    assert first["choices"][0]["delta"]["role"] == "assistant"
    begun = json.loads(SseReader().feed(messages.content)[0].data)
    assert begun["message"]["usage"].keys() >= {"input_tokens", "output_tokens"}


@pytest.mark.sampled(per=("house",))
async def test_a_refusal_of_the_gateways_own_is_told_as_its_own_and_nothing_is_sent(
    house: House, api: ClientApi
) -> None:
    house.says("text")
    name = next(name for name, each in APIS.items() if each is api)
    wrong = {"Chat Completions": {"n": "x"}, "generateContent": {"contents": 3}}.get(name, {"model": 3})

    answer = await house.ask(api, {**api.body("text"), **wrong})

    assert answer.status_code == 400
    assert "provider" not in api.error(answer.json())
    assert house.provider.asked == []


@pytest.mark.sampled(per=("house",))
@pytest.mark.parametrize("stream", [False, True])
async def test_calls_that_a_provider_gave_one_id_can_be_answered_apart(
    house: House, api: ClientApi, stream: bool
) -> None:
    if house.form.kind == "bedrock":
        return  # its frames have checksums; what reads them gives ids as those of the others do

    def of_one_id(heard: Heard) -> Said:
        said = script(house.form, "parallel")(heard)
        words = said.body
        for second, first in ((b"toolu_2", b"toolu_1"), (b"call_2", b"call_1"), (b"callabc13", b"callabc12")):
            words = words.replace(second, first)
        return attrs.evolve(said, body=words)

    house.provider.script = of_one_id
    body = api.body("parallel")

    answer = await house.ask(api, body, stream=stream)

    assert answer.status_code == 200, answer.text
    if stream:
        ids = re.findall(r'"(?:id|call_id)":"((?:toolu_|call)[^"]*)"', answer.text)
        assert len(set(ids)) == 2, answer.text
        return
    assert api.calls(answer.json()) == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    again = await house.ask(api, api.again(body, answer.json()))
    assert again.status_code == 200, again.text


@pytest.mark.parametrize("kind", ["anthropic", "gemini", "bedrock", "xai"])
async def test_of_some_tools_that_may_be_called_these_alone_are_offered(kind: str) -> None:
    tools = [{"type": "function", "function": {"name": each, "parameters": SCHEMA}} for each in ("aaa", "bbb", "ccc")]
    allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": each}} for each in ("aaa", "ccc")]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    async with before(ALL_FORMATS[kind]) as house:
        body = {**APIS["Chat Completions"].body("text"), "tools": tools, "tool_choice": choice}

        answer = await house.ask(APIS["Chat Completions"], body)

        assert answer.status_code == 200, answer.text
        sent = house.provider.asked[0].body.decode()
        assert [each in sent for each in ("aaa", "bbb", "ccc")] == [True, False, True]


@pytest.mark.parametrize("blank", ["", "\\n"])
async def test_a_text_without_a_letter_beside_a_call_is_not_told_to_clients_of_messages(blank: str) -> None:
    form = ALL_FORMATS["xai"]
    word = b'"content":""'
    assert word in form.streams["tool"]
    async with before(form) as house:
        house.provider.script = lambda _: Said(form.streams["tool"].replace(word, b'"content":"%b"' % blank.encode()))
        messages = APIS["Messages"]

        answer = await house.ask(messages, messages.body("tool"))
        streamed = await house.ask(messages, messages.body("tool"), stream=True)

        assert [each["type"] for each in answer.json()["content"]] == ["tool_use"], answer.text
        assert '"type":"text"' not in streamed.text
