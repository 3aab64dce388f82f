"""Prepared pictures as SGLang's MultimodalInputs, framed so that tensors are copied once.

The tensors of all pictures are joined, and their files go along, of which the engine makes its hashes. A tensor lies within the
message: this dialect cannot name a place in shared memory. Pure. Above: `packing` makes an `SglangRequestMedia`, `codec` puts its
pieces into the request. It takes any objects with the attributes below.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from smg_core.engines.base import SharedPlace, Tensor
from smg_core.engines.codecs.tensors import BytesLike, MediaMessage, head, map_field, with_data
from smg_engine_contract.engines import sglang_scheduler_pb2 as pb

__all__ = ["SglangMedia", "SglangRequestMedia"]

_DATA = 1  # TensorData
_PIXEL_VALUES, _IMAGE_DATA, _TENSORS = 4, 5, 9  # MultimodalInputs


class SglangMedia(Protocol):
    """All pictures of a request. `placeholders` are the (offset, length), in tokens of the expanded prompt, of what receives
    embeddings; `token_id` is the token there; `image_data` are the files as they came."""

    @property
    def pixel_values(self) -> Tensor: ...
    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    @property
    def token_id(self) -> int: ...
    @property
    def placeholders(self) -> Sequence[tuple[int, int]]: ...
    @property
    def image_data(self) -> Sequence[bytes]: ...


@attrs.frozen(eq=False)
class SglangRequestMedia:
    """The pictures of one request."""

    pictures: SglangMedia = attrs.field(repr=False)

    @property
    def shareable(self) -> tuple[Tensor, ...]:
        """None of them: the dialect cannot name shared memory."""
        return ()

    def with_shared(self, places: Sequence[SharedPlace | None]) -> "SglangRequestMedia":
        """The same media, since none of their tensors can be shared."""
        return self

    def message(self) -> MediaMessage:
        """The pictures as MultimodalInputs."""
        media = self.pictures
        small = pb.MultimodalInputs(
            im_token_id=media.token_id,
            mm_placeholders=[pb.PlaceholderRange(offset=at, length=length) for at, length in media.placeholders],
            modalities=["image"] * len(media.image_data),
        )
        pieces: list[BytesLike] = [small.SerializeToString(), *_tensor(media.pixel_values).tagged(_PIXEL_VALUES)]
        for file in media.image_data:
            pieces += [head(_IMAGE_DATA, len(file)), file]
        pieces += map_field(_TENSORS, {name: _tensor(tensor) for name, tensor in media.tensors.items()})
        return MediaMessage.of(pieces)


def _tensor(tensor: Tensor) -> MediaMessage:
    tensor_data = pb.TensorData(shape=tensor.shape, dtype=tensor.dtype)
    return with_data(tensor_data.SerializeToString(), _DATA, tensor.data)
