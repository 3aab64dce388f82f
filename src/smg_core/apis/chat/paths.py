"""From a path in `GenerationRequest` to the field of a Chat Completions body.

Errors from behind the decoder name a faulty field as a path in `GenerationRequest` (`messages[3].parts[1]`). A client knows only
its own body, so each path is translated to the field that it was read from. Pure. Above: chat. Below: request.
"""

import re
from collections.abc import Mapping, Sequence

from smg_core.request import CustomTool, GenerationRequest, Message, Opaque, Part, Reasoning, ToolCall

__all__ = ["chat_field"]

_FIELDS: Mapping[str, str] = {
    "cache_key": "prompt_cache_key",
    "history.store": "store",
    "prompt": "messages",
    "reasoning.budget_tokens": "thinking_token_budget",
    "reasoning.effort": "reasoning_effort",
    "reasoning.enabled": "enable_thinking",
    "response_format.description": "response_format.json_schema.description",
    "response_format.name": "response_format.json_schema.name",
    "response_format.schema": "response_format.json_schema.schema",
    "response_format.strict": "response_format.json_schema.strict",
    "sampling.include_stop": "include_stop_str_in_output",
    "sampling.logprobs": "top_logprobs",
    "sampling.token_ids": "return_token_ids",
    "template": "chat_template",
    "tool_choice.parallel": "parallel_tool_calls",
}
"""Paths whose fields have another name in Chat Completions."""
_IN_MESSAGE = re.compile(r"messages\[(\d+)\]\.parts(?:\[(\d+)\](?:\.content(?:\[(\d+)\])?)?)?.*")
_MESSAGE = re.compile(r"messages\[(\d+)\]")
_IN_TOOL = re.compile(r"tools\[(\d+)\]\.(\w+)(.*)")
_ONE_FIELD = ("response_format", "tool_choice")


def chat_field(
    path: str,
    request: GenerationRequest,
    written: Mapping[str, str],
    places: Sequence[tuple[int, str]] = (),
    *,
    legacy: bool = False,
) -> str:
    """The field of the body that `path` in `request` was read from. `written` and `places` are those of `ChatRequest`; `legacy`
    says that the tools were written as `functions`."""
    known = written.get(path) or _FIELDS.get(path)
    if known is not None:
        return known
    root, dot, rest = path.partition(".")
    if root in ("sampling", "extra", "headers"):
        return rest
    if root == "template_arguments":
        return f"chat_template_kwargs{dot}{rest}"
    if root.startswith("messages"):
        return _in_message(path, request.messages) if not places else _placed(path, request.messages, places)
    if root.startswith("tool"):
        return _of_tools(path, request, legacy)
    return root if root in _ONE_FIELD else path


def _placed(path: str, messages: Sequence[Message], places: Sequence[tuple[int, str]]) -> str:
    """As `_in_message`, for messages of which some were made of a field of one in the body."""
    found = _MESSAGE.match(path)
    if found is None:
        return path
    position, field = places[int(found[1])]
    if field:
        return f"messages[{position}].{field}"
    return _MESSAGE.sub(f"messages[{position}]", _in_message(path, messages), count=1)


def _in_message(path: str, messages: Sequence[Message]) -> str:
    found = _IN_MESSAGE.fullmatch(path)
    if found is None:
        return path
    place, order, inner = found.groups()
    message = messages[int(place)]
    content = f"messages[{place}].content"
    if order is None or message.content_is_text:
        return content
    if message.role == "tool":  # its one part is the result, whose content is what the client wrote
        return content if inner is None else f"{content}[{inner}]"
    return f"messages[{place}].{_in_turn(message.parts, int(order))}"


def _in_turn(parts: Sequence[Part], order: int) -> str:
    """The field of a message that `parts[order]` was read from. In an assistant's message, reasoning and opaque blocks
    come before the content and tool calls after it; each kind has a field of its own."""
    part, before = parts[order], parts[:order]
    blocks = sum(isinstance(each, Opaque) for each in before)
    if isinstance(part, ToolCall):
        return f"tool_calls[{sum(isinstance(each, ToolCall) for each in before)}]"
    if isinstance(part, Opaque):
        return f"opaque_blocks[{blocks}]"
    if isinstance(part, Reasoning) and not before:
        return "reasoning_content"
    return f"content[{order - blocks - isinstance(parts[0], Reasoning)}]"


def _of_tools(path: str, request: GenerationRequest, legacy: bool) -> str:
    if path.startswith("tool_choice"):
        return "function_call" if legacy else "tool_choice"
    name = "functions" if legacy else "tools"
    found = _IN_TOOL.fullmatch(path)
    if found is None:
        return path.replace("tools", name, 1)
    place, field, rest = found.groups()
    if field == "kind":
        return f"functions[{place}]" if legacy else f"tools[{place}].type"
    if legacy:
        return f"functions[{place}].{field}{rest}"
    if not isinstance(request.tools[int(place)], CustomTool):
        return f"tools[{place}].function.{field}{rest}"
    inner = {"grammar": "format.grammar.definition", "syntax": "format.grammar.syntax"}.get(field, field)
    return f"tools[{place}].custom.{inner}{rest}"
