"""Reads what providers list of their models: context, media, prices and kinds, as far as each of them says it.

Each provider has other names for these, and leaves out what it likes: whatever is not as it should be is not said. Pure. Above:
the wire formats, the engine; who asks is `apis.status.provider_lists`. Below: the vocabulary.
"""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import attrs
import msgspec

from smg_core.errors import EngineGarbled
from smg_core.tokens import reported_count

__all__ = ["ANTHROPIC_LIST", "GEMINI_LIST", "OPENAI_LIST", "ModelCatalogue", "ProviderModel"]

MOST_LISTED = 10_000
"""Models of one list that are kept."""
_LONGEST_NAME = 256
_MILLION = 1_000_000
_LEAST_PRICE = Decimal("1e-15")  # of one token or of a million; less is as good as nothing, and long to write
_MOST_TOKENS = 1 << 53  # beyond that a float is no number of tokens
_MEDIA = ("audio", "file", "image", "video")
_KINDS = {
    **dict.fromkeys(("chat", "language", "code", "generatecontent", "chat_completions"), "chat"),
    **dict.fromkeys(("embedding", "embeddings", "embed", "embedcontent", "batchembedcontents"), "embeddings"),
    **dict.fromkeys(("rerank", "reranking"), "rerank"),
    **dict.fromkeys(("image", "predict"), "images"),
}
"""What providers call the kinds of work that a model does."""

_Json = Mapping[str, Any]


@attrs.frozen
class ProviderModel:
    """One model of a list. `context` and `output` are tokens, 0 where the list says nothing of them; `takes` and `gives` are the
    media beside text that go in and come out, None where it does not say; `kinds` the work that it does, () where it does not
    say. `prices` are in USD for a million tokens, by their kind."""

    context: int = 0
    output: int = 0
    takes: frozenset[str] | None = None
    gives: frozenset[str] | None = None
    kinds: tuple[str, ...] = ()
    prices: tuple[tuple[str, str], ...] = ()


@attrs.frozen
class ModelCatalogue:
    """Where a provider lists its models: the `path` below its API's, headers beside the credentials, and how the list is read.
    `read` raises EngineGarbled for what is no list."""

    path: str
    read: Callable[[bytes], Mapping[str, ProviderModel]]
    headers: tuple[tuple[str, str], ...] = ()


def _openai(body: bytes) -> Mapping[str, ProviderModel]:
    """A list as OpenAI has it, with what others have added to its entries."""
    return {name: _openai_model(each) for name, each in _named(body, "data", "id")}


def _anthropic(body: bytes) -> Mapping[str, ProviderModel]:
    found: dict[str, ProviderModel] = {}
    for name, each in _named(body, "data", "id"):
        known = _object(each.get("capabilities"))
        says = {"image": known.get("image_input"), "file": known.get("pdf_input")}
        takes = frozenset(kind for kind, support in says.items() if _object(support).get("supported") is True)
        any_known = any(isinstance(support, Mapping) for support in says.values())
        context, output = _count(each.get("max_input_tokens")), _count(each.get("max_tokens"))
        found[name] = ProviderModel(context, output, takes if any_known else None, kinds=("chat",))
    return found


def _gemini(body: bytes) -> Mapping[str, ProviderModel]:
    return {
        name.removeprefix("models/"): ProviderModel(
            _count(each.get("inputTokenLimit")),
            _count(each.get("outputTokenLimit")),
            kinds=_kinds(each.get("supportedGenerationMethods")),
        )
        for name, each in _named(body, "models", "name")
    }


OPENAI_LIST = ModelCatalogue("/models", _openai)
ANTHROPIC_LIST = ModelCatalogue("/models?limit=1000", _anthropic, (("anthropic-version", "2023-06-01"),))
GEMINI_LIST = ModelCatalogue("/models?pageSize=1000", _gemini)


