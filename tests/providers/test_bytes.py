"""The client's bytes reach a provider of its own API, and the provider's bytes reach the client: for all pairs that speak alike.

What differs is named here, and nothing else does: the name of the model, the credentials, the seals in place of signatures, and
the count of tokens that a stream of Chat Completions is asked for.
"""

import base64
import re
from collections.abc import AsyncIterator, Mapping

import attrs
import pytest
from tests.providers.answers import FORMATS, SIGNATURE, Format
from tests.providers.bedrock_answers import ALL_FORMATS
from tests.providers.chat_answers import CHAT_FORMATS
from tests.providers.fake import Said
from tests.providers.houses import House, before

from smg_core.engines.vendors.chat.profiles import CHAT_PROFILES
from smg_core.hooks import RequestFinished

pytestmark = pytest.mark.anyio

SEAL = re.compile(rb"gw1\.[A-Za-z0-9_-]+|Z3cxL[A-Za-z0-9+/=]+")
JSON = {"content-type": "application/json"}
COUNTED = ',"stream_options":{"include_usage":true}'

MESSAGES = (
    '{ "model":"%s", "max_tokens":  4000 ,\n %s"system":"Be \\u0062rief.",'
    ' "tools":[{"name":"get_weather","input_schema":{"type":"object","properties":{}}}],'
    ' "messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"text","text":"Yes"}]},'
    ' {"content":[{"text":"And?","type":"text","cache_control":{"type":"ephemeral","ttl":"1h"}}],"role":"user"}]}'
)
CONTENTS = (
    '{ "contents":[ {"parts":[{"text":"H\\u0069"}], "role":"user"}, {"role":"model","parts":[{"text":"Yes"}]},'
    ' {"parts":[{"text":"And?"}]}], "systemInstruction":{"parts":[{"text":"Be brief."}]},'
    ' "generationConfig":{"temperature":1.0e0,  "maxOutputTokens":100}}'
)
ITEMS = (
    '{ "model":"%s", %s"store":false, "include":["reasoning.encrypted_content"],\n "temperature":1e0,'
    ' "user": "ann", "metadata":{"a":"b"}, "input":[{"role":"user","content":"H\\u0069"}] }'
)
CHAT = (
    '{ "messages":[{"role":"user","content":"H\\u0069"},\n{"role":"assistant","content":"Yes"},'
    '{"role":"user","content":"And?"}], "model":"%s", %s"temperature":1e0, "stop":"x" }'
)
WHOLE = {
    "Messages": (
        '{"model":"%s","id":"msg_1", "type":"message","role":"assistant","novelty":{"a":[1e0,null]},"content":[ '
        f'{{"type":"thinking","thinking":"Let me see","signature":"{SIGNATURE}"}},'
        '{"type":"text","text":"Hel\\u006co","citations":null},'
        '{"type":"tool_use","id":"call_1","name":"get_weather","input":{ "city":"Paris"} }],"stop_reason":"tool_use",'
        ' "stop_sequence":null,"usage":{"input_tokens":12,"output_tokens":9}}\n'
    ),
    "generateContent": (
        '{\n  "candidates": [ {"content": {"parts": [{"text":"Let me see","thought":true}, '
        '{"functionCall": {"name":"get_weather","args": {"city":"Paris"},"id":"call_1"},'
        f'"thoughtSignature":"{SIGNATURE}"}}],"role": "model"}},"finishReason": "STOP","index": 0}}],'
        '"novelty":1e0,\n  "usageMetadata": {"promptTokenCount": 12,"candidatesTokenCount": 9,'
        '"totalTokenCount": 21}, "modelVersion": "%s"}'
    ),
    "Responses": (
        '{\n "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "%s", "novelty": [1e0],'
        f'\n "output": [{{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"{SIGNATURE}"}},'
        '{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text",'
        '"text":"Hel\\u006co","annotations":[],"logprobs":[]}]}, {"type":"function_call","id":"fc_1","call_id":"call_1",'
        '"name":"get_weather","arguments":"{\\"city\\":\\"Paris\\"}","status":"completed"}], "usage": {"input_tokens":12,'
        '"output_tokens":9,"total_tokens":21}, "error": null, "incomplete_details": null, "tools": [],'
        ' "parallel_tool_calls": true, "tool_choice": "auto"\n}'
    ),
    "Chat Completions": (
        '{"id":"chatcmpl-1", "object":"chat.completion","created":1, "model":"%s","novelty":{"a":[1e0,null]},'
        '"choices":[ {"index":0,"message":{"role":"assistant","content":"Hel\\u006co","refusal":null,"tool_calls":['
        '{"id":"callabc12","type":"function","function":{"name":"get_weather","arguments":"{\\"city\\":\\"Paris\\"}"}}]},'
        '"logprobs":null,"finish_reason":"tool_calls"}],"usage": {"prompt_tokens":12,"completion_tokens":9, '
        '"total_tokens":21}}'
    ),
}


@attrs.frozen
class Pair:
    """An API and a provider of it: the paths for a whole answer and for a stream, and the body, with places for the name of the
    model and for what asks for a stream."""

    api: str
    form: Format
    whole: str
    streamed: str
    body: str

    def asked(self, model: str, *, stream: bool) -> str:
        if self.body.count("%s") == 2:
            return self.body % (model, '"stream":true, ' if stream else '"stream": false, ')
        return self.body

    def sent(self, *, stream: bool) -> str:
        """What the provider is sent of it."""
        body = self.asked(self.form.model, stream=stream)
        asks = self.api == "Chat Completions" and stream and CHAT_PROFILES[self.form.kind].usage_asked
        return body[: body.rindex("}")] + COUNTED + "}" if asks else body


