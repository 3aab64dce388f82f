"""What is short enough for the event loop: counted part by part, and no further than the bound."""

from collections.abc import Iterator

import pytest

from smg_core.pipeline.prompt.inline_cost import lighter_than
from smg_core.request import (
    Audio,
    File,
    Image,
    MediaSource,
    Message,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Video,
)

LONG = "x" * 10_000
MEDIA: list[Part] = [
    Image(MediaSource(data=LONG.encode())),
    Image(MediaSource(url=f"data:image/png;base64,{LONG}")),
    Audio(MediaSource(data=LONG.encode())),
    Video(MediaSource(url=LONG)),
    File(MediaSource(text=LONG)),
]
TEXTS: list[Part] = [
    Text(LONG),
    Reasoning(LONG),
    Refusal(LONG),
    ToolCall("c", "f", LONG),
    Opaque("k", LONG.encode()),
    ToolResult("c", (Text(LONG),)),
]


def message(*parts: Part) -> Message:
    return Message("user", parts)


@pytest.mark.parametrize("part", TEXTS, ids=lambda part: type(part).__name__)
def test_what_a_part_says_counts(part: Part) -> None:
    assert not lighter_than([message(part)], 10_000)
    assert lighter_than([message(part)], 50_000)


@pytest.mark.parametrize("part", MEDIA, ids=lambda part: type(part).__name__)
def test_media_count_where_they_are_written_and_are_a_few_characters_in_a_prompt(part: Part) -> None:
    assert lighter_than([message(part)], 200)
    assert not lighter_than([message(part)], 10_000, media=True)
    assert not lighter_than([message(ToolResult("c", (part,)))], 10_000, media=True)


def test_many_small_parts_are_as_much_work_as_a_long_text() -> None:
    assert not lighter_than([message(*[Text("")] * 1000)], 10_000)
    assert not lighter_than([message()] * 1000, 10_000)
    assert lighter_than([message()] * 100, 10_000)


def test_counting_ends_at_the_bound() -> None:
    counted = []

    def messages() -> Iterator[Message]:
        for number in range(1000):
            counted.append(number)
            yield message(Text("x" * 1000))

    assert not lighter_than(messages(), 5000)
    assert len(counted) < 10
