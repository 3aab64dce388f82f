"""Prepared media as the neutral contract's `Media`, framed so that tensors are copied once.

One message per item, with its own tensors: the engine decides what to batch. Pure. Above: `packing` makes a
`NeutralRequestMedia`, `codec` puts its pieces into the request. It does not know how tensors were made: it takes any objects
with the attributes below.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from smg_core.engines.base import SharedPlace, Tensor
from smg_core.engines.codecs.tensors import BytesLike, MediaMessage, head
from smg_engine_contract import engine_pb2 as pb

__all__ = ["NeutralMedium", "NeutralRequestMedia", "neutral_medium"]

_DATA = 4  # Tensor
_TENSORS = 6  # Media
_KINDS = {"image": pb.MEDIA_KIND_IMAGE, "video": pb.MEDIA_KIND_VIDEO, "audio": pb.MEDIA_KIND_AUDIO}


class NeutralMedium(Protocol):
    """One item by itself. `placeholder` and `embeddings` are (offset, length) in tokens of the expanded prompt; `token_id`
    is the token that receives embeddings."""

    @property
    def modality(self) -> str: ...
    @property
    def content_hash(self) -> bytes: ...
    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    @property
    def placeholder(self) -> tuple[int, int]: ...
    @property
    def embeddings(self) -> Sequence[tuple[int, int]]: ...
    @property
    def token_id(self) -> int: ...


@attrs.frozen(eq=False)
class NeutralRequestMedia:
    """The media of one request, in prompt order."""

    items: tuple[NeutralMedium, ...] = attrs.field(repr=False)

    @property
    def shareable(self) -> tuple[Tensor, ...]:
        """None of them: the contract cannot name shared memory."""
        return ()

    def with_shared(self, places: Sequence[SharedPlace | None]) -> "NeutralRequestMedia":
        """The same media, since none of their tensors can be shared."""
        return self

    def messages(self) -> list[MediaMessage]:
        """The items as Media."""
        return [neutral_medium(item) for item in self.items]


def neutral_medium(item: NeutralMedium) -> MediaMessage:
    """`item` as Media."""
    small = pb.Media(
        kind=_KINDS[item.modality],
        hash=item.content_hash,
        placeholder=pb.Span(offset=item.placeholder[0], length=item.placeholder[1]),
        embeddings=[pb.Span(offset=offset, length=length) for offset, length in item.embeddings],
        token_id=item.token_id,
    )
    pieces: list[BytesLike] = [small.SerializeToString()]
    for name, tensor in item.tensors.items():
        pieces += _tensor(name, tensor).tagged(_TENSORS)
    return MediaMessage.of(pieces)


def _tensor(name: str, tensor: Tensor) -> MediaMessage:
    tensor_message = pb.Tensor(name=name, dtype=tensor.dtype, shape=tensor.shape)
    data = tensor.data.cast("B") if tensor.data.format != "B" else tensor.data
    return MediaMessage.of([tensor_message.SerializeToString(), head(_DATA, data.nbytes), data])