def _named(body: bytes, field: str, name: str) -> Iterator[tuple[str, _Json]]:
    """The entries of a list with their names: in this field of an object, or the whole answer. Raises EngineGarbled."""
    try:
        answer = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise EngineGarbled("The provider's list of models cannot be read.", detail=type(error).__name__) from None
    entries = answer.get(field) if isinstance(answer, Mapping) else answer
    if not isinstance(entries, list):
        raise EngineGarbled("The provider's list of models cannot be read.", detail="it has no list")
    for each in entries[:MOST_LISTED]:
        called = each.get(name) if isinstance(each, Mapping) else None
        if isinstance(called, str) and 0 < len(called) <= _LONGEST_NAME:
            yield called, each


def _openai_model(entry: _Json) -> ProviderModel:
    shape, top = _object(entry.get("architecture")), _object(entry.get("top_provider"))
    output = _count(top.get("max_completion_tokens")) or _count(entry.get("max_completion_tokens"))
    sources = {**shape, **{name: entry[name] for name in ("input_modalities", "output_modalities") if name in entry}}
    takes, gives = (_media(sources.get(f"{side}_modalities")) for side in ("input", "output"))
    if takes is None:
        takes = _seeing(entry)
    return ProviderModel(
        _context(entry), output, takes, gives, _openai_kinds(entry, gives), _prices(entry.get("pricing"))
    )


def _context(entry: _Json) -> int:
    for name in ("context_length", "context_window", "max_context_length", "max_model_len"):
        if found := _count(entry.get(name)):
            return found
    return 0


def _seeing(entry: _Json) -> frozenset[str] | None:
    """Whether a model is shown pictures, by a switch that says nothing of other media."""
    capabilities = _object(entry.get("capabilities"))
    for switch in (capabilities.get("vision"), entry.get("supports_image_input")):
        if isinstance(switch, bool):
            return frozenset({"image"} if switch else ())
    return None


def _openai_kinds(entry: _Json, gives: frozenset[str] | None) -> tuple[str, ...]:
    kinds = _kinds([entry.get("type")])
    if kinds:
        return kinds
    talks = (_object(entry.get("capabilities")).get("completion_chat"), entry.get("supports_chat"))
    if True in talks:
        return ("chat",)
    return ("images",) if gives is not None and "image" in gives else ()


def _kinds(words: object) -> tuple[str, ...]:
    listed = words if isinstance(words, list) else []
    found = {_KINDS.get(each.lower()) for each in listed if isinstance(each, str)}
    return tuple(sorted(each for each in found if each is not None))


def _media(words: object) -> frozenset[str] | None:
    """Media beside text; None where nothing says which."""
    if not isinstance(words, list):
        return None
    return frozenset(each for each in words if isinstance(each, str) and each in _MEDIA)


def _prices(pricing: object) -> tuple[tuple[str, str], ...]:
    """Prices for a million tokens: of those of a token, by one set of names, or of a million, by the other."""
    amounts = _object(pricing)
    each_token = {
        "prompt": "input",
        "completion": "output",
        "input_cache_read": "cached",
        "input_cache_write": "written",
    }
    by_token = "prompt" in amounts
    names = each_token if by_token else {"input": "input", "output": "output"}
    found: list[tuple[str, str]] = []
    for name, kind in names.items():
        amount = _amount(amounts.get(name))
        if amount is not None:
            found.append((kind, f"{(amount * _MILLION if by_token else amount).normalize():f}"))
    known = dict(found)
    return tuple(found) if Decimal(known.get("input", 0)) or Decimal(known.get("output", 0)) else ()


def _amount(value: object) -> Decimal | None:
    """A price; None for what is none, such as the -1 of a router whose price follows its choice."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    if not amount.is_finite() or not 0 <= amount < _MILLION:
        return None
    return amount if amount >= _LEAST_PRICE else Decimal(0)


def _count(value: object) -> int:
    """A number of tokens; 0 for what is none."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < _MOST_TOKENS:
        return 0
    return reported_count(int(value))


def _object(value: object) -> _Json:
    return value if isinstance(value, Mapping) else {}
