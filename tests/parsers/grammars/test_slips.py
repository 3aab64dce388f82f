"""Slips that users of these models report: what the model meant is read, and what it cannot have meant is no valid call."""

from __future__ import annotations

from typing import Any

import pytest
from tests.parsers.examples import EXAMPLES, WEATHER
from tests.parsers.splits import cuts, fixed_ids, outline, run
from tests.parsers.writers import WRITERS, Call
from tests.parsers.writers.model import calls

from smg_parsers import FAMILIES, CallStart, Parser

PARIS = '{"city": "Paris"}'


def read(family: str, text: str, tools: Any = (WEATHER,), **options: Any) -> list[dict[str, Any]]:
    """The outline of a text without ids, found the same at every split."""
    results = [
        outline(run(Parser.for_family(family, tools=tools, in_reasoning=False, call_id=fixed_ids(), **options), chunks))
        for chunks in cuts(text, random_cuts=5)
    ]
    assert all(result == results[0] for result in results)
    for entry in results[0]:
        entry.get("call", {}).pop("id", None)
    return results[0]


def one(arguments: Any, **extra: Any) -> list[dict[str, Any]]:
    return [{"call": {"name": "get_weather", "arguments": arguments, **extra}}]


def kimi(written: str, arguments: str = PARIS) -> str:
    return (
        f"<|tool_calls_section_begin|><|tool_call_begin|>{written}<|tool_call_argument_begin|>{arguments}"
        "<|tool_call_end|><|tool_calls_section_end|>"
    )


@pytest.mark.parametrize(
    "written",
    [
        "functions_get_weather_1",
        "functions.get_weather_0",
        "get_weather_12",
        "function.get_weather:3",
        "functions.get_weather:call_1",
        "call_get_weather_0",
        "call_00_get_weather",
        "tool_get_weather_3",
    ],
)
def test_the_name_in_an_id_that_a_client_changed_is_found_among_the_offered_tools(written: str) -> None:
    assert read("kimi_k2", kimi(written)) == one({"city": "Paris"})


def test_an_id_of_another_api_has_the_name_inside_the_arguments() -> None:
    arguments = f'{{"name": "get_weather", "arguments": {PARIS}}}'
    assert read("kimi_k2", kimi("call_a1B2c3", arguments) + "So.") == [*one({"city": "Paris"}), {"text": "So."}]


def test_a_tool_that_nobody_offered_keeps_its_name() -> None:
    assert read("kimi_k2", kimi("functions.other_2:0"))[0]["call"]["name"] == "other_2"


NAMED = f'{{"name": "get_weather", "parameters": {PARIS}}}'


@pytest.mark.parametrize("text", [NAMED, f"<|python_start|>{NAMED}<|python_end|>", f"<|python_start|>[{NAMED}]"])
def test_llama_4_writes_json_calls_too(text: str) -> None:
    assert read("llama4", text) == one({"city": "Paris"})


PYTHONIC = "[get_weather(city='Paris')]"


@pytest.mark.parametrize("call", [PYTHONIC, NAMED, f"<|python_start|>{PYTHONIC}", f"<|python_start|>{NAMED}"])
def test_the_marker_behind_a_call_of_llama_4_is_no_text_and_one_in_prose_is(call: str) -> None:
    said = " The token <|python_end|> ends a call."
    assert read("llama4", f"{call}<|python_end|>") == one({"city": "Paris"})
    assert read("llama4", f"{call}<|python_end|>{said}") == [*one({"city": "Paris"}), {"text": said}]
    assert read("llama4", said + "<|python_start|>print(1)<|python_end|>") == [
        {"text": said + "<|python_start|>print(1)<|python_end|>"}
    ]


@pytest.mark.parametrize(
    ("written", "city"),
    [('{"city":"Paris"}', "Paris"), ('{city:"Par\\"is\\n"}', 'Par"is\n'), ('{"city":<|"|>Paris<|"|>}', "Paris")],
)
def test_gemma_4_writes_plain_json_strings_and_names_too(written: str, city: str) -> None:
    assert read("gemma4", f"<|tool_call>call:get_weather{written}<tool_call|>") == one({"city": city})


