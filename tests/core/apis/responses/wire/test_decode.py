"""Responses requests: what items, tools and settings become, what clients really send, and what is refused by its field."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.responses.wire.compact import decode_compact
from smg_core.apis.responses.wire.decode import ResponsesRequest, continued, decode_responses
from smg_core.apis.responses.wire.stored_items import with_ids
from smg_core.apis.responses.wire.summaries import SummaryMessage
from smg_core.errors import InvalidRequest, SmgError
from smg_core.pipeline.prompt.media_notes import without_faults
from smg_core.request import (
    CustomTool,
    File,
    FunctionTool,
    Image,
    Message,
    Reasoning,
    Refusal,
    SchemaFormat,
    Text,
    ToolCall,
    ToolKey,
    ToolResult,
)
from smg_core.wire.base import Incoming
from smg_core.wire.compat import Compat
from smg_core.wire.settings import LimitsConfig

CAPTURES = Path(__file__).parents[4] / "captures"
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CALL = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}", "id": "fc_1"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "seen"}


def decode(**fields: Any) -> ResponsesRequest:
    body = {"model": "sim", "input": "Hello", **fields}
    return decode_responses(Incoming(json.dumps(body).encode(), request_id="resp_7"))


def roles(request: ResponsesRequest) -> list[str]:
    return [message.role for message in request.generation.messages]


def refusal(**fields: Any) -> SmgError:
    with pytest.raises(SmgError) as raised:
        without_faults(
            decode(**fields).generation, notes=False
        )  # those of media are raised when the request is prepared
    return raised.value


# ---------------------------------------------------------------------------------------------------------------- items


def test_a_text_is_the_users_message() -> None:
    request = decode(instructions="Be brief.")
    assert request.generation.messages == (
        Message("system", (Text("Be brief."),), content_is_text=True),
        Message("user", (Text("Hello"),), content_is_text=True, id="msg_7i0"),
    )
    assert request.items[0]["id"] == "msg_7i0"


def test_items_of_the_assistant_in_a_row_are_one_turn_and_outputs_are_turns_of_their_own() -> None:
    request = decode(
        input=[
            {"role": "user", "content": "look"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
            {
                "type": "message",
                "role": "assistant",
                "phase": "commentary",
                "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}],
            },
            CALL,
            OUTPUT,
            {"role": "user", "content": [{"type": "input_text", "text": "and?"}]},
        ]
    )
    assert roles(request) == ["user", "assistant", "tool", "user"]
    _, assistant, result, _ = request.generation.messages
    assert assistant.parts == (
        Reasoning("Hm", "rs_1"),
        Text("I look."),
        ToolCall("call_1", "look", "{}", item_id="fc_1"),
    )
    assert assistant.phase == "commentary"
    assert result.parts == (ToolResult("call_1", (Text("seen"),)),)


def test_sealed_reasoning_is_kept_to_be_opened_and_counts_before_its_summary() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}]}
    sealed = decode(input=[item | {"content": None, "encrypted_content": "gw1.x"}, {"role": "user", "content": "x"}])
    assert sealed.generation.messages[0].parts == (Reasoning("", "rs_1", ("s",), b"gw1.x"),)
    plain = decode(input=[item, {"role": "user", "content": "x"}])
    assert plain.generation.messages[0].parts == (Reasoning("s", "rs_1", ("s",)),)


def test_broken_arguments_stay_as_they_are() -> None:
    request = decode(input=[CALL | {"arguments": '{"ci'}, OUTPUT])
    assert request.generation.messages[0].parts[0] == ToolCall("call_1", "look", '{"ci', item_id="fc_1")


def test_media_refusals_and_custom_calls_have_their_records() -> None:
    request = decode(
        input=[
            {
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
                    {"type": "input_file", "file_data": "AAAA", "filename": "a.pdf"},
                    {"type": "input_file", "file_url": "https://a.example/b.pdf"},
                ],
            },
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "***"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "ok"}]},
        ]
    )
    picture, file, linked = request.generation.messages[0].parts
    assert isinstance(picture, Image)
    assert picture.detail == "low"
    assert isinstance(file, File)
    assert (file.filename, file.source.url) == ("a.pdf", "data:application/octet-stream;base64,AAAA")
    assert isinstance(linked, File)
    assert linked.source.url == "https://a.example/b.pdf"
    assert request.generation.messages[1].parts == (
        Refusal("No."),
        ToolCall("c", "patch", "***", custom=True, item_id="ctc_7i2"),
    )


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
        {"type": "mcp_list_tools", "server_label": "a", "tools": []},
        {"type": "mcp_call", "id": "mcp_1", "name": "f", "arguments": "{}", "output": "x", "server_label": "a"},
        {"type": "computer_call", "call_id": "x", "action": {}},
        {"type": "shell_call_output", "call_id": "x", "output": []},
        {"type": "image_generation_call", "result": "AA=="},
    ],
)
def test_a_replay_of_what_other_servers_run_is_never_refused(item: dict[str, Any]) -> None:
    assert decode(input=[{"role": "user", "content": "x"}, item]).items[1]["type"] == item["type"]


def test_keys_that_nobody_reads_are_kept_when_an_item_is_stored() -> None:
    item = {"type": "message", "role": "user", "content": "x", "internal_chat_message_metadata_passthrough": {"a": 1}}
    assert decode(input=[item]).items[0]["internal_chat_message_metadata_passthrough"] == {"a": 1}


def test_an_output_finds_its_call_in_the_history() -> None:
    request = decode(input=[OUTPUT], previous_response_id="resp_1")
    assert request.waits_for_history
    whole = continued(request, [{"role": "user", "content": "look"}, CALL])
    assert roles(whole) == ["user", "assistant", "tool"]
    assert whole.loaded == 2


def test_a_call_that_was_cut_off_in_the_history_is_left_out() -> None:
    history = [{"role": "user", "content": "look"}, CALL | {"status": "incomplete"}]
    request = continued(decode(input="again", previous_response_id="resp_1"), history)
    assert roles(request) == ["user", "user"]


def test_reasoning_before_the_last_turn_is_dropped_where_the_client_wants_the_current_turn_only() -> None:
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]}
    items = [
        {"role": "user", "content": "a"},
        thought,
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    kept = decode(input=[*items, thought, CALL, OUTPUT], reasoning={"context": "current_turn"})
    thoughts = [sum(isinstance(part, Reasoning) for part in message.parts) for message in kept.generation.messages]
    assert thoughts == [0, 0, 0, 1, 0]


def test_the_last_configuration_update_holds() -> None:
    request = decode(
        reasoning={"effort": "low"},
        input=[{"role": "user", "content": "x"}, {"type": "configuration_update", "reasoning": {"effort": "high"}}],
    )
    assert request.generation.reasoning.effort == "high"


# ---------------------------------------------------------------------------------------------------------------- tools


def test_tools_that_are_not_offered_are_taken_and_named() -> None:
    request = decode(
        tools=[TOOL, {"type": "web_search", "external_web_access": True}, {"type": "mcp", "server_label": "a"}]
    )
    assert [tool.name for tool in request.generation.tools if isinstance(tool, FunctionTool)] == ["look"]
    assert request.not_offered == ("web_search", "mcp")


def test_tools_of_namespaces_have_names_of_their_own() -> None:
    request = decode(
        tools=[
            {"type": "namespace", "name": "a", "tools": [TOOL]},
            {"type": "namespace", "name": "b", "tools": [TOOL, {"type": "custom", "name": "patch"}]},
        ],
        tool_choice={"type": "function", "name": "look", "namespace": "b"},
    )
    names = [tool.name for tool in request.generation.tools if isinstance(tool, FunctionTool | CustomTool)]
    assert names == ["a__look", "b__look", "b__patch"]
    assert request.generation.tool_choice.names == (ToolKey("b__look"),)
    assert request.locate("tools[2].grammar") == "tools[1].tools[1].format.definition"


def test_tools_to_be_loaded_later_are_offered_once_a_search_found_them() -> None:
    later = TOOL | {"defer_loading": True}
    search = {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}
    found = [
        {"role": "user", "content": "x"},
        {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {"query": "l"}},
        {"type": "tool_search_output", "call_id": "s", "execution": "client", "tools": [later]},
    ]
    assert len(decode(tools=[later, search]).generation.tools) == 1
    assert len(decode(tools=[later, search], input=found).generation.tools) == 2
    assert len(decode(tools=[later]).generation.tools) == 1


def test_the_choice_of_a_subset() -> None:
    choice = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "look"}, {"type": "web_search"}],
    }
    asked = decode(tools=[TOOL, {"type": "web_search"}], tool_choice=choice, parallel_tool_calls=False)
    assert (asked.generation.tool_choice.names, asked.generation.tool_choice.parallel) == ((ToolKey("look"),), False)


def test_a_schema_is_held_to() -> None:
    asked = decode(text={"format": {"type": "json_schema", "name": "p", "schema": {"type": "object"}}})
    assert asked.generation.response_format == SchemaFormat({"type": "object"}, "p", strength="wished")


# ------------------------------------------------------------------------------------------------------------- captures


def captured() -> list[Any]:
    found = []
    for path in sorted(CAPTURES.glob("*.json")):
        bodies = json.loads(path.read_text())["bodies"]
        found += [pytest.param(body, id=f"{path.stem}-{order}") for order, body in enumerate(bodies)]
    return found


@pytest.mark.parametrize("body", captured())
def test_what_real_clients_send_is_taken(body: dict[str, Any]) -> None:
    body = {name: value for name, value in body.items() if name != "type"}  # of a frame
    request = decode_responses(Incoming(json.dumps(body).encode(), request_id="resp_7"))
    if request.waits_for_history:
        calls = [dict(CALL, call_id=item["call_id"]) for item in body["input"] if "call_id" in item]
        sealed = {
            str(item.get("encrypted_content")): (SummaryMessage("developer", "A summary."),) for item in body["input"]
        }
        request = continued(request, calls, sealed)
    assert request.generation.messages
    assert request.generation.model == body["model"]
    assert request.store is body.get("store", True)
    kinds = {tool["type"] for tool in body.get("tools", ())}
    assert ("web_search" in request.not_offered) is ("web_search" in kinds)


def test_codexs_newest_models_bring_all_tools_in_an_item() -> None:
    body = json.loads((CAPTURES / "codex-additional-tools.json").read_text())["bodies"][0]
    request = decode_responses(Incoming(json.dumps(body).encode(), request_id="resp_7"))
    assert any(isinstance(tool, CustomTool) for tool in request.generation.tools)
    assert any("__" in getattr(tool, "name", "") for tool in request.generation.tools)


def test_a_prewarm_wants_no_answer_and_a_compaction_is_always_made() -> None:
    prewarm = {"prompt_cache_options": {"prewarm": True}}
    asked = [({}, True), ({"generate": True}, True), ({"generate": False}, False), (prewarm, False)]
    asked += [({**prewarm, "generate": True}, False), ({"prompt_cache_options": {"prewarm": False}}, True)]
    for fields, wanted in asked:
        assert decode(**fields).generation.generate is wanted
    compact = Incoming(json.dumps({"model": "sim", "input": "Hello", **prewarm}).encode(), request_id="resp_7")
    assert decode_compact(compact).generation.generate


def test_a_compaction_trigger_is_told_and_a_compaction_replaces_what_is_before_it() -> None:
    _, trigger, after = json.loads((CAPTURES / "codex-compaction-v2.json").read_text())["bodies"]
    assert decode_responses(Incoming(json.dumps(trigger).encode(), request_id="resp_7")).compacts
    request = decode_responses(Incoming(json.dumps(after).encode(), request_id="resp_7"))
    whole = continued(request, (), {"gw1.COMPACTION": (SummaryMessage("developer", "They said hi."),)})
    assert [message.text for message in whole.generation.messages] == ["They said hi.", "and again"]


# ------------------------------------------------------------------------------------------------------------- refusals

USER = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "wizardry"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"role": "user", "content": [{"type": "refusal", "refusal": "x"}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": []}]}, "input[0].content"),
        ({"input": [USER, OUTPUT]}, "input[1].call_id"),
        ({"input": [CALL, USER]}, "input[0]"),
        ({"input": [{"type": "compaction_trigger"}, USER]}, "input[1]"),
        ({"tools": [{"type": "wizard"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [TOOL | {"async": True}]}, "tools[0].async"),
        ({"tools": [{"type": "namespace", "name": "a", "tools": [{"type": "x"}]}]}, "tools[0].tools[0].type"),
        ({"tools": [{"type": "custom", "name": "p", "format": {"type": "grammar"}}]}, "tools[0].format.syntax"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "other"}}, "tool_choice.name"),
        ({"include": ["everything"]}, "include[0]"),
        ({"text": {"format": {"type": "json_schema", "name": "p"}}}, "text.format.schema"),
        ({"text": {"format": {"type": "json_schema", "name": "p q", "schema": {}}}}, "text.format.name"),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
        ({"reasoning": {"effort": "extreme"}}, "reasoning.effort"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"background": True, "store": False}, "background"),
        ({"background_options": {"completion_window": "2h"}}, "background_options.completion_window"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": False}}, "stream_options.include_usage"),
        ({"previous_response_id": "resp_1", "conversation": "conv_1"}, "previous_response_id"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a"),
        ({"wizard": 1}, "wizard"),
    ],
)
def test_what_is_refused_is_refused_by_its_field(fields: dict[str, Any], param: str) -> None:
    error = refusal(**fields)
    assert (error.status, error.param) == (400, param)
    assert error.message


def test_usage_may_be_asked_for_as_in_chat_and_always_comes() -> None:
    assert decode(stream=True, stream_options={"include_usage": True}).generation.stream


@pytest.mark.full
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "role", "content", "text", "summary", "call_id", "output", "id", "tools", "name"]
                ),
                inner,
            )
        ),
        max_leaves=12,
    )
)
def test_any_item_is_taken_or_refused_by_a_field_of_the_body(value: Any) -> None:
    item = value if isinstance(value, dict) else {"role": "user", "content": value}
    param = None
    try:
        decode(input=[item])
    except InvalidRequest as error:
        param = error.param
    assert param is None or param.startswith(("input", "tools"))


def test_items_over_the_limit_are_refused() -> None:
    body = json.dumps({"model": "sim", "input": [USER] * 4}).encode()
    with pytest.raises(InvalidRequest, match="too many items"):
        decode_responses(Incoming(body, request_id="resp_7", limits=LimitsConfig(messages=3)))


def test_ids_are_given_once_and_kept() -> None:
    given_ids = with_ids([USER, USER | {"id": "msg_mine"}, CALL], "7")
    assert [item["id"] for item in given_ids] == ["msg_7i0", "msg_mine", "fc_1"]
    assert with_ids(given_ids, "8") == given_ids


def test_a_lenient_deployment_passes_foreign_fields_over() -> None:
    body = json.dumps({"model": "sim", "input": "x", "unheard_of": 1}).encode()
    assert decode_responses(Incoming(body, request_id="r", compat=Compat("vllm"))).generation.model == "sim"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("messages[0].parts[0]", "instructions"),
        ("messages[1].parts[0]", "input[0].content[0]"),
        ("messages[2].parts[0]", "input[1]"),
        ("messages[3].parts[0].content[1]", "input[2].output[1]"),
        ("messages", "input"),
        ("sampling.max_tokens", "max_output_tokens"),
        ("sampling.top_k", "top_k"),
        ("response_format.schema", "text.format.schema"),
        ("tools[0].name", "tools[0].name"),
        ("tool_choice.names[0]", "tool_choice"),
        ("reasoning.effort", "reasoning.effort"),
        ("template_arguments.x", "chat_template_kwargs.x"),
    ],
)
def test_a_path_behind_the_decoder_is_a_field_of_the_body(path: str, field: str) -> None:
    request = decode(
        instructions="x",
        tools=[TOOL],
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
            CALL,
            OUTPUT | {"output": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        ],
    )
    assert request.locate(path) == field


# ------------------------------------------------------------------------------------- where results of calls stand


def call(number: int) -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"call_{number}", "name": "look", "arguments": "{}"}


def output(number: int) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"call_{number}", "output": f"seen {number}"}


BETWEEN: list[dict[str, Any]] = [
    {"role": "developer", "content": "note"},
    {"role": "system", "content": "note"},
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
    {"role": "assistant", "content": "So."},
    {"type": "shell_call_output", "call_id": "other", "output": "done"},
    {"type": "web_search_call", "status": "completed"},
    {"type": "additional_tools", "tools": []},
]


@given(st.lists(st.sampled_from(range(4)), unique=True, min_size=1), st.data())
def test_a_result_stands_directly_behind_the_turn_of_its_call_whatever_the_developer_says_between_them(
    numbers: list[int], data: st.DataObject
) -> None:
    items: list[dict[str, Any]] = [{"role": "user", "content": "look"}]
    for number in numbers:
        place = data.draw(st.integers(1, len(items)))
        items.insert(place, call(number))
        items.insert(data.draw(st.integers(place + 1, len(items))), output(number))
    for between in data.draw(st.lists(st.sampled_from(BETWEEN), max_size=4)):
        items.insert(data.draw(st.integers(1, len(items))), between)
    request = decode(input=items, tools=[TOOL])

    messages = request.generation.messages
    for place, message in enumerate(messages):
        if message.role != "tool":
            continue
        first = place
        while messages[first].role == "tool":
            first -= 1
        calls = {part.id for part in messages[first].parts if isinstance(part, ToolCall)}
        assert {part.call_id for part in message.parts if isinstance(part, ToolResult)} <= calls
    strength = [part.call_id for message in messages for part in message.parts if isinstance(part, ToolResult)]
    assert sorted(strength) == sorted(f"call_{number}" for number in numbers)
    notes = [item for item in items if item.get("role") in ("developer", "system")]
    assert roles(request).count("developer") + roles(request).count("system") == len(notes)
    assert len(request.places) == len(messages)


def test_a_call_that_the_user_leaves_without_its_output_is_refused() -> None:
    for said in ([{"role": "user", "content": "and?"}], []):
        items = [{"role": "user", "content": "look"}, call(1), {"role": "developer", "content": "note"}, *said]
        assert refusal(input=items, tools=[TOOL]).param == "input[1]"


def test_an_output_that_comes_after_the_user_has_spoken_is_too_late() -> None:
    items = [{"role": "user", "content": "look"}, call(1), {"role": "user", "content": "and?"}, output(1)]
    assert refusal(input=items, tools=[TOOL]).param == "input[1]"
