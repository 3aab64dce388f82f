"""Built-in tools that the client runs, in the Responses API: shells, patches, the computer.

A local model has no form of its own for them, so that each is offered as a function with the fields that the API gives its calls,
and a call becomes the item that the API has for it. Replayed calls and outputs are the calls and results of that function, where
the request still has the tool. What the API leaves open: a shell without an environment is the client's; one with a container is
a server's. Pure. Above: responses.wire.tools, items, the builder. Below: the wire types, request.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import msgspec

from smg_core.apis.responses.wire import types as wire
from smg_core.apis.responses.wire.content import read_part
from smg_core.apis.responses.wire.parts import object_of
from smg_core.json_types import Json, JsonObject
from smg_core.request import FunctionTool, Part, Text
from smg_core.wire.decoding import explained

__all__ = [
    "CLIENT_ITEMS",
    "ClientItem",
    "client_call",
    "client_commands",
    "client_function",
    "client_output",
    "is_client_tool",
]

_TEXT: JsonObject = {"type": "string"}
_NUMBER: JsonObject = {"type": "integer"}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT, "minItems": 1}


def _schema(required: Sequence[str], **properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


_LOCAL_SHELL = _schema(
    ["command"],
    command=_TEXTS,
    working_directory=_TEXT,
    timeout_ms=_NUMBER,
    env={"type": "object", "additionalProperties": _TEXT},
    user=_TEXT,
)
_SHELL = _schema(["commands"], commands=_TEXTS, timeout_ms=_NUMBER, max_output_length=_NUMBER)
_OPERATIONS: tuple[Json, ...] = ("create_file", "update_file", "delete_file")
_PATCH = _schema(
    ["type", "path"],
    type={"type": "string", "enum": list(_OPERATIONS)},
    path=_TEXT,
    diff={"type": "string", "description": "For create_file and update_file: the diff, in the V4A form."},
)
_POINTS: JsonObject = {"type": "array", "items": _schema(["x", "y"], x=_NUMBER, y=_NUMBER)}
_ACTIONS: tuple[Json, ...] = (
    *("click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait"),
)
_COMPUTER = _schema(
    ["type"],
    type={"type": "string", "enum": list(_ACTIONS)},
    x=_NUMBER,
    y=_NUMBER,
    button={"type": "string", "enum": ["left", "right", "wheel", "back", "forward"]},
    path=_POINTS,
    keys={"type": "array", "items": _TEXT},
    scroll_x=_NUMBER,
    scroll_y=_NUMBER,
    text=_TEXT,
)


def _local_shell(arguments: JsonObject) -> JsonObject:
    command, env = arguments.get("command"), arguments.get("env")
    words = (
        [str(each) for each in command] if isinstance(command, list) else [command] if isinstance(command, str) else []
    )
    wishes = {
        name: arguments[name] for name in ("timeout_ms", "user", "working_directory") if arguments.get(name) is not None
    }
    return {"action": {"type": "exec", "command": [*words], "env": env if isinstance(env, dict) else {}, **wishes}}


def _shell(arguments: JsonObject) -> JsonObject:
    found = arguments.get("commands")
    commands = [str(each) for each in found] if isinstance(found, list) else [found] if isinstance(found, str) else []
    wishes = {name: arguments.get(name) for name in ("timeout_ms", "max_output_length")}
    return {"action": {"commands": [*commands], **wishes}, "environment": {"type": "local"}}


def _patch(arguments: JsonObject) -> JsonObject:
    kind = arguments.get("type")
    operation: JsonObject = {
        "type": kind if kind in _OPERATIONS else "update_file",
        "path": str(arguments.get("path") or ""),
    }
    if operation["type"] != "delete_file":
        operation["diff"] = str(arguments.get("diff") or "")
    return {"operation": operation}


def _action(arguments: JsonObject) -> JsonObject:
    """The action of a call; a look at the screen in place of one that the API does not have."""
    return arguments if arguments.get("type") in _ACTIONS else {"type": "screenshot"}


def _computer(arguments: JsonObject) -> JsonObject:
    return {"action": _action(arguments), "pending_safety_checks": []}


def _computer_batch(arguments: JsonObject) -> JsonObject:
    return {"actions": [_action(arguments)], "pending_safety_checks": []}


@attrs.frozen
class ClientItem:
    """The item of a call: its type, the prefix of its id, the fields that it begins with, those that the call's arguments make,
    and the field of it that has them again."""

    type: str
    prefix: str
    name: str
    description: str
    schema: JsonObject
    fields: Callable[[JsonObject], JsonObject]
    action_field: str

    def arguments(self, item: JsonObject) -> str:
        """The arguments of a call that is replayed."""
        action: Any = item.get(self.action_field)
        if action is None and self.type == "computer_call":
            action = item.get("actions")
        action = action[0] if isinstance(action, list) and action else action
        fields = (
            {name: value for name, value in action.items() if value is not None} if isinstance(action, dict) else {}
        )
        if self.type == "local_shell_call":
            fields.pop("type", None)
        return msgspec.json.encode(fields).decode()


_SEES = "Acts on the computer once and gives what is to be seen on it then."
_COMPUTER_ITEM = ClientItem("computer_call", "cu_", "computer", _SEES, _COMPUTER, _computer, "action")
_BY_TOOL: Mapping[str, ClientItem] = {
    "local_shell": ClientItem(
        *("local_shell_call", "lsh_", "local_shell", "Runs a command in the user's shell, and gives its output."),
        *(_LOCAL_SHELL, _local_shell, "action"),
    ),
    "shell": ClientItem(
        *("shell_call", "sh_", "shell", "Runs commands in the user's shell, each by itself, and gives their output."),
        *(_SHELL, _shell, "action"),
    ),
    "apply_patch": ClientItem(
        *("apply_patch_call", "apc_", "apply_patch", "Makes, changes or deletes one file of the user's."),
        *(_PATCH, _patch, "operation"),
    ),
    "computer_use_preview": _COMPUTER_ITEM,
    "computer_use": _COMPUTER_ITEM,
    "computer": attrs.evolve(_COMPUTER_ITEM, fields=_computer_batch),
}
CLIENT_ITEMS: Mapping[str, ClientItem] = _BY_TOOL
"""The item of a call by the type of its tool."""


def is_client_tool(tool: JsonObject) -> bool:
    """Whether the tool is one that the client runs."""
    kind = tool.get("type")
    if kind == "shell":
        environment = tool.get("environment")
        return not isinstance(environment, dict) or environment.get("type") == "local"
    return isinstance(kind, str) and kind in CLIENT_ITEMS


def client_function(tool: JsonObject, name: str) -> FunctionTool:
    """What the model is offered, by this name."""
    item, description = CLIENT_ITEMS[str(tool["type"])], CLIENT_ITEMS[str(tool["type"])].description
    width, height = tool.get("display_width"), tool.get("display_height")
    if item.type == "computer_call" and isinstance(width, int) and isinstance(height, int):
        description += f" Its display has {width} x {height} pixels."
    return FunctionTool(name, description, item.schema)


def client_call(kind: str, text: str) -> JsonObject:
    """The fields of the item of a call, from the arguments that the model wrote."""
    arguments = object_of(text)
    return CLIENT_ITEMS[kind].fields(arguments if isinstance(arguments, dict) else {})


def client_commands(item: JsonObject) -> list[str]:
    """The commands of a call of a shell, of which the stream tells each."""
    action = item.get("action")
    commands = action.get("commands") if isinstance(action, dict) else None
    return [str(each) for each in commands] if isinstance(commands, list) else []


def client_output(item: JsonObject, at: str) -> tuple[tuple[Part, ...], bool]:
    """The result of a call that is replayed, and whether it is nothing but text. Raises InvalidRequest."""
    explained(item, wire.ReplayedItem, at)
    output = item.get("output")
    if isinstance(output, str):
        return (Text(output),), True
    if isinstance(output, dict) and output.get("type") == "computer_screenshot":
        return (read_part(output, "tool", f"{at}.output"),), False
    fields = {name: item[name] for name in ("status", "output") if item.get(name) is not None}
    return (Text(msgspec.json.encode(fields).decode()),), True
