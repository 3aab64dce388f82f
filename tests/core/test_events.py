"""The events every engine's output becomes."""

import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core import events
from smg_core.events import NO_USAGE, Event, TextDelta, Usage

KINDS = typing.get_args(Event)


def test_every_event_is_exported():
    assert {kind.__name__ for kind in KINDS} <= set(events.__all__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_events_are_frozen_and_slotted(kind):
    event = kind(**{field.name: 0 for field in msgspec.structs.fields(kind)})
    assert not hasattr(event, "__dict__")
    for name in [*kind.__struct_fields__, "anything"]:
        with pytest.raises(AttributeError):
            setattr(event, name, 1)


def test_events_are_equal_by_value():
    assert TextDelta(0, "a") == TextDelta(0, "a", ())
    assert TextDelta(0, "a") != TextDelta(1, "a")


def test_a_total_is_the_sum_of_prompt_and_completion_since_details_are_parts_of_them():
    assert Usage(10, 5, cached_tokens=8, reasoning_tokens=3).total_tokens == 15


def test_the_usage_of_two_turns_is_their_sum():
    first = Usage(10, 5, cached_tokens=8, reasoning_tokens=3)
    second = Usage(20, 1, cache_write_tokens=2, hosted_prompt_tokens=20, image_tokens=7)
    both = Usage(30, 6, 8, 3, cache_write_tokens=2, hosted_prompt_tokens=20, image_tokens=7, rounds=2)
    assert first + second == both


usages = st.builds(Usage, *[st.integers(0, 10**6)] * len(Usage.__struct_fields__))


@given(usages, usages, usages)
def test_usage_adds_up_whichever_turns_are_added_first(one, two, three):
    assert (one + two) + three == one + (two + three)
    assert one + two == two + one
    assert one + NO_USAGE == NO_USAGE + one == one
    assert (one + two).total_tokens == one.total_tokens + two.total_tokens