def test_gemma_4_writes_an_equals_sign_too() -> None:
    text = '<|tool_call>call:get_weather{city=<|"|>Paris<|"|>,days=2}<tool_call|>'
    assert read("gemma4", text) == one({"city": "Paris", "days": 2}, repaired=True)
    (broken, *_) = read("gemma4", text, malformed_calls="text")
    assert not broken["call"]["complete"]


@pytest.mark.parametrize("family", ["deepseek_v32", "deepseek_v4", "deepseek_v41", "gigachat35"])
def test_dsml_without_its_wrapper_is_a_call_of_an_offered_tool(family: str) -> None:
    example = EXAMPLES[family][1]
    bare = "\n".join(example.splitlines()[1:-1])
    assert read(family, f"So:\n{bare}")[1:] == one({"city": "Paris", "days": 2})
    unknown = bare.replace("get_weather", "other")
    assert read(family, unknown) == [{"text": unknown}]


DSML = ("deepseek_v32", "deepseek_v4", "deepseek_v41", "gigachat35")


@pytest.mark.sampled(per=("family", "version"))
@pytest.mark.parametrize("family", DSML)
@pytest.mark.parametrize(
    "mark", ["｜{}｜", "|{}|", "｜｜{}｜｜", "||{}||", "‖{}‖", " | {} | ", "｜{}|", "|{}｜", "{}｜", "｜{}", ""]
)
@pytest.mark.parametrize("version", DSML[:3])
def test_dsml_with_other_bars_bare_or_of_another_version_is_read_and_marked(
    family: str, mark: str, version: str
) -> None:
    word = "GCML" if family == "gigachat35" else "DSML"
    text = EXAMPLES[version][1]
    if not mark:  # of the bare names of 4.1, which begin with a space, nothing is left to know them by
        text = text.replace("｜DSML｜ calls", "｜DSML｜tool_calls").replace("｜DSML｜ ", "｜DSML｜")
    text = text.replace("｜DSML｜", mark.format(word))
    right = text == EXAMPLES[family][1]
    extra = {} if right else {"repaired": True}
    made = [{"text": "So:\n"}, *one({"city": "Paris", "days": 2}, **extra), {"text": "Done."}]
    assert read(family, f"So:\n{text}Done.") == made
    for said in [] if right else [text.replace("get_weather", "other"), f"```\n{text}\n```"]:
        assert read(family, said) == [{"text": said}]
    if not right:
        assert read(family, text, malformed_calls="text") == [{"text": text}]


@pytest.mark.parametrize("tag", ["<function get_weather>", "<function:get_weather>"])
def test_a_misspelt_tag_of_a_call_is_read_and_marked(tag: str) -> None:
    text = EXAMPLES["qwen3_coder"][1].replace("<function=get_weather>", tag)
    assert read("qwen3_coder", text) == one({"city": "Paris", "days": 2}, repaired=True)
    assert read("qwen3_coder", text, malformed_calls="text") == [{"text": text}]


@pytest.mark.parametrize("family", ["qwen3", "kimi_k2", "deepseek_v31", "mistral_v11", "harmony", "xlam"])
def test_a_quote_that_was_not_escaped_in_a_json_argument_is_mended(family: str) -> None:
    example = EXAMPLES[family][1]
    text = example.replace('{"city": "Paris", "days": 2}', '{"city":"the "big" one","days":2}')
    assert text != example
    assert read(family, text) == one({"city": 'the "big" one', "days": 2}, repaired=True)


def test_a_string_that_another_word_follows_is_over_and_takes_in_no_other_call() -> None:
    named = '{"name": "get_weather", "arguments": {"city": "Paris" oops}}'
    text = f"<tool_call>\n{named}\n</tool_call>\n{EXAMPLES['qwen3'][1]}"
    found = [entry["call"] for entry in read("qwen3", text) if "call" in entry]
    assert [call.get("arguments") for call in found] == [None, {"city": "Paris", "days": 2}]


