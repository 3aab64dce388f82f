"""Answers in the shapes that the providers' own documentation shows, told in every API.

`recorded/answers.json` has them event by event: the fields, their order, the keep-alives and the paddings are facts of the public
pages, the words and the numbers are ours. Each says what it is to mean.
"""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.providers.bedrock_answers import ALL_FORMATS, EVENT_STREAM, converse_event
from tests.providers.chat_answers import MORE_CHAT_FORMATS
from tests.providers.client_apis import APIS
from tests.providers.fake import Heard, Said
from tests.providers.houses import House, before

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("house",), keep=2)]

KINDS = {**ALL_FORMATS, **MORE_CHAT_FORMATS}
RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "recorded" / "answers.json").read_text())
COUNTS = ("prompt", "completion", "cached")


@pytest.fixture(scope="module", params=sorted({each["provider"] for each in RECORDED}))
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with before(KINDS[request.param]) as found:
        yield found


def of(house: House) -> list[dict[str, Any]]:
    """What is recorded of the provider."""
    return [each for each in RECORDED if each["provider"] == house.form.kind]


def said(recorded: dict[str, Any]) -> Said:
    """The answer to the byte."""
    events = recorded["said"]
    if recorded["provider"] == "bedrock":
        return Said(b"".join(converse_event(each["event"], each["data"]) for each in events), kind=EVENT_STREAM)
    return Said("".join(map(_lines, events)).encode())


def answered(said: Said, _: Heard) -> Said:
    """The script of a provider that says one thing."""
    return said


def _lines(event: dict[str, Any]) -> str:
    if "comment" in event:
        return f": {event['comment']}\n\n"
    data = event["data"] if isinstance(event["data"], str) else json.dumps(event["data"], ensure_ascii=False)
    return (f"event: {event['event']}\n" if "event" in event else "") + f"data: {data}\n\n"


@pytest.mark.parametrize("name", APIS)
async def test_an_answer_as_its_provider_documents_it_is_told_in_every_api(house: House, name: str) -> None:
    api = APIS[name]
    for recorded in of(house):
        expects = recorded["expects"]
        house.says("text")
        body = api.body("tool")
        house.provider.script = partial(answered, said(recorded))
        streamed = await house.ask(api, body, stream=True)

        assert streamed.status_code == 200, (recorded["shows"], streamed.text)
        assert api.pieces(streamed.content) == expects["text"], recorded["shows"]
        assert '"error":{' not in streamed.text


async def test_counts_reasoning_and_ends_are_those_of_the_answer(house: House) -> None:
    api = APIS["Chat Completions"]
    for recorded in of(house):
        house.says("text")
        body = api.body("tool") | {"stream_options": {"include_usage": True}, "stream": True}
        house.provider.script = partial(answered, said(recorded))
        answer = await house.http.post(api.path, json=body)
        found = told(answer.text)

        expects = recorded["expects"]
        assert found["finish"] == expects["finish"], recorded["shows"]
        assert found["reasoning"] == expects.get("reasoning", ""), recorded["shows"]
        assert found["calls"] == [[call, arguments] for call, arguments in expects.get("calls", ())], recorded["shows"]
        assert await counted(house) == {"cached": 0} | {
            name: number for name, number in expects.items() if name in COUNTS
        }, recorded["shows"]


async def counted(house: House) -> dict[str, int]:
    """The counts of an answer as Responses has them, whatever the provider calls them."""
    api = APIS["Responses"]
    answer = await house.ask(api, api.body("tool"), stream=True)
    usage = json.loads(answer.text.split("data: ")[-1])["response"]["usage"]
    found = {"prompt": usage["input_tokens"], "completion": usage["output_tokens"]}
    return {**found, "cached": usage["input_tokens_details"]["cached_tokens"]}


def told(stream: str) -> dict[str, Any]:
    """What a stream of Chat Completions says together."""
    chunks = [json.loads(line[6:]) for line in stream.split("\n") if line.startswith("data: {")]
    found: dict[str, Any] = {"finish": None, "reasoning": "", "usage": {}}
    calls: dict[int, list[str]] = {}
    for chunk in chunks:
        found["usage"] = chunk.get("usage") or found["usage"]
        for choice in chunk["choices"]:
            delta = choice["delta"]
            found["finish"] = choice.get("finish_reason") or found["finish"]
            found["reasoning"] += delta.get("reasoning_content") or delta.get("reasoning") or ""
            for call in delta.get("tool_calls") or ():
                kept = calls.setdefault(call["index"], ["", ""])
                kept[0] += call["function"].get("name") or ""
                kept[1] += call["function"].get("arguments") or ""
    found["calls"] = [[name, json.loads(arguments)] for name, arguments in calls.values()]
    return found
