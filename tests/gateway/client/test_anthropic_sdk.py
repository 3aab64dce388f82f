"""The official SDK of the Messages API, over HTTP: streamed and whole, tools, thinking, counts, errors and retries."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import attrs
import pytest
from anthropic import AsyncAnthropic, beta_async_tool
from tests.gateway.conftest import House, over_http
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.http.settings import ModelConfig
from smg_core.sealing.settings import SealingConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

HELLO: Any = [{"role": "user", "content": "Hello"}]
WEATHER: Any = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALLS = Reply("Let me look.", "Which city?", (("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})))
SAYS = SimulatorConfig(replies=(Reply("Hello to you."),) * 2)
KEYS = Config(sealing=SealingConfig(keys=("k" * 32,)), model=ModelConfig(aliases=("claude-*=sim",), parser="qwen3"))


@attrs.define
class Here:
    house: House
    sdk: AsyncAnthropic

    async def create(self, messages: Any = HELLO, **fields: Any) -> Any:
        return await self.sdk.messages.create(**{"model": "sim", "max_tokens": 100, "messages": messages, **fields})

    def stream(self, messages: Any = HELLO, **fields: Any) -> Any:
        return self.sdk.messages.stream(**{"model": "sim", "max_tokens": 100, "messages": messages, **fields})

    async def count(self, messages: Any = HELLO, **fields: Any) -> int:
        found = await self.sdk.messages.count_tokens(model="sim", messages=messages, **fields)
        return found.input_tokens


@asynccontextmanager
async def here(simulator: SimulatorConfig = SAYS, *, retries: int = 0, config: Config = KEYS) -> AsyncIterator[Here]:
    async with (
        over_http(simulator, config=config) as house,
        AsyncAnthropic(base_url=house.url, api_key="-", max_retries=retries) as sdk,
    ):
        yield Here(house, sdk)


def told(blocks: Any) -> list[Any]:
    """What the blocks say, without what is made up for each answer."""
    return [(block.type, getattr(block, "text", None) or getattr(block, "input", None)) for block in blocks]


async def test_a_whole_answer_and_a_streamed_one_are_the_same() -> None:
    async with here() as talk:
        whole = await talk.create()
        async with talk.stream() as stream:
            text = [piece async for piece in stream.text_stream]
            streamed = await stream.get_final_message()

    assert "".join(text) == "Hello to you."
    assert told(whole.content) == told(streamed.content) == [("text", "Hello to you.")]
    assert (whole.stop_reason, whole.stop_sequence, whole.model) == ("end_turn", None, "sim")
    for message in (whole, streamed):
        usage = message.usage
        total = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
        assert (total, usage.output_tokens > 0) == (total, True)
        assert total > 5


async def test_thinking_and_parallel_calls_come_in_order_and_go_back_as_the_model_wrote_them() -> None:
    async with here(attrs.evolve(SAYS, replies=(CALLS, Reply("Cold.")))) as talk:
        async with talk.stream(tools=[WEATHER]) as stream:
            events = [event async for event in stream]
            first = await stream.get_final_message()
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "cold"}
            for block in first.content
            if block.type == "tool_use"
        ]
        turns: Any = [
            *HELLO,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [{"type": "text", "text": "Well?"}, *results]},
        ]
        second = await talk.create(turns, tools=[WEATHER])

    kinds = [block.type for block in first.content]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert all(each["tool_use_id"].startswith("toolu_") for each in results)
    assert told(first.content)[2:] == [("tool_use", {"city": "Oslo"}), ("tool_use", {"city": "Rome"})]
    assert first.content[0].thinking.strip() == "Which city?"
    assert first.content[0].signature.startswith("gw1.")
    assert first.stop_reason == "tool_use"
    assert sorted({event.index for event in events if hasattr(event, "index")}) == [0, 1, 2, 3]
    assert told(second.content)[-1] == ("text", "Cold.")


@pytest.mark.full
async def test_a_tool_runner_runs_its_tools_without_threads() -> None:
    asked: list[str] = []

    @beta_async_tool
    async def get_weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return "cold"

    async with here(attrs.evolve(SAYS, replies=(CALLS, Reply("Cold in both.")))) as talk:
        runner = talk.sdk.beta.messages.tool_runner(model="sim", max_tokens=200, tools=[get_weather], messages=HELLO)
        last = await runner.until_done()

    assert sorted(asked) == ["Oslo", "Rome"]
    assert told(last.content)[-1] == ("text", "Cold in both.")


@pytest.mark.full
async def test_count_tokens_is_what_the_same_request_is_charged() -> None:
    picture = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    requests: list[dict[str, Any]] = [
        {},
        {"system": "Be brief."},
        {"system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]},
        {"tools": [WEATHER]},
        {"messages": [picture]},
        {"messages": [*HELLO, {"role": "assistant", "content": "I"}]},
        {"messages": [{"role": "user", "content": [{"type": "document", "title": "T", "source": {
            "type": "text", "media_type": "text/plain", "data": "words"}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "search_result", "source": "s", "title": "t",
            "content": [{"type": "text", "text": "found"}]}]}]},
        {"thinking": {"type": "disabled"}},
    ]  # fmt: skip
    async with here() as talk:
        for request in requests:
            asked = talk.house.engine.counters["requests"]
            counted = await talk.count(**request)
            assert talk.house.engine.counters["requests"] == asked
            usage = (await talk.create(**request)).usage
            charged = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
            assert counted == charged, request


CLEARS: Any = {
    "type": "clear_tool_uses_20250919",
    "trigger": {"type": "tool_uses", "value": 2},
    "keep": {"type": "tool_uses", "value": 1},
    "clear_tool_inputs": True,
}


def tool_turns(count: int, **result: Any) -> Any:
    """A question and as many calls of the tool, each with its result."""
    turns = list(HELLO)
    for number in range(count):
        use = {"type": "tool_use", "id": f"t{number}", "name": "get_weather", "input": {"city": f"city {number}"}}
        told = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"result {number} " * 20, **result}
        turns += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [told]}]
    return turns


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_old_results_of_tools_are_cleared_as_asked_and_the_answer_and_the_count_say_so(stream: bool) -> None:
    asked: dict[str, Any] = {"model": "sim", "messages": tool_turns(3), "tools": [WEATHER]}
    edits: Any = {"edits": [CLEARS]}
    async with here() as talk:
        beta = talk.sdk.beta.messages
        counted = await beta.count_tokens(**asked, context_management=edits)
        plain = await beta.count_tokens(**asked)
        if stream:
            async with beta.stream(max_tokens=50, context_management=edits, **asked) as streaming:
                message = await streaming.get_final_message()
        else:
            message = await beta.create(max_tokens=50, context_management=edits, **asked)
        (sent,) = talk.house.engine.requests
        prompt = talk.house.gateway.models["sim"].tokenizer.decode(sent.input_ids)

    assert message.context_management is not None
    (edit,) = message.context_management.applied_edits
    assert (edit.type, edit.cleared_tool_uses) == ("clear_tool_uses_20250919", 2)
    assert counted.context_management is not None
    assert counted.context_management.original_input_tokens == plain.input_tokens
    assert plain.input_tokens - counted.input_tokens == edit.cleared_input_tokens > 0
    assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) == counted.input_tokens
    assert ["result 0" in prompt, "result 1" in prompt, "result 2" in prompt] == [False, False, True]
    assert ["city 0" in prompt, "city 2" in prompt] == [False, True]


async def test_an_edit_that_is_not_made_here_is_refused_by_name() -> None:
    async with here() as talk:
        with pytest.raises(anthropic.BadRequestError) as error:
            await talk.create(extra_body={"context_management": {"edits": [{"type": "melt_20990101"}]}})
        wrong = CLEARS | {"keep": {"type": "thinking_turns", "value": 1}}
        with pytest.raises(anthropic.BadRequestError) as other:
            await talk.create(extra_body={"context_management": {"edits": [wrong]}})
    assert "context_management.edits.0.type" in raised(error)[2]
    assert "context_management.edits.0.keep.type" in raised(other)[2]


async def test_the_model_is_told_that_a_tool_failed() -> None:
    async with here() as talk:
        await talk.create(tool_turns(1, is_error=True), tools=[WEATHER])
        await talk.create(tool_turns(1, is_error=True, content=[]), tools=[WEATHER])
        decode = talk.house.gateway.models["sim"].tokenizer.decode
        first, second = [decode(sent.input_ids) for sent in talk.house.engine.requests]
    assert "Error: result 0" in first
    assert "Error" in second


async def test_stop_sequences_and_limits_have_their_reasons() -> None:
    async with here(attrs.evolve(SAYS, replies=(Reply("one two three four"),))) as talk:
        stopped = await talk.create(stop_sequences=["three"])
        cut = await talk.create(max_tokens=1)

    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "three")
    assert told(stopped.content) == [("text", "one two ")]
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 1)


@pytest.mark.full
async def test_a_prompt_without_an_answer_is_in_the_engines_cache_for_the_next_request() -> None:
    long: Any = [{"role": "user", "content": "word " * 200}]
    async with here(SimulatorConfig()) as talk:
        warmed = await talk.create(long, max_tokens=0)
        counted = await talk.count(long)
        after = await talk.create(long, max_tokens=5)
        with pytest.raises(anthropic.BadRequestError) as error:
            async with talk.stream(max_tokens=0):
                pass

    assert (warmed.content, warmed.stop_reason, warmed.usage.output_tokens) == ([], "max_tokens", 0)
    assert warmed.usage.input_tokens == counted
    assert after.usage.cache_read_input_tokens > 150
    assert "stream" in raised(error)[2]


async def test_models_come_in_the_shape_of_the_callers_api_and_aliases_are_answered() -> None:
    async with here() as talk:
        listed = [model async for model in talk.sdk.models.list(limit=1)]
        one = await talk.sdk.models.retrieve("sim")
        of_openai = await talk.house.http.get("/v1/models")
        answer = await talk.create(model="claude-haiku-9")
        probe = await talk.house.http.head("/")

    assert [model.id for model in listed] == ["sim"] == [one.id]
    assert one.type == "model"
    assert of_openai.json()["object"] == "list"
    assert told(answer.content) == [("text", "Hello to you.")]
    assert (probe.status_code, probe.content) == (200, b"")


def raised(error: pytest.ExceptionInfo[anthropic.APIStatusError]) -> tuple[int, str, str]:
    body: Any = error.value.body
    return error.value.status_code, body["error"]["type"], body["error"]["message"]


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("fields", "status", "kind", "message"),
    [
        ({"model": "nope"}, 404, "not_found_error", "nope"),
        ({"max_tokens": -1}, 400, "invalid_request_error", "max_tokens"),
        ({"max_tokens": 0, "thinking": {"type": "adaptive"}}, 400, "invalid_request_error", "thinking.type"),
        (
            {"max_tokens": 0, "tools": [WEATHER], "tool_choice": {"type": "any"}},
            400,
            "invalid_request_error",
            "tool_choice.type",
        ),
        (
            {"max_tokens": 0, "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            400,
            "invalid_request_error",
            "output_config.format",
        ),
        ({"messages": []}, 400, "invalid_request_error", "at least one message"),
        ({"tool_choice": {"type": "any"}}, 400, "invalid_request_error", "tool_choice"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]},
            400,
            "invalid_request_error",
            "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: x.",
        ),
        (
            {
                "messages": [
                    *HELLO,
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f", "input": {}}]},
                    *HELLO,
                ]
            },
            400,
            "invalid_request_error",
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: x.",
        ),
        (
            {"messages": [*HELLO, {"role": "assistant", "content": ""}, *HELLO]},
            400,
            "invalid_request_error",
            "messages.1: all messages must have non-empty content",
        ),
        (
            {"messages": [*HELLO, {"role": "assistant", "content": "so "}]},
            400,
            "invalid_request_error",
            "trailing whitespace",
        ),
        ({"thinking": {"type": "enabled", "budget_tokens": 10}}, 400, "invalid_request_error", "budget_tokens"),
        (
            {"tools": [WEATHER | {"name": f"t{number}"} for number in range(500)]},
            400,
            "invalid_request_error",
            "tools",
        ),
        (
            {"max_tokens": 10_000_000},
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit:",
        ),
    ],
)
async def test_bad_requests_are_refused_as_the_api_words_it(
    fields: dict[str, Any], status: int, kind: str, message: str
) -> None:
    async with here() as talk:
        with pytest.raises(anthropic.APIStatusError) as error:
            await talk.create(timeout=PATIENCE, **fields)

    found = raised(error)
    assert found[:2] == (status, kind)
    assert message in found[2]
    assert error.value.request_id == error.value.response.headers["request-id"]


async def test_threads_are_refused_with_the_code_that_clients_read() -> None:
    async with here() as talk:
        with pytest.raises(anthropic.BadRequestError) as error:
            await talk.create(extra_body={"thread": {"type": "create"}})
    body: Any = error.value.body
    assert body["error"]["details"] == {"error_code": "thread_unsupported_request"}


async def test_what_is_not_known_is_passed_over_and_a_servers_tool_is_not_offered() -> None:
    blocks = [{"type": "from_the_future", "x": {}}, {"type": "text", "text": "Hello", "new": 1}]
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    async with here() as talk:
        answer = await talk.create(
            [{"role": "user", "content": blocks}], tools=[search], extra_body={"new_field": 1, "speed": "fast"}
        )
        with pytest.raises(anthropic.BadRequestError) as error:
            await talk.create(tools=[search], tool_choice={"type": "tool", "name": "web_search"})

    assert told(answer.content) == [("text", "Hello to you.")]
    assert "web_search" in raised(error)[2]


@pytest.mark.full
async def test_thinking_that_was_changed_is_left_out_or_refused_by_the_settings() -> None:
    thinks = attrs.evolve(SAYS, replies=(Reply("Yes.", "Is it so?"),))
    strict = attrs.evolve(KEYS, sealing=attrs.evolve(KEYS.sealing, on_broken="refuse_edited"))
    for config, refused in ((KEYS, False), (strict, True)):
        async with here(thinks, config=config) as talk:
            first = await talk.create()
            block = first.content[0].model_dump()
            same: Any = [*HELLO, {"role": "assistant", "content": [block, {"type": "text", "text": "Yes."}]}, *HELLO]
            edited = json.loads(json.dumps(same))
            edited[1]["content"][0]["thinking"] = "It is."
            foreign = json.loads(json.dumps(same))
            foreign[1]["content"][0]["signature"] = "EqQBCgIYAhIM"
            counts = [await talk.count(turns) for turns in (same, foreign)]
            assert counts[0] >= counts[1]
            assert (await talk.create(foreign)).stop_reason == "end_turn"
            if not refused:
                assert (await talk.create(edited)).stop_reason == "end_turn"
                continue
            with pytest.raises(anthropic.BadRequestError) as error:
                await talk.create(edited)
            assert "messages.1.content.0: Invalid `signature` in `thinking` block" in raised(error)[2]


async def test_thinking_that_is_not_to_be_shown_comes_as_a_signature_alone() -> None:
    async with here(attrs.evolve(SAYS, replies=(Reply("Yes.", "Is it so?"),) * 2)) as talk:
        async with talk.stream(thinking={"type": "adaptive", "display": "omitted"}) as stream:
            streamed = await stream.get_final_message()
        whole = await talk.create(thinking={"type": "adaptive", "display": "omitted"})
    for message in (streamed, whole):
        thinking, text = message.content
        assert (thinking.thinking, text.text.strip()) == ("", "Yes.")
        assert thinking.signature.startswith("gw1.")
        assert "Is it so?" not in thinking.signature


async def test_an_engine_that_fails_amid_a_stream_ends_it_with_an_error_event() -> None:
    async with here(attrs.evolve(SAYS, faults=(Fault("error", after=2),))) as talk:
        with pytest.raises(anthropic.APIStatusError) as error:
            async with talk.stream() as stream:
                [event async for event in stream]
    body: Any = error.value.body
    assert body["type"] == "error"
    assert body["error"]["type"] in ("overloaded_error", "api_error")


async def test_overload_is_529() -> None:
    full = attrs.evolve(SAYS, faults=(Fault("refuse", status="RESOURCE_EXHAUSTED"),) * 8)
    async with here(full) as talk:
        with pytest.raises(anthropic.APIStatusError) as error:
            await talk.create()
    assert raised(error)[:2] == (529, "overloaded_error")


@pytest.mark.full
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_thinking_ends_at_its_budget_and_the_answer_follows_in_one_response(stream: bool) -> None:
    long = " ".join(["word"] * 1500)
    simulator = attrs.evolve(SAYS, replies=(Reply("never said", long), Reply("The answer.")))
    asked: dict[str, Any] = {"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    async with here(simulator) as talk:
        if stream:
            async with talk.stream(**asked) as streaming:
                message = await streaming.get_final_message()
        else:
            message = await talk.create(**asked)
        first, second = talk.house.engine.requests
        counted = await talk.count(thinking=asked["thinking"])

    thinking, text = message.content
    assert (thinking.type, text.text.strip()) == ("thinking", "The answer.")
    assert 0 < len(thinking.thinking.split()) < 1500
    assert thinking.signature.startswith("gw1.")
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens_details.thinking_tokens == 1024
    assert message.usage.output_tokens > 1024
    assert message.usage.input_tokens + message.usage.cache_read_input_tokens == counted
    assert list(second.input_ids)[: len(first.input_ids)] == list(first.input_ids)
    assert len(second.input_ids) >= len(first.input_ids) + 1024


async def test_thinking_that_ends_by_itself_takes_one_call() -> None:
    simulator = attrs.evolve(SAYS, replies=(Reply("The answer.", "Short."),))
    async with here(simulator) as talk:
        message = await talk.create(max_tokens=4000, thinking={"type": "enabled", "budget_tokens": 1024})
        assert talk.house.engine.counters["requests"] == 1
    assert [block.type for block in message.content] == ["thinking", "text"]
