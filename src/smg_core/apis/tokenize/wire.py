"""The bodies of tokenize and detokenize, and their answers.

A text is tokenized as Completions would, messages as Chat Completions would: the body of the latter is read by Chat's own
decoder, so the ids are those of the prompt that an engine would be sent. The answers have the fields of vLLM's and of SGLang's
routes. Pure. Above: apis.tokenize.routes. Below: the decoder of Chat, request.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from smg_core.apis.chat.decode import ChatRequest, decode_chat
from smg_core.apis.chat.types import MessageWire
from smg_core.errors import InvalidJson, InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.origin import Origin
from smg_core.request import GenerationRequest, Sampling
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder, plain_body, too_many
from smg_core.wire.json_text import encode_body
from smg_core.wire.scalars import ModelName, TokenId

__all__ = [
    "DetokenizeBody",
    "Detokenized",
    "TokenizeBody",
    "TokenizeRequest",
    "Tokenized",
    "decode_detokenize",
    "decode_tokenize",
    "detokenized_body",
    "tokenized_body",
]

_ONE_TOKEN = Sampling(max_tokens=1)
_ORIGIN = Origin("tokenize")


class TokenizeBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """A text or several, or messages. Beside messages stands whatever Chat Completions takes."""

    model: ModelName = ""
    prompt: str | list[str] | None = None
    messages: list[MessageWire] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """Token ids, or several lists of them."""

    model: ModelName = ""
    tokens: Annotated[list[TokenId | list[TokenId]], Meta(min_length=1)]
    skip_special_tokens: bool | None = None


class Tokenized(Struct, kw_only=True):
    """The ids, how many they are, and the model's context; of several texts, a list each. `token_strs` are the tokens as
    texts."""

    tokens: list[int | list[int]]
    count: int | list[int]
    max_model_len: int
    token_strs: list[str | list[str]] | None = None


class Detokenized(Struct, kw_only=True):
    """The text, under the name that vLLM gives it and under SGLang's; of several lists, a text each."""

    prompt: str | list[str]
    text: str | list[str]


_TOKENIZE: WireDecoder[TokenizeBody] = WireDecoder(TokenizeBody, {})
_DETOKENIZE: WireDecoder[DetokenizeBody] = WireDecoder(DetokenizeBody, {})


class TokenizeRequest(Struct, frozen=True):
    """What is to be tokenized: a request for each text, or one for messages. `several`: the body had a list of texts."""

    generations: tuple[GenerationRequest, ...]
    chat: ChatRequest | None = None
    several: bool = False
    strings: bool = False

    def locate(self, path: str) -> str:
        """The field of the body that `path` was read from."""
        if self.chat is not None:
            return self.chat.locate(path)
        return "prompt" if path in ("prompt", "messages") else path


def decode_tokenize(incoming: Incoming) -> TokenizeRequest:
    """Decode the body of `incoming`. Raises as `decode_chat`."""
    plain = plain_body(incoming.body, incoming.limits)
    if isinstance(plain, dict) and plain.get("messages") is not None:
        return _messages(plain, incoming)
    wire = _TOKENIZE.decode(incoming.body, incoming.limits, incoming.compat)
    if wire.prompt is None:
        raise InvalidRequest("Missing required parameter: 'prompt' or 'messages'.", param="prompt")
    texts = [wire.prompt] if isinstance(wire.prompt, str) else wire.prompt
    if not texts:
        raise InvalidRequest("Invalid 'prompt': empty array.", param="prompt", code="empty_array")
    if len(texts) > incoming.limits.completion_choices:
        raise too_many("prompt", len(texts), incoming.limits.completion_choices, "texts")
    generations = tuple(
        GenerationRequest(
            id=incoming.request_id,
            model=wire.model,
            prompt=text,
            sampling=_ONE_TOKEN,
            add_special_tokens=wire.add_special_tokens,
            origin=_ORIGIN,
            caller=incoming.caller,
            headers=incoming.headers,
            size=len(incoming.body),
        )
        for text in texts
    )
    return TokenizeRequest(
        generations, several=not isinstance(wire.prompt, str), strings=wire.return_token_strs is True
    )


def _messages(plain: JsonObject, incoming: Incoming) -> TokenizeRequest:
    if plain.get("prompt") is not None:
        raise InvalidRequest("Only one of 'prompt' and 'messages' can be given.", param="messages")
    own = {name: plain.pop(name, None) for name in ("prompt", "add_special_tokens", "return_token_strs")}
    for name in ("add_special_tokens", "return_token_strs"):
        if not isinstance(own[name], bool | None):
            raise InvalidRequest(f"Invalid type for '{name}': expected a boolean.", param=name, code="invalid_type")
    if own["add_special_tokens"]:
        raise InvalidRequest(
            "'add_special_tokens' is not allowed with 'messages': the chat template writes them.",
            param="add_special_tokens",
        )
    plain.setdefault("model", "")
    try:
        body = msgspec.json.encode(plain)
    except UnicodeEncodeError:
        raise InvalidJson("The request body holds an unpaired surrogate escape.") from None
    chat = decode_chat(replace(incoming, body=body))
    return TokenizeRequest(
        (replace(chat.generation, sampling=_ONE_TOKEN),), chat, strings=own["return_token_strs"] is True
    )


def tokenized_body(
    request: TokenizeRequest, ids: Sequence[Sequence[int]], context: int, strings: Sequence[Sequence[str]]
) -> bytes:
    """The answer; `ids` has the ids of each text, `strings` the same as texts where they were asked for."""
    tokens = [list(each) for each in ids]
    counts = [len(each) for each in tokens]
    several = request.several
    found: JsonObject = {
        "count": counts if several else counts[0],
        "max_model_len": context,
        "tokens": tokens if several else tokens[0],
        "token_strs": None if not request.strings else list(map(list, strings)) if several else list(strings[0]),
    }
    return encode_body(found)


def decode_detokenize(incoming: Incoming) -> DetokenizeBody:
    """Decode the body of `incoming`; its lists are all ids or all lists."""
    wire = _DETOKENIZE.decode(incoming.body, incoming.limits, incoming.compat)
    if len({type(each) for each in wire.tokens}) > 1:
        raise InvalidRequest(
            "Invalid 'tokens': expected token ids only, or lists of token ids only.",
            param="tokens",
            code="invalid_type",
        )
    return wire


def detokenized_body(texts: Sequence[str], *, several: bool) -> bytes:
    """The answer."""
    found = list(texts) if several else texts[0]
    return encode_body({"prompt": found, "text": found})
