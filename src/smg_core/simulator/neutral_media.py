"""Media of the neutral contract as the embedded engine takes them, an item at a time.

Decides what is whole: tensors have the bytes they claim, an item's embeddings lie in its placeholder, its hash is one. Pure.
Above: simulator.neutral_face. What items mean for the prompt is `media.check_media`'s.
"""

from collections.abc import Sequence
from typing import Any

from smg_core.simulator.media import SeenMedia, seen_tensor
from smg_core.simulator.refusal import Refused

__all__ = ["KINDS", "read_items"]

KINDS = ("", "image", "video", "audio")
"""By their numbers in the contract."""
_HASH_BYTES = 32


def read_items(items: Sequence[Any]) -> tuple[SeenMedia, ...]:
    """What a GenerateRequest of the neutral contract carries. Raises Refused for what is not whole."""
    return tuple(_seen(item) for item in items)


def _seen(item: Any) -> SeenMedia:
    if not 0 < item.kind < len(KINDS):
        raise Refused("a medium of no kind")
    if len(item.hash) != _HASH_BYTES:
        raise Refused(f"a hash of {len(item.hash)} bytes, not {_HASH_BYTES}")
    names = [tensor.name for tensor in item.tensors]
    if not names or len(set(names)) != len(names):
        raise Refused(f"tensors called {names}")
    place = (item.placeholder.offset, item.placeholder.length)
    spans = tuple((span.offset, span.length) for span in item.embeddings)
    end = place[0]
    for offset, length in spans:
        if offset < end or not length or offset + length > sum(place):
            raise Refused(
                f"embeddings of {length} tokens at {offset} do not fit the placeholder of {place[1]} at {place[0]}"
            )
        end = offset + length
    return SeenMedia(
        modality=KINDS[item.kind],
        tensors={
            tensor.name: seen_tensor(tensor.name, tuple(tensor.shape), tensor.dtype, tensor.data)
            for tensor in item.tensors
        },
        token_id=item.token_id,
        placeholders=(place,),
        hashes=(item.hash.hex(),),
        batched=frozenset(),
        flat={},
        embeddings=spans,
        dialect="neutral",
    )
