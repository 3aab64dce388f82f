"""A Messages request, or one of count_tokens: bytes in, one `MessagesRequest` out, or one error that names the field at fault.

Decides what every documented parameter becomes in a `GenerationRequest`, and which are refused because nothing behind this API
can honour them. Clients of this API send fields and blocks of betas that they do without where a server lacks them, so what is
not known is passed over, with a warning in the log, and never refused.

Above: the server. Below: the wire types and their readers, request. It knows no model, engine or template.
"""

from msgspec import Struct
from msgspec.structs import replace

from smg_core.apis.messages import types as wire
from smg_core.apis.messages.built_in import container_id
from smg_core.apis.messages.compaction import read_compaction
from smg_core.apis.messages.content import Conversation, Place, check_calls
from smg_core.apis.messages.edits import read_edits
from smg_core.apis.messages.mcp import servers_of_tools
from smg_core.apis.messages.tools import OfferedTools, read_tool_choice, read_tools, with_servers
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import Json
from smg_core.origin import KEEPS_BUDGET, REMINDERS, SEALS_DIGEST, Origin
from smg_core.request import (
    GenerationRequest,
    Message,
    Reasoning,
    ReasoningSettings,
    ResponseFormat,
    Sampling,
    SchemaFormat,
    Text,
    TextFormat,
)
from smg_core.wire.base import Incoming
from smg_core.wire.compat import Compat
from smg_core.wire.decoding import WireDecoder, plain_body, too_many
from smg_core.wire.fields import read_own_fields
from smg_core.wire.sampling import read_top_k, read_top_p
from smg_core.wire.settings import LimitsConfig, MessagesConfig

__all__ = ["MessagesRequest", "decode_count", "decode_messages"]

_OWN_OF_COUNTS = {"speed": "speed", "cache_control": "cache_control"}
_OWN = {**_OWN_OF_COUNTS, "inference_geo": "inference_geo"}
ORIGIN = Origin(
    "messages", traits=frozenset({KEEPS_BUDGET, REMINDERS, SEALS_DIGEST}), seals="messages.thinking", calls="toolu_"
)

_CREATE = WireDecoder(wire.MessagesBody, wire.SUPPORTED_VALUES)
_COUNT = WireDecoder(wire.CountBody, wire.SUPPORTED_VALUES)
_TAKEN = Compat("vllm")
"""Fields that the types do not have are passed over, each with one warning."""
_LEAST_BUDGET = 1024
_FIELDS = {
    "tool_choice": "tool_choice",
    "reasoning.budget_tokens": "thinking.budget_tokens",
    "reasoning.effort": "output_config.effort",
    "reasoning.enabled": "thinking.type",
    "sampling.stop": "stop_sequences",
    "sampling.max_tokens": "max_tokens",
    "user": "metadata.user_id",
    "prompt": "messages",
    "compact.over_tokens": "context_management",
}


class MessagesRequest(Struct, frozen=True):
    """One decoded request: what to generate, and what the encoders of the answer need. `places` says where each part of each
    message was read from, `tool_places` where each tool; `edited` that edits of the context were asked for, `pauses` that an
    answer ends where its history has been compacted. `not_offered` are the types of tools that the model is not offered."""

    generation: GenerationRequest
    places: tuple[tuple[Place, ...], ...] = ()
    tool_places: tuple[int, ...] = ()
    edited: bool = False
    pauses: bool = False
    not_offered: tuple[str, ...] = ()

    def locate(self, path: str) -> str:
        """The field of the body that `path` in `generation` was read from."""
        known = _FIELDS.get(path)
        if known is not None:
            return known
        root, _, rest = path.partition(".")
        name, index = _indexed(root)
        if name == "messages" and index is not None and index < len(self.places):
            return self._of_message(self.places[index], rest)
        if name == "tools" and index is not None and index < len(self.tool_places):
            if self.tool_places[index] < 0:
                return "mcp_servers"
            return f"tools[{self.tool_places[index]}]" + (f".{rest}" if rest else "").replace(
                ".parameters", ".input_schema"
            )
        if name == "context_edits" and index is not None:
            return f"context_management.edits[{index}]"
        if root == "response_format":
            return "output_config.format"
        return rest if root in ("sampling", "headers") else path

    def _of_message(self, places: tuple[Place, ...], rest: str) -> str:
        part, _, inner = rest.partition(".")
        _, order = _indexed(part)
        message, block = places[min(order or 0, len(places) - 1)] if places else (-1, -1)
        if message < 0:
            return "system"
        if order is None or block < 0:
            return f"messages[{message}].content"
        return f"messages[{message}].content[{block}]" + (f".{inner}" if inner else "")


