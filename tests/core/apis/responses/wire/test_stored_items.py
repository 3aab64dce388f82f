"""Items as they are stored are of the official SDK's types, whatever a client may leave out of them."""

from typing import Any

import pytest
from openai.types.conversations import ConversationItem
from openai.types.responses import ResponseInputItemParam, ResponseItem
from pydantic import TypeAdapter

from smg_core.apis.responses.wire.items import _AS_TEXT, _LEFT_OUT, _READERS
from smg_core.apis.responses.wire.stored_items import _DEFAULTS, _PREFIXES, with_ids
from smg_core.wire.item_ids import known_items

GIVEN: Any = TypeAdapter(ResponseInputItemParam)
LISTED: list[Any] = [TypeAdapter(ResponseItem), TypeAdapter(ConversationItem)]
IMAGE = {"type": "input_image", "image_url": "https://images.test/a.png"}
SHOT = {"type": "computer_screenshot", "image_url": "https://images.test/a.png"}
RUN = {"type": "exec", "command": ["ls"], "env": {}}
CLICK = {"type": "click", "button": "left", "x": 1, "y": 1}
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": None}

LEAST: list[dict[str, Any]] = [
    {"role": "user", "content": "Hello"},
    {"role": "developer", "content": [{"type": "input_text", "text": "Hello"}]},
    {"role": "assistant", "content": "Hello"},
    {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "seen"},
    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "seen"}, IMAGE]},
    {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": "y"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": [IMAGE]},
    {"type": "tool_search_call", "arguments": {}},
    {"type": "tool_search_output", "tools": [TOOL]},
    {"type": "additional_tools", "role": "developer", "tools": [TOOL]},
    {"type": "configuration_update"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "compaction", "encrypted_content": "x"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "a"}},
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": []},
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "container_id": "k",
        "code": None,
        "outputs": None,
    },
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": None},
    {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c",
        "status": "completed",
        "pending_safety_checks": [],
        "action": CLICK,
    },
    {"type": "computer_call_output", "call_id": "c", "output": SHOT},
    {"type": "local_shell_call", "id": "ls_1", "call_id": "c", "status": "completed", "action": RUN},
    {"type": "local_shell_call_output", "id": "lso_1", "output": "a"},
    {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
    {
        "type": "shell_call_output",
        "call_id": "c",
        "output": [{"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    {
        "type": "apply_patch_call",
        "call_id": "c",
        "status": "completed",
        "operation": {"type": "delete_file", "path": "a"},
    },
    {"type": "apply_patch_call_output", "call_id": "c", "status": "completed"},
    {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []},
    {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "look", "arguments": "{}"},
    {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "look", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    {"type": "program", "id": "pr_1", "call_id": "c", "code": "", "fingerprint": "f"},
    {"type": "program_output", "id": "po_1", "call_id": "c", "result": "", "status": "completed"},
]
TERSE: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "input_text", "text": "What?"}, IMAGE]},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}", "status": None, "id": None},
]
"""What clients leave out though the SDK's own types of a request demand it."""
LISTED_ALIKE = {each.get("type", "message") for each in LEAST}


def test_every_kind_of_item_that_is_stored_is_among_these() -> None:
    assert ({*_READERS, *_LEFT_OUT, *_AS_TEXT} - {"item_reference", "compaction_trigger"}) == LISTED_ALIKE
    assert {*_PREFIXES, *_DEFAULTS} <= LISTED_ALIKE


@pytest.mark.parametrize("item", [*LEAST, *TERSE], ids=lambda item: str(item.get("type", item.get("role"))))
def test_an_item_with_the_least_that_a_client_has_to_send_is_stored_as_the_sdk_s_types_have_it(item: Any) -> None:
    if item in LEAST:
        GIVEN.validate_python(item)
    stored = with_ids([item], "7")
    for listed in LISTED:
        read = listed.validate_python(stored[0])
        assert read.type == item.get("type", "message")
    assert with_ids(stored, "7") == stored


@pytest.mark.parametrize("item", [*LEAST, *TERSE], ids=lambda item: str(item.get("type", item.get("role"))))
def test_an_item_that_the_sdk_has_read_and_sends_back_is_the_same_item(item: Any) -> None:
    stored = with_ids([item], "7")[0]
    for listed in LISTED:
        again = with_ids([listed.validate_python(stored).model_dump()], "8")
        assert known_items(again, [False], {stored["id"]: stored}) == {stored["id"]}


def test_what_a_client_has_said_of_an_item_stays() -> None:
    given = [
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c",
            "name": "look",
            "arguments": "{}",
            "status": "incomplete",
            "more": 1,
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "user",
            "content": [{**IMAGE, "detail": "high"}],
            "status": "completed",
        },
    ]
    assert with_ids(given, "7") == given
