"""Completions by the official SDK, SGLang's `/generate` and tokenize by HTTP: every feature on every engine.

A cell works, as its check says, or is refused with a 400 that names what this engine cannot do.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import httpx
import openai
import pytest
from tests.matrix.features import COUNTS, PERSON, WORDS, checked

from smg_core import Gateway
from smg_core.sse import SseReader
from smg_simulator.answers.replies import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("engine", "api", "feature"))]

ENGINES = [
    "vLLM",
    "neutral",
    "MLX",
    "SGLang",
    "TensorRT-LLM",
    "TokenSpeed",
    "vLLM, HTTP",
    "SGLang, HTTP",
    "chat server",
]
WAYS = ["whole", "stream"]


@attrs.define
class Told:
    """One text of an answer. `tokens` are those with logprobs, `scored` the prompt's, `ids` those of the text."""

    text: str = ""
    finish: str | None = None
    tokens: int = 0
    scored: int = 0
    ids: int = 0


@attrs.define
class Texts:
    """An answer: its texts, and counts of tokens."""

    told: list[Told]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    def at(self, place: int) -> Told:
        """The text of that place."""
        while len(self.told) <= place:
            self.told.append(Told())
        return self.told[place]


@attrs.frozen
class Feature:
    """`fields` are added to a plain request; `requests` is how many the engine gets of it, each answered by `reply` (None: by
    what the engine likes). With `twice`, the check gets the second answer to the same request."""

    name: str
    check: Callable[[Texts], object]
    fields: dict[str, Any] = attrs.field(factory=dict)
    reply: Reply | None = COUNTS
    requests: int = 1
    twice: bool = False


def said(*texts: str, finish: str = "stop") -> Callable[[Texts], None]:
    def check(found: Texts) -> None:
        assert [(each.text, each.finish) for each in found.told] == [(text, finish) for text in texts]

    return check


def counted(found: Texts) -> None:
    assert found.prompt_tokens > 0
    assert found.completion_tokens > 0


def from_cache(found: Texts) -> None:
    assert found.cached_tokens > 0


def scored(found: Texts) -> None:
    assert all(each.tokens > 0 for each in found.told)


def prompt_scored(found: Texts) -> None:
    assert all(each.scored == found.prompt_tokens for each in found.told)


def told_ids(found: Texts) -> None:
    assert [each.ids for each in found.told] == [found.completion_tokens]


def is_person(found: Texts) -> None:
    assert isinstance(json.loads(found.told[0].text)["age"], int)


LONG = "word " * 100

COMPLETIONS = (
    Feature("text", said(WORDS)),
    Feature("usage", counted),
    Feature("cached tokens", from_cache, {"prompt": LONG}, twice=True),
    Feature("a prompt of token ids", said(WORDS), {"prompt": [5, 6, 7]}),
    Feature("several prompts", said(WORDS, WORDS), {"prompt": ["One,", "Two,"]}, requests=2),
    Feature("max_tokens", said("one two three", finish="length"), {"max_tokens": 3}),
    Feature("stop", said("one two three "), {"stop": "four"}),
    Feature("n = 2", said(WORDS, WORDS), {"n": 2, "temperature": 1}, requests=2),
    Feature("best_of", said(WORDS), {"best_of": 2, "temperature": 1}, requests=2),
    Feature("logprobs", scored, {"logprobs": 2}),
    Feature("echo", said(f"Go on:{WORDS}"), {"echo": True}),
    Feature("echo with logprobs", scored, {"echo": True, "logprobs": 2}),
    Feature("temperature, top_p, penalties, seed", said(WORDS),
            {"temperature": 0.5, "top_p": 0.5, "frequency_penalty": 1, "presence_penalty": 1, "seed": 7}),
    Feature("truncate_prompt_tokens", said(WORDS), {"extra_body": {"truncate_prompt_tokens": 2}}),
    Feature("json_schema", is_person, {"max_tokens": 100, "extra_body": {"guided_json": PERSON}}, None),
)  # fmt: skip
GENERATE = (
    Feature("text", said(WORDS)),
    Feature("output_ids", told_ids),
    Feature("usage", counted),
    Feature("cached tokens", from_cache, {"text": LONG}, twice=True),
    Feature("input_ids", said(WORDS), {"text": None, "input_ids": [5, 6, 7]}),
    Feature("a list", said(WORDS, WORDS), {"text": ["One,", "Two,"]}, requests=2),
    Feature("max_new_tokens", said("one two three", finish="length"), {"sampling_params": {"max_new_tokens": 3}}),
    Feature("min_new_tokens", said(WORDS), {"sampling_params": {"min_new_tokens": 2}}),
    Feature("stop", said("one two three "), {"sampling_params": {"stop": "four"}}),
    Feature("n = 2", said(WORDS, WORDS), {"sampling_params": {"n": 2, "temperature": 1}}, requests=2),
    Feature("return_logprob", scored, {"return_logprob": True, "top_logprobs_num": 2}),
    Feature("logprob_start_len", prompt_scored, {"return_logprob": True, "logprob_start_len": 0}),
    Feature("json_schema", is_person, {"sampling_params": {"json_schema": json.dumps(PERSON)}}, None),
)


