"""The APIs' own tools that run here: what a model is offered of each, what is wrong with a call, and what it gets of a result.

Pure. Above: pipeline.tools.offers and loop. Below: the records of pipeline.tools.hosted; sources.
"""

from collections.abc import Iterable, Sequence

import msgspec

from smg_core.built_in import BuiltIn, FaultCode
from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.tools.hosted import HostedResult, ServerTool
from smg_core.request import Message, Text, ToolResult
from smg_core.sources import CITE_HOW, between_marks, marked

__all__ = ["CODE", "IMAGE", "action_of", "built_in_fault", "built_in_functions", "cited_text"]

_QUERY = 1000
_ADDRESS = 2048
_CODE = 200_000
_PROMPT = 32_000
CODE, IMAGE = "code_interpreter", "image_generation"
"""The names that the model knows the tools by that run code and make pictures."""
_URL: JsonObject = {"type": "string", "description": "The address, beginning with https:// or http://."}


_BOUNDS = (("query", _QUERY), ("url", _ADDRESS), ("code", _CODE), ("prompt", _PROMPT))
_OF_CODE = (
    "Runs Python, and gives what it prints and the value of its last expression. Variables stay from call to call. Files lie in "
    "/mnt/data, where the user's are too. There is no network."
)


def built_in_functions(asked: BuiltIn) -> tuple[ServerTool, ...]:
    """What the model is offered."""
    if asked.kind == "code":
        return (ServerTool(CODE, _OF_CODE, _schema(code={"type": "string", "description": "Python."})),)
    if asked.kind == "image":
        return (ServerTool(IMAGE, _OF_PICTURES[asked.action], _picture_schema(asked)),)
    hints = {"readOnlyHint": True}
    if asked.kind == "web_fetch":
        only = " Only addresses that stand in the conversation can be read." if asked.named else ""
        description = f"Reads a page of the web, and gives its text.{only}"
        return (ServerTool("web_fetch", description, _schema(url=_URL), hints),)
    query: JsonObject = {"type": "string", "description": "What to look for, in words.", "maxLength": _QUERY}
    if asked.kind == "file_search":
        description = "Searches the user's files, and gives the parts of them that fit the query best."
        return (ServerTool("file_search", description, _schema(query=query), hints),)
    description = "Searches the web. Gives addresses, titles and what is said of each."
    if asked.place:
        description += f" The user is in {asked.place}."
    found = [ServerTool("web_search", description, _schema(query=query), hints)]
    if asked.opens:
        pattern: JsonObject = {"type": "string", "description": "Give only what stands around these words."}
        opening = _schema(url=_URL, pattern=pattern)
        opening["required"] = ["url"]
        found.append(ServerTool("web_open_page", "Reads a page that a search has found.", opening, hints))
    return tuple(found)


_OF_PICTURES = {
    "generate": "Makes a picture of what the prompt says, and shows it to the user.",
    "edit": "Changes the pictures of the conversation as the prompt says, and shows the result to the user.",
    "auto": "Makes a picture of what the prompt says, or changes those of the conversation, and shows it to the user.",
}


def _picture_schema(asked: BuiltIn) -> dict[str, Json]:
    schema = _schema(prompt={"type": "string", "description": "What is to be seen, in words.", "maxLength": _PROMPT})
    if asked.action == "auto" and asked.pictures:
        edit: JsonObject = {"type": "boolean", "description": "True to change the pictures of the conversation."}
        schema = _schema(prompt={"type": "string", "maxLength": _PROMPT}, edit=edit)
        schema["required"] = ["prompt"]
    return schema


def _schema(**properties: JsonObject) -> dict[str, Json]:
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


def action_of(name: str, arguments: str) -> JsonObject:
    """What a call does, as the APIs tell it: a search with its query, a page that is opened, or words looked for in one."""
    try:
        read = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        read = None
    found = read if isinstance(read, dict) else {}
    if name == CODE:
        return {"type": "code", "code": _text(found.get("code"))}
    if name == IMAGE:
        return {"type": "image", "prompt": _text(found.get("prompt"))}
    if name in ("web_search", "file_search"):
        return {"type": "search", "query": _text(found.get("query"))}
    url, pattern = _text(found.get("url")), _text(found.get("pattern"))
    return {"type": "find_in_page", "url": url, "pattern": pattern} if pattern else {"type": "open_page", "url": url}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def built_in_fault(
    asked: BuiltIn, name: str, arguments: str, used: int, messages: Sequence[Message]
) -> tuple[str, FaultCode] | None:
    """Why a call is not made, in words for the model and by its code; None where it is. `used` counts calls of this tool before
    it, `messages` are the conversation."""
    action = action_of(name, arguments)
    if asked.uses is not None and used >= asked.uses:
        return f"This tool may be used {asked.uses} times in one answer, and it was.", "most_uses"
    argument, most = next(each for each in _BOUNDS if each[0] in action)
    words = action[argument]
    if not isinstance(words, str) or not words.strip():
        return f"The argument '{argument}' has to be a text.", "invalid_input"
    if len(words) > most:
        return f"The argument has {len(words)} characters, and at most {most} are taken.", "too_long"
    if asked.named and "url" in action and not _is_named(words, messages):
        return "This address stands nowhere in the conversation, so it was not read.", "not_named"
    return None


def _is_named(url: str, messages: Sequence[Message]) -> bool:
    """Whether the user, or a result of a tool, has named the address: a model that was led astray may put what it knows into
    one."""
    bare = url.rstrip("/")
    return any(bare in text for text in _texts(messages))


def _texts(messages: Sequence[Message]) -> Iterable[str]:
    for message in messages:
        if message.role == "assistant":
            continue
        for part in message.parts:
            if isinstance(part, Text):
                yield part.text
            elif isinstance(part, ToolResult):
                yield from (each.text for each in part.content if isinstance(each, Text))


def cited_text(result: HostedResult, before: int) -> str:
    """What the model gets of a result with sources, of which `before` are there already."""
    what = "the user's files" if result.call.name == "file_search" else "pages of the web"
    return f"{CITE_HOW}\n{between_marks(marked(result.sources, before), what)}"
