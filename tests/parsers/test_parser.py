"""What the parser promises whatever the family: policies, ids, edges, hold-back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smg_parsers import (
    CallArguments,
    CallEnd,
    CallStart,
    Parser,
    Piece,
    Reasoning,
    Text,
    UnknownTool,
)

from .examples import EXAMPLES, HERMES, KIMI_K2, QWEN_XML, WEATHER
from .splits import cuts, fixed_ids, outline, run
from .writers import WRITERS, Call


def parse(family: str, text: str, **options: Any) -> list[Piece]:
    """The pieces of a text, found the same at every split."""
    results = [
        run(Parser.for_family(family, call_id=fixed_ids(), **options), chunks) for chunks in cuts(text, random_cuts=10)
    ]
    assert all(result == results[0] for result in results)
    return results[0]


def call(name: str, arguments: str = "{}") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def test_plain_text_comes_out_at_once() -> None:
    parser = Parser.for_family("qwen3", in_reasoning=False)
    assert parser.feed("Hello, ") == [Text("Hello, ")]


def test_no_more_is_held_back_than_could_be_a_marker() -> None:
    parser = Parser.for_family("qwen3", in_reasoning=False)
    assert parser.feed("a<tool_cal") == [Text("a")]
    assert parser.feed("x") == [Text("<tool_calx")]


def test_finish_gives_back_what_was_held() -> None:
    parser = Parser.for_family("qwen3", in_reasoning=False)
    parser.feed("a<thi")
    assert parser.finish() == [Text("<thi")]


def test_an_empty_feed_gives_nothing() -> None:
    parser = Parser.for_family("qwen3")
    assert parser.feed("") == []
    assert parser.finish() == []


def test_several_calls_in_one_chunk_all_come_out() -> None:
    pieces = Parser.for_family("qwen3", in_reasoning=False).feed(call("a") + "\n" + call("b") + "\n" + call("c"))
    assert [piece.name for piece in pieces if isinstance(piece, CallStart)] == ["a", "b", "c"]


def test_arguments_stream_before_the_call_is_over() -> None:
    parser = Parser.for_family("qwen3", in_reasoning=False)
    pieces = parser.feed('<tool_call>\n{"name": "f", "arguments": {"text": "once upon')
    assert [type(piece) for piece in pieces] == [CallStart, CallArguments]
    assert pieces[1] == CallArguments(0, '{"text": "once upon')


def test_a_string_of_a_tagged_call_streams_before_the_call_is_over() -> None:
    parser = Parser.for_family("qwen35", tools=[WEATHER], in_reasoning=False)
    pieces = parser.feed("<tool_call>\n<function=get_weather>\n<parameter=city>\nPar")
    assert [piece.delta for piece in pieces if isinstance(piece, CallArguments)] == ['{"city":', '"Par']


def test_json_arguments_pass_through_verbatim() -> None:
    arguments = '{"b" : 123456789012345678901234567890,"a":"\\ud83d\\ude00 \\ud800 é",  "c":[1.10, -0e1]}'
    pieces = parse("qwen3", call("f", arguments), in_reasoning=False)
    assert pieces[1] == CallArguments(0, arguments)


def test_raw_control_characters_in_json_strings_are_escaped() -> None:
    pieces = parse("qwen3", call("f", '{"code": "a\n\tb\x01"}'), in_reasoning=False)
    assert pieces[1] == CallArguments(0, '{"code": "a\\n\\tb\\u0001"}')


def test_arguments_before_the_name_are_kept_until_the_name_is_there() -> None:
    text = '<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>'
    assert outline(parse("qwen3", text, in_reasoning=False)) == [
        {"call": {"name": "f", "id": "call_0", "arguments": {"a": 1}}}
    ]


@pytest.mark.parametrize("written", ['"{\\"a\\": 1}"', '{"a": 1}'])
def test_arguments_in_a_string_are_the_object_it_holds(written: str) -> None:
    assert outline(parse("qwen3", call("f", written), in_reasoning=False))[0]["call"]["arguments"] == {"a": 1}


def test_a_string_that_holds_no_object_is_passed_on_and_the_call_has_no_end() -> None:
    (entry,) = outline(parse("qwen3", call("f", '"{oops"'), in_reasoning=False))
    assert entry["call"]["arguments_text"] == '"{oops"'


@pytest.mark.parametrize("written", ["null", '""', "{}"])
def test_no_arguments_are_an_empty_object(written: str) -> None:
    assert outline(parse("qwen3", call("f", written), in_reasoning=False))[0]["call"]["arguments"] == {}


def test_a_missing_brace_and_a_brace_too_many_do_no_harm() -> None:
    for braces in ("}", "}}}", "}}"):
        text = '<tool_call>{"name": "f", "arguments": {"a": 1' + braces + "</tool_call>after"
        assert outline(parse("qwen3", text, in_reasoning=False)) == [
            {"call": {"name": "f", "id": "call_0", "arguments": {"a": 1}}},
            {"text": "after"},
        ]


def test_a_call_that_is_cut_off_does_not_end() -> None:
    pieces = parse("qwen3", '<tool_call>\n{"name": "f", "arguments": {"a": "b', in_reasoning=False)
    assert pieces == [CallStart(0, "call_0", "f"), CallArguments(0, '{"a": "b')]


def test_a_tagged_call_that_is_cut_off_keeps_what_was_written_of_its_value() -> None:
    text = "<tool_call>\n<function=get_weather>\n<parameter=days>\n12"
    assert parse("qwen35", text, tools=[WEATHER], in_reasoning=False)[1] == CallArguments(0, '{"days":12')


def test_arguments_that_stop_being_json_leave_the_call_open_and_the_rest_is_text() -> None:
    pieces = parse("qwen3", call("f", '{"a": "b" oops}'), in_reasoning=False)
    assert pieces[:2] == [CallStart(0, "call_0", "f"), CallArguments(0, '{"a": "b" ')]
    assert isinstance(pieces[2], Text)
    assert pieces[2].text.startswith("oops}")


def test_prose_about_a_call_is_text() -> None:
    text = "Write <tool_call> and then {name}, or <tool_call>\n{}\n</tool_call>. <function=x is no tag either."
    assert parse("qwen3", text, in_reasoning=False) == [Text(text)]
    assert parse("qwen35", text, in_reasoning=False) == [Text(text)]


def test_a_call_right_behind_a_false_start_is_found() -> None:
    pieces = parse("qwen3", "<tool_call>" + call("f"), in_reasoning=False)
    assert pieces[0] == Text("<tool_call>")
    assert isinstance(pieces[1], CallStart)


def test_an_end_tag_inside_a_value_does_not_end_it() -> None:
    value = "a </parameter> b </function> c"
    text = f"<tool_call>\n<function=f>\n<parameter=code>\n{value}\n</parameter>\n</function>\n</tool_call>"
    assert outline(parse("qwen35", text, in_reasoning=False))[0]["call"]["arguments"] == {"code": value}


def test_indentation_and_blank_lines_of_a_value_survive() -> None:
    value = "\n    def f():\n        pass\n"
    text = f"<tool_call>\n<function=f>\n<parameter=code>\n{value}\n</parameter>\n</function>\n</tool_call>"
    assert outline(parse("qwen35", text, in_reasoning=False))[0]["call"]["arguments"] == {"code": value}


def test_an_unescaped_quote_in_a_python_string_does_not_end_it() -> None:
    text = "[say(text='it's fine', n=1)]"
    assert outline(parse("pythonic", text, any_tool=True))[0]["call"]["arguments"] == {"text": "it's fine", "n": 1}


def test_markdown_links_and_footnotes_are_text() -> None:
    text = "See [docs](https://x.y) and [1], [a, b], f(x), [g(x)] and [[h()]."
    assert parse("pythonic", text, tools=[WEATHER]) == [Text(text)]


def test_ordinary_json_is_text_and_is_not_held_back() -> None:
    parser = Parser.for_family("json")
    assert parser.feed('{"answer"') == [Text('{"answer"')]
    assert parse("json", '{"answer": {"name": "x"}, "list": [1, {"a": 2}]}') == [
        Text('{"answer": {"name": "x"}, "list": [1, {"a": 2}]}')
    ]


class TestUnknownTools:
    text = call("now") + "\n" + call("get_weather") + "\n" + call("later")

    def test_forward_is_the_default(self) -> None:
        names = [piece.name for piece in parse("qwen3", self.text, tools=[WEATHER]) if isinstance(piece, CallStart)]
        assert names == ["now", "get_weather", "later"]

    def test_drop_leaves_the_siblings_and_counts_them_from_0(self) -> None:
        pieces = parse("qwen3", self.text, tools=[WEATHER], unknown_tools="drop")
        assert pieces == [CallStart(0, "call_0", "get_weather"), CallArguments(0, "{}"), CallEnd(0)]

    def test_error_names_the_tool_and_carries_what_came_before(self) -> None:
        parser = Parser.for_family("qwen3", tools=[WEATHER], in_reasoning=False, unknown_tools="error")
        with pytest.raises(UnknownTool, match="'now'") as caught:
            parser.feed("Hi. " + self.text)
        assert caught.value.name == "now"
        assert caught.value.pieces == (Text("Hi. "),)

    def test_bare_tool_declarations_are_understood(self) -> None:
        tools = [{"name": "now", "parameters": {"type": "object"}}]
        pieces = parse("qwen3", self.text, tools=tools, unknown_tools="drop")
        assert [piece.name for piece in pieces if isinstance(piece, CallStart)] == ["now"]

    def test_without_tools_a_message_to_one_is_text(self) -> None:
        text = "<|channel|>commentary to=functions.f<|message|>{}<|call|>"
        kinds = {type(piece) for piece in parse("harmony", text, tools=[])}
        assert kinds == {Text}

    def test_without_tools_nothing_is_a_call(self) -> None:
        assert parse("qwen3", "<think>a</think>" + self.text, tools=[]) == [Reasoning("a"), Text(self.text)]


class TestReasoning:
    def test_text_before_the_opener_is_text(self) -> None:
        assert parse("qwen3", "Hi <think>a</think>b") == [Text("Hi "), Reasoning("a"), Text("b")]

    def test_it_may_open_again(self) -> None:
        pieces = parse("qwen3", "<think>a</think>b\n<think>c</think>d")
        assert pieces == [Reasoning("a"), Text("b\n"), Reasoning("c"), Text("d")]

    @pytest.mark.parametrize(
        "answer",
        [
            "The tag <think> opens it, </think> closes it.",
            "b<think>c</think>d",
            "Write `<think>` first.",
            'It is called "<think>".',
            "Like so:\n```\n<think>\nwhy\n</think>\n```\nDone.",
        ],
    )
    def test_an_opening_tag_that_the_answer_speaks_of_stays_in_the_answer(self, answer: str) -> None:
        assert parse("qwen3", "<think>a</think>" + answer) == [Reasoning("a"), Text(answer)]
        assert parse("deepseek_r1", "a</think>" + answer) == [Reasoning("a"), Text(answer)]

    @pytest.mark.parametrize("answer", ["Write `<think>` first.", "```\n<think>\n```"])
    def test_a_quoted_tag_opens_nothing_where_the_model_did_not_reason(self, answer: str) -> None:
        assert parse("qwen3", answer) == [Text(answer)]

    def test_behind_a_closed_code_fence_it_may_open_again(self) -> None:
        pieces = parse("qwen3", "<think>a</think>```\nx\n```\n<think>c</think>d")
        assert pieces == [Reasoning("a"), Text("```\nx\n```\n"), Reasoning("c"), Text("d")]

    def test_a_family_that_interleaves_opens_it_within_a_line(self) -> None:
        text = "<|inner_prefix|>a<|inner_suffix|>b <|inner_prefix|>c<|inner_suffix|>d"
        assert parse("apertus", text) == [Reasoning("a"), Text("b "), Reasoning("c"), Text("d")]

    def test_a_doubled_opening_tag_is_one(self) -> None:
        assert parse("qwen3", "<think>\n<think>a</think>b") == [Reasoning("\na"), Text("b")]

    def test_an_open_block_needs_no_opener_and_drops_one_at_its_start(self) -> None:
        for text in ("a</think>b", "<think>a</think>b"):
            assert parse("qwen3", text, in_reasoning=True) == [Reasoning("a"), Text("b")]

    def test_white_space_is_kept(self) -> None:
        assert parse("qwen3", "<think>\na\n</think>\n\nb") == [Reasoning("\na\n"), Text("\n\nb")]

    def test_a_call_inside_it_is_a_call_and_it_goes_on_behind(self) -> None:
        pieces = parse("qwen3", f"<think>a{HERMES}b</think>c", tools=[WEATHER])
        assert [type(piece) for piece in pieces] == [Reasoning, CallStart, CallArguments, CallEnd, Reasoning, Text]

    def test_a_call_inside_it_that_names_no_tool_is_a_mention(self) -> None:
        text = call("example")
        assert parse("qwen3", f"<think>{text}</think>c", tools=[WEATHER]) == [Reasoning(text), Text("c")]

    def test_a_closing_marker_in_the_middle_of_text_is_text(self) -> None:
        assert parse("qwen3", "a</think>b") == [Text("a</think>b")]

    def test_it_is_left_to_the_family_when_nobody_says(self) -> None:
        assert parse("deepseek_r1", "a</think>b") == [Reasoning("a"), Text("b")]
        assert parse("qwen3", "ab") == [Text("ab")]


class TestIds:
    def test_kimis_are_what_the_model_wrote(self) -> None:
        pieces = parse("kimi_k2", KIMI_K2.replace(":0<", ":7<"))
        assert pieces[0] == CallStart(0, "functions.get_weather:7", "get_weather")

    def test_kimi_k3_counts_on_from_the_conversation(self) -> None:
        assert parse("kimi_k3", EXAMPLES["kimi_k3"][1], calls_before=3)[0] == CallStart(
            0, "get_weather:3", "get_weather"
        )

    def test_mistrals_are_nine_letters_and_digits(self) -> None:
        start = Parser.for_family("mistral").parse(EXAMPLES["mistral"][1])[0]
        assert isinstance(start, CallStart)
        assert len(start.id) == 9
        assert start.id.isalnum()

    def test_mistrals_call_id_is_kept(self) -> None:
        text = "[TOOL_CALLS]f[CALL_ID]abc123XYZ[ARGS]{}"
        assert parse("mistral_v11", text)[0] == CallStart(0, "abc123XYZ", "f")

    def test_others_are_random_and_different(self) -> None:
        pieces = Parser.for_family("qwen3").parse(call("a") + call("b"))
        ids = [piece.id for piece in pieces if isinstance(piece, CallStart)]
        assert len(set(ids)) == 2
        assert all(identity.startswith("call_") for identity in ids)


class TestHarmony:
    def test_a_preamble_is_text_and_thoughts_are_not(self) -> None:
        text = (
            "<|channel|>analysis<|message|>think<|end|><|start|>assistant<|channel|>commentary<|message|>I will look.<|end|>"
            '<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{"a":1}<|call|>'
            "<|start|>assistant<|channel|>final<|message|>Done.<|return|>"
        )
        assert outline(parse("harmony", text)) == [
            {"reasoning": "think"},
            {"text": "I will look."},
            {"call": {"name": "f", "id": "call_0", "arguments": {"a": 1}}},
            {"text": "Done."},
        ]

    def test_a_recipient_right_at_the_start_is_read(self) -> None:
        text = ' to=functions.f<|channel|>commentary json<|message|>{"a":1}'
        assert outline(parse("harmony", text))[0]["call"]["arguments"] == {"a": 1}

    def test_the_same_function_twice_is_two_calls(self) -> None:
        one = "<|channel|>commentary to=functions.f<|message|>{}<|call|>"
        starts = [piece for piece in parse("harmony", one + "<|start|>assistant" + one) if isinstance(piece, CallStart)]
        assert [start.index for start in starts] == [0, 1]

    def test_output_without_any_header_is_text(self) -> None:
        assert parse("harmony", "Hello to you") == [Text("Hello to you")]

    def test_tools_of_the_model_itself_are_reasoning(self) -> None:
        text = "<|channel|>analysis to=python code<|message|>print(1)<|end|>"
        assert parse("harmony", text) == [Reasoning("print(1)")]


def test_the_name_of_a_tagged_call_needs_no_wrapper() -> None:
    body = QWEN_XML.removeprefix("<tool_call>\n")
    assert outline(parse("qwen35", body, tools=[WEATHER]))[0]["call"]["arguments"] == {"city": "Paris", "days": 2}


def test_a_header_longer_than_its_limit_is_text() -> None:
    text = '<tool_call>{"note": "' + "x" * 100 + '", "name": "f", "arguments": {}}</tool_call>'
    assert parse("qwen3", text, hold_limit=50) == [Text(text)]
    assert isinstance(parse("qwen3", text, hold_limit=500)[0], CallStart)


@pytest.mark.parametrize("family", sorted(WRITERS))
def test_the_limit_of_headers_loses_and_doubles_nothing_of_a_call_that_breaks_off(family: str) -> None:
    text = WRITERS[family]([Call("get_weather", {"city": "Paris"})], None, "")
    for at in range(0, len(text) - 3, 5):
        broken = text[:at] + text[at + 3 :]
        whole, split = (
            run(Parser.for_family(family, tools=[WEATHER], call_id=fixed_ids(), hold_limit=5), chunks)
            for chunks in ([broken], list(broken))
        )
        assert split == whole
        left = iter(broken)
        said = "".join(piece.text for piece in whole if isinstance(piece, Text | Reasoning))
        assert all(char in left for char in said)


def test_arguments_longer_than_the_limit_still_stream() -> None:
    text = call("f", json.dumps({"a": "x" * 300}))
    assert isinstance(parse("qwen3", text, hold_limit=60)[-1], CallEnd)


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        ("get_weather", "tools must be a list, not 'get_weather'"),
        ({"name": "get_weather"}, "tools must be a list, not {'name': 'get_weather'}"),
        (7, "tools must be a list, not 7"),
        (["get_weather"], r"tools\[0\] must be an object, not 'get_weather'"),
        ([{"name": "a"}, {"parameters": {}}], r"tools\[1\].name must be a text, not None"),
        ([{"type": "function", "function": "a"}], r"tools\[0\].function must be an object, not 'a'"),
        ([{"type": "function", "function": {"name": 3}}], r"tools\[0\].function.name must be a text, not 3"),
        ([{"name": "a", "parameters": [1]}], r"tools\[0\].parameters must be a JSON schema, not \[1\]"),
    ],
)
def test_malformed_tools_are_refused_by_place_and_value(tools: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Parser.for_family("qwen3", tools=tools)


def test_tools_that_are_no_functions_are_passed_over() -> None:
    parser = Parser.for_family("qwen3", tools=[{"type": "web_search"}, {"type": "function", "function": {"name": "a"}}])
    assert [
        piece.name for piece in parser.parse('<tool_call>{"name": "a"}</tool_call>') if isinstance(piece, CallStart)
    ] == ["a"]
