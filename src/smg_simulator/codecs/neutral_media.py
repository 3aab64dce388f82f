"""Reads the media of a request of the neutral contract.

Decides which items are well-formed: tensors have as many bytes as they claim, embeddings lie in the item's placeholder, the
hash has the right length. Pure. Above: codecs.neutral. Whether items fit the prompt is decided by `media.check_media`.
"""

from collections.abc import Sequence

from smg_engine_contract import engine_pb2 as pb
from smg_simulator.engine.media import SeenMedia, seen_tensor
from smg_simulator.engine.refusal import Refused

__all__ = ["KINDS", "read_neutral_media"]

KINDS = ("", "image", "video", "audio")
"""Modalities by their number in the contract."""
_HASH_BYTES = 32


def read_neutral_media(items: Sequence[pb.Media]) -> tuple[SeenMedia, ...]:
    """The media of a GenerateRequest. Raises Refused for an item that is not well-formed."""
    return tuple(_seen(item) for item in items)


def _seen(item: pb.Media) -> SeenMedia:
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
