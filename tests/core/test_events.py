"""The events every engine's output becomes."""

import typing

import msgspec
import pytest

from smg_core import events
from smg_core.events import Event, TextDelta, Usage

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
