"""The tools, the tool configuration and the response format of a generateContent request.

Pure. Above: gemini. Below: the wire types, gemini_schema, request.
"""

from collections.abc import Sequence

import msgspec

from smg_core.apis.gemini.schema import json_schema
from smg_core.apis.gemini.types import FunctionDeclaration, GeminiTool, GenerationConfig, ToolConfig
from smg_core.apis.google.built_in import BUILT_IN, google_tool
from smg_core.apis.google.mcp import MCP, server_of_tools
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import Json, JsonObject
from smg_core.request import (
    ChoiceFormat,
    FunctionTool,
    HostedTool,
    JsonFormat,
    ResponseFormat,
    SchemaFormat,
    TextFormat,
    ToolChoice,
)
from smg_core.wire.decoding import brief, check_depth, too_many
from smg_core.wire.named_elsewhere import refuse_named
from smg_core.wire.settings import LimitsConfig

__all__ = ["ReadTools", "read_function_choice", "read_functions", "read_mime_format"]

_TEXT = TextFormat()
_HOSTED = (
    "google_search",
    "google_search_retrieval",
    "code_execution",
    "url_context",
    "file_search",
    "google_maps",
    "computer_use",
    "mcp_servers",
)
_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}


class ReadTools(msgspec.Struct, frozen=True):
    """The functions that are declared, the field of the body for each, and the fields of tools that Google's servers run: those
    are not offered to the model, which answers without them. `servers` are those whose tools run here; their places stand behind
    those of the functions."""

    tools: tuple[FunctionTool, ...] = ()
    places: tuple[str, ...] = ()
    hosted: tuple[str, ...] = ()
    servers: tuple[HostedTool, ...] = ()

    @property
    def has_built_in(self) -> bool:
        """Whether some of the tools that run here are Google's own."""
        return any(server.config.get("built_in") is not None for server in self.servers)

    @property
    def not_offered(self) -> tuple[str, ...]:
        """The kinds of tools that are not offered, each once."""
        return tuple(dict.fromkeys(place.rpartition(".")[2] for place in self.hosted))


def read_functions(
    tools: Sequence[GeminiTool],
    config: ToolConfig | None,
    limits: LimitsConfig,
    size: int,
    runs_here: frozenset[str] = frozenset(),
) -> ReadTools:
    """The tools of a body, in order; `size` is its size in bytes, `runs_here` are the kinds of tools that run here."""
    calling = config.function_calling_config if config is not None else None
    strict = True if calling is not None and calling.mode == "VALIDATED" else None
    found: list[FunctionTool] = []
    places: list[str] = []
    hosted: list[str] = []
    servers: dict[str, HostedTool] = {}
    for place, tool in enumerate(tools):
        if MCP in runs_here and tool.mcp_servers is not None:
            for order, each in enumerate(tool.mcp_servers):
                at = f"tools[{place}].mcpServers[{order}]"
                servers[at] = server_of_tools(each, at, tuple(servers.values()))
            tool = msgspec.structs.replace(tool, mcp_servers=None)
        names = zip(tool.__struct_fields__, tool.__struct_encode_fields__, strict=True)
        for name, wire in names:
            if name in _HOSTED and (asked := getattr(tool, name)) is not None:
                if BUILT_IN.get(name) in runs_here and _built_in(name, asked, f"tools[{place}].{wire}", servers):
                    continue
                hosted.append(f"tools[{place}].{wire}")
                if name != "mcp_servers":
                    refuse_named(asked, hosted[-1])
        for order, declared in enumerate(tool.function_declarations or ()):
            at = f"tools[{place}].functionDeclarations[{order}]"
            found.append(_function(declared, at, strict, limits))
            places.append(at)
    if len(found) > limits.tools:
        raise too_many("tools", len(found), limits.tools, "functions")
    if size > limits.schema_bytes and found:
        _check_size([tool.parameters for tool in found], "tools", limits)
    return ReadTools(tuple(found), (*places, *servers), tuple(hosted), tuple(servers.values()))


def _built_in(name: str, asked: JsonObject, at: str, servers: dict[str, HostedTool]) -> bool:
    """Take in a tool of Google's own that runs here, once of each kind; returns whether it can be had."""
    made = google_tool(name, asked, at)
    if made is None:
        return False
    if all(
        each.config.get("built_in") is None or each.config["label"] != made.config["label"] for each in servers.values()
    ):
        servers[at] = made
    return True


def _function(declared: FunctionDeclaration, at: str, strict: bool | None, limits: LimitsConfig) -> FunctionTool:
    if declared.behavior == "NON_BLOCKING":
        raise _unsupported(f"{at}.behavior")
    if declared.parameters is not None and declared.parameters_json_schema is not None:
        raise InvalidRequest(
            f"Invalid value at '{at}': only one of parameters and parametersJsonSchema may be set.",
            param=f"{at}.parametersJsonSchema",
        )
    for name, value in (("parameters", declared.parameters), ("parametersJsonSchema", declared.parameters_json_schema)):
        check_depth([value], limits.json_depth, f"{at}.{name}")
    if declared.parameters is not None:
        parameters = json_schema(declared.parameters)
    elif declared.parameters_json_schema is not None:
        parameters = _schema_object(declared.parameters_json_schema, f"{at}.parametersJsonSchema")
    else:
        parameters = _NO_PARAMETERS
    return FunctionTool(declared.name, declared.description, parameters, strict)


