"""One model as the gateway serves it: everything that is the same for all requests to it and all its workers.

Made when the first worker of the model has joined, and gone when the last one has left. Holds no worker and nothing that differs
between them: what an engine can do travels with the worker (`engines.base.EngineFacts`).
"""

from collections.abc import Mapping

import attrs

from smg_core.pipeline.conformance import OnViolation
from smg_core.pipeline.media import MediaService
from smg_core.sealing import ReasoningSeals
from smg_core.tokenizer.base import PromptTemplate, Tokenizer
from smg_parsers import Family

__all__ = ["ServedModel"]


@attrs.frozen
class ServedModel:
    """`name` is what clients ask for; `primary` the first of the names that the model goes by, under which policies keep
    their state. `tokenizer` is None while all engines of the model speak chat and encode by themselves. `context_length`
    counts prompt and output, 0 when unknown; an engine's own may be smaller. `parser` is the family whose format the output
    has, None when it is plain text; `default_sampling` the model's own generation config. `encode_inline` is how many
    characters of new text its tokenizer encodes in about half a millisecond: no more is encoded on the event loop. `media`
    is None for a model that takes text alone. `on_violation` says what becomes of an answer that is not of the format
    that was asked for. `parser_header`: a request may name another family. `answer_bytes` bounds what an answer that leaves
    whole may take until then, 0 not at all. `seals` seal and open its reasoning; without them nothing is sealed.
    `refuses_budget`: a budget for reasoning is refused where the family has no marker for its end, instead of being ignored."""

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
    on_violation: OnViolation = "report"
    parser_header: bool = False
    answer_bytes: int = 0
    seals: ReasoningSeals | None = None
    refuses_budget: bool = False
