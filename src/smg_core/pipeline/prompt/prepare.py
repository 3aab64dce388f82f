"""Makes of a request a prompt that any engine of its model can be sent.

Sealed reasoning is opened first (`unsealed`). Then come three steps, separate because their costs differ: `render` (the chat
template, microseconds to milliseconds), `encode` (up to seconds, in a thread if the text is long) and `assemble` (checks and the
record). A text that cannot fit the context is refused before the first two. Input on which any engine crashes or hangs is
refused here, for every API: empty prompts, ids outside the vocabulary, prompts over the context. `pipeline.fit.fit` refuses
what only some engines cannot do. Pure. Above: preparing. Below: tokenizer, parsers, sealing. Knows no worker, no engine and no
wire.
"""

from collections.abc import Sequence

import attrs
from msgspec import Struct
from msgspec.structs import replace

from smg_core.errors import InvalidRequest, PromptTooLong, UnsupportedParameter
from smg_core.events import DroppedReasoning, EditedContext
from smg_core.origin import REMINDERS, WISHES_STRICT
from smg_core.pipeline.prompt.custom_tools import check_tools
from smg_core.pipeline.prompt.formats import checked_format, light, light_schemas
from smg_core.pipeline.prompt.inline_cost import lighter_than
from smg_core.pipeline.prompt.inline_notes import with_inline_notes
from smg_core.pipeline.prompt.media import MediaItem, MediaService, PlacedMedia, media_of, refuse_unless_taken
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import (
    FunctionTool,
    GenerationRequest,
    HostedTool,
    Part,
    Reasoning,
    Text,
    TextFormat,
    Tool,
    ToolCall,
    ToolResult,
    has_trait,
)
from smg_core.sealing.carried import carried_in
from smg_core.sealing.reasoning import sealed_bytes
from smg_core.tokenizer.base import EncodeReport, GivenUp, Prompt, Tokenizer
from smg_core.tokenizer.fill_in_middle import between
from smg_core.tokens import TokenIds
from smg_core.wire.answer_size import answer_size

__all__ = [
    "Rendering",
    "Unsealed",
    "assemble",
    "characters_of",
    "encode",
    "framed",
    "free_values_small",
    "has_text_alone",
    "offered",
    "quickly_assembled",
    "quickly_rendered",
    "refuse_long_prompt",
    "refuse_long_text",
    "refuse_too_long",
    "render",
    "salt_of",
    "sealed_size",
    "take_media",
    "text_frame",
    "unsealed",
]

_ID_COST = 8
"""Cost of checking one token id of a prompt, in characters."""
_SMALL_BODY = 4
"""A body this many times smaller than what may be rendered on the event loop is rendered there, whatever it contains."""

Rendering = Prompt | TokenIds
"""A rendered prompt, or ids: those that the client sent, or none for engines that write their prompts themselves."""


def has_text_alone(request: GenerationRequest) -> bool:
    """Whether the messages are texts and nothing else, and nothing is said of reasoning, as in most requests: there is nothing to
    open, to fetch, to read or to find out before the prompt is rendered."""
    for message in request.messages:
        parts = message.parts
        if len(parts) != 1 or type(parts[0]) is not Text:
            return False
    asked = request.reasoning
    says_nothing = asked.effort is None and asked.budget_tokens is None and asked.enabled is None
    return says_nothing and not asked.between_tools and request.transcription is None


class Unsealed(Struct, frozen=True):
    """A request whose sealed reasoning is plain text, and the pieces that were left out because their seals do not open. `maker`
    as of `Prompted`."""

    request: GenerationRequest
    dropped: tuple[DroppedReasoning, ...] = ()
    maker: tuple[str, str, str] | None = None


def sealed_size(request: GenerationRequest, model: ServedModel) -> int:
    """The bytes that `unsealed` has to open; 0 for nearly all requests, which have no seals."""
    return 0 if model.seals is None else sealed_bytes(request)


def unsealed(request: GenerationRequest, model: ServedModel) -> Unsealed:
    """Open the request's seals. A seal that does not open is left out, or raises SealBroken if the settings say so."""
    request = with_inline_notes(request)
    if model.seals is None or not sealed_bytes(request):
        return Unsealed(request)
    request, dropped = model.seals.opened(request)
    return Unsealed(request, dropped, _maker_of(request))