def _indexed(piece: str) -> tuple[str, int | None]:
    """ "messages[3]" as ("messages", 3)."""
    name, bracket, rest = piece.partition("[")
    return (name, int(rest[:-1])) if bracket and rest[:-1].isdigit() else (piece, None)


def decode_messages(incoming: Incoming) -> MessagesRequest:
    """Decode the body of a request for an answer. Raises PayloadTooLarge, InvalidJson, UnsupportedParameter or InvalidRequest,
    whose param is a field of the body."""
    body = _read(_CREATE, incoming)
    if body.thread is not None:
        raise UnsupportedParameter(
            "Threads are not kept on this server.", param="thread", code="thread_unsupported_request"
        )
    if body.container is not None and "code" not in incoming.hosted:
        raise UnsupportedParameter("Code cannot be run on this server.", param="container")
    thinking = body.thinking
    if thinking is not None and thinking.type == "enabled":
        _check_budget(thinking.budget_tokens, body.max_tokens)
    if body.max_tokens == 0:
        _check_prefill(body)
    sampling = Sampling(
        max_tokens=body.max_tokens,
        temperature=body.temperature,
        top_p=read_top_p(body.top_p),
        top_k=read_top_k(body.top_k),
        stop=_stop(body.stop_sequences, incoming.limits),
    )
    check_calls(body.messages)
    return _decoded(
        body,
        incoming,
        sampling,
        stream=body.stream is True,
        user=body.metadata.user_id if body.metadata is not None else None,
        service_tier=body.service_tier,
    )


def decode_count(incoming: Incoming) -> MessagesRequest:
    """Decode the body of a request that asks how many tokens it has. It may be any part of a history."""
    return _decoded(_read(_COUNT, incoming), incoming, Sampling(), stream=False, user=None, service_tier=None)


def _decoded(
    body: wire.CountBody,
    incoming: Incoming,
    sampling: Sampling,
    *,
    stream: bool,
    user: str | None,
    service_tier: str | None,
) -> MessagesRequest:
    limits, settings = incoming.limits, incoming.messages
    if not body.messages:
        raise InvalidRequest("at least one message is required", param="messages")
    if len(body.messages) > limits.messages:
        raise too_many("messages", len(body.messages), limits.messages, "messages")
    runs_tools = "mcp" in incoming.hosted
    if body.mcp_servers and not runs_tools:
        raise UnsupportedParameter("MCP servers of requests are not called by this server.", param="mcp_servers")
    servers = servers_of_tools(body.mcp_servers, body.tools) if runs_tools else ()
    edits = read_edits(body.context_management, settings.edits)
    compact, pauses = read_compaction(body, body.compaction if isinstance(body, wire.MessagesBody) else None)
    talk = Conversation(limits, drop_billing=settings.drop_billing)
    talk.system(body.system)
    for number, message in enumerate(body.messages):
        _check_turn(message, number, last=number == len(body.messages) - 1)
        talk.message(message, number)
    needed = talk.called if body.tool_choice is None else talk.called | {body.tool_choice.name or ""}
    named = getattr(body, "container", None)
    container = "" if named is None else container_id(named)
    offered = with_servers(
        read_tools(body.tools, talk.referred, needed, limits, len(incoming.body), incoming.hosted, container), servers
    )
    if talk.uploads:
        offered = offered.with_uploads(tuple(talk.uploads))
    messages = talk.messages()
    prefilled = _prefilled(messages, body, settings)
    if not messages:  # an empty turn of the assistant alone, or blocks of which no model is told: engines fail on it
        raise InvalidRequest("at least one message with content is required", param="messages")
    return MessagesRequest(
        replace(
            _generation(body, incoming, sampling, messages, offered, prefilled, stream, user, service_tier),
            context_edits=edits,
            compact=compact,
            sources=tuple(talk.sources),
        ),
        tuple(map(tuple, talk.places)),
        offered.places,
        bool(body.context_management is not None and body.context_management.edits),
        pauses,
        offered.not_offered,
    )


