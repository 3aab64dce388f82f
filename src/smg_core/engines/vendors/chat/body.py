"""A body of Chat Completions as one provider takes it.

Decides what of OpenAI's words is written otherwise, what is left out and noted, and what is refused by its path. A body that
needs no change keeps its bytes. Pure. Above: format. Below: profiles, the body of Chat Completions.
"""

import hashlib
import string
from collections.abc import Mapping
from typing import Any

import attrs
import msgspec

from smg_core.engines.openai.body import write_body
from smg_core.engines.openai.fields import ServerWords
from smg_core.engines.vendors.chat.details import DETAILS, details_of
from smg_core.engines.vendors.chat.meaning import meant
from smg_core.engines.vendors.chat.profiles import ChatProfile
from smg_core.engines.vendors.client_bytes import as_sent
from smg_core.engines.vendors.losses import Losses, not_for
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.engines.vendors.wire_names import SentNames, wire_id
from smg_core.request import (
    EFFORT_TOKENS,
    Audio,
    File,
    FunctionTool,
    GenerationRequest,
    Image,
    MediaSource,
    Message,
    Opaque,
    Part,
    Reasoning,
    ReasoningSettings,
    SchemaFormat,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolKey,
    ToolResult,
    Video,
)
from smg_core.sealing.carried import carried_in

__all__ = ["WrittenChat", "write_chat"]

_PATHS: Mapping[str, str] = {
    "n": "sampling.n",
    "seed": "sampling.seed",
    "logprobs": "sampling.logprobs",
    "top_logprobs": "sampling.logprobs",
    "logit_bias": "sampling.logit_bias",
    "frequency_penalty": "sampling.frequency_penalty",
    "presence_penalty": "sampling.presence_penalty",
    "top_k": "sampling.top_k",
    "min_p": "sampling.min_p",
    "min_tokens": "sampling.min_tokens",
    "repetition_penalty": "sampling.repetition_penalty",
    "stop_token_ids": "sampling.stop_token_ids",
    "ignore_eos": "sampling.ignore_eos",
    "include_stop_str_in_output": "sampling.include_stop",
    "skip_special_tokens": "sampling.skip_special_tokens",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "stop": "sampling.stop",
    "parallel_tool_calls": "tool_choice.parallel",
    "prompt_cache_key": "cache_key",
    "structured_outputs": "response_format",
    "chat_template_kwargs": "template_arguments",
    "chat_template": "template",
    "add_generation_prompt": "add_generation_prompt",
    "continue_final_message": "continue_final_message",
}
"""The fields of a request that the names of a body stand for, where they differ."""
_REASONING = ("reasoning_effort", "enable_thinking", "thinking_token_budget")
_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_LETTERS = string.digits + string.ascii_letters
_UNMARKED = "left to the provider"
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_ID_LENGTH = 64
_ANY_CHARACTER = r"\s\S"
_HINTS = frozenset({"prompt_cache_key", "metadata", "user"})
"""Fields that a provider may be left without: they change no answer."""


@attrs.frozen
class WrittenChat:
    """A body, and whether the answer can be told as it comes, in which case it may be asked for whole."""

    body: bytes
    verbatim: bool


