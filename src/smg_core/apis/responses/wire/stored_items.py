"""The items of Responses requests and of conversations as they are stored: with a type, an id, and what clients' types demand.

A client may leave out of an item what its type has in a list: its status, the annotations of a text. Pure. Above: responses,
conversations, responses_items. Below: item_ids.
"""

from collections.abc import Mapping, Sequence

from smg_core.json_types import Json, JsonObject
from smg_core.wire.decoding import no_string
from smg_core.wire.item_ids import check_item_ids

__all__ = ["item_type", "with_ids"]

_PREFIXES: Mapping[str, str] = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctco_",
    "tool_search_call": "tsc_",
    "tool_search_output": "tso_",
    "additional_tools": "at_",
    "compaction": "cmp_",
    "mcp_approval_response": "mcprs_",
}
_COMPLETED: JsonObject = {"status": "completed"}
_DEFAULTS: Mapping[str, JsonObject] = {
    **dict.fromkeys(
        (
            "apply_patch_call",
            "apply_patch_call_output",
            "code_interpreter_call",
            "computer_call_output",
            "custom_tool_call",
            "custom_tool_call_output",
            "file_search_call",
            "function_call",
            "function_call_output",
            "image_generation_call",
            "local_shell_call",
            "message",
            "program_output",
            "shell_call",
            "shell_call_output",
            "web_search_call",
        ),
        _COMPLETED,
    ),
    "additional_tools": {"role": "developer"},
    "computer_call": {**_COMPLETED, "pending_safety_checks": []},
    "reasoning": {"summary": []},
    "tool_search_call": {**_COMPLETED, "execution": "client", "arguments": {}},
    "tool_search_output": {**_COMPLETED, "execution": "client"},
}
"""What an item has in a list, by its type, where the client left it out."""
_PART_DEFAULTS: Mapping[str, JsonObject] = {
    "output_text": {"annotations": []},
    "input_image": {"detail": "auto"},
}
"""The same for the parts of a message's content, and of a call's output."""


def item_type(item: Mapping[str, Json]) -> str:
    """The item's type; two types may be left out on the wire."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    return "message" if "role" in item else "item_reference"


def with_ids(items: str | Sequence[JsonObject], suffix: str, at: str = "input") -> list[JsonObject]:
    """The items as they are stored: each with its type, an id, made of `suffix` where the client gave none, and what items of a
    list have; a text as the user's message that it stands for. Keys that nobody here reads stay. Raises InvalidRequest for a type
    or an id that is none, or an id that two items of the list, the field `at`, have."""
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": items}]}]
    for order, item in enumerate(items):
        kind = item.get("type")
        if kind is not None and not isinstance(kind, str):
            raise no_string(kind, f"{at}[{order}].type")
    check_item_ids(items, at)
    made: list[JsonObject] = []
    for order, item in enumerate(items):
        kind = item_type(item)
        whole: JsonObject = {**item, "type": kind}
        if kind != "item_reference" and item.get("id") is None:
            whole["id"] = f"{_PREFIXES.get(kind, 'item_')}{suffix}i{order}"
        if kind == "message" and isinstance(item.get("content"), str):
            text_type = "output_text" if item.get("role") == "assistant" else "input_text"
            whole["content"] = [{"type": text_type, "text": item["content"]}]
        _fill(whole, _DEFAULTS.get(kind))
        for name in ("content", "output"):
            parts = whole.get(name)
            if isinstance(parts, list):
                whole[name] = [_whole_part(part) for part in parts]
        made.append(whole)
    return made


def _fill(target: JsonObject, defaults: Mapping[str, Json] | None) -> None:
    for name, value in (defaults or {}).items():
        if target.get(name) is None:
            target[name] = value


def _whole_part(part: Json) -> Json:
    defaults = _PART_DEFAULTS.get(str(part.get("type"))) if isinstance(part, dict) else None
    if defaults is None or not isinstance(part, dict):
        return part
    whole = dict(part)
    _fill(whole, defaults)
    return whole
