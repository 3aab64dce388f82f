"""How an answer is to be read, and what the engine is told so that it can be."""

import json
from typing import Any

import pytest
from tests.core.pipeline.prompt.test_prepare import asking, model

from smg_core.engines.base import EngineFacts
from smg_core.errors import InvalidRequest, SmgError, UnsupportedParameter
from smg_core.pipeline.fit.reader_choice import Reading, reading_of
from smg_core.request import CustomTool, FunctionTool, Message, ToolCall, ToolChoice, ToolKey
from smg_parsers import CallStart
from smg_parsers.families.models import family

WEATHER = FunctionTool("get_weather", None, {"type": "object", "properties": {"city": {"type": "string"}}})
TIME = FunctionTool("get_time")


FACTS = EngineFacts("test", constraints=frozenset({"json_schema", "structural_tag"}))


def reading(
    *, choice: ToolChoice | None = None, served: Any = None, facts: EngineFacts = FACTS, **fields: Any
) -> Reading:
    request = asking(tools=(WEATHER, TIME), tool_choice=choice or ToolChoice(), **fields)
    return reading_of(request, served or model(), "", facts)


def fault(**arguments: Any) -> SmgError:
    with pytest.raises(SmgError) as caught:
        reading(**arguments)
    return caught.value


def test_without_tools_and_reasoning_the_output_is_plain_text() -> None:
    assert reading_of(asking(), model(parser=family("mistral")), "", FACTS).make_parser is None
    assert reading_of(asking(), model(parser=None), "", FACTS).make_parser is None


def test_with_tools_calls_are_found_and_nothing_is_forced() -> None:
    found = reading()
    assert found.make_parser is not None
    parser = found.make_parser()
    pieces = [*parser.feed('<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'), *parser.finish()]

    assert "get_time" in {getattr(piece, "name", None) for piece in pieces}
    assert found.constraint is None


@pytest.mark.parametrize(
    "choice",
    [ToolChoice("required"), ToolChoice("required", (ToolKey("get_weather"),)), ToolChoice("required", parallel=False)],
)
def test_a_choice_that_must_be_kept_becomes_the_engines_constraint(choice: ToolChoice) -> None:
    found = reading(choice=choice)

    assert found.constraint is not None
    assert "get_weather" in found.constraint.value
    assert ("get_time" in found.constraint.value) == (not choice.names)
    assert json.loads(found.constraint.value)


def test_a_choice_that_the_engine_cannot_be_held_to_is_refused_by_name() -> None:
    error = fault(choice=ToolChoice("required"), facts=EngineFacts("test"))

    assert isinstance(error, UnsupportedParameter)
    assert error.param == "tool_choice"


def test_a_choice_of_a_tool_that_is_not_there_is_refused() -> None:
    error = fault(choice=ToolChoice("required", (ToolKey("get_lost"),)))

    assert isinstance(error, InvalidRequest)
    assert error.param == "tool_choice"


def test_tools_of_a_model_whose_format_is_not_known_are_refused_not_ignored() -> None:
    error = fault(served=model(parser=None))

    assert isinstance(error, UnsupportedParameter)
    assert error.param == "tools"
    assert reading(choice=ToolChoice("none"), served=model(parser=None)).make_parser is None


def test_a_schema_that_the_engine_is_to_compile_is_checked_first() -> None:
    bad = FunctionTool("bad", None, {"type": "nonsense"})
    far = FunctionTool("far", None, {"$ref": "http://elsewhere.example/schema.json"}, strict=True)
    for tool in (bad, far):
        request = asking(tools=(WEATHER, tool), tool_choice=ToolChoice("required"))
        with pytest.raises(InvalidRequest) as caught:
            reading_of(request, model(), "", FACTS)
        assert caught.value.param == "tools[1].parameters"
    assert reading_of(asking(tools=(bad,)), model(), "", FACTS).constraint is None


def test_a_schema_that_does_not_bind_and_cannot_be_compiled_leaves_the_arguments_of_a_demanded_call_free() -> None:
    far = FunctionTool("far", None, {"$ref": "http://elsewhere.example/schema.json"})
    free = FunctionTool("far", None, {"type": "object"})
    told = [
        reading_of(asking(tools=(WEATHER, tool), tool_choice=ToolChoice("required")), model(), "", FACTS).constraint
        for tool in (far, free)
    ]
    assert told[0] == told[1] is not None


def test_reasoning_that_the_prompt_has_opened_is_read_as_reasoning() -> None:
    served = model(parser=family("qwen3"))
    opened = reading_of(asking(), served, "<|im_start|>assistant\n<think>\n", FACTS)
    closed = reading_of(asking(), served, "<|im_start|>assistant\n", FACTS)
    assert opened.make_parser is not None
    assert closed.make_parser is not None

    assert {type(piece).__name__ for piece in opened.make_parser().feed("Let me think about it.")} == {"Reasoning"}
    assert {type(piece).__name__ for piece in closed.make_parser().feed("Let me think about it.")} == {"Text"}


def test_calls_are_numbered_on_from_earlier_turns_where_the_family_does_so() -> None:
    earlier = Message("assistant", (ToolCall("functions.get_weather:0", "get_weather", "{}"),))
    served = model(parser=family("kimi_k2"))
    first = reading_of(asking(tools=(WEATHER,)), served, "", FACTS)
    later = reading_of(asking(tools=(WEATHER,), messages=(earlier,)), served, "", FACTS)
    ids = []
    for found in (first, later):
        assert found.make_parser is not None
        section = (
            "<|tool_calls_section_begin|><|tool_call_begin|>get_weather<|tool_call_argument_begin|>{}<|tool_call_end|>"
        )
        pieces = found.make_parser().feed(section)
        ids += [piece.id for piece in pieces if isinstance(piece, CallStart)]

    assert ids == ["functions.get_weather:0", "functions.get_weather:1"]


GRAMMAR = CustomTool("shell", None, "regex", r"[a-z]+")
LARK = CustomTool("poet", None, "lark", 'start: "a"')


def held(*tools: Any, choice: ToolChoice, facts: EngineFacts = FACTS, served: Any = None) -> Any:
    return reading_of(asking(tools=tools, tool_choice=choice), served or model(), "", facts).constraint


def test_a_custom_tools_expression_is_the_engines_constraint_where_it_has_one() -> None:
    named = ToolChoice("required", (GRAMMAR.key,))
    assert "[a-z]+" in held(GRAMMAR, choice=named).value
    assert "[a-z]+" in held(GRAMMAR, TIME, choice=ToolChoice()).value
    assert "root ::=" in held(LARK, choice=ToolChoice()).value
    assert "root ::=" in held(LARK, choice=ToolChoice("required")).value


def test_without_means_for_an_expression_the_text_is_free_and_a_forced_choice_is_kept() -> None:
    plain = model(parser=family("json"))  # nothing marks where its calls begin
    assert held(GRAMMAR, choice=ToolChoice(), facts=EngineFacts("test")) is None
    assert held(GRAMMAR, choice=ToolChoice(), served=plain) is None
    error = fault(choice=ToolChoice("required", (GRAMMAR.key,)), facts=EngineFacts("test"))
    assert error.param == "tool_choice"
