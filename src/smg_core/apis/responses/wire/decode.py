"""A Responses request: bytes in, one `ResponsesRequest` out, or one error that names the parameter at fault.

Decides what every documented parameter becomes, and which are refused because nothing behind this API can honour them. A request
that continues a stored history is decoded in two parts: the body first, and with `continued` the messages, once the history's
items are loaded. Pure. Above: the server. Below: the wire types and their readers, request. It knows no store and no model.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from smg_core.apis.responses.wire.items import read_items
from smg_core.apis.responses.wire.names import ToolNames
from smg_core.apis.responses.wire.paths import responses_field
from smg_core.apis.responses.wire.stored_items import with_ids
from smg_core.apis.responses.wire.summaries import SummaryMessage
from smg_core.apis.responses.wire.tools import NO_TOOLS, read_format, read_tool_choice, read_tools
from smg_core.apis.responses.wire.types import (
    SUPPORTED_VALUES,
    ConfigurationUpdate,
    ContextManagement,
    ResponsesBody,
)
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import JsonObject
from smg_core.origin import SEALS_INCLUDED, WISHES_STRICT, Origin
from smg_core.request import (
    AskedCall,
    CompactRequest,
    GenerationRequest,
    HistoryRef,
    Message,
    Reasoning,
    ReasoningSettings,
    ResponseFormat,
    Sampling,
    Text,
)
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder, too_many
from smg_core.wire.fields import read_metadata, read_own_fields, read_template_arguments
from smg_core.wire.item_ids import known_items
from smg_core.wire.sampling import read_sampling
from smg_core.wire.settings import LimitsConfig

__all__ = [
    "INCLUDE",
    "SEALED",
    "ResponsesRequest",
    "check_include",
    "continued",
    "decode_responses",
    "of_body",
    "read_body",
]

_OWN = {"prompt_cache_retention": "prompt_cache_retention"}
SEALED = "reasoning.encrypted_content"
INCLUDE = frozenset(
    {
        SEALED,
        "message.output_text.logprobs",
        "message.input_image.image_url",
        "web_search_call.action.sources",
        "web_search_call.results",
        "file_search_call.results",
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
    }
)
"""The values of `include`. Those of hosted tools are taken and have nothing to include."""
_DECODER = WireDecoder(ResponsesBody, SUPPORTED_VALUES)
ORIGIN = Origin("responses", traits=frozenset({WISHES_STRICT, SEALS_INCLUDED}), seals="responses.reasoning")
_UNSUPPORTED = ("prompt", "moderation", "access_programs")
_NO_SUMMARIES: Mapping[str, tuple[SummaryMessage, ...]] = {}


_LOADED = frozenset({"item_reference", "compaction"})
"""The types of items that stand for something that has to be loaded."""


class ResponsesRequest(Struct, frozen=True):
    """One decoded request: what to generate, and what the encoders and the store need.

    `items` are the request's own input items as they are stored, `loaded` how many items of the history stand before them in
    `generation`. `names` are the tools' names before the model, `not_offered` the types of tools that it is not offered. `places`
    has the field that each message and part was read from. `summarized` shows reasoning as a summary, `seals` sends it sealed;
    `logprobs` reports them; `compacts` asks for a compaction instead of a turn; `of_the_user` are the user's messages, with
    which the answer of /v1/responses/compact begins. `known` are the ids of own items that stand in the conversation already.
    `hosted` are the types of tools that run here; `approved` are calls of theirs that the user agrees to, `refused` those
    that the user does not agree to, `listed` the labels of the servers whose tools the client was told. `waits_for_history`:
    items have to be loaded before the request is whole. `remembered`: its connection can go on with the response.
    """

    generation: GenerationRequest
    body: ResponsesBody
    items: tuple[JsonObject, ...] = ()
    names: ToolNames = ToolNames()
    not_offered: tuple[str, ...] = ()
    places: tuple[tuple[str, tuple[str, ...]], ...] = ()
    loaded: int = 0
    limits: LimitsConfig = LimitsConfig()
    compacts: bool = False
    of_the_user: tuple[JsonObject, ...] = ()
    known: frozenset[str] = frozenset()
    hosted: frozenset[str] = frozenset()
    approved: tuple[AskedCall, ...] = ()
    refused: tuple[AskedCall, ...] = ()
    listed: frozenset[str] = frozenset()
    waits_for_history: bool = False
    remembered: bool = False

    @property
    def history(self) -> HistoryRef:
        return self.generation.history

    @property
    def store(self) -> bool:
        """Whether the response is kept; it is unless the client says otherwise."""
        return self.generation.history.store is not False

    @property
    def verbatim(self) -> str:
        """The API in whose own words a provider may be heard: none where the gateway keeps the response under an id of its own,
        or does more for it than pass it on."""
        kept = self.store or self.remembered or self.generation.background or self.history.previous_id is not None
        kept = kept or self.history.conversation_id is not None or self.compacts or not self.generation.generate
        plain = all(tool.get("type") in ("function", "custom") for tool in self.body.tools or ())
        return "" if kept or not plain or self.obfuscate or self.generation.compact is not None else "responses"

    @property
    def summarized(self) -> bool:
        return self.generation.reasoning.visible == "summary"

    @property
    def seals(self) -> bool:
        return SEALED in self.generation.include

    @property
    def logprobs(self) -> bool:
        return "message.output_text.logprobs" in self.generation.include

    @property
    def obfuscate(self) -> bool:
        options = self.body.stream_options
        return options is not None and options.include_obfuscation is True

    def locate(self, path: str) -> str:
        """The field of the body that `path` in `generation` was read from."""
        return responses_field(path, self.generation, self.names, self.places)


def decode_responses(incoming: Incoming) -> ResponsesRequest:
    """Decode the body of `incoming`, with its id, headers and caller.

    Raises `PayloadTooLarge`, `InvalidJson`, `UnsupportedParameter` or `InvalidRequest`; their param is a field of the body.
    """
    return of_body(read_body(incoming), incoming)


def read_body(incoming: Incoming) -> ResponsesBody:
    """The body alone. Raises as `decode_responses` does."""
    return _DECODER.decode(incoming.body, incoming.limits, incoming.compat)


def of_body(wire: ResponsesBody, incoming: Incoming, *, compacts: bool = False) -> ResponsesRequest:
    """The same for a body that is read already; `incoming` has the rest of the request. `compacts`: it asks for a compaction,
    whatever its items say."""
    limits, size = incoming.limits, len(incoming.body)
    _refuse_unsupported(wire)
    items = with_ids(wire.input or [], incoming.request_id.partition("_")[2] or incoming.request_id)
    if len(items) > limits.messages:
        raise too_many("input", len(items), limits.messages, "items")
    history = _history(wire)
    if not items and history.previous_id is None and history.conversation_id is None:
        raise InvalidRequest("Missing required parameter: 'input'.", param="input", code="missing_required_parameter")
    generation = GenerationRequest(
        id=incoming.request_id,
        written=incoming.kept_body,
        own_fields=read_own_fields(wire, _OWN) if wire.prompt_cache_retention is not None else {},
        model=wire.model,
        response_format=read_format(wire.text.format if wire.text else None, limits, size),
        sampling=_sampling(wire, limits),
        reasoning=_reasoning(wire),
        stream=wire.stream is True,
        history=history,
        template_arguments=read_template_arguments(
            wire.chat_template_kwargs, wire.text.verbosity if wire.text else None, limits
        ),
        user=wire.safety_identifier or wire.user or None,
        cache_key=wire.prompt_cache_key,
        cache_salt=wire.cache_salt,
        service_tier=wire.service_tier,
        metadata=read_metadata(wire.metadata, limits) if wire.metadata else {},
        headers=incoming.headers,
        background=wire.background is True,
        include=_include(wire),
        truncation=wire.truncation,
        max_tool_calls=wire.max_tool_calls,
        generate=compacts or _generates(wire),
        compact=_compact(wire.context_management) if wire.context_management else None,
        origin=ORIGIN,
        caller=incoming.caller,
        size=size,
    )
    waits = history.previous_id is not None or history.conversation_id is not None
    waits = waits or not _LOADED.isdisjoint([item["type"] for item in items])
    request = ResponsesRequest(
        generation,
        wire,
        tuple(items),
        limits=limits,
        compacts=compacts,
        hosted=incoming.hosted,
        waits_for_history=waits,
    )
    return request if waits else continued(request)


def continued(
    request: ResponsesRequest,
    history: Sequence[JsonObject] = (),
    summaries: Mapping[str, tuple[SummaryMessage, ...]] = _NO_SUMMARIES,
    referred: Mapping[str, JsonObject] | None = None,
) -> ResponsesRequest:
    """The request with its messages: those of the items of `history`, then its own. `summaries` has what sealed compactions say,
    `referred` the items that its references name."""
    wire, limits, own = request.body, request.limits, list(request.items)
    if referred:
        own = [referred.get(str(item.get("id")), item) if item["type"] == "item_reference" else item for item in own]
    items = [*history, *own]
    listed = [(f"tools[{order}]", tool) for order, tool in enumerate(wire.tools)] if wire.tools else []
    first = read_tools(listed, limits, request.generation.size, request.hosted) if listed else NO_TOOLS
    read = read_items(
        items,
        limits=limits,
        names=first.names,
        loaded=len(history),
        loaded_at="previous_response_id" if request.history.conversation_id is None else "conversation",
        summaries=summaries,
        text_input=isinstance(wire.input, str),
        hosted=first.labels if first.servers else frozenset(),
    )
    tools = first
    if read.tools:
        tools = read_tools([*listed, *read.tools], limits, request.generation.size, request.hosted)
    tools = tools.with_found(items) if tools.servers else tools
    messages, places = read.messages, read.places
    if wire.instructions:
        messages = (Message("system", (Text(wire.instructions),), content_is_text=True), *messages)
        places = (("instructions", ("instructions",)), *places)
    reasoning, wanted = request.generation.reasoning, request.generation.response_format
    if read.update is not None:
        reasoning, wanted = _updated(request.generation, read.update, limits)
    messages = _without_earlier_reasoning(messages) if reasoning.keep == "current_turn" else messages
    generation = replace(
        request.generation,
        messages=messages,
        tools=tools.all,
        tool_choice=read_tool_choice(wire.tool_choice, wire.parallel_tool_calls, tools),
        reasoning=reasoning,
        response_format=wanted,
    )
    return replace(
        request,
        generation=generation,
        items=tuple(own),
        names=tools.names,
        not_offered=tools.not_offered,
        places=places,
        loaded=len(history),
        compacts=request.compacts or read.compact,
        approved=read.approved,
        refused=read.refused,
        listed=read.listed,
        of_the_user=tuple(item for item in items if item.get("role") == "user") if request.compacts else (),
        known=_standing(request, own, history) if request.history.conversation_id is not None else frozenset(),
        waits_for_history=False,
    )


def _standing(request: ResponsesRequest, own: Sequence[JsonObject], history: Sequence[JsonObject]) -> frozenset[str]:
    """The ids of own items that stand in the conversation already."""
    referred_to = [item["type"] == "item_reference" for item in request.items]
    return known_items(own, referred_to, {str(item.get("id")): item for item in history})


# ------------------------------------------------------------------------------------------------------------ refusals


def _refuse_unsupported(wire: ResponsesBody) -> None:
    """Refuse parameters that nothing behind this API can honour."""
    for name in _UNSUPPORTED:
        if getattr(wire, name):
            raise _unsupported(name)
    if wire.reasoning is not None and wire.reasoning.mode not in (None, "standard"):
        raise _unsupported("reasoning.mode", f" with the value '{wire.reasoning.mode[:40]}'")
    if wire.image is not None and wire.image.context_compression == "enabled":
        raise _unsupported("image.context_compression", " with the value 'enabled'")
    options = wire.background_options
    if options is not None and options.completion_window not in (None, "soonest"):
        raise _unsupported("background_options.completion_window", f" with the value '{options.completion_window}'")
    if wire.background and wire.store is False:
        raise InvalidRequest("A response in the background is stored: 'store' cannot be false.", param="background")
    if wire.stream_options is not None and wire.stream is not True:
        raise InvalidRequest(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    if wire.stream_options is not None and wire.stream_options.include_usage is False:
        raise _unsupported("stream_options.include_usage", " with the value false")


def _unsupported(param: str, how: str = "") -> UnsupportedParameter:
    return UnsupportedParameter(f"Unsupported parameter: '{param}' is not supported on this server{how}.", param=param)


def _history(wire: ResponsesBody) -> HistoryRef:
    asked = wire.conversation
    conversation = asked if isinstance(asked, str) or asked is None else asked.id
    if wire.previous_response_id is not None and conversation is not None:
        raise InvalidRequest(
            "Only one of 'previous_response_id' and 'conversation' can be given.", param="previous_response_id"
        )
    return HistoryRef(wire.previous_response_id, conversation, wire.store)


def _generates(wire: ResponsesBody) -> bool:
    """Whether an answer is wanted; otherwise the prompt is to be put into the engine's cache and nothing else."""
    options = wire.prompt_cache_options
    return wire.generate is not False and (options is None or options.prewarm is not True)