def _schema_object(schema: Json, at: str) -> JsonObject:
    if not isinstance(schema, dict):
        raise InvalidRequest(f"Invalid value at '{at}': a schema is an object.", param=at)
    return schema


def _check_size(schema: object, param: str, limits: LimitsConfig) -> None:
    found = len(msgspec.json.encode(schema))
    if found > limits.schema_bytes:
        raise InvalidRequest(
            f"Invalid value at '{param}': {found} bytes, and at most {limits.schema_bytes} are taken.", param=param
        )


def read_function_choice(config: ToolConfig | None, read: ReadTools) -> ToolChoice:
    """Which of the functions may or must be called. A body that demands a call and has only tools of Google's servers is refused
    by the name of the first."""
    calling = config.function_calling_config if config is not None else None
    if calling is None:
        return ToolChoice()
    at = "toolConfig.functionCallingConfig"
    if calling.stream_function_call_arguments:
        raise _unsupported(f"{at}.streamFunctionCallArguments")
    mode, names = calling.mode, calling.allowed_function_names or []
    if names and mode not in ("ANY", "VALIDATED"):
        raise InvalidRequest(
            f"Invalid value at '{at}.allowedFunctionNames': it may be set only when the mode is ANY or VALIDATED.",
            param=f"{at}.allowedFunctionNames",
        )
    if mode == "NONE":
        return ToolChoice("none")
    if mode == "ANY" and not read.tools and not read.servers and read.hosted:
        raise _unsupported(read.hosted[0])
    if mode == "ANY" and not read.tools and not read.servers:
        raise InvalidRequest(f"Invalid value at '{at}.mode': ANY needs functions.", param=f"{at}.mode")
    keys = {tool.name: tool.key for tool in read.tools}
    for order, name in enumerate(names):
        if name not in keys:
            param = f"{at}.allowedFunctionNames[{order}]"
            raise InvalidRequest(f"Invalid value at '{param}': no function is named \"{brief(name)}\".", param=param)
    return ToolChoice("required" if mode == "ANY" else "auto", tuple(keys[name] for name in dict.fromkeys(names)))


def schema_field(config: GenerationConfig) -> str:
    """The field that the answer's schema is read from."""
    json_schema_given = config.response_schema is None and config.response_json_schema is not None
    return "generationConfig.responseJsonSchema" if json_schema_given else "generationConfig.responseSchema"


def read_mime_format(config: GenerationConfig, limits: LimitsConfig, size: int) -> ResponseFormat:
    """The format that the answer is held to; `size` is the body's, in bytes."""
    kind = config.response_mime_type or ""
    if config.response_schema is not None and config.response_json_schema is not None:
        raise InvalidRequest(
            "Invalid value at 'generationConfig.responseJsonSchema': only one of it and responseSchema may be set.",
            param="generationConfig.responseJsonSchema",
        )
    at = schema_field(config)
    given = config.response_schema if config.response_schema is not None else config.response_json_schema
    check_depth([given], limits.json_depth, at)
    if given is not None and size > limits.schema_bytes:
        _check_size(given, at, limits)
    if kind == "text/x.enum":
        return _choice(given, at, limits)
    if kind not in ("", "text/plain", "application/json"):
        param = "generationConfig.responseMimeType"
        raise InvalidRequest(
            f"Invalid value at '{param}': allowed mimetypes are `text/plain`, `application/json` and `text/x.enum`.",
            param=param,
        )
    if given is None:
        return JsonFormat() if kind == "application/json" else _TEXT
    if kind == "text/plain":
        raise InvalidRequest(f"Invalid value at '{at}': a schema needs the mimetype `application/json`.", param=at)
    schema = json_schema(config.response_schema) if config.response_schema is not None else _schema_object(given, at)
    return SchemaFormat(schema)


def _choice(schema: Json, at: str, limits: LimitsConfig) -> ResponseFormat:
    values = schema.get("enum") if isinstance(schema, dict) else None
    texts = [each for each in values if isinstance(each, str)] if isinstance(values, list) else []
    if not texts or not isinstance(values, list) or len(texts) != len(values):
        raise InvalidRequest(f"Invalid value at '{at}': `text/x.enum` needs a schema with an enum of texts.", param=at)
    if len(texts) > limits.choices:
        raise too_many(f"{at}.enum", len(texts), limits.choices, "values")
    return ChoiceFormat(tuple(texts))


def _unsupported(at: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"Invalid value at '{at}': it is not supported on this server.", param=at)