def write_chat(
    request: GenerationRequest,
    model: str,
    profile: ChatProfile,
    names: SentNames,
    losses: Losses,
    *,
    verbatim: bool = False,
) -> WrittenChat:
    """The body of `request` for `model`; `names` are those of its tools, and what it loses is noted in `losses`. `verbatim`: the
    client may be told the answer in the provider's words. Raises UnsupportedParameter naming a field."""
    prefixed = profile.prefix and bool(request.messages) and request.messages[-1].role == "assistant"
    prepared = _prepared(request, profile, names, losses, prefixed=prefixed)
    words = ServerWords(
        "system" if profile.extras else "developer", (profile.returned,) if profile.returned else ("reasoning_content",)
    )
    unread = msgspec.structs.replace(prepared, written=b"")
    written = write_body(unread, model=model, extras=profile.extras, words=words)
    body: ProviderJson = msgspec.json.decode(written, type=dict[str, msgspec.Raw])
    if profile.bound and profile.bound not in body:
        other = body.pop("max_tokens", None) or body.pop("max_completion_tokens", None)
        if other is not None:
            body[profile.bound] = other
    elif profile.bound:
        body.pop("max_completion_tokens" if profile.bound == "max_tokens" else "max_tokens", None)
    if not profile.usage_asked:
        body.pop("stream_options", None)
    if profile.extras:
        for name in _REASONING:
            body.pop(name, None)
        body |= _reasoning(request.reasoning, profile, losses)
    _choose(prepared.tool_choice, body, profile, losses)
    if (temperature := request.sampling.temperature) == 0 and temperature is not None and profile.least_temperature:
        body["temperature"] = profile.least_temperature
    _rewrite_messages(body, profile, losses, prefixed=prefixed)
    if profile.details:
        _return_details(request, body, profile, model, losses)
    _check(request, body, profile, losses)
    for name, there in profile.renamed.items():
        if name in body:
            body[there] = body.pop(name)
    verbatim = verbatim and not names.changed and not profile.details
    if verbatim and not request.stream:
        del body["stream"]
        body.pop("stream_options", None)
    own = request.origin is None or request.origin.api == "chat"
    return WrittenChat(as_sent(body, request.written if own else b"", meant), verbatim)


# -------------------------------------------------------------------------------------------------------- preparation


def _prepared(
    request: GenerationRequest, profile: ChatProfile, names: SentNames, losses: Losses, *, prefixed: bool
) -> GenerationRequest:
    """The request without what the provider has no place for, noted where it is left out."""
    messages = tuple(
        _without(message, profile, names, losses, f"messages[{at}]") for at, message in enumerate(request.messages)
    )
    changes: dict[str, Any] = {}
    if any(_has_media(message) for message in messages):
        messages = _media_behind_results(messages, losses)
    if messages != request.messages:
        changes["messages"] = messages
    tools = tuple(_renamed_tool(tool, profile, names, losses) for tool in request.tools)
    if any(new is not old for new, old in zip(tools, request.tools, strict=True)):
        changes["tools"] = tools
    keys = tuple(_renamed_key(key, names) for key in request.tool_choice.names)
    if keys != request.tool_choice.names:
        changes["tool_choice"] = msgspec.structs.replace(request.tool_choice, names=keys)
    if prefixed and request.continue_final_message:
        changes |= {"continue_final_message": False, "add_generation_prompt": True}
    return msgspec.structs.replace(request, **changes) if changes else request


def _renamed_key(key: ToolKey, names: SentNames) -> ToolKey:
    return ToolKey(names.wire(key.name, key.namespace)) if key.kind == "function" else key


def _renamed_tool(tool: Tool, profile: ChatProfile, names: SentNames, losses: Losses) -> Tool:
    if not isinstance(tool, FunctionTool):
        return tool
    if tool.cache is not None:
        losses.note("cache", _UNMARKED)
    wire = names.wire(tool.name, tool.namespace)
    changes: dict[str, Any] = {} if wire == tool.name else {"name": wire, "namespace": None}
    if tool.parameters is None and profile.extras:  # what OpenAI takes without them is refused by others
        changes["parameters"] = _NO_PARAMETERS
    return msgspec.structs.replace(tool, **changes) if changes else tool


def _without(message: Message, profile: ChatProfile, names: SentNames, losses: Losses, at: str) -> Message:
    if message.name is not None and not profile.names:
        raise not_for(f"{at}.name", profile.name)
    parts = message.parts
    if any(isinstance(part, ToolCall) for part in parts) and not any(map(_says_something, parts)):
        parts = tuple(part for part in parts if not isinstance(part, Text))  # blank text is refused beside calls
    kept = [new for part in parts if (new := _kept(part, profile, names, losses)) is not None]
    if len(kept) == len(message.parts) and all(new is old for new, old in zip(kept, message.parts, strict=True)):
        return message
    return msgspec.structs.replace(message, parts=tuple(kept))