def _generation(
    body: wire.CountBody,
    incoming: Incoming,
    sampling: Sampling,
    messages: list[Message],
    offered: OfferedTools,
    prefilled: bool,
    stream: bool,
    user: str | None,
    service_tier: str | None,
) -> GenerationRequest:
    headers = incoming.headers
    betas = frozenset(filter(None, headers.get("anthropic-beta", "").replace(" ", "").split(",")))
    return GenerationRequest(
        id=incoming.request_id,
        written=incoming.kept_body,
        own_fields=read_own_fields(body, _OWN if isinstance(body, wire.MessagesBody) else _OWN_OF_COUNTS),
        model=body.model,
        messages=tuple(messages),
        tools=(*offered.tools, *offered.servers),
        tool_choice=read_tool_choice(body.tool_choice, offered),
        response_format=_format(body),
        sampling=sampling,
        reasoning=_reasoning(body),
        stream=stream,
        add_generation_prompt=not prefilled,
        continue_final_message=prefilled,
        user=user,
        service_tier=service_tier,
        headers=headers,
        origin=replace(ORIGIN, version=headers.get("anthropic-version"), betas=betas),
        caller=incoming.caller,
        generate=sampling.max_tokens != 0,
        size=len(incoming.body),
    )


# ------------------------------------------------------------------------------------------------------------- the body


def _read(
    decoder: "WireDecoder[wire.MessagesBody] | WireDecoder[wire.CountBody]", incoming: Incoming
) -> wire.MessagesBody:
    """The body as its wire type. Blocks of unknown types cost a second pass, which few bodies need."""
    try:
        return decoder.decode(incoming.body, incoming.limits, _TAKEN)  # type: ignore[return-value]
    except InvalidRequest as error:
        if error.param is None or not error.param.endswith(".type") or not error.param.startswith("messages["):
            raise
    plain = plain_body(incoming.body, incoming.limits)
    messages = plain.get("messages") if isinstance(plain, dict) else None
    for message in messages if isinstance(messages, list) else ():
        _set_aside(message.get("content") if isinstance(message, dict) else None)
    return decoder.decode_plain(plain, _TAKEN)  # type: ignore[return-value]


def _set_aside(content: Json) -> None:
    """Wrap blocks of unknown types, in place."""
    for order, block in enumerate(content) if isinstance(content, list) else ():
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            continue
        if block["type"] not in wire.KNOWN_BLOCKS:
            content[order] = {"type": "smg_other", "block": block}  # type: ignore[index]
        elif block["type"] == "tool_result":
            _set_aside(block.get("content"))


def _check_turn(message: wire.MessageWire, number: int, *, last: bool) -> None:
    if message.content or (last and message.role == "assistant"):
        return
    raise InvalidRequest(
        "all messages must have non-empty content except for the optional final assistant message",
        param=f"messages[{number}]",
    )


def _prefilled(messages: list[Message], body: wire.CountBody, settings: MessagesConfig) -> bool:
    """Whether the last turn is one of the assistant that the answer goes on with. An empty one is taken away."""
    if not messages or messages[-1].role != "assistant" or body.messages[-1].role != "assistant":
        return False  # a turn of the user that says nothing to a model leaves none, and ends that of the assistant all the same
    last = messages[-1]
    at = f"messages[{len(body.messages) - 1}]"
    if not any(part for part in last.parts if not isinstance(part, Text) or part.text):
        messages.pop()
        return False
    if _paused(body):
        return False
    if not isinstance(body, wire.MessagesBody) and not _could_go_on(body, last):
        return False  # a slice of a history, to be counted
    if settings.prefill == "refuse":
        raise UnsupportedParameter(
            "This server does not continue the text of an assistant message. The conversation must end with a user message.",
            param=at,
        )
    final = last.parts[-1]
    if not isinstance(final, Text):
        kind = "thinking" if isinstance(final, Reasoning) else "text"
        raise InvalidRequest(f"The final block in an assistant message cannot be `{kind}`.", param=at)
    if _thinks(body):
        raise InvalidRequest("When `thinking` is enabled, the final message cannot be one of the assistant.", param=at)
    if final.text != final.text.rstrip():
        raise InvalidRequest("final assistant content cannot end with trailing whitespace", param="messages")
    return True