def _chat(kind: str) -> Pair:
    form = CHAT_FORMATS.get(kind) or attrs.evolve(CHAT_FORMATS["xai"], kind=kind)
    return Pair("Chat Completions", form, "/v1/chat/completions", "/v1/chat/completions", CHAT)


def _gemini(kind: str) -> Pair:
    at = "/v1beta/models/m:"
    form = FORMATS["gemini"] if kind == "gemini" else ALL_FORMATS[kind]
    return Pair("generateContent", form, f"{at}generateContent", f"{at}streamGenerateContent?alt=sse", CONTENTS)


PAIRS: Mapping[str, Pair] = {
    "anthropic": Pair("Messages", FORMATS["anthropic"], "/v1/messages", "/v1/messages", MESSAGES),
    "gemini": _gemini("gemini"),
    "openai-responses": Pair("Responses", FORMATS["openai-responses"], "/v1/responses", "/v1/responses", ITEMS),
    **{kind: _chat(kind) for kind in CHAT_PROFILES if kind != "openrouter"},
}
"""Every pair that speaks alike. OpenRouter's details of reasoning are sealed, so its answers are told in the gateway's words."""


@pytest.fixture(scope="module", params=PAIRS)
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Pair, House]]:
    async with before(PAIRS[request.param].form) as house:
        yield PAIRS[request.param], house


def renamed(said: bytes, form: Format) -> bytes:
    return said.replace(f'"model":"{form.model}"'.encode(), b'"model":"m"')


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_is_the_clients_to_the_byte(pair: tuple[Pair, House], stream: bool) -> None:
    one, house = pair
    house.says("text")
    if not stream:
        house.provider.script = lambda _: Said(
            WHOLE[one.api].replace("%s", one.form.model).encode(), kind="application/json"
        )

    path = one.streamed if stream else one.whole
    answer = await house.http.post(path, content=one.asked("m", stream=stream).encode(), headers=JSON)

    assert answer.status_code == 200, answer.text
    assert house.provider.asked[0].body.decode() == one.sent(stream=stream)
    assert "x-smg-lossy" not in answer.headers


@pytest.mark.parametrize("case", ["text", "thinking_tool", "parallel", "length"])
async def test_a_stream_is_the_providers_to_the_byte(pair: tuple[Pair, House], case: str) -> None:
    one, house = pair
    house.says(case)

    answer = await house.http.post(one.streamed, content=one.asked("m", stream=True).encode(), headers=JSON)

    told = renamed(one.form.streams[case], one.form)
    if one.api == "Chat Completions":
        counts = [each for each in told.split(b"\n\n") if b'"usage"' in each]
        told = told.replace(counts[0] + b"\n\n", b"")
    assert SEAL.sub(SIGNATURE.encode(), answer.content).replace(b'"encrypted_content":""', SEALED) == told
    assert SIGNATURE.encode() not in answer.content
    assert len(set(SEAL.findall(answer.content))) == (SIGNATURE.encode() in told)


@pytest.mark.parametrize("padded", [True, False])
async def test_media_of_googles_own_libraries_leave_a_request_the_clients_to_the_byte(*, padded: bool) -> None:
    """They write base64 in the alphabet of URLs, which Google takes as well."""
    data = base64.urlsafe_b64encode(b"\xfb\xef\xbe\xff" * 8).decode()
    media = '{ "inlineData":{"mimeType":"image/png", "data":"%s"}}' % (data if padded else data.rstrip("="))
    body = (
        '{"contents":[ {"role":"user", "parts":[{"text":"H\\u0069"}, MEDIA]},'
        ' {"role":"model","parts":[{"functionCall":{"name":"f","args":{},"id":"c"},'
        '"thoughtSignature":"skip_thought_signature_validator"}]},'
        ' {"parts":[{"functionResponse":{"id":"c","name":"f","response":{"a":1e0},"parts":[ MEDIA]}}]}],'
        ' "generationConfig":{"maxOutputTokens":100} }'
    ).replace("MEDIA", media)
    async with before(FORMATS["gemini"]) as house:
        answer = await house.http.post("/v1beta/models/m:generateContent", content=body.encode(), headers=JSON)

        assert answer.status_code == 200, answer.text
        assert house.provider.asked[0].body.decode() == body


SEALED = b'"encrypted_content":"%b"' % SIGNATURE.encode()


async def test_a_whole_answer_is_the_providers_to_the_byte(pair: tuple[Pair, House]) -> None:
    one, house = pair
    said = WHOLE[one.api]
    house.provider.heard.clear()
    house.provider.script = lambda _: Said(said.replace("%s", one.form.model).encode(), kind="application/json")

    answer = await house.http.post(one.whole, content=one.asked("m", stream=False).encode(), headers=JSON)

    assert answer.status_code == 200, answer.text
    assert SEAL.sub(SIGNATURE.encode(), answer.content).decode() == said.replace("%s", "m")
    assert SIGNATURE.encode() not in answer.content
    assert len(SEAL.findall(answer.content)) == (SIGNATURE in said)
    done = house.observer.of(RequestFinished)[-1]
    assert (done.prompt_tokens, done.completion_tokens) == (12, 9)
