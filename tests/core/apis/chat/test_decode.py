"""What every parameter of a Chat Completions request becomes, and which requests are refused with which words."""

import json
from pathlib import Path

import pytest

from smg_core.apis.chat.decode import ChatRequest, decode_chat
from smg_core.apis.chat.types import ChatBody
from smg_core.errors import InvalidJson, InvalidRequest, PayloadTooLarge, UnsupportedParameter
from smg_core.request import (
    Audio,
    Caller,
    ChoiceFormat,
    CustomTool,
    File,
    FunctionTool,
    GrammarFormat,
    Image,
    JsonFormat,
    MediaSource,
    Message,
    Opaque,
    Reasoning,
    ReasoningSettings,
    Refusal,
    RegexFormat,
    SchemaFormat,
    StructuralTagFormat,
    Text,
    TextFormat,
    ToolCall,
    ToolChoice,
    ToolKey,
    ToolResult,
    Video,
)
from smg_core.wire.base import Incoming
from smg_core.wire.settings import LimitsConfig

CALLER = Caller("acme", "key-1")
HELLO = [{"role": "user", "content": "Hello"}]
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
SHELL = {"type": "custom", "custom": {"name": "shell"}}


def decode(limits=None, **fields) -> ChatRequest:
    body = json.dumps({"model": "sim", "messages": HELLO, **fields}).encode()
    return decode_chat(
        Incoming(body, request_id="chatcmpl-1", limits=limits or LimitsConfig(), headers={"x-a": "b"}, caller=CALLER)
    )


def refused(kind=InvalidRequest, limits=None, **fields):
    with pytest.raises(kind) as caught:
        decode(limits, **fields)
    assert caught.value.status == 400
    assert caught.value.param is None or caught.value.param.partition(".")[0].partition("[")[0] in caught.value.message
    return caught.value


def read(*messages) -> tuple[Message, ...]:
    return decode(messages=list(messages)).generation.messages


# ------------------------------------------------------------------------------------------------- parameters honoured

