"""The facts of one model of Anthropic's: by what the list of models says of it, else by its name.

Pure. Above: body, format. Below: the vocabulary.
"""

import re

import attrs
import msgspec
from msgspec import Struct

from smg_core.tokens import reported_count

__all__ = ["ModelFacts", "facts_of", "named_facts"]


@attrs.frozen
class ModelFacts:
    """`sampling`: it takes temperature, top_p and top_k. `prefill`: a talk may end with the assistant. `adaptive` and `budget`
    are ways to have it think; `off`: it can be kept from thinking. `efforts`: the words for how much. `structured`: it can be
    held to a schema. `max_tokens` and `context` are 0 where they are not known."""

    sampling: bool = False
    prefill: bool = False
    adaptive: bool = True
    budget: bool = False
    off: bool = True
    efforts: tuple[str, ...] = ("low", "medium", "high", "xhigh", "max")
    structured: bool = True
    max_tokens: int = 0
    context: int = 0

    @property
    def output(self) -> int:
        """The most tokens of an answer: `max_tokens` has to be sent, and is this where the client has named no number."""
        return self.max_tokens or _USUAL_OUTPUT


_USUAL_OUTPUT = 32_000
_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?![0-9])")


def named_facts(model: str) -> ModelFacts:
    """The facts of a model by its name; one whose name says nothing is taken to be new."""
    found = _VERSION.search(model)
    if found is None:
        return ModelFacts()
    version = (int(found[1]), int(found[2] or 0))
    if version < (3, 7):
        return ModelFacts(True, True, False, False, True, (), False, 4096 if version < (3, 5) else 8192)
    if version < (4, 6):
        efforts = ("low", "medium", "high") if version == (4, 5) and "opus" in model else ()
        return ModelFacts(True, True, False, True, True, efforts, version >= (4, 1))
    if version == (4, 6):
        return ModelFacts(True, False, True, True, True, ("low", "medium", "high", "max"))
    return ModelFacts()


class _Support(Struct, frozen=True):
    supported: bool = False


class _ThinkingTypes(Struct, frozen=True):
    adaptive: _Support = _Support()
    enabled: _Support = _Support()
    disabled: _Support = _Support(True)


class _Thinking(Struct, frozen=True):
    supported: bool = False
    types: _ThinkingTypes = _ThinkingTypes()


class _Capabilities(Struct, frozen=True):
    thinking: _Thinking = _Thinking()
    structured_outputs: _Support = _Support()
    effort: dict[str, _Support | bool | None] = {}


class _Model(Struct, frozen=True):
    id: str
    max_input_tokens: int | None = None
    max_tokens: int | None = None
    capabilities: _Capabilities | None = None


_MODEL = msgspec.json.Decoder(_Model)
_EFFORTS = ModelFacts().efforts


def facts_of(body: bytes) -> tuple[str, ModelFacts]:
    """The model's id and facts, of the answer to GET /v1/models/{id}. Raises msgspec.DecodeError for what is no such answer."""
    model = _MODEL.decode(body)
    facts = attrs.evolve(
        named_facts(model.id),
        max_tokens=reported_count(model.max_tokens),
        context=reported_count(model.max_input_tokens),
    )
    known = model.capabilities
    if known is None:
        return model.id, facts
    types, levels = known.thinking.types, known.effort
    return model.id, attrs.evolve(
        facts,
        adaptive=known.thinking.supported and types.adaptive.supported,
        budget=known.thinking.supported and types.enabled.supported,
        off=types.disabled.supported,
        structured=known.structured_outputs.supported,
        efforts=tuple(word for word in _EFFORTS if isinstance(each := levels.get(word), _Support) and each.supported),
    )
