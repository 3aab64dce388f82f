"""Prepared media as vLLM's MultimodalInputs, framed so that tensors are copied once.

Decides names and framing. The encoder's input tensor goes into the field `pixel_values` and has this name in the lists of keys
too, also for clips, which engines rename; a model with another name for it states that in `encoder_input_key`. A tensor lies
within the message, or in shared memory with its place in the message. Pure. Above: `packing` makes a `VllmRequestMedia`,
`codec` puts its pieces into the request. Below: the vendor's messages. It does not know how tensors were made or shared: it
takes any objects with the attributes below.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from smg_core.engines.base import SharedPlace, Tensor
from smg_core.engines.codecs.tensors import BytesLike, MediaMessage, map_field, with_data
from smg_engine_contract.engines import common_pb2 as common
from smg_engine_contract.engines import vllm_engine_pb2 as pb

__all__ = ["VllmMedia", "VllmRequestMedia", "vllm_media"]

_INLINE = 1  # TensorData
_PIXEL_VALUES, _TENSORS = 2, 3  # MultimodalInputs
_GENERIC = "pixel_values"
_GENERIC_NAMES = frozenset({_GENERIC, "pixel_values_videos"})
_MODALITIES = {"image": common.IMAGE, "video": common.VIDEO, "audio": common.AUDIO}


class VllmMedia(Protocol):
    """All items of one modality: `primary` names the encoder's tensor, which is `pixel_values` here; `tensors` has the others.

    `placeholders` are (offset, length) in tokens of the expanded prompt, one an item, as are `hashes`; `token_id` is the token
    that receives embeddings, None where all do, also those that the answer will have. Keys are batched (axis 0 is the item) or
    flat (rows an item as the named tensor says).
    """

    @property
    def primary(self) -> str: ...
    @property
    def pixel_values(self) -> Tensor: ...
    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    @property
    def token_id(self) -> int | None: ...
    @property
    def placeholders(self) -> Sequence[tuple[int, int]]: ...
    @property
    def hashes(self) -> Sequence[str]: ...
    @property
    def batched_keys(self) -> Sequence[str]: ...
    @property
    def flat_keys(self) -> Mapping[str, str]: ...
    @property
    def keep_on_cpu_keys(self) -> Sequence[str]: ...
    @property
    def modality(self) -> str: ...


@attrs.frozen(eq=False)
class VllmRequestMedia:
    """The media of one request: a batch for each modality, and for each batch the tensors that lie in shared memory instead of
    in the message, by name (`primary` may be among them)."""

    batches: tuple[VllmMedia, ...] = attrs.field(repr=False)
    shared: tuple[Mapping[str, SharedPlace], ...] = ()

    @property
    def shareable(self) -> tuple[Tensor, ...]:
        """Every tensor, batch by batch, the encoder's first."""
        return tuple(tensor for batch in self.batches for tensor in (batch.pixel_values, *batch.tensors.values()))

    def with_shared(self, places: Sequence[SharedPlace | None]) -> "VllmRequestMedia":
        """The same media; each tensor with a place lies there instead of in the message."""
        left, shared = iter(places), []
        for batch in self.batches:
            found = {name: next(left) for name in (batch.primary, *batch.tensors)}
            shared.append({name: place for name, place in found.items() if place is not None})
        return attrs.evolve(self, shared=tuple(shared))

    def messages(self) -> list[MediaMessage]:
        """The batches as MultimodalInputs."""
        places = self.shared or ({},) * len(self.batches)
        return [vllm_media(batch, shared) for batch, shared in zip(self.batches, places, strict=True)]


def vllm_media(media: VllmMedia, shared: Mapping[str, SharedPlace] | None = None) -> MediaMessage:
    """`media` as MultimodalInputs; for a tensor named in `shared` only its place is sent."""

    own = _GENERIC if media.primary in _GENERIC_NAMES else media.primary
    places = shared or {}

    def named(key: str) -> str:
        return own if key == media.primary else key

    small = pb.MultimodalInputs(
        im_token_id=media.token_id,
        mm_placeholders=[pb.PlaceholderRange(offset=offset, length=length) for offset, length in media.placeholders],
        mm_hashes=media.hashes,
        batched_keys=[named(key) for key in media.batched_keys],
        flat_keys={named(key): sizes for key, sizes in media.flat_keys.items()},
        keep_on_cpu_keys=[named(key) for key in media.keep_on_cpu_keys],
        modality=_MODALITIES[media.modality],
        encoder_input_key=None if own == _GENERIC else own,
    )
    primary = _tensor(media.pixel_values, places.get(media.primary))
    pieces: list[BytesLike] = [small.SerializeToString(), *primary.tagged(_PIXEL_VALUES)]
    pieces += map_field(_TENSORS, {name: _tensor(tensor, places.get(name)) for name, tensor in media.tensors.items()})
    return MediaMessage.of(pieces)


def _tensor(tensor: Tensor, place: SharedPlace | None) -> MediaMessage:
    """TensorData with its bytes inline, or with where they are."""
    tensor_data = pb.TensorData(shape=tensor.shape, dtype=tensor.dtype)
    if place is not None:
        tensor_data.shm.name, tensor_data.shm.offset, tensor_data.shm.nbytes = place.name, place.offset, place.nbytes
        return MediaMessage.of([tensor_data.SerializeToString()])
    return with_data(tensor_data.SerializeToString(), _INLINE, tensor.data)
