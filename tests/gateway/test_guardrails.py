"""Guardrails on every way in and every way out: all APIs, streamed and whole, input, output and arguments, closed and open."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import msgspec
import pytest
from tests.gateway.collector import collecting
from tests.gateway.conftest import CHAT, body, in_process, over_http, settled
from tests.gateway.fleet import Member, fleet
from tests.gateway.test_batches import BRISK, batch_of, line, openai_of, over, results
from tests.gateway.test_said import APIS, events_of
from tests.shared import PATIENCE

from smg_core.config.config import Config
from smg_core.guardrails import GuardFindings, GuardQuestion, Guardrail, GuardSpan
from smg_core.guardrails.settings import GuardrailsConfig
from smg_core.hooks import AttemptEnded, GuardrailAsked
from smg_core.http.settings import ModelConfig
from smg_core.ledger.queries import UsageQuery
from smg_core.ledger.settings import LedgerConfig
from smg_core.observability.settings import TracesConfig
from smg_core.response_cache.settings import ResponseCacheConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

BAD = "forbidden"
SAID = ("Here it is: for", "bid", "den, and more of it.")
TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"what": {"type": "string"}}}},
}


def engine(*replies: Reply, rate: float = 0) -> SimulatorConfig:
    timing = Timing(decode_rate=rate) if rate else Timing()
    return SimulatorConfig(replies=replies or (Reply(pieces=SAID),), repeat=True, timing=timing)


def looks_for(word: str = BAD) -> Callable[[GuardQuestion], GuardFindings | None]:
    """A check that finds a word."""

    async def check(question: GuardQuestion) -> GuardFindings | None:
        return GuardFindings((word,)) if word in question.text else None

    return check  # type: ignore[return-value]


def masks(word: str = BAD, label: str = "WORD") -> Callable[[GuardQuestion], GuardFindings]:
    async def check(question: GuardQuestion) -> GuardFindings:
        at, spans = question.text.find(word), []
        while at >= 0:
            spans.append(GuardSpan(at, at + len(word), label))
            at = question.text.find(word, at + 1)
        return GuardFindings(spans=tuple(spans))

    return check  # type: ignore[return-value]


def rail(check: Any = None, **said: Any) -> Guardrail:
    return Guardrail("words", check or looks_for(), **said)


async def failing(question: GuardQuestion) -> None:
    raise RuntimeError(f"a secret: {question.text}")


def small(**said: Any) -> Config:
    return Config(guardrails=GuardrailsConfig(**{"held_chars": 16, "piece_chars": 1, **said}))


def with_input(api: str, text: str) -> dict[str, Any]:
    """The body of an API with this text."""
    return msgspec.json.decode(msgspec.json.encode(APIS[api][1]).replace(b'"Hi"', msgspec.json.encode(text)))


async def asked(house: Any, api: str, text: str, *, stream: bool, **more: Any) -> Any:
    path, _, streamed, _, _ = APIS[api]
    fields = {**with_input(api, text), **more}
    if stream and api != "gemini":
        fields["stream"] = True
    return await house.http.post(streamed if stream else path, json=fields)


def said_in(api: str, answer: Any, *, stream: bool) -> str:
    _, _, _, of_whole, of_event = APIS[api]
    if not stream:
        return of_whole(answer.json())
    said = [of_event(each) for each in events_of(answer.content)]
    return said[-1] if api == "generate" else "".join(said)


FILTERED: Mapping[str, str] = {
    "chat": '"finish_reason":"content_filter"',
    "completions": '"finish_reason":"content_filter"',
    "responses": '"incomplete_details":{"reason":"content_filter"}',
    "messages": '"stop_reason":"refusal"',
    "gemini": '"finishReason":"SAFETY"',
    "generate": '"finish_reason"',
    "interactions": "SAFETY",
}


@pytest.mark.sampled(per=("stream",), keep=1)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
async def test_a_prompt_that_is_held_back_reaches_no_engine_on_any_api(api: str, stream: bool) -> None:
    async with in_process(engine(), guardrails=[rail(on=("input",))]) as house:
        answer = await asked(house, api, f"Say what is {BAD}.", stream=stream)
        await settled(house)
        passed = await asked(house, api, "Say what is allowed.", stream=stream)
        requests = len(house.engine.requests)

    if api == "gemini":
        assert answer.status_code == 200
        told = events_of(answer.content)[-1] if stream else answer.json()
        assert told["promptFeedback"] == {"blockReason": "SAFETY"}
        assert "candidates" not in told
    else:
        assert answer.status_code == 400, answer.text
        assert "guardrail 'words'" in answer.text
    assert passed.status_code == 200
    assert requests == 1


def called(name: str = "look", id: str = "call-1", arguments: str = "{}", result: str = "ok") -> dict[str, Any]:
    """A turn in which the model has called a tool."""
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    returned = {"role": "tool", "tool_call_id": id, "content": result}
    return {"messages": [{"role": "assistant", "tool_calls": [call]}, returned]}


def offered(name: str = "look", **function: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": name, **function}}]}


PLACES: dict[str, dict[str, Any]] = {
    "two parts": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": each} for each in ("for", "bidden")]}]
    },
    "name of who speaks": {"messages": [{"role": "user", "name": BAD, "content": "Hi"}]},
    "name of a tool": offered(BAD),
    "description of a tool": offered(description=f"Says what is {BAD}."),
    "schema of a tool": offered(parameters={"type": "object", "properties": {"x": {"enum": [BAD]}}}),
    "name of an earlier call": called(f"how to do what is {BAD}"),
    "id of an earlier call": called(id=f"how to do what is {BAD}"),
    "arguments of an earlier call": called(arguments='{"x": "\\u0066orbidden"}'),
    "result of a call": called(result=BAD),
    "arguments of the template": {"chat_template_kwargs": {"x": BAD}},
    "documents": {"documents": [{"title": "a", "text": BAD}]},
}
"""Where a client of Chat Completions may write something that a model reads."""


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("place", PLACES)
async def test_a_guardrail_sees_every_place_of_a_prompt(place: str) -> None:
    fields = PLACES[place]
    sent = body() | fields
    if place.endswith("call"):
        sent["messages"] = [{"role": "user", "content": "Hi"}, *fields["messages"]]
    async with in_process(engine(), guardrails=[rail(on=("input",))]) as house:
        answer = await house.http.post(CHAT, json=sent)
        requests = len(house.engine.requests)
    assert (answer.status_code, answer.json()["error"]["code"], requests) == (400, "content_filter", 0)


async def test_a_tool_is_shown_with_its_name_and_ids_that_are_a_word_are_not() -> None:
    shown: list[str] = []

    async def check(question: GuardQuestion) -> None:
        shown.append(question.text)

    async with in_process(engine(Reply("ok")), guardrails=[rail(check, on=("input",))]) as house:
        told = offered(description="Looks.") | called(id="call_1")
        answer = await house.http.post(CHAT, json=body() | told)
        masked = Guardrail("masks", masks("Looks"), on=("input",), action="mask")
    async with in_process(engine(Reply("ok")), guardrails=[masked]) as house:
        left = await house.http.post(CHAT, json=body() | told)
        named = await house.http.post(CHAT, json=body() | offered("Looks"))
    assert (answer.status_code, left.status_code, named.status_code) == (200, 200, 400)
    assert sorted(shown) == sorted(["look", "look\nLooks.", "{}", "ok"])


@pytest.mark.sampled(per=("stream",), keep=1)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
async def test_an_answer_ends_in_the_form_of_its_api_where_it_is_held_back(api: str, stream: bool) -> None:
    async with in_process(engine(), config=small(), guardrails=[rail(on=("output",))]) as house:
        answer = await asked(house, api, "Hi", stream=stream)
        await settled(house)

    assert answer.status_code == 200, answer.text
    assert FILTERED[api] in answer.text.replace(": ", ":")
    assert BAD not in answer.text
    assert "den," not in answer.text


@pytest.mark.sampled(per=("stream",), keep=1)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
async def test_what_is_masked_never_leaves_in_part(api: str, stream: bool) -> None:
    guards = [rail(masks(), action="mask")]
    async with in_process(engine(), config=small(), guardrails=guards) as house:
        answer = await asked(house, api, f"Hi {BAD}", stream=stream)
        await settled(house)
        prompt = house.engine.requests[0]

    assert said_in(api, answer, stream=stream).strip() == "Here it is: <WORD>, and more of it."
    assert BAD not in answer.text
    assert BAD not in str(prompt)


@pytest.mark.sampled(per=("place", "on_failure"), keep=1)
@pytest.mark.parametrize("on_failure", ["closed", "open"])
@pytest.mark.parametrize("place", ["input", "output"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
async def test_a_guardrail_that_fails_counts_as_it_says(api: str, stream: bool, place: str, on_failure: str) -> None:
    guards = [rail(failing, on=(place,), on_failure=on_failure)]
    async with in_process(engine(Reply("All is well.")), config=small(), guardrails=guards) as house:
        answer = await asked(house, api, "Hi", stream=stream)
        await settled(house)
        outcomes = {each.outcome for each in house.observer.of(GuardrailAsked)}

    assert outcomes == {"failed"}
    assert "secret" not in answer.text
    if on_failure == "open":
        assert said_in(api, answer, stream=stream).strip() == "All is well."
    else:
        assert "All is well" not in answer.text
        assert answer.status_code in (503, 529) or stream
        assert "cannot be asked" in answer.text


async def test_a_classifier_and_a_default_model_moderate() -> None:
    classifier = SimulatorConfig(generation_model=False, pooled="classify", labels=("hate", "OK", "odd"))
    async with fleet(Member("a", "neutral", classifier), guardrails=[rail()]) as house:
        one = await house.http.post("/v1/moderations", json={"input": f"This is {BAD}."})
        two = await house.http.post(
            "/v1/moderations",
            json={"model": "sim", "input": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        )
        picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
        seen = await house.http.post("/v1/moderations", json={"model": "sim", "input": [picture]})
        none = await house.http.post("/v1/moderations", json={"model": "sim", "input": []})
        asked = house.observer.of(GuardrailAsked)

    assert one.status_code == 200, one.text
    (result,) = one.json()["results"]
    assert {"hate", "odd", "violence/graphic"} <= set(result["categories"])
    assert "OK" not in result["categories"]
    assert result["flagged"] == any(result["categories"].values())
    assert result["category_applied_input_types"]["hate"] == ["text"]
    assert result["category_applied_input_types"]["violence"] == []
    assert len(two.json()["results"]) == 1
    assert seen.status_code == 400
    assert "'input'" in seen.text
    assert none.status_code == 400
    assert asked == []


@pytest.mark.full
async def test_inputs_of_vectors_are_checked() -> None:
    async with in_process(SimulatorConfig(generation_model=False), guardrails=[rail(masks(), action="mask")]) as house:
        masked = await house.http.post("/v1/embeddings", json={"model": "sim", "input": [f"a {BAD}", "b"]})
        same = await house.http.post("/v1/embeddings", json={"model": "sim", "input": ["a <WORD>"]})
    async with in_process(SimulatorConfig(generation_model=False), guardrails=[rail()]) as house:
        held = await house.http.post("/v1/embeddings", json={"model": "sim", "input": [BAD]})

    assert masked.json()["data"][0]["embedding"] == same.json()["data"][0]["embedding"]
    assert held.status_code == 400
    assert held.json()["error"]["code"] == "content_filter"


@pytest.mark.sampled(per=("stream",), keep=1)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses", "messages", "gemini", "interactions"])
async def test_a_call_whose_arguments_are_held_back_is_not_seen(api: str, stream: bool) -> None:
    said = Reply(text="One moment.", tool_calls=(("look", {"what": "for" + "bidden"}),))
    async with in_process(engine(said), config=small(), guardrails=[rail(on=("arguments",))]) as house:
        answer = await asked(house, api, "Hi", stream=stream, **TOOLS[api])
        await settled(house)

    assert answer.status_code == 200, answer.text
    assert FILTERED[api] in answer.text.replace(": ", ":")
    assert BAD not in answer.text
    assert not any(each in answer.text for each in ('"arguments":', '"functionCall"', '"tool_use"'))
    assert "One moment." in said_in(api, answer, stream=stream)


SCHEMA = {"type": "object", "properties": {"what": {"type": "string"}}}
TOOLS: dict[str, dict[str, Any]] = {
    "chat": {"tools": [TOOL]},
    "responses": {"tools": [{"type": "function", "name": "look", "parameters": SCHEMA}]},
    "messages": {"tools": [{"name": "look", "input_schema": SCHEMA}]},
    "gemini": {"tools": [{"functionDeclarations": [{"name": "look", "parameters": SCHEMA}]}]},
    "interactions": {"tools": [{"type": "function", "name": "look", "parameters": SCHEMA}]},
}
CALLED = {
    "chat": '"tool_calls":[',
    "responses": '"type":"function_call"',
    "messages": '"type":"tool_use"',
    "gemini": '"functionCall"',
    "interactions": '"type":"function_call"',
}


@pytest.mark.sampled(per=("on_failure",), keep=1)
@pytest.mark.parametrize("on_failure", ["closed", "open"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", TOOLS)
async def test_arguments_that_cannot_be_checked_leave_as_the_guardrail_says(
    api: str, stream: bool, on_failure: str
) -> None:
    said = Reply(text="One moment.", tool_calls=(("look", {"what": "it"}),))
    guards = [rail(failing, on=("arguments",), on_failure=on_failure)]
    async with in_process(engine(said), config=small(), guardrails=guards) as house:
        answer = await asked(house, api, "Hi", stream=stream, **TOOLS[api])
        await settled(house)
        outcomes = {each.outcome for each in house.observer.of(GuardrailAsked)}

    assert outcomes == {"failed"}
    told = answer.text.replace(": ", ":").replace("\n", "")
    assert (CALLED[api] in told) == (on_failure == "open"), told
    assert ("cannot be asked" in told) == (on_failure == "closed")
    assert answer.status_code == 200 if stream or on_failure == "open" else answer.status_code in (503, 529)


BROKEN_OFF = {
    "chat": '{"error":{',
    "completions": '{"error":{',
    "responses": "event: response.failed",
    "messages": 'event: error\ndata: {"type":"error"',
    "gemini": '{"error":{"code":503',
    "generate": '{"error":{',
    "interactions": 'event: error\ndata: {"event_type":"error"',
}
"""How the stream of each API ends with an error."""


@pytest.mark.sampled(per=("on_failure",), keep=1)
@pytest.mark.parametrize("on_failure", ["closed", "open"])
@pytest.mark.parametrize("api", APIS)
async def test_what_has_left_stays_where_a_guardrail_fails_in_the_middle_of_a_stream(api: str, on_failure: str) -> None:
    shown: list[str] = []

    async def check(question: GuardQuestion) -> None:
        shown.append(question.text)
        if len(shown) > 3:
            raise RuntimeError("lost")

    pieces = tuple([f"piece {number} of it, " for number in range(8)])
    guards = [rail(check, on=("output",), on_failure=on_failure)]
    async with in_process(engine(Reply(pieces=pieces)), config=small(), guardrails=guards) as house:
        answer = await asked(house, api, "Hi", stream=True)
        await settled(house)

    assert answer.status_code == 200
    assert (BROKEN_OFF[api] in answer.text) == (on_failure == "closed")
    if on_failure == "open":
        assert said_in(api, answer, stream=True).strip() == "".join(pieces).strip()
    elif api != "responses":  # whose failed object has no output
        assert "piece 7" not in answer.text


@pytest.mark.full
async def test_a_line_of_a_batch_has_its_own_verdict() -> None:
    lines = [line("held", messages=[{"role": "user", "content": BAD}]), line("fine")]
    config = attrs.evolve(small(), batches=BRISK)
    async with (
        in_process(engine(Reply("All is well.")), config=config, guardrails=[rail()]) as house,
        openai_of(house) as client,
    ):
        made = await batch_of(client, b"".join(lines))
        ended = await over(client, made.id)
        good = await results(client, ended.output_file_id)
        bad = await results(client, ended.error_file_id)
        places = [each.place for each in house.observer.of(GuardrailAsked)]
    assert (set(good), set(bad)) == ({"fine"}, {"held"})
    assert bad["held"]["response"]["body"]["error"]["code"] == "content_filter"
    assert good["fine"]["response"]["body"]["choices"][0]["message"]["content"].strip() == "All is well."
    assert {"input", "output"} <= set(places)


@pytest.mark.full
@pytest.mark.parametrize("on_failure", ["closed", "open"])
async def test_an_answer_in_the_background_fails_where_its_guardrail_does_unless_that_is_open(on_failure: str) -> None:
    guards = [rail(failing, on=("output",), on_failure=on_failure)]
    async with in_process(engine(Reply("All is well.")), config=small(), guardrails=guards) as house:
        made = (await house.http.post("/v1/responses", json={"model": "sim", "input": "Hi", "background": True})).json()
        async with asyncio.timeout(PATIENCE):
            while (kept := (await house.http.get(f"/v1/responses/{made['id']}")).json())["status"] in WAITING:
                await asyncio.sleep(0.01)
        requests = len(house.engine.requests)
    assert kept["status"] == ("failed" if on_failure == "closed" else "completed")
    assert ("All is well" in str(kept)) == (on_failure == "open")
    assert "secret" not in str(kept)
    assert requests == 1  # an answer that could not be checked is not made again and again


@pytest.mark.full
@pytest.mark.parametrize("place", ["input", "output"])
async def test_a_batch_waits_for_its_guardrail_before_an_engine_is_asked_and_not_after(place: str) -> None:
    tries: list[str] = []

    async def check(question: GuardQuestion) -> None:
        tries.append(question.place)
        if len(tries) < 3:
            raise RuntimeError("lost")

    config = attrs.evolve(small(), batches=BRISK)
    guards = [Guardrail("words", check, on=(place,))]  # type: ignore[arg-type]
    async with in_process(engine(Reply("ok")), config=config, guardrails=guards) as house, openai_of(house) as client:
        ended = await over(client, (await batch_of(client, line("one"))).id)
        requests = len(house.engine.requests)
        failed = ended.error_file_id and (await results(client, ended.error_file_id))["one"]["response"]
    assert requests == 1
    if place == "output":
        assert failed["body"]["error"]["code"] == "guardrail_unavailable"
    else:
        assert not failed


@pytest.mark.full
async def test_each_question_is_a_span_of_the_trace_without_what_was_asked() -> None:
    with collecting() as collector:
        config = attrs.evolve(small(), traces=TracesConfig(endpoint=collector.url, delay_s=0.02))
        guards = [rail(), attrs.evolve(rail(failing, on_failure="open"), name="lost")]
        async with in_process(engine(Reply("All is well.")), config=config, guardrails=guards) as house:
            assert (await asked(house, "chat", "Say something private.", stream=False)).status_code == 200
            (spans,) = await collector.of(1)
    told = {
        (each.name, each.attributes["smg.guardrail.place"], each.attributes["smg.guardrail.outcome"], each.error)
        for each in spans
        if each.stage == "guardrail"
    }
    assert told == {
        (f"guardrail {name}", place, outcome, outcome == "failed")
        for name, outcome in (("words", "passed"), ("lost", "failed"))
        for place in ("input", "output")
    }
    assert b"private" not in b"".join(collector.bytes)


RAN: list[str] = []


def note(what: str) -> str:
    """Writes something down."""
    RAN.append(what)
    return f"noted: {what}"


OWN = {"type": "mcp", "server_label": "functions", "require_approval": "never"}


@pytest.mark.sampled(per=("stream",), keep=1)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_that_runs_here_is_not_run_with_what_is_held_back(stream: bool) -> None:
    RAN.clear()
    said = (Reply(tool_calls=(("functions__note", {"what": BAD}),)), Reply("Done."))
    guards = [rail(on=("arguments",))]
    async with in_process(SimulatorConfig(replies=said), config=small(), tools=[note], guardrails=guards) as house:
        answer = await asked(house, "responses", "Hi", stream=stream, tools=[OWN])
        await settled(house)

    assert RAN == []
    assert FILTERED["responses"] in answer.text
    assert BAD not in answer.text
    assert "Done." not in answer.text


@pytest.mark.full
async def test_what_a_tool_returns_is_checked_before_the_model_reads_it() -> None:
    RAN.clear()
    said = (Reply(tool_calls=(("functions__note", {"what": BAD}),)), Reply("Done."))
    guards = [rail(masks(), action="mask", on=("input", "output"))]
    async with in_process(SimulatorConfig(replies=said), config=small(), tools=[note], guardrails=guards) as house:
        answer = await asked(house, "responses", "Hi", stream=False, tools=[OWN])
        prompts = [str(each) for each in house.engine.requests]

    assert RAN == [BAD]  # its arguments were nobody's concern
    assert "Done." in answer.text
    assert "noted: <WORD>" in answer.text
    assert not any(BAD in each for each in prompts)


@pytest.mark.full
async def test_the_background_fails_for_its_prompt_and_is_incomplete_for_its_answer() -> None:
    async with in_process(engine(), config=small(), guardrails=[rail()]) as house:
        refused = await house.http.post("/v1/responses", json={"model": "sim", "input": BAD, "background": True})
        made = (await house.http.post("/v1/responses", json={"model": "sim", "input": "Hi", "background": True})).json()
        async with asyncio.timeout(PATIENCE):
            while (kept := (await house.http.get(f"/v1/responses/{made['id']}")).json())["status"] in WAITING:
                await asyncio.sleep(0.01)

    assert refused.status_code == 400
    assert kept["status"] == "incomplete"
    assert kept["incomplete_details"] == {"reason": "content_filter"}
    assert BAD not in str(kept)


WAITING = ("queued", "in_progress")


@pytest.mark.full
async def test_each_choice_is_held_back_by_itself_and_the_engine_stops_with_the_last() -> None:
    long = Reply(pieces=(*SAID, *["and more "] * 500))
    async with over_http(engine(long, rate=500), config=small(), guardrails=[rail(on=("output",))]) as house:
        answer = await asked(house, "chat", "Hi", stream=True, n=2)
        await settled(house)
        ended = [each.outcome for each in house.observer.of(AttemptEnded)]
        workers = [each.state for each in house.gateway.registry]

    choices = [each for event in events_of(answer.content) for each in event.get("choices", ())]
    finishes = sorted((each["index"], each["finish_reason"]) for each in choices if each["finish_reason"])
    assert finishes == [(0, "content_filter"), (1, "content_filter")]
    assert set(ended) == {"GuardrailBlocked"}
    assert workers == ["ready"]


@pytest.mark.full
async def test_one_prompt_of_several_ends_and_the_others_go_on() -> None:
    said = (Reply(pieces=SAID, when=("first",)), Reply("All is well.", when=("second",)))
    for stream in (False, True):
        async with in_process(SimulatorConfig(replies=said), config=small(), guardrails=[rail()]) as house:
            asking = {"model": "sim", "prompt": ["The first", "The second"], "max_tokens": 99, "stream": stream}
            answer = await house.http.post("/v1/completions", json=asking)
        found = [answer.json()] if not stream else events_of(answer.content)
        choices = [each for event in found for each in event.get("choices", ())]
        ends = {each["index"]: each["finish_reason"] for each in choices if each["finish_reason"]}
        assert ends == {0: "content_filter", 1: "stop"}
        assert BAD not in answer.text


async def test_token_ids_are_decoded_and_pictures_refused_by_name_or_let_by() -> None:
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}
    told = [{"role": "user", "content": [{"type": "text", "text": "Hi"}, url]}]
    async with in_process(engine(Reply("ok")), guardrails=[rail(on=("input",))]) as house:
        tokenized = (await house.http.post("/tokenize", json={"model": "sim", "prompt": f"say {BAD}"})).json()
        ids = await house.http.post("/v1/completions", json={"model": "sim", "prompt": [1, 2, 3]})
        picture = await house.http.post(CHAT, json={"model": "sim", "messages": told})
    assert "guardrail" in str(tokenized)
    assert ids.status_code == 200
    assert picture.status_code == 400
    assert "messages[0].content[1]" in picture.json()["error"]["param"]


@pytest.mark.full
async def test_what_guardrails_cost_is_in_the_ledger() -> None:
    async with in_process(
        engine(Reply("ok")),
        config=Config(ledger=LedgerConfig(enabled=True, url="memory:", write_s=3600.0)),
        guardrails=[rail()],
    ) as house:
        await asked(house, "chat", "Hi", stream=False)
        await settled(house)
        ledger = house.gateway.services.running.ledger
        assert ledger is not None
        query = UsageQuery((0, 10**7), by=("api", "model"))
        found = {(each.api, each.model): each.requests for each in (await ledger.read(query)).data}

    assert found[("chat", "sim")] == 1
    assert found[("guardrails", "words")] == 2


async def test_a_guardrail_is_for_some_tenants_and_models_by_any_of_their_names() -> None:
    config = attrs.evolve(small(), model=ModelConfig(aliases=("other=sim",)))
    guards = [rail(models=("sim",)), attrs.evolve(rail(), name="theirs", tenants=("acme",))]
    async with in_process(engine(Reply("ok")), config=config, guardrails=guards) as house:
        by_alias = await house.http.post(CHAT, json=body(BAD, model="other"))
        fine = await house.http.post(CHAT, json=body("Hi", model="other"))
        names = {each.guardrail for each in house.observer.of(GuardrailAsked)}

    assert by_alias.status_code == 400
    assert fine.status_code == 200
    assert names == {"words"}


async def test_an_answer_that_is_kept_is_checked_again_and_is_for_requests_that_the_same_guardrails_see() -> None:
    found: list[str] = []

    async def check(question: GuardQuestion) -> GuardFindings | None:
        found.append(question.place)
        return GuardFindings((BAD,)) if BAD in question.text else None

    config = Config(response_cache=ResponseCacheConfig(kept_s=60))
    asking = body("Say what is allowed.", temperature=0)
    async with in_process(engine(Reply("Yes.")), config=config, guardrails=[Guardrail("words", check)]) as house:  # type: ignore[arg-type]
        first = await house.http.post(CHAT, json=asking)
        second = await house.http.post(CHAT, json=asking)
        guarding = house.gateway.services.live.guarding
        assert guarding is not None
        house.gateway.services.live.guarding = None
        third = await house.http.post(CHAT, json=asking)
        house.gateway.services.live.guarding = guarding
        refused = [await house.http.post(CHAT, json=body(BAD, temperature=0)) for _ in range(2)]
        requests = len(house.engine.requests)

    assert [each.headers["x-smg-cache"] for each in (first, second, third)] == ["miss", "hit", "miss"]
    assert found[:3] == ["input", "output", "output"]
    assert FILTERED["chat"] in refused[1].text or refused[1].status_code == 400
    assert requests == 2
