"""A request as a routing policy sees it.

Where no tokenizer is there, prompts are compared as text: prompts that begin alike have texts that begin alike. That text is
never sent anywhere; media stand in it as a hash of where they come from, or of their bytes. Pure. Above: selecting. Below: the
records, routing.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b

from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.request import GenerationRequest, MediaSource, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from smg_core.routing import RoutingContext
from smg_core.workers.worker import WorkerRole

__all__ = ["prompt_length", "prompt_text", "routing_context"]

_ROUTING_KEY = "x-smg-routing-key"
_LONGEST_KEY = 512  # characters; a longer one stands as a hash
_CHARACTERS = 4

_ENDS = 4096
_SAMPLES = 16
_SAMPLE = 256


def routing_context(
    prompted: Prompted,
    role: WorkerRole,
    now: float,
    prefix_tokens: int,
    hand_over: Mapping[str, float] | None = None,
    *,
    may_read: bool = False,
    part: str = "",
) -> RoutingContext:
    """What the policy of `role` is told at the time `now`, in monotonic seconds; of a text, about `prefix_tokens` tokens.
    `hand_over`, `may_read` and `part` as of `RoutingContext`."""
    request = prompted.request
    return RoutingContext(
        request_id=request.id,
        model=request.model,
        input_ids=prompted.ids,
        headers=request.headers,
        cache_key=_own_key(request),
        cache_salt=prompted.salt or None,
        lora=prompted.model.adapter or None,
        media_keys=None if prompted.media is None else prompted.media_keys,
        text="" if prompted.ids.size else prompt_text(request, prefix_tokens * _CHARACTERS),
        role=role,
        now=now,
        engine_salt=_engine_salt(prompted) if request.caller.tenant else request.cache_salt,
        media=() if prompted.media is None else prompted.media.starts,
        hand_over=hand_over or {},
        may_read=may_read,
        part=part,
    )


def _engine_salt(prompted: Prompted) -> str | None:
    """What parts the cache of an engine that takes a salt: of the tenant, and of the client's own."""
    request, salts = prompted.request, prompted.model.salts
    if salts is None or not request.caller.tenant:
        return request.cache_salt
    return salts.of(request.caller.tenant, request.cache_salt)


def _own_key(request: GenerationRequest) -> str | None:
    """The client's routing key among those of its tenant, so that a guessed one does not lead to another tenant's worker: its
    header x-smg-routing-key, else the cache key of the request, else that of the session."""
    key = request.headers.get(_ROUTING_KEY) or request.cache_key or request.session_key
    if key is not None and len(key) > _LONGEST_KEY:  # policies keep keys by their number
        key = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
    tenant = request.caller.tenant
    return key if key is None or not tenant else f"{len(tenant)}:{tenant}{key}"


def prompt_text(request: GenerationRequest, most: int) -> str:
    """The first `most` characters of what is asked: tools by name, then the messages in order."""
    if isinstance(request.prompt, str):
        return request.prompt[:most]
    found, left = [], most
    for piece in _pieces(request):
        found.append(piece)
        left -= len(piece)
        if left <= 0:
            break
    return "".join(found)[:most]


def prompt_length(request: GenerationRequest) -> int:
    """About how many tokens is asked with, by its text; what media take is not known here."""
    pieces = (request.prompt,) if isinstance(request.prompt, str) else _pieces(request)
    return sum(map(len, pieces)) // _CHARACTERS


def _pieces(request: GenerationRequest) -> Iterator[str]:
    for tool in request.tools:
        yield f"\x00tool {getattr(tool, 'name', '') or getattr(tool, 'kind', '')}"
    for message in request.messages:
        yield f"\x00{message.role} "
        yield from _texts(message.parts)


def _texts(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Text | Refusal | Reasoning):
            yield part.text
        elif isinstance(part, ToolCall):
            yield f"\x00call {part.name} {part.arguments}"
        elif isinstance(part, ToolResult):
            yield "\x00result "
            yield from _texts(part.content)
        else:
            source = getattr(part, "source", None)
            yield (
                f"\x00{type(part).__name__} {_content(source)} "
                if source is not None
                else f"\x00{type(part).__name__} "
            )


def _content(source: MediaSource) -> str:
    """What tells a medium from others: a hash of its address, or of its bytes; of many, of the ends and of samples between."""
    if source.data is not None:
        return _hash(source.data)
    named = source.url or source.file_id or source.text or ""
    if len(named) <= _ENDS:
        return _hash(named.encode("utf-8", "surrogatepass"))
    step = len(named) // _SAMPLES
    samples = [named[at : at + _SAMPLE] for at in range(0, len(named), step)]
    sample = "".join((str(len(named)), named[:_ENDS], *samples, named[-_ENDS:]))
    return _hash(sample.encode("utf-8", "surrogatepass"))


def _hash(data: bytes) -> str:
    if len(data) > 4 * _ENDS + _SAMPLES * _SAMPLE:
        step = len(data) // _SAMPLES
        samples = [data[at : at + _SAMPLE] for at in range(0, len(data), step)]
        data = b"".join((b"%d" % len(data), data[:_ENDS], *samples, data[-_ENDS:]))
    return blake2b(data, digest_size=16).hexdigest()