SAMPLING = [
    ("max_tokens", 5, "max_tokens", 5),
    ("max_completion_tokens", 5, "max_tokens", 5),
    ("temperature", 0.5, "temperature", 0.5),
    ("temperature", 0, "temperature", 0.0),
    ("top_p", 0.9, "top_p", 0.9),
    ("top_p", 0, "top_p", 1e-6),
    ("frequency_penalty", -2, "frequency_penalty", -2.0),
    ("presence_penalty", 2, "presence_penalty", 2.0),
    ("seed", -(2**63), "seed", -(2**63)),
    ("stop", "END", "stop", ("END",)),
    ("stop", ["a", "b"], "stop", ("a", "b")),
    ("n", 3, "n", 3),
    ("logit_bias", {"50256": -100}, "logit_bias", {50256: -100.0}),
    ("top_k", 40, "top_k", 40),
    ("top_k", -1, "top_k", -1),
    ("top_k", 0, "top_k", -1),
    ("min_p", 0.05, "min_p", 0.05),
    ("repetition_penalty", 1.1, "repetition_penalty", 1.1),
    ("min_tokens", 4, "min_tokens", 4),
    ("ignore_eos", True, "ignore_eos", True),
    ("stop_token_ids", [1, 2], "stop_token_ids", (1, 2)),
    ("skip_special_tokens", False, "skip_special_tokens", False),
    ("return_token_ids", True, "token_ids", True),
    ("include_stop_str_in_output", True, "include_stop", True),
    ("no_stop_trim", True, "include_stop", True),
]
GENERATION = [
    ("model", "other", "model", "other"),
    ("stream", True, "stream", True),
    ("user", "u-1", "user", "u-1"),
    ("safety_identifier", "s-1", "user", "s-1"),
    ("prompt_cache_key", "k", "cache_key", "k"),
    ("cache_salt", "salt", "cache_salt", "salt"),
    ("service_tier", "flex", "service_tier", "flex"),
    ("metadata", {"a": "b"}, "metadata", {"a": "b"}),
    ("chat_template_kwargs", {"enable_thinking": False}, "template_arguments", {"enable_thinking": False}),
    ("verbosity", "low", "template_arguments", {"verbosity": "low"}),
    ("documents", [{"title": "t", "text": "x"}], "documents", ({"title": "t", "text": "x"},)),
    ("add_generation_prompt", False, "add_generation_prompt", False),
    ("parallel_tool_calls", False, "tool_choice", ToolChoice(parallel=False)),
    ("reasoning_effort", "high", "reasoning", ReasoningSettings(effort="high")),
    ("reasoning_effort", "none", "reasoning", ReasoningSettings(effort="none")),
    ("enable_thinking", False, "reasoning", ReasoningSettings(enabled=False)),
    ("thinking", {"type": "disabled"}, "reasoning", ReasoningSettings(enabled=False)),
    ("thinking", {"type": "enabled", "budget_tokens": 9}, "reasoning", ReasoningSettings(None, 9, True)),
    ("thinking_budget", 10, "reasoning", ReasoningSettings(budget_tokens=10)),
    ("thinking_token_budget", 11, "reasoning", ReasoningSettings(budget_tokens=11)),
    ("response_format", {"type": "text"}, "response_format", TextFormat()),
    ("response_format", {"type": "json_object"}, "response_format", JsonFormat()),
    ("guided_regex", "a+", "response_format", RegexFormat("a+")),
    ("regex", "a+", "response_format", RegexFormat("a+")),
    ("guided_grammar", "root ::= a", "response_format", GrammarFormat("root ::= a")),
    ("ebnf", "root ::= a", "response_format", GrammarFormat("root ::= a")),
    ("guided_choice", ["a", "b"], "response_format", ChoiceFormat(("a", "b"))),
    ("guided_json", {"type": "object"}, "response_format", SchemaFormat({"type": "object"})),
    ("guided_json", '{"type":"object"}', "response_format", SchemaFormat({"type": "object"})),
    ("structured_outputs", {"json": {"type": "object"}}, "response_format", SchemaFormat({"type": "object"})),
    ("structured_outputs", {"regex": "a"}, "response_format", RegexFormat("a")),
    ("structured_outputs", {"choice": ["a"]}, "response_format", ChoiceFormat(("a",))),
    ("structured_outputs", {"grammar": "g"}, "response_format", GrammarFormat("g")),
    ("structured_outputs", {"json_object": True}, "response_format", JsonFormat()),
    ("structured_outputs", {"structural_tag": "{}"}, "response_format", StructuralTagFormat("{}")),
]
AT_REST = {  # taken where they ask for what happens anyway
    "modalities": ["text"],
    "store": False,
    "priority": 0,
    "separate_reasoning": True,
    "stream_reasoning": True,
    "prompt_cache_options": {"mode": "implicit"},
    "prompt_cache_retention": "24h",
    "logprobs": False,
    "continue_final_message": False,
    "include_reasoning": True,
    "tool_choice": "auto",
}
REFUSED = {
    "audio": {"voice": "alloy", "format": "wav"},
    "moderation": {"model": "omni"},
    "prediction": {"type": "content", "content": "x"},
    "prompt_logprobs": 0,
    "modalities": ["text", "audio"],
    "store": True,
    "priority": -3,
    "separate_reasoning": False,
    "stream_reasoning": False,
    "prompt_cache_options": {"mode": "explicit"},
    "chat_template": "{{ messages }}",
}
ELSEWHERE = {
    "web_search_options",
    "messages",
    "tools",
    "functions",
    "function_call",
    "tool_choice",
    "stream_options",
    "top_logprobs",
}


def test_a_search_of_the_web_that_is_not_there_is_taken_and_named():
    found = decode(web_search_options={"search_context_size": "low"})
    assert (found.not_offered, found.cites, found.generation.tools) == (("web_search_options",), False, ())
    with pytest.raises(InvalidRequest) as refused:
        decode(web_search_options={"search_context_size": "vast"})
    assert refused.value.param == "web_search_options.search_context_size"


@pytest.mark.parametrize(("name", "value", "field", "expected"), SAMPLING)
def test_a_sampling_parameter_reaches_the_request(name, value, field, expected):
    assert getattr(decode(**{name: value}).generation.sampling, field) == expected


@pytest.mark.parametrize(("name", "value", "field", "expected"), GENERATION)
def test_a_parameter_reaches_the_request(name, value, field, expected):
    assert getattr(decode(**{name: value}).generation, field) == expected


