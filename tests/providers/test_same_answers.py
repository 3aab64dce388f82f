"""Where a client's API is the provider's own, a stream reaches it as the provider has written it: all but what a seal covers."""

import json
import re
from collections.abc import AsyncIterator

import pytest
from tests.providers.answers import FORMATS, SIGNATURE, claude_stream, gemini_stream, script
from tests.providers.bedrock_answers import BEDROCK_FORMATS
from tests.providers.client_apis import APIS, ClientApi
from tests.providers.fake import Said
from tests.providers.houses import House, before

from smg_core.hooks import RequestFinished

pytestmark = pytest.mark.anyio

OWN = {"anthropic": "Messages", "gemini": "generateContent", "bedrock-anthropic": "Messages"}
SEAL = re.compile(rb"gw1\.[A-Za-z0-9_-]+|Z3cxL[A-Za-z0-9+/=]+")
KINDS = {**FORMATS, **BEDROCK_FORMATS}
MESSAGES = FORMATS["anthropic"]


def said(form: str, case: str) -> bytes:
    """The stream in the fake's words, with the client's name of the model."""
    stream = (MESSAGES if form == "bedrock-anthropic" else KINDS[form]).streams[case]
    if form == "bedrock-anthropic":  # it sends no signs of life
        stream = b"".join(each + b"\n\n" for each in stream.split(b"\n\n")[:-1] if b"event: ping" not in each)
    return stream.replace(f'"model":"{MESSAGES.model}"'.encode(), b'"model":"m"')


@pytest.fixture(scope="module", params=OWN)
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with before(KINDS[request.param]) as found:
        yield found


@pytest.fixture
def api(house: House) -> ClientApi:
    return APIS[OWN[house.form.kind]]


@pytest.mark.parametrize("case", ["text", "tool", "parallel", "json", "length", "refusal", "thinking", "thinking_tool"])
async def test_a_stream_is_the_providers_to_the_byte(house: House, api: ClientApi, case: str) -> None:
    house.says(case)

    answer = await house.ask(api, api.body("thinking_tool"), stream=True)

    signed = "thinking" in case or (case == "parallel" and house.form.kind == "gemini")
    assert len(SEAL.findall(answer.content)) == signed
    assert SEAL.sub(SIGNATURE.encode(), answer.content) == said(house.form.kind, case)


@pytest.mark.parametrize("case", ["thinking_tool", "hidden_tool"])
async def test_what_was_signed_goes_back_as_it_came(house: House, api: ClientApi, case: str) -> None:
    house.says(case)
    body = api.body("thinking_tool")
    streamed = await house.ask(api, body, stream=True)
    (seal,) = SEAL.findall(streamed.content)
    whole = (await house.ask(api, body)).text
    (other,) = SEAL.findall(whole.encode())
    house.says("text")

    answer = await house.ask(api, api.again(body, json.loads(whole.replace(other.decode(), seal.decode()))))

    assert answer.status_code == 200, answer.text
    assert SIGNATURE in house.provider.asked[0].body.decode()


async def test_fields_that_the_gateway_does_not_know_reach_the_client(house: House, api: ClientApi) -> None:
    if house.form.kind == "gemini":
        plain = gemini_stream([{"text": "Hello"}])
        stream = plain.replace(b'"finishReason"', b'"novelty":{"a":[1e0,null]},"finishReason"')
    else:
        stream = claude_stream(({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Hello"}]))
        stream = stream.replace(b'"text":"Hello"', b'"novelty":{"a":[1e0,null]},"text":"Hello"')
        stream = stream.replace(b"event: ping", b'event: novelty\ndata: {"type":"novelty","b":0.10}\n\nevent: ping')
    if house.form.kind == "bedrock-anthropic":
        return  # its chunks are made of the stream of Messages
    house.provider.script = lambda _: Said(stream)

    answer = await house.ask(api, api.body("text"), stream=True)

    assert answer.content == stream.replace(f'"model":"{house.form.model}"'.encode(), b'"model":"m"')


async def test_what_the_client_has_had_is_counted_and_charged(house: House, api: ClientApi) -> None:
    house.says("text")

    await house.ask(api, api.body("text"), stream=True)

    done = house.observer.of(RequestFinished)[-1]
    assert (done.prompt_tokens, done.completion_tokens) == (12, 9)


async def test_a_stream_that_is_cut_off_ends_with_an_error_in_the_api(house: House, api: ClientApi) -> None:
    house.says("cut")

    answer = await house.ask(api, api.body("text"), stream=True)

    assert b"Hel" in answer.content
    assert b'"error"' in answer.content.rpartition(b"data: ")[2]


async def test_an_error_before_the_first_word_leaves_nothing_of_the_stream(house: House, api: ClientApi) -> None:
    if house.form.content_type != "text/event-stream":
        return
    begun = house.form.streams["text"].partition(b"\n\n")[0] + b"\n\n" if house.form.kind == "anthropic" else b""
    house.provider.script = lambda _: Said(begun + house.form.error_in_stream)

    answer = await house.ask(api, api.body("text"), stream=True)

    assert answer.status_code in (503, 529)


@pytest.mark.parametrize("case", ["text", "thinking_tool"])
async def test_a_client_of_another_api_is_told_in_its_own_words(house: House, case: str) -> None:
    for name in APIS.keys() - {OWN[house.form.kind]}:
        house.provider.script = script(house.form, case)
        answer = await house.ask(APIS[name], APIS[name].body(case), stream=True)
        assert answer.status_code == 200, answer.text
        assert SIGNATURE not in answer.text


async def test_a_signature_of_reasoning_that_never_ends_is_left_out_and_nothing_waits_for_it(house: House) -> None:
    if house.form.kind != "anthropic":
        return
    stream = house.form.streams["thinking_tool"]
    stop = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    delta = b'"type":"signature_delta"'
    assert stop in stream
    for broken in (
        stream.replace(stop, b""),
        stream.replace(delta, b'"type":"signature_delta","a":1').replace(stop, b""),
    ):
        house.provider.script = lambda _, broken=broken: Said(broken)

        answer = await house.ask(APIS["Messages"], APIS["Messages"].body("thinking_tool"), stream=True)

        assert SIGNATURE not in answer.text
        assert answer.content.endswith(b'data: {"type":"message_stop"}\n\n')


async def test_nulls_in_an_event_are_fields_that_are_not_there(house: House, api: ClientApi) -> None:
    if house.form.content_type != "text/event-stream":
        return
    stream = house.form.streams["text"].replace(b'"text":""', b'"text":null,"citations":null')
    stream = stream.replace(b'"role":"model"', b'"role":null').replace(b'"index":0', b'"index":null,"id":null', 1)
    house.provider.script = lambda _: Said(stream)

    for name, each in APIS.items():
        answer = await house.ask(each, each.body("text"))
        assert answer.status_code == 200, (name, answer.text)
        assert each.text(answer.json()) == "Hello"
