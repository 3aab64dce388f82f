"""One model as the gateway serves it: everything that is the same for all requests to it and all its workers.

`models.onboarding` makes it when the first worker of the model joins, replaces it when another join changes what the workers
agree on, and removes it when the last one leaves. Holds no worker and nothing that differs between workers: what an engine can do
is in the worker's `EngineFacts`.
"""

from collections.abc import Callable, Hashable, Mapping

import attrs

from smg_core.engines.pooling import class_names
from smg_core.pipeline.prompt.conformance import OnViolation
from smg_core.pipeline.prompt.media import MEDIA_KINDS, MediaService
from smg_core.request import GenerationRequest
from smg_core.sealing.cache_salts import CacheSalts
from smg_core.sealing.reasoning import ReasoningSeals
from smg_core.tokenizer.base import PromptTemplate, Tokenizer
from smg_core.tokenizer.pairs import PAIR_OF_TEXTS, PairFrame
from smg_parsers import Family

__all__ = ["ServedAs", "ServedModel", "SharedOut", "as_named", "names_of_classes", "unshared"]

ServedAs = Callable[[str, str], str]
"""The model that a name, which is no model's own, stands for in a request of a tenant; the name itself where it is no alias."""


SharedOut = Callable[[GenerationRequest], str]
"""The model that a request gets, of those that share the requests for its name; the name itself where there are none."""


def unshared(request: GenerationRequest) -> str:
    """No name is shared."""
    return request.model


def names_of_classes(model_config: Mapping[str, object]) -> tuple[str, ...]:
    """The names of a classifier's classes in the object of its config.json; () where it has none."""
    names = model_config.get("id2label")
    return class_names(names) if isinstance(names, dict) else ()


def as_named(name: str, tenant: str) -> str:
    """No name stands for another."""
    return name


@attrs.frozen
class ServedModel:
    """`name` is what clients ask for; `primary` the first of the model's names, under which policies keep their state.
    `tokenizer` is None while all engines of the model speak chat and encode by themselves. `context_length` counts prompt and
    output, 0 if unknown; an engine's own may be smaller. `parser` is the family that parses the output, None for plain text;
    `default_sampling` is the model's own generation config. `encode_inline`: how many characters of new text may be encoded on
    the event loop (about half a millisecond). `media` is None for a model that takes only text, and
    `no_media` is why, where that is not its nature. `on_violation`: what happens to
    an answer that violates its format. `parser_header`: a request may name another family. `answer_bytes`: how much memory an
    answer that is not streamed may take, 0 for no bound. `seals` seal and open its reasoning; None: nothing is sealed. `salts`
    part the engines' caches by tenant; None: only by what clients send. `pair` puts two texts together for a cross-encoder,
    None where its tokenizer has a rule for that which makes no sense; `labels` are the names of a classifier's classes, in
    their order. `adapter` is the LoRA adapter of the model that this name asks for; "" for the model itself. `refuses_budget`:
    a budget for reasoning is refused, not ignored, if the family has no marker for the end of reasoning. `thinks`: its chat
    template knows reasoning, so that the model may be taken to reason unasked. `readings` is where `pipeline.fit.reader_choice`
    keeps how the answers to usual requests are read: one for each end of a prompt that the template can write."""

    name: str
    tokenizer: Tokenizer | None
    template: PromptTemplate | None = None
    context_length: int = 0
    vocab_size: int = 0
    parser: Family | None = None
    default_sampling: Mapping[str, object] = attrs.field(factory=dict)
    protect_control: bool = True
    encode_inline: int = 4_000
    created: int = 0
    root: str = ""
    primary: str = ""
    media: MediaService | None = None
    no_media: str = ""
    on_violation: OnViolation = "report"
    parser_header: bool = False
    answer_bytes: int = 0
    seals: ReasoningSeals | None = None
    salts: CacheSalts | None = None
    refuses_budget: bool = False
    thinks: bool = True
    adapter: str = ""
    pair: PairFrame | None = PAIR_OF_TEXTS
    labels: tuple[str, ...] = ()
    readings: dict[Hashable, object] = attrs.field(factory=dict, init=False, eq=False, repr=False)

    @property
    def media_kinds(self) -> frozenset[str]:
        """The kinds of media that requests to it may have: all, as far as is known, where its engines read prompts themselves."""
        if self.media is not None:
            return self.media.kinds
        return MEDIA_KINDS if self.tokenizer is None else frozenset()