def _says_something(part: Part) -> bool:
    return isinstance(part, Text) and bool(part.text.strip())


def _kept(part: Part, profile: ChatProfile, names: SentNames, losses: Losses) -> Part | None:
    """The part as it is written; None for one that is left out."""
    match part:
        case Reasoning() if not profile.returned:
            if part.text or part.carried:
                losses.note("reasoning", "left out, for the provider does not take it back")
            return None
        case Reasoning() if not part.text and profile.details and _is_own(part, profile):
            return None  # its details go back, or are noted where another model has made them
        case Reasoning() if not part.text:
            losses.note("reasoning", "left out, for another model has made it")
            return None
        case Opaque():
            losses.note("reasoning", "left out, for another API has made it")
            return None
        case ToolCall():
            wire, call_id = part.name if part.custom else names.wire(part.name, part.namespace), _sent_id(part.id)
            if (wire, call_id) == (part.name, part.id):
                return part
            return msgspec.structs.replace(part, name=wire, namespace=None, id=call_id)
        case File() if part.source.text is not None and part.source.data is None:
            source = MediaSource(data=part.source.text.encode(), media_type="text/plain")
            return msgspec.structs.replace(part, source=source)
        case ToolResult():
            part = _kept_result(part, profile, losses)
    mark = getattr(part, "cache", None)
    if mark is None or profile.marks or "mode" in mark:
        return part
    losses.note("cache", _UNMARKED)
    return msgspec.structs.replace(part, cache=None)


def _kept_result(part: ToolResult, profile: ChatProfile, losses: Losses) -> ToolResult:
    """A result as it is written: text says that it is an error, and its mark for the cache is that of its last text."""
    changes: dict[str, Any] = {}
    content = part.content
    if part.is_error:
        losses.note("tool_error", "text")
        changes["is_error"], content = False, (Text("Error:"), *content)
    if part.cache is not None and profile.marks and content and isinstance(content[-1], Text):
        changes["cache"] = None
        content = (*content[:-1], msgspec.structs.replace(content[-1], cache=part.cache))
    if (call_id := _sent_id(part.call_id)) != part.call_id:
        changes["call_id"] = call_id
    if content is not part.content:
        changes["content"] = content
    return msgspec.structs.replace(part, **changes) if changes else part


def _sent_id(call_id: str) -> str:
    """The id of a call and of its result: one that is too long is a digest."""
    return wire_id(call_id, longest=_ID_LENGTH, allowed=_ANY_CHARACTER) if len(call_id) > _ID_LENGTH else call_id


def _has_media(message: Message) -> bool:
    return any(isinstance(part, ToolResult) and any(map(_is_media, part.content)) for part in message.parts)


def _is_media(part: Part) -> bool:
    return isinstance(part, Image | Audio | Video | File)


def _media_behind_results(messages: tuple[Message, ...], losses: Losses) -> tuple[Message, ...]:
    """The messages, with pictures and files of results in a turn of the user right behind all results: a result of the API is
    text."""
    written: list[Message] = []
    waiting: list[Part] = []
    for message in messages:
        results = message.role == "tool" or (message.parts and isinstance(message.parts[0], ToolResult))
        if waiting and not results:
            written.append(Message("user", tuple(waiting)))
            waiting = []
        if results and _has_media(message):
            losses.note("result_media", "in a turn of the user behind the results")
            message = msgspec.structs.replace(
                message, parts=tuple(_text_alone(part, waiting) for part in message.parts)
            )
        written.append(message)
    return (*written, Message("user", tuple(waiting))) if waiting else tuple(written)


def _text_alone(part: Part, waiting: list[Part]) -> Part:
    """A result without its media, which wait to be written."""
    if not isinstance(part, ToolResult) or not any(map(_is_media, part.content)):
        return part
    media = [each for each in part.content if _is_media(each)]
    waiting += [Text(f"From the result of the call {part.call_id}:"), *media]
    text = tuple(each for each in part.content if not _is_media(each))
    return msgspec.structs.replace(part, content=text or (Text("It follows."),))