def _maker_of(request: GenerationRequest) -> tuple[str, str, str] | None:
    """Who has made the last piece of reasoning that only its maker can read."""
    for message in reversed(request.messages):
        for part in message.parts:
            if isinstance(part, Reasoning) and part.carried is not None:
                original = carried_in(part)
                return None if original is None else original.maker
    return None


def take_media(request: GenerationRequest, model: ServedModel) -> list[MediaItem]:
    """The request's media that are processed here, in prompt order: none where the model's engines read prompts themselves, which
    are sent the media as they are. Raises UnsupportedParameter naming one that the model does not take. A recording whose words
    are asked for is no part of a prompt where the model's engines have a call for that."""
    if request.transcription is not None and model.tokenizer is None:
        return []
    items = media_of(request.messages)
    if items:
        refuse_unless_taken(items, request.model, model.media_kinds, model.no_media)
    if request.transcription is not None and request.transcription.part is not None:
        number, parts = request.transcription.part
        items = [attrs.evolve(item, part=(number, parts)) for item in items]
    return items if model.tokenizer is not None else []


def salt_of(request: GenerationRequest) -> str:
    """The salt of the tokenizer's caches for this request: its tenant and the client's own salt, so that tenants share
    nothing."""
    tenant = request.caller.tenant
    if not tenant:
        return request.cache_salt or ""
    return f"{tenant}\0{request.cache_salt or ''}"


def characters_of(request: GenerationRequest) -> int:
    """How many characters of the request will be in its prompt: texts, results and calls. Earlier reasoning is not counted, since
    most templates leave it out."""
    if isinstance(request.prompt, str):
        return len(request.prompt)
    return sum(_characters(part) for message in request.messages for part in message.parts)


def _characters(part: Part) -> int:
    if isinstance(part, Text):
        return len(part.text)
    if isinstance(part, ToolResult):
        return sum(_characters(each) for each in part.content)
    return len(part.arguments) if isinstance(part, ToolCall) else 0


def free_values_small(request: GenerationRequest, most: int) -> bool:
    """Whether free-form values of the request (schemas, documents, template arguments) may be walked where `most` characters may
    be rendered."""
    return request.size * _SMALL_BODY <= most


def quickly_rendered(request: GenerationRequest, most: int) -> bool:
    """Whether rendering costs at most as much as `most` characters of one message. Counts the messages, not the body's size,
    since a flow may have added messages."""
    if request.prompt is not None and not isinstance(request.prompt, str):
        return len(request.prompt) * _ID_COST <= most
    free = request.tools or request.documents or request.template_arguments
    if free and not free_values_small(request, most):
        return False
    return lighter_than(request.messages, most)


