"""Writes into messages what chat templates and chat servers have no field for.

A tool's result that is an error says so in its text. Thinking that is wanted after results of tools alone is switched on or off,
by the turn that the answer follows. Pure. Above: preparing. Below: request.
"""

from msgspec.structs import replace

from smg_core.request import GenerationRequest, Message, Part, Text, ToolResult

__all__ = ["with_inline_notes"]


def with_inline_notes(request: GenerationRequest) -> GenerationRequest:
    """The request in words that every engine knows; the same object for most."""
    for message in request.messages:
        if message.role == "tool" and any(map(_failed, message.parts)):
            request = replace(request, messages=tuple([_with_errors(message) for message in request.messages]))
            break
    if request.reasoning.between_tools:
        reasoning = replace(request.reasoning, enabled=_follows_result(request), between_tools=False)
        request = replace(request, reasoning=reasoning)
    return request


def _failed(part: Part) -> bool:
    """Whether it is an error that says so in a flag alone: a result with a value has it in there."""
    return isinstance(part, ToolResult) and part.is_error and part.value is None


def _with_errors(message: Message) -> Message:
    if message.role != "tool" or not any(map(_failed, message.parts)):
        return message
    parts = [_with_note(part) if isinstance(part, ToolResult) and _failed(part) else part for part in message.parts]
    return replace(message, parts=tuple(parts))


def _with_note(result: ToolResult) -> ToolResult:
    """The result with the word before its first text; one without text gets it at its end, so that all else stays in place."""
    content = list(result.content)
    for order, part in enumerate(content):
        if isinstance(part, Text):
            content[order] = replace(part, text=f"Error: {part.text}")
            break
    else:
        content.append(Text("Error"))
    return replace(result, content=tuple(content))


def _follows_result(request: GenerationRequest) -> bool:
    """Whether the tools have been heard since the model last spoke."""
    for message in reversed(request.messages):
        if message.role == "assistant":
            return False
        if any(isinstance(part, ToolResult) for part in message.parts):
            return True
    return False