@pytest.mark.parametrize("name", AT_REST)
def test_a_parameter_that_asks_for_what_happens_anyway_changes_nothing(name):
    assert decode(**{name: AT_REST[name]}) == decode()


@pytest.mark.parametrize("name", REFUSED)
def test_a_parameter_that_nothing_honours_is_refused_by_name(name):
    error = refused(UnsupportedParameter, **{name: REFUSED[name]})
    assert error.param.startswith(name)
    assert error.code == "unsupported_parameter"


def test_every_parameter_of_the_wire_is_honoured_or_refused_in_a_test():
    tested = {row[0] for row in SAMPLING + GENERATION} | set(AT_REST) | set(REFUSED) | ELSEWHERE
    assert set(ChatBody.__struct_fields__) == tested


def test_every_parameter_is_in_the_documentation():
    page = (Path(__file__).parents[4] / "docs" / "chat-completions.md").read_text()
    assert [name for name in ChatBody.__struct_fields__ if f"`{name}`" not in page] == []


def test_every_parameter_that_the_official_sdk_sends_is_on_the_wire():
    from openai.types.chat.completion_create_params import CompletionCreateParamsBase

    assert set(CompletionCreateParamsBase.__annotations__) - set(ChatBody.__struct_fields__) == set()


@pytest.mark.parametrize("name", sorted(set(ChatBody.__struct_fields__) - {"model", "messages"}))
def test_null_is_the_same_as_absent(name):
    assert decode(**{name: None}) == decode()


def test_nothing_said_is_nothing_decided():
    generation = decode().generation
    assert (generation.id, generation.model, generation.stream) == ("chatcmpl-1", "sim", False)
    assert generation.messages == (Message("user", (Text("Hello"),), None, True),)
    assert generation.sampling.temperature is None
    assert generation.sampling.max_tokens is None
    assert generation.headers == {"x-a": "b"}
    assert generation.caller == CALLER
    assert generation.extra == {}


def test_logprobs_count_their_alternatives():
    assert decode().generation.sampling.logprobs is None
    assert decode(logprobs=True).generation.sampling.logprobs == 0
    assert decode(logprobs=True, top_logprobs=5).generation.sampling.logprobs == 5
    assert decode(top_logprobs=0).generation.sampling.logprobs is None
    assert refused(top_logprobs=2).param == "top_logprobs"
    assert refused(logprobs=True, top_logprobs=21).code == "integer_above_max_value"


def test_stream_options_belong_to_the_writer():
    found = decode(stream=True, stream_options={"include_usage": True, "include_obfuscation": True})
    assert (found.include_usage, found.obfuscate) == (True, True)
    assert refused(stream_options={"include_usage": True}).param == "stream_options"
    options = {"continuous_usage_stats": True}
    found = decode(stream=True, stream_options=options)
    assert (found.counts, found.hides_ids, found.generation.sampling.token_ids) == (True, True, True)
    assert found.locate("sampling.token_ids") == "stream_options.continuous_usage_stats"
    found = decode(stream=True, stream_options=options, return_token_ids=True)
    assert (found.counts, found.hides_ids, found.locate("sampling.token_ids")) == (True, False, "return_token_ids")


def test_the_newer_name_of_max_tokens_may_repeat_the_older_but_not_contradict_it():
    assert decode(max_tokens=3, max_completion_tokens=3).generation.sampling.max_tokens == 3
    assert refused(max_tokens=3, max_completion_tokens=4).param == "max_tokens"


def test_a_minimum_over_the_maximum_is_refused():
    assert refused(min_tokens=5, max_tokens=4).param == "min_tokens"


def test_continuing_the_final_message_turns_the_generation_prompt_off():
    generation = decode(continue_final_message=True).generation
    assert (generation.continue_final_message, generation.add_generation_prompt) == (True, False)
    assert refused(continue_final_message=True, add_generation_prompt=True).param == "continue_final_message"


def test_a_template_from_the_client_is_refused():
    assert refused(UnsupportedParameter, chat_template="{{ x }}").param == "chat_template"


def test_template_arguments_cannot_replace_what_the_template_is_given():
    error = refused(chat_template_kwargs={"messages": []})
    assert error.param == "chat_template_kwargs.messages"