def _could_go_on(body: wire.CountBody, last: Message) -> bool:
    """Whether an answer could go on with the last turn, which is the assistant's."""
    final = last.parts[-1]
    whole = isinstance(final, Text) and final.text == final.text.rstrip()
    return whole and not _thinks(body)


def _thinks(body: wire.CountBody) -> bool:
    return body.thinking is not None and body.thinking.type in ("enabled", "adaptive")


def _paused(body: wire.CountBody) -> bool:
    """Whether the last turn is of tools that a server ran and is sent back so that the model goes on (`pause_turn`). A text that
    it ends with may be a prefill all the same, where it could be one."""
    content = body.messages[-1].content
    blocks = [] if isinstance(content, str) else content
    if not any(isinstance(block, wire.OtherBlock) and block.of_a_servers_tool for block in blocks):
        return False
    final = blocks[-1]
    return not isinstance(final, wire.TextBlock) or _thinks(body) or final.text != final.text.rstrip()


# --------------------------------------------------------------------------------------------------------- parameters


def _check_budget(budget: int | None, most: int) -> None:
    at = "thinking.enabled.budget_tokens"
    if budget is None:
        raise InvalidRequest("Field required", param=at)
    if budget < _LEAST_BUDGET:
        raise InvalidRequest(f"Input should be greater than or equal to {_LEAST_BUDGET}", param=at)
    if budget >= most:
        raise InvalidRequest("`max_tokens` must be greater than `thinking.budget_tokens`.", param="max_tokens")


def _check_prefill(body: wire.MessagesBody) -> None:
    """Raise InvalidRequest for what a request without an answer cannot have."""
    asked = {
        "stream": body.stream is True,
        "thinking.type": body.thinking is not None and body.thinking.type != "disabled",
        "output_config.format": not isinstance(_format(body), TextFormat),
        "tool_choice.type": body.tool_choice is not None and body.tool_choice.type in ("any", "tool"),
    }
    for name, wanted in asked.items():
        if wanted:
            raise InvalidRequest(
                "This cannot be asked for with `max_tokens` 0, which fills the cache alone.", param=name
            )


def _stop(stop: list[str] | None, limits: LimitsConfig) -> tuple[str, ...]:
    if not stop:
        return ()
    if len(stop) > limits.stop:
        raise too_many("stop_sequences", len(stop), limits.stop, "stop sequences")
    for order, text in enumerate(stop):
        at = f"stop_sequences[{order}]"
        if not text.strip():
            raise InvalidRequest("each stop sequence must contain non-whitespace", param=at)
        if len(text) > limits.stop_characters:
            raise InvalidRequest(f"at most {limits.stop_characters} characters are taken", param=at)
    return tuple(stop)


def _reasoning(body: wire.CountBody) -> ReasoningSettings:
    effort = body.output_config.effort if body.output_config is not None else None
    thinking = body.thinking
    if thinking is None:
        return ReasoningSettings(effort=effort, visible="text")
    return ReasoningSettings(
        effort=effort,
        budget_tokens=thinking.budget_tokens if thinking.type == "enabled" else None,
        enabled=thinking.type != "disabled",
        adaptive=thinking.type == "adaptive",
        between_tools=thinking.type == "between_tools",
        visible="sealed" if thinking.display == "omitted" else "text",
    )


def _format(body: wire.CountBody) -> ResponseFormat:
    asked = body.output_config.format if body.output_config is not None else None
    asked = asked or body.output_format
    return TextFormat() if asked is None else SchemaFormat(asked.schema)