def _compact(entries: Sequence[ContextManagement]) -> CompactRequest | None:
    """From how many tokens on the prompt is compacted before the turn; None where the client wants no compaction."""
    at = "context_management"
    for order, entry in enumerate(entries):
        if entry.type != "compaction":
            raise InvalidRequest(
                f"Invalid value for '{at}[{order}].type': {entry.type[:80]!r}. Supported values are: 'compaction'.",
                param=f"{at}[{order}].type",
                code="invalid_value",
            )
        if entry.compact_threshold is None:
            where = f"{at}[{order}].compact_threshold"
            raise InvalidRequest(
                f"Missing required parameter: '{where}'.", param=where, code="missing_required_parameter"
            )
    thresholds = [entry.compact_threshold for entry in entries if entry.compact_threshold is not None]
    return CompactRequest(min(thresholds)) if thresholds else None


def _include(wire: ResponsesBody) -> frozenset[str]:
    """What the answer is to have. What is not kept here the client has to send back, so its reasoning is sealed."""
    if wire.include:
        check_include(wire.include)
    return frozenset([*(wire.include or ()), *((SEALED,) if wire.store is False else ())])


def check_include(names: Sequence[str]) -> None:
    """Raise InvalidRequest for a name that `include` does not have, in a body or a query."""
    for order, name in enumerate(names):
        if name not in INCLUDE:
            known = ", ".join(map(repr, sorted(INCLUDE)))
            raise InvalidRequest(
                f"Invalid value for 'include[{order}]': {name[:80]!r}. Supported values are: {known}.",
                param=f"include[{order}]",
                code="invalid_value",
            )