def test_the_safety_identifier_wins_over_the_older_user():
    assert decode(user="u", safety_identifier="s").generation.user == "s"
    assert decode(user="").generation.user is None


# ------------------------------------------------------------------------------------------------------------- formats


def test_a_json_schema_is_a_constraint_and_strict_unless_the_client_says_otherwise():
    def asked(**more):
        form = {"type": "json_schema", "json_schema": {"name": "step", "schema": {"type": "object"}, **more}}
        return decode(response_format=form).generation.response_format

    assert asked() == SchemaFormat({"type": "object"}, "step", None, True, strength="wished")
    assert asked(strict=True, description="d") == SchemaFormat({"type": "object"}, "step", "d", True)
    assert asked(strict=False).strict is False


def test_a_json_schema_with_a_bad_name_is_refused():
    error = refused(response_format={"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}})
    assert error.param == "response_format.json_schema.name"


def test_a_structural_tag_is_passed_on_as_json():
    form = {"type": "structural_tag", "structures": [{"begin": "<a>", "schema": {}, "end": "</a>"}], "triggers": ["<a"]}
    found = decode(response_format=form).generation.response_format
    assert json.loads(found.tag) == form
    assert refused(response_format={"type": "structural_tag"}).param == "response_format"


def test_two_constraints_at_once_are_refused():
    error = refused(response_format={"type": "json_object"}, guided_regex="a")
    assert error.param == "guided_regex"
    assert "'response_format'" in error.message
    assert decode(response_format={"type": "text"}, guided_regex="a").generation.response_format == RegexFormat("a")
    assert refused(structured_outputs={"regex": "a", "choice": ["b"]}).param == "structured_outputs.choice"


def test_a_constraint_that_constrains_nothing_is_refused():
    assert refused(structured_outputs={}).param == "structured_outputs"
    assert refused(guided_choice=[]).param == "guided_choice"
    assert refused(guided_json="[1]").param == "guided_json"
    assert refused(guided_json="{").param == "guided_json"


# --------------------------------------------------------------------------------------------------------------- tools


def test_tools_of_both_kinds_keep_their_order():
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: A"}}
    poet = {"type": "custom", "custom": {"name": "poet", "description": "d", "format": grammar}}
    strict = {"type": "function", "function": {"name": "f", "description": "x", "strict": True}}
    plain = {"type": "custom", "custom": {"name": "plain", "format": {"type": "text"}}}
    found = decode(tools=[WEATHER, SHELL, poet, strict, plain])
    assert found.generation.tools == (
        FunctionTool("weather", None, {"type": "object"}),
        CustomTool("shell"),
        CustomTool("poet", "d", "lark", "start: A"),
        FunctionTool("f", "x", None, True),
        CustomTool("plain"),
    )


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", ToolChoice("none")),
        ("auto", ToolChoice("auto")),
        ("required", ToolChoice("required")),
        ({"type": "function", "function": {"name": "weather"}}, ToolChoice("required", (ToolKey("weather"),))),
        ({"type": "custom", "custom": {"name": "shell"}}, ToolChoice("required", (ToolKey("shell", kind="custom"),))),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [
                        {"type": "custom", "custom": {"name": "shell"}},
                        {"type": "function", "function": {"name": "weather"}},
                    ],
                },
            },
            ToolChoice("auto", (ToolKey("shell", kind="custom"), ToolKey("weather"))),
        ),
    ],
)
def test_every_form_of_tool_choice_is_understood(choice, expected):
    assert decode(tools=[WEATHER, SHELL], tool_choice=choice).generation.tool_choice == expected


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ({"type": "function", "function": {"name": "shell"}}, "tool_choice.function.name"),
        ({"type": "custom", "custom": {"name": "weather"}}, "tool_choice.custom.name"),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "no"}}]},
            },
            "tool_choice.allowed_tools.tools[0].function.name",
        ),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, "tool_choice.allowed_tools.tools"),
    ],
)
def test_a_choice_of_a_tool_that_is_not_offered_is_refused(choice, param):
    assert refused(tools=[WEATHER, SHELL], tool_choice=choice).param == param


