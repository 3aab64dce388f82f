"""From a path in `GenerationRequest` to the field of a Responses body.

Errors from behind the decoder name a faulty field as a path in `GenerationRequest`; a client knows only its own body.
Messages and parts were read from items, and the reader noted where each stood. Pure. Above: responses. Below: request.
"""

import re
from collections.abc import Mapping, Sequence

from smg_core.apis.responses.wire.names import ToolNames
from smg_core.request import GenerationRequest

__all__ = ["responses_field"]

_FIELDS: Mapping[str, str] = {
    "cache_key": "prompt_cache_key",
    "compact.over_tokens": "context_management",
    "history.store": "store",
    "history.previous_id": "previous_response_id",
    "history.conversation_id": "conversation",
    "messages": "input",
    "prompt": "input",
    "sampling.max_tokens": "max_output_tokens",
    "sampling.logprobs": "top_logprobs",
    "response_format": "text.format",
    "template": "chat_template",
    "tool_choice.parallel": "parallel_tool_calls",
}
"""Paths whose fields have another name in Responses."""
_MESSAGE = re.compile(r"messages\[(\d+)\](?:\.parts(?:\[(\d+)\](?:\.content(\[\d+\])?)?)?)?.*")
_TOOL = re.compile(r"tools\[(\d+)\](.*)")
_TOOL_FIELDS: Mapping[str, str] = {".grammar": ".format.definition", ".syntax": ".format.syntax"}


def responses_field(
    path: str,
    request: GenerationRequest,
    names: ToolNames,
    places: Sequence[tuple[str, tuple[str, ...]]],
) -> str:
    """The field of the body that `path` in `request` was read from. `names` and `places` are those of `ResponsesRequest`."""
    known = _FIELDS.get(path)
    if known is not None:
        return known
    root, dot, rest = path.partition(".")
    if root in ("sampling", "extra", "headers"):
        return rest
    if root == "template_arguments":
        return f"chat_template_kwargs{dot}{rest}"
    if root == "response_format":
        return f"text.format.{rest}"
    if root.startswith("tool_choice"):
        return "tool_choice"
    if (tool := _TOOL.fullmatch(path)) is not None:
        return names.place(int(tool[1])) + _TOOL_FIELDS.get(tool[2], tool[2])
    if (found := _MESSAGE.fullmatch(path)) is not None:
        return _in_item(found, places)
    return path


def _in_item(found: re.Match[str], places: Sequence[tuple[str, tuple[str, ...]]]) -> str:
    place, order, inner = found.groups()
    if int(place) >= len(places):
        return "input"
    at, parts = places[int(place)]
    if order is None or int(order) >= len(parts):
        return at
    return parts[int(order)] + (inner or "")
