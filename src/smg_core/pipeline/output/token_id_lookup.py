"""Finds the ids of tokens that an engine named by their text alone.

llama.cpp's server streams of a character that takes several tokens only the last id, beside the text of the whole character. What
is missing is found from that text: the ids that the tokenizer gives for it, where they end with the id that is known, else one id
a byte. Their text is then what the engine said, to the byte; that the model took the same ids is likely, and not certain. Pure.
Above: pipeline.output.processor, which calls it before anything else looks at an output. Below: tokenizer.
"""

import math
from collections.abc import Sequence

from msgspec.structs import replace

from smg_core.engines.base import EngineLogprob, EngineOutput
from smg_core.tokenizer.base import Tokenizer

__all__ = ["with_all_ids"]


def with_all_ids(output: EngineOutput, tokenizer: Tokenizer) -> EngineOutput:
    """`output` with the ids that are missing before its own, if its text says that some are. Nobody told their logprobs, which
    stand as minus infinity."""
    own = b"".join(map(tokenizer.token_bytes, output.ids))
    spelled = output.text.encode("utf-8", "surrogatepass")
    if len(spelled) <= len(own) or not spelled.endswith(own):
        return output
    missing = _ids_of(spelled[: len(spelled) - len(own)], output, tokenizer)
    rows = output.logprobs and [*(EngineLogprob(each, -math.inf) for each in missing), *output.logprobs]
    return replace(output, ids=[*missing, *output.ids], logprobs=rows)


def _ids_of(left: bytes, output: EngineOutput, tokenizer: Tokenizer) -> Sequence[int]:
    """Ids whose bytes are `left`, to stand before those of `output`."""
    whole = list(tokenizer.encode(output.text, allow_control=False))
    known = list(output.ids)
    head = whole[: len(whole) - len(known)]
    if whole[len(head) :] == known and b"".join(map(tokenizer.token_bytes, head)) == left:
        return head
    single = [found for each in left if (found := _id_of_byte(each, tokenizer)) is not None]
    return single if len(single) == len(left) else head


def _id_of_byte(byte: int, tokenizer: Tokenizer) -> int | None:
    """The token that is this byte alone, as byte-level and byte-fallback vocabularies write it."""
    for name in (_BYTE_LEVEL[byte], f"<0x{byte:02X}>"):
        found = tokenizer.token_id(name)
        if found is not None and tokenizer.token_bytes(found) == bytes((byte,)):
            return found
    return None


def _byte_level() -> tuple[str, ...]:
    """The character that stands for each byte in a byte-level vocabulary: printable ones for themselves, the others in order from
    U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


_BYTE_LEVEL = _byte_level()