def test_a_choice_without_tools_is_refused_unless_it_asks_for_none():
    assert refused(tool_choice="required").param == "tool_choice"
    assert refused(tool_choice={"type": "function", "function": {"name": "f"}}).param == "tool_choice"
    assert decode(tool_choice="none").generation.tool_choice == ToolChoice("none")
    assert decode(tools=[]).generation.tools == ()


def test_legacy_functions_are_tools_that_are_called_one_at_a_time():
    functions = [{"name": "f", "parameters": {}}]
    found = decode(functions=functions, function_call={"name": "f"})
    assert found.legacy_functions
    assert found.generation.tools == (FunctionTool("f", None, {}),)
    assert found.generation.tool_choice == ToolChoice("required", (ToolKey("f"),), False)
    assert decode(functions=functions).generation.tool_choice == ToolChoice("auto", (), False)
    assert decode(functions=functions, function_call="none").generation.tool_choice == ToolChoice("none", (), False)
    assert refused(functions=functions, function_call={"name": "g"}).param == "function_call.name"
    assert refused(function_call="auto").param == "function_call"
    assert refused(functions=functions, tools=[WEATHER]).param == "functions"
    assert refused(functions=functions, tool_choice="auto").param == "tool_choice"


# ------------------------------------------------------------------------------------------------------------ messages


def test_content_may_be_text_or_parts():
    assert read({"role": "user", "content": "a", "name": "bob"}) == (Message("user", (Text("a"),), "bob", True),)
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": ""}]
    assert read({"role": "developer", "content": parts}) == (Message("developer", (Text("a"), Text(""))),)
    assert read({"role": "system", "content": ""}, *HELLO)[0] == Message("system", (Text(""),), None, True)


def test_media_parts_are_references_that_nobody_has_decoded_yet():
    message = {
        "role": "user",
        "content": [
            {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "high"}},
            {"type": "image_url", "image_url": "data:image/png;base64,AA=="},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "audio_url", "audio_url": {"url": "https://a/b.wav"}},
            {"type": "video_url", "video_url": {"url": "https://a/b.mp4"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_data": "AA=="}},
        ],
    }
    assert read(message)[0].parts == (
        Image(MediaSource(url="https://a/b.png"), "high"),
        Image(MediaSource(url="data:image/png;base64,AA==")),
        Audio(MediaSource(url="data:audio/wav;base64,AAAA"), "wav"),
        Audio(MediaSource(url="https://a/b.wav")),
        Video(MediaSource(url="https://a/b.mp4")),
        File(MediaSource(file_id="file-1")),
        File(MediaSource(url="data:application/pdf;base64,AA=="), "a.pdf"),
        File(MediaSource(url="data:application/octet-stream;base64,AA==")),
    )


def test_a_cache_breakpoint_stays_with_its_part():
    mark = {"mode": "explicit", "ttl": "30m"}
    parts = [
        {"type": "text", "text": "a", "prompt_cache_breakpoint": mark},
        {"type": "image_url", "image_url": {"url": "https://a"}, "prompt_cache_breakpoint": {"mode": "explicit"}},
    ]
    text, image = read({"role": "user", "content": parts})[0].parts
    assert text == Text("a", mark)
    assert image.cache == {"mode": "explicit"}
    parts = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]
    assert read({"role": "user", "content": parts})[0].parts == (Text("a", {"type": "ephemeral"}),)


def test_an_unknown_field_that_is_null_is_an_absent_one():
    """Clients whose messages and parts are all of one class send the fields of every kind, most of them null."""
    part = {"type": "text", "text": "a", "image_url": None}
    message = {"role": "user", "content": [part], "tool_calls": None, "tool_call_id": None}
    found = decode(messages=[message] * 200, top_a=None, logit_bias={"5": 1}, tools=[NULLABLE])
    assert found == decode(messages=[{"role": "user", "content": [part]}] * 200, logit_bias={"5": 1}, tools=[NULLABLE])
    assert found.generation.extra == {}


def test_a_null_in_a_schema_is_a_value():
    tools = decode(tools=[NULLABLE], messages=[{"role": "user", "content": "a", "x": None}]).generation.tools
    assert tools[0].parameters == {"type": "object", "default": None}


NULLABLE = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "default": None}}}


