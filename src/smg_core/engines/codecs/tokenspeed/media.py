"""Prepared media as TokenSpeed's MultimodalInputs, framed so that tensors are copied once.

One message per item, with its own tensors. A tensor lies within the message: the engine deletes what it has read from shared
memory, which would take it from other requests with the same picture. Pure. Above: `packing` makes a `TokenSpeedRequestMedia`,
`codec` puts its pieces into the request. It takes any objects with the attributes below.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import attrs

from smg_core.engines.base import SharedPlace, Tensor
from smg_core.engines.codecs.tensors import BytesLike, MediaMessage, map_field, with_data
from smg_engine_contract.engines import common_pb2 as common
from smg_engine_contract.engines import tokenspeed_scheduler_pb2 as pb

__all__ = ["TokenSpeedMedium", "TokenSpeedRequestMedia"]

_ITEMS = 1  # MultimodalInputs
_INLINE = 3  # TensorData
_ENCODER_INPUT, _TENSORS = 3, 4  # MultimodalItem
_MODALITIES = {"image": common.IMAGE, "video": common.VIDEO, "audio": common.AUDIO}


class TokenSpeedMedium(Protocol):
    """One item by itself. `placeholders` are the (offset, length), in tokens of the expanded prompt, of what receives embeddings;
    `token_id` is the token there."""

    @property
    def modality(self) -> str: ...
    @property
    def content_hash(self) -> bytes: ...
    @property
    def encoder_input(self) -> Tensor: ...
    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    @property
    def placeholders(self) -> Sequence[tuple[int, int]]: ...
    @property
    def token_id(self) -> int: ...


@attrs.frozen(eq=False)
class TokenSpeedRequestMedia:
    """The media of one request, in prompt order."""

    items: tuple[TokenSpeedMedium, ...] = attrs.field(repr=False)

    @property
    def shareable(self) -> tuple[Tensor, ...]:
        """None of them: the engine deletes what it reads from shared memory."""
        return ()

    def with_shared(self, places: Sequence[SharedPlace | None]) -> "TokenSpeedRequestMedia":
        """The same media, since none of their tensors are shared."""
        return self

    def only(self, number: int) -> "TokenSpeedRequestMedia":
        """The item of that number alone."""
        return TokenSpeedRequestMedia((self.items[number],))

    def message(self, without: Collection[int] = ()) -> MediaMessage:
        """The items as MultimodalInputs. Those whose numbers are in `without` come without their encoder's input: another engine
        encodes them."""
        pieces: list[BytesLike] = []
        for number, item in enumerate(self.items):
            pieces += _item(item, with_input=number not in without).tagged(_ITEMS)
        return MediaMessage.of(pieces)


def _item(item: TokenSpeedMedium, *, with_input: bool) -> MediaMessage:
    small = pb.MultimodalItem(
        modality=_MODALITIES[item.modality],
        content_hash=item.content_hash,
        placeholders=[pb.PlaceholderRange(offset=at, length=length) for at, length in item.placeholders],
        placeholder_token_id=item.token_id,
    )
    pieces: list[BytesLike] = [small.SerializeToString()]
    if with_input:
        pieces += _tensor(item.encoder_input).tagged(_ENCODER_INPUT)
    pieces += map_field(_TENSORS, {name: _tensor(tensor) for name, tensor in item.tensors.items()})
    return MediaMessage.of(pieces)


def _tensor(tensor: Tensor) -> MediaMessage:
    tensor_data = pb.TensorData(shape=tensor.shape, dtype=tensor.dtype)
    return with_data(tensor_data.SerializeToString(), _INLINE, tensor.data)
