"""A long history of Messages that is compacted: by an edit from a trigger on, or at once; the block sent back stands for it."""

from typing import Any

import anthropic
import attrs
import pytest
from tests.gateway.client.test_anthropic_sdk import SAYS, Here, here, raised

from smg_simulator.answers.replies import Reply

pytestmark = pytest.mark.anyio

SUMMARY, ANSWER = "They count ships.", "Seven ships."
SHORTENS = attrs.evolve(SAYS, replies=(Reply(SUMMARY, "What matters?"), Reply(ANSWER), Reply("Eight.")))
LONG: Any = [
    {"role": "user", "content": "Count the ships. " * 40},
    {"role": "assistant", "content": "Five so far. " * 40},
    {"role": "user", "content": "And now?"},
]


def edits(over: int = 100, **fields: Any) -> Any:
    trigger = {"type": "input_tokens", "value": over}
    return {"edits": [{"type": "compact_20260112", "trigger": trigger, **fields}]}


def prompts(talk: Here) -> list[str]:
    tokenizer = talk.house.gateway.models["sim"].tokenizer
    return [tokenizer.decode(sent.input_ids) for sent in talk.house.engine.requests]


async def asked(talk: Here, stream: bool, messages: Any = LONG, **fields: Any) -> Any:
    beta = talk.sdk.beta.messages
    wanted: Any = {"model": "sim", "max_tokens": 100, "messages": messages, "system": "Be brief.", **fields}
    if not stream:
        return await beta.create(**wanted)
    async with beta.stream(**wanted) as streaming:
        return await streaming.get_final_message()


@pytest.mark.full
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_prompt_over_the_trigger_is_compacted_and_the_answer_follows_its_summary(stream: bool) -> None:
    async with here(SHORTENS) as talk:
        message = await asked(talk, stream, context_management=edits())
        turns = [*LONG, {"role": "assistant", "content": [block.model_dump() for block in message.content]}]
        again: Any = [*turns, {"role": "user", "content": "And tomorrow?"}]
        counted = await talk.sdk.beta.messages.count_tokens(model="sim", messages=again, system="Be brief.")
        after = await asked(talk, stream, again, context_management=edits(10_000))
        summarizing, answering, later = prompts(talk)

    compaction, text = message.content
    assert (compaction.type, compaction.content, text.text.strip()) == ("compaction", SUMMARY, ANSWER)
    assert message.stop_reason == "end_turn"
    first, second = message.usage.iterations
    assert (first.type, second.type) == ("compaction", "message")
    assert first.input_tokens > 200
    assert message.usage.input_tokens == second.input_tokens
    assert message.usage.output_tokens == second.output_tokens < first.output_tokens + second.output_tokens
    assert "Five so far" in summarizing
    for prompt in (answering, later):
        assert "Be brief." in prompt
        assert SUMMARY in prompt
        assert "Five so far" not in prompt
    assert "And now?" in answering
    assert (ANSWER in later, "And tomorrow?" in later) == (True, True)
    assert after.usage.input_tokens + after.usage.cache_read_input_tokens == counted.input_tokens


@pytest.mark.full
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_answer_ends_behind_the_summary_where_the_client_wants_that(stream: bool) -> None:
    async with here(SHORTENS) as talk:
        paused = await asked(talk, stream, context_management=edits(pause_after_compaction=True))
        on = [{"role": "assistant", "content": [block.model_dump() for block in paused.content]}]
        after = await asked(talk, stream, [*LONG, *on], context_management=edits(10_000))

    assert [(block.type, block.content) for block in paused.content] == [("compaction", SUMMARY)]
    assert paused.stop_reason == "compaction"
    assert paused.usage.output_tokens == 0
    assert [each.type for each in paused.usage.iterations] == ["compaction"]
    assert after.content[-1].text.strip() == ANSWER


async def test_a_history_is_compacted_at_once_by_instructions_of_the_client() -> None:
    async with here(SHORTENS) as talk:
        message = await asked(
            talk, False, extra_body={"compaction": {"type": "summarize", "instructions": "Name the ships alone."}}
        )
        first: Any = {"role": "assistant", "content": [block.model_dump() for block in message.content]}
        await asked(talk, False, [first, {"role": "user", "content": "Go on."}])
        summarizing, after = prompts(talk)

    assert [block.content for block in message.content] == [SUMMARY]
    assert message.stop_reason == "compaction"
    assert "Name the ships alone." in summarizing
    assert (SUMMARY in after, "Go on." in after) == (True, True)


@pytest.mark.full
@pytest.mark.parametrize("pauses", [True, False], ids=["that was to end the answer", "before a turn"])
async def test_a_summary_that_was_cut_off_replaces_nothing(pauses: bool) -> None:
    """It fills the context: the turn is made on the whole history; where only a summary was asked for, there is an error."""
    long = attrs.evolve(
        SHORTENS, replies=(Reply("word " * 3000), Reply(ANSWER), Reply("word " * 3000)), context_length=1000
    )
    async with here(long) as talk:
        message = await asked(talk, False, context_management=edits(pause_after_compaction=pauses))
        with pytest.raises(anthropic.InternalServerError, match="summary was cut off"):
            await asked(talk, False, extra_body={"compaction": {"type": "summarize"}})
        _, answering, _ = prompts(talk)

    assert [block.type for block in message.content] == ["text"]
    assert (message.content[0].text.strip(), message.stop_reason) == (ANSWER, "end_turn")
    assert "Five so far" in answering
    assert message.usage.output_tokens > 300  # the summary's too: nobody else is told of them


async def test_a_prompt_under_the_trigger_is_left_as_it_is() -> None:
    async with here(SHORTENS) as talk:
        message = await asked(talk, False, context_management=edits(100_000))
        assert len(prompts(talk)) == 1
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.usage.iterations is None


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"context_management": {"edits": [*edits()["edits"], *edits()["edits"]]}}, "context_management.edits.1"),
        ({"context_management": edits(), "compaction": {"type": "summarize"}}, "compaction"),
        (
            {
                "context_management": {
                    "edits": [{"type": "compact_20260112", "trigger": {"type": "tool_uses", "value": 1}}]
                }
            },
            "context_management.edits.0.trigger.type",
        ),
        ({"compaction": {"type": "melt"}}, "compaction.type"),
    ],
)
async def test_what_cannot_be_compacted_so_is_refused_by_name(fields: Any, words: str) -> None:
    async with here(SHORTENS) as talk:
        with pytest.raises(anthropic.BadRequestError) as error:
            await asked(talk, False, extra_body=fields)
    assert words in raised(error)[2]