def test_a_required_field_that_is_null_is_missing_whatever_else_is_null():
    with pytest.raises(InvalidRequest) as caught:
        read({"role": "user", "content": None, "tool_calls": None})
    assert caught.value.param == "messages[0].content"


def test_an_assistants_turn_keeps_everything_in_the_order_it_was_made():
    message = {
        "role": "assistant",
        "reasoning_content": "hm",
        "opaque_blocks": [{"type": "thinking", "data": '{"signature":"s"}'}],
        "content": [
            {"type": "text", "text": "a"},
            {"type": "refusal", "refusal": "no"},
            {"type": "thinking", "thinking": "t"},
        ],
        "refusal": "never",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
            {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "ls"}},
            {"id": "c3", "index": 2, "function": {"name": "h", "arguments": ""}},
        ],
    }
    assert read(message)[0].parts == (
        Reasoning("hm"),
        Opaque("thinking", b'{"signature":"s"}'),
        Text("a"),
        Refusal("no"),
        Reasoning("t"),
        Refusal("never"),
        ToolCall("c1", "f", '{"a": 1}'),
        ToolCall("c2", "g", "ls", custom=True),
        ToolCall("c3", "h", ""),
    )


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": []}])
def test_an_assistants_turn_may_be_empty_as_the_answer_it_repeats_was(content):
    assert read({"role": "assistant", **content}, *HELLO)[0].parts == ()


def test_an_assistants_empty_text_beside_a_call_is_no_part():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert read({"role": "assistant", "content": "", "tool_calls": [call]})[0].parts == (ToolCall("c", "f", "{}"),)
    assert read({"role": "assistant", "content": ""})[0] == Message("assistant", (Text(""),), None, True)


def test_reasoning_may_come_back_under_either_name():
    assert read({"role": "assistant", "reasoning": "r", "content": "a"})[0].parts == (Reasoning("r"), Text("a"))


def test_a_tool_result_may_be_text_or_parts_and_need_not_have_its_call_here():
    assert read({"role": "tool", "tool_call_id": "c", "content": "42"}) == (
        Message("tool", (ToolResult("c", (Text("42"),)),), None, True),
    )
    parts = [{"type": "text", "text": "4"}, {"type": "image_url", "image_url": {"url": "https://a"}}]
    assert read({"role": "tool", "tool_call_id": "c", "content": parts})[0].parts == (
        ToolResult("c", (Text("4"), Image(MediaSource(url="https://a")))),
    )


def test_a_legacy_call_and_its_result_meet():
    call, result = read(
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "42"},
    )
    assert call.parts[0].id == result.parts[0].call_id
    assert (result.role, result.name) == ("tool", "f")


def test_what_the_sdk_returns_can_be_sent_back():
    from openai.types.chat import ChatCompletionMessage

    message = ChatCompletionMessage(role="assistant", content="a", annotations=[]).model_dump()
    assert read(message)[0].parts == (Text("a"),)


