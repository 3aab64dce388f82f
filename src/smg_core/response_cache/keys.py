"""The equality of requests: the key of a request in the cache of answers, and which requests have none.

The key is a digest of the tenant, the model and all of the decoded request that engines may be told, so that it is the same
whether an answer is streamed or not, and for two APIs that ask a model the same. Media are in it by their bytes. Pure. Above:
`caching`. Below: request.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from struct import Struct as Binary
from typing import Protocol

import attrs
from msgspec import Struct
from msgspec.structs import replace

from smg_core.errors import UnsupportedParameter
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import (
    Audio,
    File,
    GenerationRequest,
    HistoryRef,
    HostedTool,
    Image,
    MediaSource,
    Message,
    Part,
    Sampling,
    ToolCall,
    ToolResult,
    Video,
)

__all__ = [
    "CACHE_HEADER",
    "CacheWish",
    "cache_key_of",
    "may_be_shared",
    "model_mark",
    "tenant_mark",
    "tenant_of",
    "wish_of",
]

CACHE_HEADER = "x-smg-cache"
"""The header by which a request says what it wants of the cache, and an answer what it has of it."""

_RUN = frozenset(
    {
        *("id", "stream", "headers", "priority", "background", "session_key", "home"),
        *("deadline_s", "caller", "live", "written", "size", "origin"),
    }
)
"""Fields that say how a request is run, not what is asked."""
_OWN_IDS: Mapping[type, str] = {Message: "id", ToolCall: "item_id"}
"""Ids of what a client sends, which the gateway makes where there are none; no prompt has them."""
_LENGTH = Binary("<Q")
_TENANT_BYTES = 16
"""Bytes of the mark of a tenant."""
_NO_HISTORY = HistoryRef()


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


@attrs.frozen
class CacheWish:
    """What a request wants of the cache: to be given a kept answer (`reads`), and to have its own kept (`keeps`)."""

    reads: bool = True
    keeps: bool = True


_WISHES: Mapping[str, CacheWish] = {
    "on": CacheWish(),
    "fresh": CacheWish(reads=False),
    "off": CacheWish(reads=False, keeps=False),
}


def wish_of(text: str | None) -> CacheWish:
    """What a request wants by its header. Raises UnsupportedParameter for a word that it does not take: `semantic` is one."""
    if text is None:
        return _WISHES["on"]
    word = text.strip().lower()
    if (found := _WISHES.get(word)) is not None:
        return found
    sentence = f"The header {CACHE_HEADER} takes {', '.join(_WISHES)}."
    if word == "semantic":
        sentence = f"Answers to other questions are not given here: there is no semantic cache. {sentence}"
    raise UnsupportedParameter(sentence, param=CACHE_HEADER)


def may_be_shared(request: GenerationRequest, model: ServedModel, *, chance: bool) -> bool:
    """Whether an equal request may get the answer of this one: it has no effect but its answer, which depends on nothing that is
    not in it. `chance`: also where another token might have been drawn."""
    if not request.generate or request.background or request.compact is not None or request.live is not None:
        return False
    history = request.history
    if (
        request.transcription is not None
        or request.speaking is not None
        or request.imaging is not None
        or history.previous_id
        or history.conversation_id
    ):
        return False
    if any(isinstance(tool, HostedTool) for tool in request.tools):
        return False
    if not chance and not _is_certain(request.sampling, model):
        return False
    return all(_has_its_content(part) for message in request.messages for part in message.parts)


def _is_certain(sampling: Sampling, model: ServedModel) -> bool:
    temperature = sampling.temperature
    if temperature is None:
        temperature = model.default_sampling.get("temperature")  # type: ignore[assignment]  # a number in every model's file
    return temperature == 0 or sampling.seed is not None


def _has_its_content(part: Part) -> bool:
    """Whether a part is all there: what an address or the id of a file stands for may change, or be gone."""
    if isinstance(part, ToolResult):
        return all(map(_has_its_content, part.content))
    if not isinstance(part, Image | Audio | Video | File):
        return True
    source: MediaSource = part.source
    return source.data is not None or source.text is not None or (source.url or "").startswith("data:")


def model_mark(model: ServedModel, reported: Sequence[str]) -> bytes:
    """What of a model an answer depends on: its names, its template, how its output is read, its defaults, and what its engines
    have `reported` of it."""
    digest = blake2b(digest_size=16)
    template = model.template
    _feed(
        digest,
        (
            *(model.name, model.primary, model.root, model.adapter, model.context_length, model.vocab_size),
            model.parser.name if model.parser is not None else "",
            getattr(template, "sources", type(template).__qualname__),
            model.default_sampling,
            model.protect_control,
            sorted(set(reported)),
        ),
    )
    return digest.digest()


def cache_key_of(request: GenerationRequest, revision: str, mark: bytes, guarded: str = "") -> bytes:
    """The key of a request to the model of this mark, which the guardrails of the mark `guarded` have let pass. It begins with
    the mark of its tenant."""
    digest = blake2b(digest_size=24)
    origin, caller = request.origin, request.caller
    asked = replace(request, history=_NO_HISTORY)
    _feed(digest, (caller.tenant, revision, mark, guarded))
    if origin is not None:
        own = (origin.api, origin.revision, origin.bounds) if request.own_fields or request.extra else ()
        _feed(digest, (origin.version, origin.betas, origin.traits, origin.seals, own))
        _feed(digest, origin.calls if request.tools else "")
    for name in asked.__struct_fields__:
        if name not in _RUN:
            _feed(digest, getattr(asked, name))
    return tenant_mark(caller.tenant) + digest.digest()


def tenant_mark(tenant: str) -> bytes:
    """What the keys of a tenant begin with, so that its answers are found when it is erased."""
    return blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=_TENANT_BYTES).digest()


def tenant_of(key: bytes) -> bytes:
    """The mark of the tenant of a key."""
    return key[:_TENANT_BYTES]


def _feed(digest: _Digest, value: object) -> None:
    """Feed a value, so that no two values that differ are fed the same: kinds and lengths are part of it. Mappings count in
    their order, in which templates write them."""
    if value is None or isinstance(value, bool | int | float):
        _put(digest, b"p", repr(value).encode())
    elif isinstance(value, str):
        _put(digest, b"s", value.encode("utf-8", "surrogatepass"))
    elif isinstance(value, bytes):
        _put(digest, b"b", value)
    elif isinstance(value, Struct):
        _put(digest, b"r", type(value).__qualname__.encode())
        own = _OWN_IDS.get(type(value))
        for name in value.__struct_fields__:
            if name != own:
                _feed(digest, getattr(value, name))
    elif isinstance(value, Mapping):
        _put(digest, b"m", _LENGTH.pack(len(value)))
        for key, each in value.items():
            _feed(digest, key)
            _feed(digest, each)
    elif isinstance(value, frozenset | set):
        _feed(digest, sorted(value))
    elif isinstance(value, Sequence):
        _feed_all(digest, value)
    else:
        raise TypeError(f"no key is made of a {type(value).__qualname__}")


def _feed_all(digest: _Digest, values: Sequence[object]) -> None:
    if values and all(type(each) is int for each in values):  # a prompt of token ids may be long
        _put(digest, b"i", ",".join(map(str, values)).encode())
        return
    _put(digest, b"l", _LENGTH.pack(len(values)))
    for each in values:
        _feed(digest, each)


def _put(digest: _Digest, kind: bytes, data: bytes) -> None:
    digest.update(kind + _LENGTH.pack(len(data)))
    digest.update(data)