async def _completions(client: openai.AsyncOpenAI, feature: Feature, *, stream: bool) -> Texts:
    asked: dict[str, Any] = {"model": "sim", "prompt": "Go on:", "max_tokens": 30, **feature.fields}
    found = Texts([])
    if stream:
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
    answer: Any = await client.completions.create(**asked)
    for chunk in [each async for each in answer] if stream else [answer]:
        for choice in chunk.choices:
            told = found.at(choice.index)
            told.text += choice.text
            told.finish = choice.finish_reason or told.finish
            told.tokens += len(choice.logprobs.tokens) if choice.logprobs is not None else 0
        if chunk.usage is not None:
            found.prompt_tokens, found.completion_tokens = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
            details = chunk.usage.prompt_tokens_details
            found.cached_tokens = 0 if details is None else details.cached_tokens or 0
    return found


def _generated(chunks: Sequence[Any]) -> Texts:
    """Of chunks, the last of each text has all of it."""
    found = Texts([])
    last = {each["index"]: each for each in chunks}
    for place, each in sorted(last.items()):
        meta = each["meta_info"]
        finish = meta["finish_reason"]
        tokens = len(meta.get("output_token_logprobs", ())) if "output_top_logprobs" in meta else 0
        before = len(meta.get("input_token_logprobs", ()))
        told = Told(each["text"], finish and finish["type"], tokens, before, len(each["output_ids"]))
        found.at(place)
        found.told[place] = told
        found.prompt_tokens, found.cached_tokens = meta["prompt_tokens"], meta["cached_tokens"]
        found.completion_tokens += meta["completion_tokens"]
    return found


@pytest.mark.parametrize("feature", COMPLETIONS, ids=lambda feature: feature.name)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_feature_of_completions_works_or_is_refused_by_name(
    engine: str,
    way: str,
    feature: Feature,
    served: Callable[[str, str], Any],
    called_by: Callable[[Gateway], httpx.AsyncClient],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", ("Completions", feature.name, engine, way))
    gateway, simulated = await served(engine, "text")
    _say(simulated, feature)
    client = openai.AsyncOpenAI(
        http_client=called_by(gateway), base_url="http://gateway/v1", api_key="-", max_retries=0
    )
    refused: str | None = None
    found = Texts([])
    try:
        for _ in range(1 + feature.twice):
            found = await _completions(client, feature, stream=way == "stream")
    except openai.BadRequestError as refusal:
        refused = refusal.param or ""
    _forget(simulated)
    assert refused != "", "a refusal must name what it is about"
    record_property("result", checked(feature, engine, found) if refused is None else f"400: {refused}")


def _say(simulated: Any, feature: Feature) -> None:
    if feature.reply is not None:
        simulated.say(*[feature.reply] * feature.requests * (1 + feature.twice))


def _forget(simulated: Any) -> None:
    """What the engine would have said is not for the next cell."""
    while simulated.engine.script.next() is not None:
        pass


@pytest.mark.parametrize("feature", GENERATE, ids=lambda feature: feature.name)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_feature_of_generate_works_or_is_refused_by_name(
    engine: str,
    way: str,
    feature: Feature,
    served: Callable[[str, str], Any],
    called_by: Callable[[Gateway], httpx.AsyncClient],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", ("SGLang's /generate", feature.name, engine, way))
    gateway, simulated = await served(engine, "text")
    _say(simulated, feature)
    body = {"text": "Go on:", "stream": way == "stream", **feature.fields}
    http = called_by(gateway)
    answer = [await http.post("/generate", json=body) for _ in range(1 + feature.twice)][-1]
    _forget(simulated)
    if answer.status_code == 400:
        param = answer.json()["error"]["param"]
        assert param
        record_property("result", f"400: {param}")
        return
    if way == "stream":
        chunks = [json.loads(event.data) for event in SseReader().feed(answer.content) if event.data != "[DONE]"]
        chunks = [each if "index" in each else {**each, "index": 0} for each in chunks]
    else:
        whole = answer.json()
        chunks = [{**each, "index": place} for place, each in enumerate(whole if isinstance(whole, list) else [whole])]
    record_property("result", checked(feature, engine, _generated(chunks)))


# ------------------------------------------------------------------------------------------------------------- tokens


@attrs.frozen
class Tokens:
    """A request of tokenize or detokenize, and what of its answer must be there."""

    name: str
    path: str
    body: dict[str, Any]
    check: Callable[[Any], object]


def has_ids(found: Any) -> None:
    assert found["count"] == len(found["tokens"]) > 0


def has_lists(found: Any) -> None:
    assert [len(each) for each in found["tokens"]] == found["count"]


def has_text(found: Any) -> None:
    assert found["text"] == found["prompt"] != ""


MESSAGES = [{"role": "user", "content": "Count."}]
TOKENS = (
    Tokens("tokenize: a text", "/tokenize", {"prompt": "Go on:"}, has_ids),
    Tokens("tokenize: several texts", "/v1/tokenize", {"prompt": ["One", "Two"]}, has_lists),
    Tokens("tokenize: messages", "/tokenize", {"messages": MESSAGES}, has_ids),
    Tokens("detokenize", "/detokenize", {"tokens": [300, 301]}, has_text),
)


@pytest.mark.parametrize("feature", TOKENS, ids=lambda feature: feature.name)
@pytest.mark.parametrize("engine", ENGINES)
async def test_tokens_are_told_or_refused_by_name(
    engine: str,
    feature: Tokens,
    served: Callable[[str, str], Any],
    called_by: Callable[[Gateway], httpx.AsyncClient],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", ("Tokens", feature.name, engine, "whole"))
    gateway, _ = await served(engine, "text")
    answer = await called_by(gateway).post(feature.path, json={"model": "sim", **feature.body})
    if answer.status_code == 400:
        param = answer.json()["error"]["param"]
        assert param
        record_property("result", f"400: {param}")
        return
    record_property("result", checked(feature, engine, answer.json()))