TINY = {"type": "image_url", "image_url": {"url": "x", "detail": "tiny"}}
CALL = {"id": "c", "function": {"name": "f", "arguments": ""}}
MISTYPED = {"id": "c", "function": {"name": "f", "arguments": {}}}
PART, CALLED, OPAQUE = "messages[0].content[0]", "messages[0].tool_calls[0]", "messages[0].opaque_blocks[0]"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"content": "a"}, "messages[0].role"),
        ({"role": "robot", "content": "a"}, "messages[0].role"),
        ({"role": 5, "content": "a"}, "messages[0].role"),
        ("hello", "messages[0]"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": None}, "messages[0].content"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "user", "content": []}, "messages[0].content"),
        ({"role": "user", "content": ["a"]}, PART),
        ({"role": "user", "content": [{"type": "text"}]}, PART + ".text"),
        ({"role": "user", "content": [{"text": "a"}]}, PART + ".type"),
        ({"role": "user", "content": [{"type": "smell", "text": "a"}]}, PART + ".type"),
        ({"role": "user", "content": [{"type": "refusal", "refusal": "a"}]}, PART + ".type"),
        ({"role": "system", "content": [{"type": "image_url", "image_url": "http://a"}]}, PART + ".type"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": ""}]}, PART + ".image_url"),
        ({"role": "user", "content": [TINY]}, PART + ".image_url.detail"),
        ({"role": "user", "content": [{"type": "file", "file": {}}]}, PART),
        ({"role": "user", "content": [{"type": "file", "file": {"file_id": "a", "file_data": "b"}}]}, PART),
        ({"role": "user", "content": "a", "mood": "good"}, "messages[0].mood"),
        ({"role": "user", "content": "a", "tool_call_id": "c"}, "messages[0].tool_call_id"),
        ({"role": "tool", "content": "a"}, "messages[0].tool_call_id"),
        ({"role": "tool", "content": None, "tool_call_id": "c"}, "messages[0].content"),
        ({"role": "function", "content": "a"}, "messages[0].name"),
        ({"role": "assistant", "tool_calls": [{"id": "c", "type": "function"}]}, CALLED + ".function"),
        ({"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}, CALLED + ".custom"),
        ({"role": "assistant", "tool_calls": [{"function": CALL["function"]}]}, CALLED + ".id"),
        ({"role": "assistant", "tool_calls": [MISTYPED]}, CALLED + ".function.arguments"),
        (
            {"role": "assistant", "tool_calls": [{**CALL, "custom": {"name": "f", "input": ""}}]},
            CALLED + ".custom",
        ),
        ({"role": "assistant", "opaque_blocks": [{"type": "t", "data": "?", "encoding": "base64"}]}, OPAQUE + ".data"),
        ({"role": "assistant", "content": "a", "audio": {"id": "x"}}, "messages[0].audio"),
        ({"role": "assistant", "content": "a", "annotations": [{"type": "url_citation"}]}, "messages[0].annotations"),
    ],
)  # fmt: skip
def test_a_message_at_fault_is_refused_with_its_path(message, param):
    with pytest.raises(InvalidRequest) as caught:
        read(message)
    assert caught.value.param == param
    assert caught.value.message.isprintable()


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": None}, "messages"),
        ({"model": ""}, "model"),
        ({"model": None}, "model"),
        ({"model": 5}, "model"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"n": 1.5}, "n"),
        ({"n": "1"}, "n"),
        ({"n": True}, "n"),
        ({"n": 10**30}, "n"),
        ({"seed": 2**63}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 10**400}, "max_tokens"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"top_k": -2}, "top_k"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {str(n): 1 for n in range(1025)}}, "logit_bias"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop": ["a", ""]}, "stop[1]"),
        ({"stop": ""}, "stop"),
        ({"stop": "x" * 1025}, "stop"),
        ({"stop": [1]}, "stop[0]"),
        ({"stop_token_ids": [0] * 257}, "stop_token_ids"),
        ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
        ({"tools": [WEATHER] * 513}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a"),
        ({"reasoning_effort": "extreme"}, "reasoning_effort"),
        ({"verbosity": "chatty"}, "verbosity"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"stream": "yes"}, "stream"),
        ({"user": 5}, "user"),
        ({"temprature": 1}, "temprature"),
    ],
)
def test_a_wrong_value_is_refused_by_name(fields, param):
    assert refused(**fields).param == param


def test_bounds_are_the_deployments_to_set():
    limits = LimitsConfig(messages=1, n=2, stop=1, tools=1, logprobs=1, documents=1, choices=1)
    assert refused(limits=limits, messages=HELLO * 2).param == "messages"
    assert "<= 2" in refused(limits=limits, n=3).message
    assert refused(limits=limits, stop=["a", "b"]).param == "stop"
    assert refused(limits=limits, tools=[WEATHER, SHELL]).param == "tools"
    assert refused(limits=limits, logprobs=True, top_logprobs=2).param == "top_logprobs"
    assert refused(limits=limits, documents=[{}, {}]).param == "documents"
    assert refused(limits=limits, guided_choice=["a", "b"]).param == "guided_choice"


def test_the_words_are_those_a_client_of_the_api_knows():
    assert refused(temprature=1).message == "Unrecognized request argument supplied: temprature"
    assert refused(messages=[{"role": "user", "content": "a", "x": 1}]).message == "Unknown parameter: 'messages[0].x'."
    assert refused(n="1").message == "Invalid type for 'n': expected an integer, but got a string instead."
    assert "Supported values are: 'none', 'minimal'" in refused(reasoning_effort="x").message
    body = json.dumps({"messages": HELLO}).encode()
    with pytest.raises(InvalidRequest, match=r"Missing required parameter: 'model'\."):
        decode_chat(Incoming(body, request_id="r"))


