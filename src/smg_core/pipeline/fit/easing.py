"""Makes the request that is asked once more where an engine rejects a schema that nobody is bound to.

A client may send a schema that need not be kept: a format or a function without `strict`. Engines are told it all the same,
since answers are better for it, and engines differ in what they can compile: one that cannot calls the request invalid. The same
request is then asked without that schema. Pure. Above: flow. Below: the records.
"""

import msgspec
from msgspec.structs import replace

from smg_core.engines.base import EngineFacts
from smg_core.errors import EngineRejected
from smg_core.origin import WISHES_STRICT
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.request import FunctionTool, GenerationRequest, ResponseFormat, SchemaFormat, TextFormat, Tool, has_trait

__all__ = ["eased", "eased_for_chat"]


def eased(prompted: Prompted, turn: Turn, facts: EngineFacts) -> Prompted | None:
    """`prompted` without the schemas that do not bind, after an engine of these `facts` has rejected it before anything came of
    the turn. None where it has none, so that the refusal is the client's."""
    if prompted.eased or not isinstance(turn.error, EngineRejected) or turn.begun or turn.received:
        return None
    request = prompted.request
    wished = _wished(request.response_format)
    if not wished and not _may_be_eased(request, facts):
        return None
    if wished and isinstance(request.response_format, SchemaFormat):
        request = replace(request, response_format=replace(request.response_format, strict=False, strength="none"))
    check = None if wished else prompted.check
    return replace(prompted, request=request, check=check, eased=True, fits=[])


def eased_for_chat(request: GenerationRequest) -> GenerationRequest:
    """The request as a server that speaks chat is asked it then: its tools' schemas stand in their descriptions."""
    asked = request.response_format
    free = isinstance(asked, SchemaFormat) and asked.strength == "none"
    forced = request.tool_choice.mode == "required"
    return replace(
        request,
        response_format=TextFormat() if free else asked,
        tools=tuple([_described(tool) if forced and _is_free(tool) else tool for tool in request.tools]),
    )


def _wished(asked: ResponseFormat) -> bool:
    return (
        isinstance(asked, SchemaFormat)
        and asked.strength != "none"
        and not (asked.strict and asked.strength == "bound")
    )


def _may_be_eased(request: GenerationRequest, facts: EngineFacts) -> bool:
    """Whether the engine was told the schema of a function that need not be kept: in a call that is demanded, and where the
    gateway wished for it."""
    mode = request.tool_choice.mode
    demanded = mode == "required" or (mode == "auto" and facts.takes_ids and has_trait(request, WISHES_STRICT))
    return demanded and any(map(_is_free, request.tools))


def _is_free(tool: Tool) -> bool:
    return isinstance(tool, FunctionTool) and not tool.strict and bool(tool.parameters)


def _described(tool: Tool) -> Tool:
    """The function with its schema in words, where no engine reads it as one."""
    if not isinstance(tool, FunctionTool):
        return tool
    schema = msgspec.json.encode(tool.parameters).decode()
    schema_words = f"Its arguments are an object of this JSON schema: {schema}"
    description = f"{tool.description}\n{schema_words}" if tool.description else schema_words
    return replace(tool, description=description, parameters={"type": "object"})
