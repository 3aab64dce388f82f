"""An Interactions request: bytes in, one `InteractionRequest` out, or one error that names the field at fault.

There are two wire revisions. A request is of the one that its `Api-Revision` header says, else of its path's: steps under
`/v1`, the earlier one elsewhere. Bodies of both are read alike; answers differ. Every documented field is honoured or refused
by name; labels, safety settings and the service tier are taken and change nothing. A request that continues an interaction is
decoded in two parts: the body first, and with `continued_interaction` the messages, once the earlier steps are loaded.

Pure. Above: the server. Below: the wire types and their readers, request. It knows no store and no model.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from smg_core.apis.google.places import part_place, tool_place
from smg_core.apis.google.proto_json import ProtoJsonDecoder
from smg_core.apis.interactions.formats import read_interaction_format
from smg_core.apis.interactions.steps import PREVIOUS, PlacedStep, placed_steps, read_steps
from smg_core.apis.interactions.tools import read_interaction_choice, read_interaction_tools, tools_not_offered
from smg_core.apis.interactions.types import InteractionBody, InteractionConfig
from smg_core.errors import InvalidRequest, NotFound, UnsupportedParameter
from smg_core.json_types import JsonObject
from smg_core.origin import Origin
from smg_core.request import GenerationRequest, HistoryRef, Message, ReasoningSettings, Sampling, Text, Tool, ToolChoice
from smg_core.wire.base import Incoming
from smg_core.wire.sampling import read_stop, read_top_p
from smg_core.wire.settings import LimitsConfig

__all__ = [
    "REVISION_HEADER",
    "STEPS_FROM",
    "InteractionRequest",
    "Revision",
    "continued_interaction",
    "interaction_decoder",
    "revision_of",
]

ORIGIN = Origin("interactions", seals="gemini.thought")

Revision = Literal["steps", "legacy"]
REVISION_HEADER = "api-revision"
STEPS_FROM = "2026-05-20"
"""The first value of the header that means steps."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_DECODER = ProtoJsonDecoder(InteractionBody)
_NO_CONFIG = InteractionConfig()
_UNSUPPORTED = ("agent_config", "continuation_token", "environment", "webhook_config")
_UNSUPPORTED_CONFIG = ("speech_config", "image_config", "video_config", "transcription_config")


class InteractionRequest(Struct, frozen=True):
    """One decoded request. `steps` are its own as they are stored, `placed` the same with their fields of the body. `places` has
    the field for each part of each message, `tool_places` for each tool; `not_offered` are the kinds of tools that the model is
    not offered."""

    generation: GenerationRequest
    body: InteractionBody
    placed: tuple[PlacedStep, ...] = ()
    places: tuple[tuple[str, ...], ...] = ()
    tool_places: tuple[str, ...] = ()
    limits: LimitsConfig = LimitsConfig()
    not_offered: tuple[str, ...] = ()

    @property
    def revision(self) -> Revision:
        """The wire revision of the answer."""
        origin = self.generation.origin
        return "legacy" if origin is not None and origin.revision == "legacy" else "steps"

    @property
    def steps(self) -> list[JsonObject]:
        return [each.step for each in self.placed]

    @property
    def store(self) -> bool:
        """Whether the interaction is kept; it is unless the client says otherwise."""
        return self.generation.history.store is not False

    @property
    def shows_thoughts(self) -> bool:
        """Whether the answer has the model's thoughts in it."""
        return self.generation.reasoning.visible == "text"

    def locate(self, path: str) -> str:
        """The field of the body that `path` in `generation` was read from."""
        known = _FIELDS.get(path)
        if known is not None:
            return known
        root, _, rest = path.partition(".")
        if root == "sampling":
            return f"generation_config.{rest}"
        if root.startswith("messages["):
            return part_place(path, self.places, "input")
        tool = tool_place(path, self.tool_places)
        return tool or _ROOTS.get(root, rest if root == "headers" else path)


_FIELDS: Mapping[str, str] = {
    "sampling.max_tokens": "generation_config.max_output_tokens",
    "sampling.stop": "generation_config.stop_sequences",
    "reasoning.effort": "generation_config.thinking_level",
    "reasoning.visible": "generation_config.thinking_summaries",
    "history.previous_id": PREVIOUS,
}
"""Paths whose fields have another name in this API."""
_ROOTS: Mapping[str, str] = {
    "messages": "input",
    "prompt": "input",
    "tools": "tools",
    "tool_choice": "generation_config.tool_choice",
    "response_format": "response_format",
    "reasoning": "generation_config.thinking_level",
}


_ANY_CHOICE = ToolChoice()