@pytest.mark.parametrize("family", ["qwen3", "kimi_k2", "plamo3", "mistral_v11", "harmony", "phi4"])
@pytest.mark.parametrize("value", ["true", "[]", "3", '["city"]'])
def test_arguments_that_are_no_object_have_no_valid_end_and_leave_no_markup(family: str, value: str) -> None:
    text = EXAMPLES[family][1].replace('{"city": "Paris", "days": 2}', value)
    assert read(family, text) == [{"call": {"name": "get_weather", "complete": False, "arguments_text": value}}]


def test_null_under_a_schema_of_strings_is_null() -> None:
    assert read("pythonic", "[get_weather(city=None)]") == one({"city": None})


@pytest.mark.parametrize("family", ["qwen3_coder", "qwen35", "nemotron_v3", "step35"])
def test_lines_that_end_with_cr_lf_add_nothing_to_a_value(family: str) -> None:
    text = EXAMPLES[family][1].replace("\n", "\r\n").replace("Paris", "Paris\r\nLyon")
    assert read(family, text) == one({"city": "Paris\r\nLyon", "days": 2})


@pytest.mark.parametrize("family", ["qwen3", "qwen25", "hermes", "granite4", "ernie45"])
@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}\n```"])
def test_a_code_fence_inside_the_wrapper_is_dropped(family: str, fence: str) -> None:
    named = f'{{"name": "get_weather", "arguments": {PARIS}}}'
    text = f"<tool_call>\n{fence.format(named)}\n</tool_call>"
    assert read(family, text + " So.") == [*one({"city": "Paris"}), {"text": " So."}]


OWN_FENCES = ("deepseek_r1", "deepseek_v3")
"""Families that write each call's arguments in a fence themselves."""


def wrapped(family: str) -> tuple[str, str, str] | None:
    """A call: up to what opens the region, what stands in it, and what closes it; None where a fence has no place."""
    text = WRITERS[family].render([calls(Call("bash", {"command": "ls"}))])
    tables = FAMILIES[family].tables
    opens = max((each for each in tables.fenceable if text.strip().startswith(each)), key=len, default="")
    closes = [each for each in tables.closers if each in text]
    if not opens or not closes or family in OWN_FENCES:
        return None
    begin, end = text.index(opens) + len(opens), text.rindex(max(closes, key=text.rindex))
    return text[:begin], text[begin:end].strip(), text[end:]


WRAPPED = {family: parts for family in WRITERS if (parts := wrapped(family)) is not None}


def test_most_families_have_a_place_for_a_fence_around_calls() -> None:
    assert len(WRAPPED) > 40
    assert {"qwen3", "qwen3_coder", "kimi_k2", "minimax_m2", "deepseek_v32", "lfm2", "olmo3", "gemma4"} <= set(WRAPPED)


@pytest.mark.parametrize("family", WRAPPED)
def test_calls_in_a_fence_inside_their_wrapper_are_made_and_the_fence_is_no_text(family: str) -> None:
    before, inside, behind = WRAPPED[family]
    tools = [{"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}]
    for opens, closes in (("```", "```"), ("```xml", "```"), ("~~~json", "~~~"), ("\r\n```json\r", "```\r")):
        text = f"{before}\n{opens}\n{inside}\n{closes}\n{behind}"
        for chunks in ([text], list(text), [text[at : at + 5] for at in range(0, len(text), 5)]):
            parser = Parser.for_family(family, tools=tools, in_reasoning=False, call_id=fixed_ids())
            entries = outline(run(parser, chunks))
            assert [entry["call"]["arguments"] for entry in entries if "call" in entry] == [{"command": "ls"}], text
            assert not "".join(entry.get("text", "") for entry in entries).strip(), text


AS_JSON = [
    family
    for family, form in WRITERS.items()
    if '{"command": "ls"}' in form.render([calls(Call("bash", {"command": "ls"}))])
]
NO_ARGUMENTS = ("null", '""', '" "')
HELD_IN_A_STRING = ('"{\\"command\\": \\"ls\\"}"', '" {\\"command\\": \\"ls\\"} "')
NOT_AN_OBJECT = ("[]", "[1]", '"a string"', '"[]"', '"true"', "true", "3", "-1.5")


@pytest.mark.sampled(keep=10)
@pytest.mark.parametrize("family", AS_JSON)
def test_arguments_have_a_valid_end_only_if_they_are_an_object(family: str) -> None:
    text = WRITERS[family].render([calls(Call("bash", {"command": "ls"}))])
    tools = [{"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}]
    expected: dict[str, Any] = {each: {} for each in NO_ARGUMENTS}
    expected |= {each: {"command": "ls"} for each in HELD_IN_A_STRING}
    expected |= dict.fromkeys(NOT_AN_OBJECT)
    for written, arguments in expected.items():
        made = text.replace('{"command": "ls"}', written)
        entries = read(family, made, tools, any_tool=True)
        (call,) = [entry["call"] for entry in entries if "call" in entry] or [None]
        if call is None:  # what stands behind the header is no value that begins arguments
            assert family == "deepseek_v31", made
        elif arguments is None:
            assert "arguments" not in call, made
            assert call["arguments_text"] == written
        else:
            assert call["arguments"] == arguments, made
            assert not call.get("repaired"), made


@pytest.mark.sampled(keep=8)
@pytest.mark.parametrize(
    "family", [family for family, form in WRITERS.items() if form.value_kind in ("schema", "nested")]
)
def test_null_under_a_schema_of_strings_is_null_unless_the_schema_lists_it_or_more_stands_there(family: str) -> None:
    listed = {"type": "string", "enum": ["null", "one"]}
    for schema, written, expected in (
        ({"type": "string"}, "null", None),
        ({"type": "string"}, "nul", "nul"),
        ({"type": "string"}, "nullable", "nullable"),
        ({"type": "string"}, "None", "None"),
        (listed, "null", "null"),
        ({"const": "null", "type": "string"}, "null", "null"),
    ):
        tools = [{"name": "bash", "parameters": {"type": "object", "properties": {"command": schema}}}]
        text = WRITERS[family].render([calls(Call("bash", {"command": "null"}))]).replace("null", written)
        (call,) = [entry["call"] for entry in read(family, text, tools) if "call" in entry]
        assert call["arguments"] == {"command": expected}, text


@pytest.mark.parametrize("family", sorted(WRITERS))
@pytest.mark.parametrize("name", ["", "  "])
def test_a_call_without_a_name_is_none(family: str, name: str) -> None:
    text = WRITERS[family]([Call("get_weather", {"city": "Paris"})], None, "").replace("get_weather", name)
    whole, split = (
        run(Parser.for_family(family, tools=[WEATHER], in_reasoning=False), chunks) for chunks in ([text], list(text))
    )
    assert split == whole
    assert not any(isinstance(piece, CallStart) for piece in whole)


@pytest.mark.parametrize("family", ["mistral_v11", "magistral"])
def test_a_tag_that_begins_anew_before_its_end_is_no_part_of_a_name(family: str) -> None:
    text = WRITERS[family]([Call("get_weather", {"city": "Paris"})], None, "")
    assert read(family, f"[TOOL_CALLS]get{text}") == [{"text": "[TOOL_CALLS]get"}, *one({"city": "Paris"})]


@pytest.mark.parametrize("family", ["command_a", "cohere_north"])
def test_a_citation_that_has_no_end_takes_in_no_other_marker(family: str) -> None:
    text = WRITERS[family]([Call("get_weather", {"city": "Paris"})], None, "")
    read_as = outline(run(Parser.for_family(family, tools=[WEATHER], in_reasoning=False), [f"See <co: 0{text}"]))
    assert read_as[0] == {"text": "See <co: 0"}
    assert read_as[1]["call"]["arguments"] == {"city": "Paris"}
