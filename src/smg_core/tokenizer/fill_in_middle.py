"""The prompt for the text between a beginning and an end, by special tokens of a model's family.

A model was trained for this if its vocabulary has the family's tokens. Other models are refused: they would take the end of the
text for ordinary text. Pure. Above: pipeline.prompt.prepare. Below: the tokenizer.

Sources: the model cards and papers of StarCoder (arXiv 2305.06161), Qwen2.5-Coder (2409.12186), CodeGemma (2406.11409),
DeepSeek-Coder (2401.14196), Codestral (mistral-common's FIM encoding), Seed-Coder (2506.03524).
"""

from collections.abc import Mapping
from types import MappingProxyType

from smg_core.tokenizer.base import Tokenizer

__all__ = ["FORMATS", "between"]

FORMATS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>": (
            "<|fim_prefix|>",
            "<|fim_suffix|>",
            "<|fim_middle|>",
        ),
        "<fim_prefix>{prefix}<fim_suffix>{suffix}<fim_middle>": ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
        "<fim-prefix>{prefix}<fim-suffix>{suffix}<fim-middle>": ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
        "<｜fim▁begin｜>{prefix}<｜fim▁hole｜>{suffix}<｜fim▁end｜>": (
            "<｜fim▁begin｜>",
            "<｜fim▁hole｜>",
            "<｜fim▁end｜>",
        ),
        "<[fim-suffix]>{suffix}<[fim-prefix]>{prefix}<[fim-middle]>": (
            "<[fim-suffix]>",
            "<[fim-prefix]>",
            "<[fim-middle]>",
        ),
        "[SUFFIX]{suffix}[PREFIX]{prefix}": ("[SUFFIX]", "[PREFIX]"),
    }
)
"""The prompt of each format, and the tokens that a vocabulary must have for it."""


def between(prefix: str, suffix: str, tokenizer: Tokenizer) -> str | None:
    """The prompt that asks for the text between `prefix` and `suffix`; None for a model that was not trained for it."""
    for layout, tokens in FORMATS.items():
        if all(tokenizer.token_id(token) is not None for token in tokens):
            # One pass over the layout: texts that spell a placeholder stay as they are.
            head, _, rest = layout.partition("{")
            first, _, rest = rest.partition("}")
            middle, _, rest = rest.partition("{")
            second, _, tail = rest.partition("}")
            texts = {"prefix": prefix, "suffix": suffix}
            return "".join((head, texts[first], middle, texts[second], tail))
    return None