# ----------------------------------------------------------------------------------------------------------- reasoning


def _reasoning(asked: ReasoningSettings, profile: ChatProfile, losses: Losses) -> ProviderJson:
    """How much to reason, as the provider is told."""
    effort = _effort(asked)
    if effort is None:
        return {}
    if asked.budget_tokens is not None and asked.budget_tokens >= 0 and asked.effort is None:
        losses.note("budget_tokens", "an effort" if profile.effort != "deepseek" else "on")
    param = "reasoning.effort" if asked.effort is not None else "reasoning"
    if profile.effort == "none":
        raise not_for(param, profile.name, "its models are chosen by whether they reason")
    if profile.effort == "deepseek":
        if asked.effort not in (None, "none"):
            losses.note("effort", "on")
        return {"thinking": {"type": "disabled" if effort == "none" else "enabled"}}
    if profile.effort == "openrouter":
        return {"reasoning": {"effort": _word(effort, profile, losses, param)}}
    if profile.effort == "together" and effort == "none":
        return {"reasoning": {"enabled": False}}
    return {"reasoning_effort": _word(effort, profile, losses, param)}


def _effort(asked: ReasoningSettings) -> str | None:
    """The word for how much to reason; None leaves it to the model."""
    if asked.enabled is False:
        return "none"
    if asked.effort is not None or asked.budget_tokens is None or asked.budget_tokens < 0:
        return asked.effort or ("medium" if asked.enabled else None)
    return [word for word, least in EFFORT_TOKENS.items() if least <= asked.budget_tokens or word == "minimal"][-1]


def _word(effort: str, profile: ChatProfile, losses: Losses, param: str) -> str:
    """The nearest word that the provider knows. One that turns reasoning off is not replaced by one that does not."""
    if effort in profile.efforts:
        return effort
    if effort not in _LEVELS or effort == "none":
        raise not_for(param, profile.name, f"it knows {', '.join(profile.efforts)}")
    at = _LEVELS.index(effort)
    known = [word for word in profile.efforts if word in _LEVELS and word != "none"]
    found = min(known, key=lambda word: abs(_LEVELS.index(word) - at))
    losses.note("effort", found)
    return found


# --------------------------------------------------------------------------------------------------------------- tools


def _choose(choice: ToolChoice, body: ProviderJson, profile: ChatProfile, losses: Losses) -> None:
    if "tools" not in body:
        for name in ("tool_choice", "parallel_tool_calls"):
            body.pop(name, None)
        return
    if "tool_choice" not in body:
        return
    thinks = body.get("thinking", {}) != {"type": "disabled"} if profile.effort == "deepseek" else False
    if choice.mode == "required" and not profile.forced_reasoning and thinks and "thinking" in body:
        raise not_for("tool_choice", profile.name, "a call cannot be demanded of a model that reasons")
    several = len(choice.names) > 1 or (choice.names and choice.mode == "auto")
    if several and not profile.subset:
        losses.note("allowed_tools", "only these tools are sent")
        allowed = {key.name for key in choice.names}
        tools = msgspec.json.decode(msgspec.json.encode(body["tools"]))
        body["tools"] = [each for each in tools if each.get("function", {}).get("name") in allowed]
        body["tool_choice"] = "auto" if choice.mode == "auto" else profile.required
    elif choice.mode == "required" and not choice.names and profile.required != "required":
        body["tool_choice"] = profile.required


# ------------------------------------------------------------------------------------------------------------ messages