# ------------------------------------------------------------------------------------------------------------- settings


def _sampling(wire: ResponsesBody, limits: LimitsConfig) -> Sampling:
    top = wire.top_logprobs
    if top is not None and top > limits.logprobs:
        raise InvalidRequest(
            f"Invalid 'top_logprobs': expected a value <= {limits.logprobs}, but got {top} instead.",
            param="top_logprobs",
            code="integer_above_max_value",
        )
    wants_logprobs = "message.output_text.logprobs" in (wire.include or ())
    logprobs = (top or 0) if wants_logprobs else None
    return read_sampling(wire, limits, max_tokens=wire.max_output_tokens, logprobs=logprobs)


def _reasoning(wire: ResponsesBody) -> ReasoningSettings:
    asked = wire.reasoning
    if asked is None:
        return ReasoningSettings()
    summary = asked.summary or asked.generate_summary
    visible: Literal["summary", "text"] = "text" if summary is None else "summary"
    keep: Literal["all", "current_turn"] | None = None
    if asked.context in ("all_turns", "current_turn"):
        keep = "all" if asked.context == "all_turns" else "current_turn"
    return ReasoningSettings(effort=asked.effort, visible=visible, keep=keep)


def _updated(
    generation: GenerationRequest, update: ConfigurationUpdate, limits: LimitsConfig
) -> tuple[ReasoningSettings, ResponseFormat]:
    """The settings with those of the last configuration_update among the items."""
    reasoning, wanted = generation.reasoning, generation.response_format
    if update.reasoning is not None and update.reasoning.effort is not None:
        reasoning = replace(reasoning, effort=update.reasoning.effort)
    if update.text is not None and update.text.format is not None:
        wanted = read_format(update.text.format, limits, generation.size)
    return reasoning, wanted


def _without_earlier_reasoning(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages without the reasoning that came before the last message of the user."""
    users = [place for place, message in enumerate(messages) if message.role == "user"]
    last = users[-1] if users else 0
    return tuple(
        replace(message, parts=tuple(part for part in message.parts if not isinstance(part, Reasoning)))
        if place < last and message.role == "assistant"
        else message
        for place, message in enumerate(messages)
    )