def refuse_long_text(characters: int, request: GenerationRequest, model: ServedModel) -> None:
    """Raise PromptTooLong if a prompt of so many characters cannot fit the context, even with the longest tokens of the
    vocabulary. Called before a long text is rendered; may measure the vocabulary, so it must not run on an event loop."""
    context, tokenizer = model.context_length, model.tokenizer
    if request.sampling.truncate_prompt is not None:
        return
    if not context or characters <= context or tokenizer is None or not tokenizer.longest_token:
        return
    least = -(-characters // tokenizer.longest_token)
    if least > context:
        raise PromptTooLong(least, 1, context, param="messages" if request.messages else "prompt", at_least=True)


def refuse_long_prompt(prompt: Prompt, request: GenerationRequest, model: ServedModel) -> None:
    """The same for a rendered prompt, counted piece by piece, since no token spans two pieces."""
    least, context = len(prompt.pieces), model.context_length
    if request.sampling.truncate_prompt is None and context and least > context:
        raise PromptTooLong(least, 1, context, param="messages" if request.messages else "prompt", at_least=True)
    refuse_long_text(sum(map(len, prompt.pieces)), request, model)


def render(request: GenerationRequest, model: ServedModel) -> Prompt | TokenIds:
    """The prompt's text, or its ids if the client sent ids. Raises TemplateFailed and InvalidRequest."""
    if model.media is not None and model.media.dictates:
        return _dictated(request, model, model.media)
    if request.prompt is not None:
        return _raw(request.prompt, request, model)
    if model.template is None and model.tokenizer is None:
        return TokenIds()  # its engines write the prompt themselves
    if model.template is None:
        raise InvalidRequest(f"The model '{model.name}' has no chat template.", param="messages")
    return model.template.render(
        request.messages,
        tools=offered(request) if request.tools else (),
        documents=request.documents,
        add_generation_prompt=request.add_generation_prompt,
        continue_final_message=request.continue_final_message,
        arguments=request.template_arguments,
        protect_control=model.protect_control,
        tool_choice=request.tool_choice if request.tools else None,
        reasoning=request.reasoning,
        reminders=request.origin is not None and REMINDERS in request.origin.traits,
    )


def _dictated(request: GenerationRequest, model: ServedModel, media: MediaService) -> TokenIds:
    """The prompt of a model that writes recordings down and does nothing else: engines fail on any other."""
    if request.transcription is None:
        raise UnsupportedParameter(
            f"The model '{model.name}' writes down what is spoken in a recording, and does nothing else: send the recording to"
            " /v1/audio/transcriptions.",
            param="model",
        )
    return media.dictated(request.transcription)


def _raw(prompt: str | Sequence[int], request: GenerationRequest, model: ServedModel) -> Prompt | TokenIds:
    """A prompt without a template; with the text that is to follow the answer, if the request has one (`suffix`)."""
    if model.tokenizer is None:
        raise UnsupportedParameter(
            f"The model '{model.name}' takes messages, and no prompt as it stands.", param="prompt"
        )
    if not isinstance(prompt, str):
        return _checked_ids(prompt, model)
    if request.sampling.suffix is None:
        return Prompt((prompt,))
    whole = between(prompt, request.sampling.suffix, model.tokenizer)
    if whole is None:
        raise UnsupportedParameter(
            f"The model '{model.name}' was not trained to fill in a text, as 'sampling.suffix' asks for: its vocabulary has "
            "none of the tokens for that.",
            param="sampling.suffix",
        )
    return Prompt((whole,))


def framed(encoded: EncodeReport, request: GenerationRequest, model: ServedModel) -> EncodeReport:
    """The ids of a prompt without a template, as engines are sent them: cut at the front if the request asks for that, with the
    special tokens that the tokenizer adds before and after a text. Other prompts stay as they are."""
    ids, most = encoded.ids, request.sampling.truncate_prompt
    if isinstance(request.prompt, str) and request.add_special_tokens is not False and model.tokenizer is not None:
        before, after = text_frame(model.tokenizer)
        if before or after:
            ids = before + ids + after
    if most == -1 and model.context_length:
        most = max(1, model.context_length - max(request.sampling.max_tokens or 1, 1))
    if most is not None and 0 <= most < len(ids):
        ids = ids[len(ids) - most :]
    return encoded if ids is encoded.ids else replace(encoded, ids=ids)


_LETTER = "a"


def text_frame(tokenizer: Tokenizer) -> tuple[TokenIds, TokenIds]:
    """The tokens that the tokenizer adds before and after a text, found by encoding a short one."""
    bare = tokenizer.encode(_LETTER)
    whole = tokenizer.encode(_LETTER, add_special_tokens=True)
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return whole[:start], whole[start + len(bare) :]
    return TokenIds(), TokenIds()


def offered(request: GenerationRequest) -> Sequence[Tool]:
    """The tools that the prompt names: none if the model may call none, and with a list of allowed tools only those. A required
    tool does not change the prompt: the engine's constraint enforces it."""
    choice = request.tool_choice
    if choice.mode == "auto" and choice.names:
        return [tool for tool in request.tools if not isinstance(tool, HostedTool) and tool.key in choice.names]
    return request.tools if choice.mode != "none" else ()


def encode(prompt: Prompt | TokenIds, model: ServedModel, salt: str, given_up: GivenUp | None = None) -> EncodeReport:
    """The prompt's ids. Takes up to seconds of CPU for long new text; raises ClientGone when `given_up` says that the client has
    left. `salt` keeps tenants apart in the caches."""
    if not isinstance(prompt, Prompt):
        return EncodeReport(prompt, 0)
    if model.tokenizer is None:
        return EncodeReport(TokenIds(), len(prompt.text))
    if given_up is None:
        return model.tokenizer.encode_prompt(prompt, salt=salt)
    return model.tokenizer.encode_prompt(prompt, salt=salt, given_up=given_up)


def quickly_assembled(request: GenerationRequest) -> bool:
    """Whether the schemas that are compiled for this request can be on the event loop: that of the answer's format, and those of
    the functions whose calls engines may be held to."""
    if not request.tools:
        return type(request.response_format) is TextFormat or light(request.response_format)
    forced = request.tool_choice.mode == "required"
    wished = has_trait(request, WISHES_STRICT)
    held = [
        tool.parameters
        for tool in request.tools
        if isinstance(tool, FunctionTool) and (tool.strict or forced or (wished and tool.strict is None))
    ]
    return light(request.response_format) and light_schemas([schema for schema in held if schema])


def assemble(
    request: GenerationRequest,
    model: ServedModel,
    text: str,
    encoded: EncodeReport,
    items: Sequence[MediaItem] = (),
    media: PlacedMedia | None = None,
    *,
    salt: str | None = None,
    opened: Unsealed | None = None,
    edits: tuple[EditedContext, ...] = (),
) -> Prompted:
    """Do the checks that need the ids, and make the record. `encoded` has the ids that engines are sent, with the placeholders of
    `media` expanded. `salt` is `salt_of(request)`, if the caller has it already; `opened` is what `unsealed` gave, of a request
    with more than text."""
    if model.tokenizer is not None:
        _check_ids(request, model, encoded.ids.size)
    _refuse_large_answer(request, model)
    if request.tools:
        check_tools(request.tools)
    check = None
    if type(request.response_format) is not TextFormat:
        asked, check = checked_format(request.response_format)
        if asked is not request.response_format:
            request = replace(request, response_format=asked)
    cache_salt = salt_of(request) if salt is None else salt
    ids, found = encoded.ids, tuple(items)
    if opened is None:
        return Prompted(request, model, text, encoded, ids, cache_salt, check, found, media, (), edits)
    dropped, maker = opened.dropped, opened.maker
    return Prompted(request, model, text, encoded, ids, cache_salt, check, found, media, dropped, edits, maker=maker)


def _check_ids(request: GenerationRequest, model: ServedModel, length: int) -> None:
    if not length:
        raise InvalidRequest("The prompt is empty.", param="messages" if request.messages else "prompt")
    refuse_too_long(request, length, model.context_length)
    asked, size = request.sampling, model.vocab_size
    for each in asked.logit_bias or ():
        if not 0 <= each < size:
            raise InvalidRequest(f"Token ids must be between 0 and {size - 1}.", param="sampling.logit_bias")
    if asked.stop_token_ids and max(asked.stop_token_ids) >= size:
        raise InvalidRequest(f"Token ids must be below {size}.", param="sampling.stop_token_ids")


def refuse_too_long(request: GenerationRequest, length: int, context: int) -> None:
    """Raise PromptTooLong if a prompt of `length` tokens and `max_tokens` of output do not fit `context` (0: unknown)."""
    asked = request.sampling.max_tokens
    room = context - length
    if context and room <= 0:
        raise PromptTooLong(length, max(asked or 1, 1), context, param="messages" if request.messages else "prompt")
    if context and asked is not None and asked > room:
        raise PromptTooLong(length, asked, context, param="sampling.max_tokens")


def _refuse_large_answer(request: GenerationRequest, model: ServedModel) -> None:
    """Raise InvalidRequest if an answer that is not streamed is asked to be larger than `ServedModel.answer_bytes`. One whose
    number of tokens the client has not named is bounded by `fit` instead."""
    if request.stream or not model.answer_bytes:
        return
    asked = request.sampling
    tokens = asked.max_tokens if asked.max_tokens is not None else max(1, asked.min_tokens or 0)
    size = answer_size(asked.n, tokens, asked.logprobs)
    if size <= model.answer_bytes:
        return
    param = "sampling.max_tokens" if asked.logprobs is None else "sampling.logprobs"
    raise InvalidRequest(
        f"This answer could take {size} bytes before it leaves, and at most {model.answer_bytes} are kept: "
        f"ask for fewer choices ({asked.n}), tokens ({tokens}) or logprobs, or for a stream.",
        param="sampling.n" if asked.n > 1 else param,
        code="answer_too_large",
    )


def _checked_ids(prompt: Sequence[int], model: ServedModel) -> TokenIds:
    size = model.vocab_size
    if any(not 0 <= each < size for each in prompt):
        raise InvalidRequest(f"Token ids must be between 0 and {size - 1}.", param="prompt")
    return TokenIds(prompt)