def test_what_a_client_wrote_is_never_quoted_at_length():
    assert len(refused(**{"x" * 10_000: 1}).message) < 200
    assert len(refused(reasoning_effort="x" * 10_000).message) < 300
    assert (
        len(refused(tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "y" * 200}}).message) < 250
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b'{"model":"sim","messages":[{"role":"user","content":"a"}]} {}',
        b"\xef\xbb\xbf{}",
        b"model=sim",
        b'{"model":"sim","messages":[{"role":"user","content":"a"}],}',
        b'{"model":"sim","messages":[{"role":"user","content":"a"}],"temperature":NaN}',
        b'{"model":"sim","messages":[{"role":"user","content":"a"}],"temperature":Infinity}',
        b'{"model":"sim","messages":[{"role":"user","content":"\xff"}]}',
        b'{"model":"sim","messages":[{"role":"user","content":"\xed\xa0\x80"}]}',
        b'{"model":"sim","messages":[{"role":"user","content":"\\ud800"}]}',
        b'{"model":"sim","messages":[{"role":"user","content":"\\udc00 x"}]}',
        b'{"model":"sim","messages":[{"role":"user","content":"a\x00"}]}',
        "{'model':'sim'}".encode("utf-16"),
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(body):
    with pytest.raises(InvalidJson) as caught:
        decode_chat(Incoming(body, request_id="r"))
    assert caught.value.message.isprintable()


def test_a_number_too_large_for_json_readers_is_refused():
    body = b'{"model":"sim","messages":[{"role":"user","content":"a"}],"temperature":1e999}'
    with pytest.raises(InvalidRequest) as caught:
        decode_chat(Incoming(body, request_id="r"))
    assert caught.value.param == "temperature"


def test_a_body_over_its_bound_is_413_before_it_is_read():
    with pytest.raises(PayloadTooLarge) as caught:
        decode_chat(Incoming(b"{" * 1025, request_id="r", limits=LimitsConfig(body_bytes=1024, media_body_bytes=1024)))
    assert caught.value.status == 413


def nested(levels):
    value = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (lambda deep: {"chat_template_kwargs": deep}, "chat_template_kwargs"),
        (lambda deep: {"documents": [deep]}, "documents"),
        (lambda deep: {"guided_json": deep}, "guided_json"),
        (
            lambda deep: {"tools": [WEATHER, {"type": "function", "function": {"name": "f", "parameters": deep}}]},
            "tools",
        ),
        (
            lambda deep: {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": deep}}},
            "response_format.json_schema.schema",
        ),
        (lambda deep: {"response_format": {"type": "structural_tag", "format": deep}}, "response_format.format"),
    ],
)
def test_free_form_values_have_a_depth(fields, param):
    decode(**fields(nested(64)))
    assert refused(**fields(nested(65))).param == param


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_absurdly_deep_json_is_refused_wherever_it_is(opening):
    for field in (b"chat_template_kwargs", b"documents", b"nonsense", b"messages"):
        body = b'{"model":"sim","messages":[{"role":"user","content":"a"}],"' + field + b'":' + opening * 100_000
        with pytest.raises(InvalidRequest):
            decode_chat(Incoming(body, request_id="r"))


def test_of_a_key_given_twice_the_last_counts():
    body = b'{"model":"a","messages":[{"role":"user","content":"x","content":"y"}],"n":2,"model":"b","n":3}'
    generation = decode_chat(Incoming(body, request_id="r")).generation
    assert (generation.model, generation.sampling.n, generation.messages[0].text) == ("b", 3, "y")
    body = b'{"model":"a","messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"k":1,"k":2}}'
    assert decode_chat(Incoming(body, request_id="r")).generation.template_arguments == {"k": 2}


def test_a_role_given_twice_must_be_the_same_role():
    """The kind of a message is known from its first role: a second one that differs would be read two ways."""
    body = b'{"model":"a","messages":[{"role":"user","content":"x","role":"system"}]}'
    with pytest.raises(InvalidRequest) as caught:
        decode_chat(Incoming(body, request_id="r"))
    assert caught.value.param == "messages[0].role"
