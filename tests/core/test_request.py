"""The record every API is decoded into."""

import typing

import pytest
from msgspec import Struct
from msgspec.structs import fields

from smg_core import request
from smg_core.request import (
    Caller,
    CustomTool,
    FunctionTool,
    GenerationRequest,
    HistoryRef,
    Image,
    MediaSource,
    Message,
    Opaque,
    Part,
    Reasoning,
    ReasoningSettings,
    Sampling,
    Text,
    Tool,
    ToolCall,
    ToolKey,
    ToolResult,
)

RECORDS = [
    kind for name in request.__all__ if isinstance(kind := getattr(request, name), type) and issubclass(kind, Struct)
]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_records_are_frozen_and_slotted(kind):
    required = {field.name: "x" for field in fields(kind) if field.required}
    if kind is MediaSource:
        required = {"url": "x"}
    record = kind(**required)
    assert not hasattr(record, "__dict__")
    for field in fields(kind):
        with pytest.raises(AttributeError):
            setattr(record, field.name, None)


def test_a_media_source_is_exactly_one_thing():
    assert MediaSource(url="https://a").url == "https://a"
    assert MediaSource(data=b"").data == b""
    assert MediaSource(file_id="f").file_id == "f"
    assert MediaSource(text="").text == ""
    for wrong in (
        {},
        {"url": "a", "data": b"b"},
        {"url": "a", "file_id": "f"},
        {"data": b"", "file_id": "f"},
        {"text": "", "url": "a"},
    ):
        with pytest.raises(ValueError, match="exactly one"):
            MediaSource(**wrong)


def test_bytes_are_not_printed():
    assert repr(MediaSource(data=b"secret" * 100)).count("secret") == 0
    assert "<600 bytes>" in repr(MediaSource(data=b"secret" * 100))


def test_the_text_of_a_message_is_its_text_parts_alone():
    picture = Image(MediaSource(url="https://a"))
    parts = (Reasoning("hm"), Text("a"), picture, Text("b"), ToolCall("c", "f", "{}"), ToolResult("c", (Text("x"),)))
    assert Message("assistant", parts).text == "ab"
    assert Message("assistant", ()).text == ""


def test_nothing_said_is_none_and_no_default_is_filled_in():
    for name in ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "logprobs", "repetition_penalty"):
        assert getattr(Sampling(), name) is None
    assert (HistoryRef().store, FunctionTool("f").strict, ReasoningSettings().visible) == (None, None, None)
    asked = GenerationRequest(id="r", model="m")
    assert (asked.messages, asked.prompt, asked.user, asked.service_tier) == ((), None, None, None)


def test_requests_do_not_share_their_mappings():
    one, other = GenerationRequest(id="a", model="m"), GenerationRequest(id="b", model="m")
    assert one.extra is not other.extra
    assert one.template_arguments is not other.template_arguments


def test_a_cache_breakpoint_can_stand_behind_every_part_and_tool():
    for kind in {*typing.get_args(Part), *typing.get_args(Tool)} - {Opaque}:  # an opaque block has its own within it
        assert next(field for field in fields(kind) if field.name == "cache").default is None


def test_tools_of_one_name_are_told_apart_by_kind_and_namespace():
    tools = [FunctionTool("f"), CustomTool("f"), FunctionTool("f", namespace="a"), CustomTool("f", namespace="a")]
    assert len({tool.key for tool in tools}) == 4
    assert FunctionTool("f", namespace="a").key == ToolKey("f", "a", "function")
    assert CustomTool("f").key == ToolKey("f", None, "custom")


def test_who_asks_is_nobody_in_particular_unless_the_server_says_so():
    assert GenerationRequest(id="r", model="m").caller == Caller("", "")
