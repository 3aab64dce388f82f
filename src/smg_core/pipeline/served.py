"""One model as the gateway serves it: everything that is the same for all requests to it.

Made once, when the first worker of the model has joined, and replaced as a whole when something about it changes. Holds no
worker: which of them takes a request is routing's question.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from smg_core.engines.base import EngineFacts
from smg_core.pipeline.media import MediaService
from smg_core.tokenizer.base import Tokenizer
from smg_core.tokenizer.chat_template import ChatTemplate
from smg_parsers import Family

__all__ = ["ServedModel"]


@attrs.frozen
class ServedModel:
    """`name` is what clients ask for. `context_length` counts prompt and output, 0 when unknown; `parser` is the family
    whose format the output has, None when it is plain text; `default_sampling` the model's own generation config.
    `encode_inline` is how many characters of new text its tokenizer encodes in about half a millisecond: no more is
    encoded on the event loop. `media` is None for a model that takes text alone."""

    name: str
    tokenizer: Tokenizer
    template: ChatTemplate | None
    context_length: int
    vocab_size: int
    dialect: str
    capabilities: EngineFacts
    parser: Family | None = None
    default_sampling: Mapping[str, Any] = attrs.field(factory=dict)
    protect_control: bool = True
    encode_inline: int = 4_000
    created: int = 0
    root: str = ""
    media: MediaService | None = None