def revision_of(headers: Mapping[str, str], usual: Revision) -> Revision:
    """The wire revision that the headers ask for, `usual` where they say nothing. Raises InvalidRequest."""
    asked = headers.get(REVISION_HEADER)
    if asked is None:
        return usual
    if _DATE.fullmatch(asked) is None:
        raise InvalidRequest(
            "Invalid value at 'Api-Revision': a revision is a date, as 2026-05-20.", param="Api-Revision"
        )
    return "steps" if asked >= STEPS_FROM else "legacy"


def interaction_decoder(usual: Revision) -> Callable[[Incoming], InteractionRequest]:
    """The decoder of a path whose revision is `usual`. It raises `PayloadTooLarge`, `InvalidJson`, `NotFound`,
    `UnsupportedParameter` or `InvalidRequest`; their param is a field of the body."""
    return lambda incoming: _decoded(incoming, usual)


def _decoded(incoming: Incoming, usual: Revision) -> InteractionRequest:
    wire, limits = _DECODER.decode(incoming.body, incoming.limits, incoming.compat), incoming.limits
    config, size = wire.generation_config or _NO_CONFIG, len(incoming.body)
    model = _refuse_unsupported(wire, config)
    placed = placed_steps(wire.input, limits) if wire.input is not None else []
    if not placed:
        raise InvalidRequest("input: the field is required", param="input")
    tools: tuple[Tool, ...] = ()
    tool_places: tuple[str, ...] = ()
    if wire.tools:
        tools, tool_places = read_interaction_tools(wire.tools, config, limits, size, incoming.hosted)
    generation = GenerationRequest(
        id=incoming.request_id,
        model=model,
        tools=tools,
        tool_choice=_ANY_CHOICE if not tools and config.tool_choice is None else read_interaction_choice(config, tools),
        response_format=read_interaction_format(wire, limits, size),
        sampling=_sampling(config, limits),
        reasoning=ReasoningSettings(
            effort=config.thinking_level, visible="text" if config.thinking_summaries == "auto" else "none"
        ),
        stream=wire.stream is True,
        history=HistoryRef(wire.previous_interaction_id, None, wire.store),
        background=wire.background is True,
        headers=incoming.headers,
        origin=replace(ORIGIN, revision=revision_of(incoming.headers, usual)),
        caller=incoming.caller,
        size=size,
    )
    request = InteractionRequest(
        generation,
        wire,
        tuple(placed),
        tool_places=tool_places,
        limits=limits,
        not_offered=tools_not_offered(wire.tools, incoming.hosted) if wire.tools else (),
    )
    return request if wire.previous_interaction_id is not None else continued_interaction(request, ())


def continued_interaction(request: InteractionRequest, earlier: Sequence[JsonObject]) -> InteractionRequest:
    """The request with its messages: those of the steps of `earlier` interactions, then its own. Raises `InvalidRequest` and
    `UnsupportedParameter`."""
    read = read_steps(earlier, request.placed, request.limits)
    messages, places = read.messages, read.places
    if request.body.system_instruction:
        system = Message("system", (Text(request.body.system_instruction),), content_is_text=True)
        messages, places = (system, *messages), (("system_instruction",), *places)
    if not messages or (messages[-1].role == "system" and all(message.role == "system" for message in messages)):
        raise InvalidRequest("input: the field is required", param="input")
    return replace(request, generation=replace(request.generation, messages=messages), places=places)


def _refuse_unsupported(wire: InteractionBody, config: InteractionConfig) -> str:
    """Refuse what nothing behind this API can honour; returns the model."""
    if wire.agent is not None:
        raise _unsupported("agent")
    for name in _UNSUPPORTED:
        if getattr(wire, name) is not None:
            raise _unsupported(name)
    if wire.cached_content is not None:
        raise NotFound(f"CachedContent not found: {wire.cached_content[:80]}", param="cached_content")
    for name in _UNSUPPORTED_CONFIG:
        if getattr(config, name) is not None:
            raise _unsupported(f"generation_config.{name}")
    for place, modality in enumerate(wire.response_modalities or ()):
        if modality != "text":
            raise _unsupported(f"response_modalities[{place}]")
    if wire.background and wire.store is False:
        raise InvalidRequest(
            "Invalid value at 'background': an interaction in the background is stored: store cannot be false.",
            param="background",
        )
    if not wire.model:
        raise InvalidRequest("model: the field is required", param="model")
    return wire.model


def _sampling(config: InteractionConfig, limits: LimitsConfig) -> Sampling:
    stop = config.stop_sequences
    return Sampling(
        max_tokens=config.max_output_tokens,
        temperature=config.temperature,
        top_p=read_top_p(config.top_p),
        seed=config.seed,
        stop=read_stop(stop, limits, "generation_config.stop_sequences") if stop else (),
    )


def _unsupported(at: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"Invalid value at '{at}': it is not supported on this server.", param=at)