def _rewrite_messages(body: ProviderJson, profile: ChatProfile, losses: Losses, *, prefixed: bool) -> None:
    """Messages in the provider's form, where that differs from OpenAI's."""
    if profile.nulls and not profile.call_id and not profile.texts and not prefixed:
        return
    thinks = profile.effort == "deepseek" and _deepseek_thinks(body)
    messages = msgspec.json.decode(body["messages"], type=list[dict[str, Any]])
    changed = False
    for message in messages:
        changed |= _rewritten(message, profile)
        if thinks and message.get("tool_calls") and profile.returned not in message:
            message[profile.returned] = ""  # it refuses calls without the field
            losses.note("reasoning", "an empty one, for calls that came without theirs")
            changed = True
    if prefixed:
        messages[-1]["prefix"] = True
        changed = True
    if changed:
        body["messages"] = messages


def _is_own(part: Reasoning, profile: ChatProfile) -> bool:
    original = carried_in(part)
    return original is not None and original.provider == profile.name


def _return_details(
    request: GenerationRequest, body: ProviderJson, profile: ChatProfile, model: str, losses: Losses
) -> None:
    """Give each turn of the assistant the details of its reasoning back."""
    spoken = [message for message in request.messages if message.role == "assistant"]
    details = [details_of(message, profile.name, model) for message in spoken]
    pieces = [part for message in spoken for part in message.parts if isinstance(part, Reasoning)]
    if any((original := carried_in(part)) is not None and original.model != model for part in pieces):
        losses.note("reasoning", "left out, for another model has made it")
    if not any(details):
        return
    messages = msgspec.json.decode(msgspec.json.encode(body["messages"]), type=list[dict[str, Any]])
    written = [message for message in messages if message.get("role") == "assistant"]
    for message, found in zip(written, details, strict=False):
        if found:
            message[DETAILS] = found
    body["messages"] = messages


def _deepseek_thinks(body: ProviderJson) -> bool:
    """Whether DeepSeek's model reasons: it was told to, or has it in its name."""
    thinking = body.get("thinking")
    return thinking == {"type": "enabled"} or (thinking is None and b"reasoner" in msgspec.json.encode(body["model"]))


def _rewritten(message: dict[str, Any], profile: ChatProfile) -> bool:
    changed = False
    if not profile.nulls:
        for name in [name for name, value in message.items() if value is None]:
            del message[name]
            changed = True
    content = message.get("content")
    if profile.texts and isinstance(content, list) and all(each.get("type") == "text" for each in content):
        message["content"] = "".join(each["text"] for each in content)
        changed = True
    if profile.call_id:
        for holder, name in ((message, "tool_call_id"), *((call, "id") for call in message.get("tool_calls") or ())):
            if name in holder and (found := _short_id(holder[name], profile.call_id)) != holder[name]:
                holder[name] = found
                changed = True
    return changed


def _short_id(call_id: str, length: int) -> str:
    """An id of that many letters and digits: itself where it is one, else the same one for the same id."""
    if len(call_id) == length and call_id.isascii() and call_id.isalnum():
        return call_id
    number = int.from_bytes(hashlib.blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    letters = ""
    for _ in range(length):
        number, at = divmod(number, len(_LETTERS))
        letters += _LETTERS[at]
    return letters


# --------------------------------------------------------------------------------------------------------------- check


def _check(request: GenerationRequest, body: ProviderJson, profile: ChatProfile, losses: Losses) -> None:
    """Refuse what the provider does not take, and numbers that it does not know."""
    own = {"thinking", "reasoning", "reasoning_effort"} if profile.effort != "none" and profile.extras else set()
    for name in list(body):
        if name in profile.takes or name in own:
            continue
        if name in _HINTS:
            losses.note(name, "not sent")
            del body[name]
            continue
        extra = name in request.extra
        raise not_for(f"extra.{name}" if extra else _PATHS.get(name, name), profile.name)
    for name, (least, most) in profile.most.items():
        value = getattr(request.sampling, name)
        if value is not None and not least <= value <= most:
            raise not_for(f"sampling.{name}", profile.name, f"it takes {least:g} to {most:g}")
    if isinstance(request.response_format, SchemaFormat) and not profile.json_schema:
        raise not_for("response_format", profile.name, "it is held to JSON, and to no schema")
