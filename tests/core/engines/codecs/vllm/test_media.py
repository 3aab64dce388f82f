"""Media as vLLM's message: what was put is what a servicer reads, and tensors are not copied on the way."""

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.base import EngineRequest
from smg_core.engines.codecs.tensors import MediaMessage
from smg_core.engines.codecs.vllm.codec import VllmCodec
from smg_core.engines.codecs.vllm.media import VllmRequestMedia, vllm_media
from smg_core.errors import UnsupportedParameter
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import common_pb2 as common
from smg_engine_contract.engines import vllm_engine_pb2 as pb

CODEC = VllmCodec()


@attrs.frozen(eq=False)
class Tensor:
    """An array as packaging hands it over."""

    array: np.ndarray

    @property
    def data(self) -> memoryview:
        return self.array.reshape(-1).view(np.uint8).data

    @property
    def shape(self) -> Sequence[int]:
        return self.array.shape

    @property
    def dtype(self) -> str:
        return str(self.array.dtype)


@attrs.frozen(eq=False)
class Media:
    """Two pictures of a patch family; every field may be given."""

    primary: str = "pixel_values"
    pixel_values: Tensor = Tensor(np.arange(40, dtype=np.float32).reshape(10, 4))
    tensors: Mapping[str, Tensor] = attrs.field(
        factory=lambda: {
            "image_grid_thw": Tensor(np.array([[1, 2, 2], [1, 2, 3]])),
            "patches_per_image": Tensor(np.array([4, 6])),
        }
    )
    token_id: int = 151655
    placeholders: Sequence[tuple[int, int]] = ((1, 3), (300, 70_000))
    hashes: Sequence[str] = ("ab" * 32, "cd" * 32)
    batched_keys: Sequence[str] = ("image_grid_thw", "patches_per_image")
    flat_keys: Mapping[str, str] = attrs.field(factory=lambda: {"pixel_values": "patches_per_image"})
    keep_on_cpu_keys: Sequence[str] = ("image_grid_thw",)
    modality: str = "image"


@attrs.frozen
class SharedMemoryPlace:
    """Where a tensor lies."""

    name: str
    offset: int
    nbytes: int


def request(multimodal: object) -> EngineRequest:
    return EngineRequest("r", TokenIds([5, 6, 7]), Sampling(max_tokens=3), multimodal=multimodal)


def read(media: Media) -> pb.MultimodalInputs:
    return pb.MultimodalInputs.FromString(vllm_media(media).join())


def array_of(tensor: pb.TensorData) -> np.ndarray:
    return np.frombuffer(tensor.inline, tensor.dtype).reshape(tuple(tensor.shape))


def test_everything_arrives_as_it_was_put() -> None:
    media = Media()
    found = read(media)

    assert np.array_equal(array_of(found.pixel_values), media.pixel_values.array)
    assert set(found.model_specific_tensors) == set(media.tensors)
    for name, tensor in media.tensors.items():
        assert np.array_equal(array_of(found.model_specific_tensors[name]), tensor.array)
    assert found.im_token_id == 151655
    assert [(each.offset, each.length) for each in found.mm_placeholders] == [(1, 3), (300, 70_000)]
    assert list(found.mm_hashes) == list(media.hashes)
    assert list(found.batched_keys) == ["image_grid_thw", "patches_per_image"]
    assert dict(found.flat_keys) == {"pixel_values": "patches_per_image"}
    assert list(found.keep_on_cpu_keys) == ["image_grid_thw"]
    assert found.modality == common.IMAGE
    assert not found.HasField("encoder_input_key")


def test_a_clips_tensor_is_called_as_a_pictures_since_engines_rename_it() -> None:
    found = read(
        Media(primary="pixel_values_videos", modality="video", flat_keys={"pixel_values_videos": "patches_per_image"})
    )

    assert found.modality == common.VIDEO
    assert dict(found.flat_keys) == {"pixel_values": "patches_per_image"}
    assert not found.HasField("encoder_input_key")


def test_another_name_for_the_encoders_tensor_is_stated() -> None:
    found = read(Media(primary="image_pixel_values", batched_keys=("image_pixel_values",), flat_keys={}))

    assert found.encoder_input_key == "image_pixel_values"
    assert list(found.batched_keys) == ["image_pixel_values"]


def test_the_tensors_pieces_borrow_their_memory() -> None:
    media = Media()
    message = vllm_media(media)

    borrowed = [np.frombuffer(piece, np.uint8) for piece in message.pieces if isinstance(piece, memoryview)]
    assert len(borrowed) == 3
    assert any(np.shares_memory(piece, media.pixel_values.array) for piece in borrowed)
    assert message.size == len(message.join())


def test_a_request_carries_one_message_and_further_ones_behind_it() -> None:
    pictures, clips = Media(), Media(modality="video")
    one = pb.GenerateRequest.FromString(CODEC.generate(request(VllmRequestMedia((pictures,)))))
    two = pb.GenerateRequest.FromString(CODEC.generate(request(VllmRequestMedia((pictures, clips)))))

    assert list(one.tokenized.input_ids) == [5, 6, 7]
    assert one.mm_inputs.SerializeToString(deterministic=True) == read(Media()).SerializeToString(deterministic=True)
    assert two.mm_inputs.modality == common.IMAGE
    assert [each.modality for each in two.extra_mm_inputs] == [common.VIDEO]


def test_what_was_prepared_for_another_engine_is_refused() -> None:
    with pytest.raises(UnsupportedParameter):
        CODEC.generate(request([object()]))


@given(
    rows=st.integers(0, 300),
    dtype=st.sampled_from(["float32", "int64", "uint8", "float16"]),
    name=st.text(min_size=1, max_size=200).filter(lambda text: text.isprintable()),
)
def test_any_tensor_under_any_name_survives(rows: int, dtype: str, name: str) -> None:
    tensor = Tensor((np.arange(rows * 2) % 200).astype(dtype).reshape(rows, 2))
    found = read(Media(pixel_values=tensor, tensors={name: tensor}))

    for each in (found.pixel_values, found.model_specific_tensors[name]):
        assert tuple(each.shape) == (rows, 2)
        assert each.inline == tensor.array.tobytes()


def test_pieces_of_a_message_make_a_field_of_another() -> None:
    message = MediaMessage.of([b"\x08\x01", memoryview(b"\x10\x02")])

    assert b"".join(message.tagged(7)) == b"\x3a\x04\x08\x01\x10\x02"


def test_a_tensor_in_shared_memory_is_sent_as_its_place() -> None:
    place = SharedMemoryPlace("smg-1", 16, 160)
    message = vllm_media(Media(), {"pixel_values": place})
    found = pb.MultimodalInputs.FromString(message.join())

    handle = found.pixel_values.shm
    assert (handle.name, handle.offset, handle.nbytes) == ("smg-1", 16, 160)
    assert tuple(found.pixel_values.shape) == (10, 4)
    assert found.pixel_values.dtype == "float32"
    assert found.model_specific_tensors["image_grid_thw"].WhichOneof("payload") == "inline"
    assert message.size < 500


def test_batches_of_one_request_become_one_message_each() -> None:
    moving = Media(primary="pixel_values_videos", modality="video", flat_keys={})
    place = SharedMemoryPlace("smg-2", 0, 160)
    media = VllmRequestMedia((Media(), moving), ({}, {"pixel_values_videos": place}))
    got = pb.GenerateRequest.FromString(CODEC.generate(request(media)))

    assert got.mm_inputs.pixel_values.WhichOneof("payload") == "inline"
    (clips,) = got.extra_mm_inputs
    assert clips.modality == common.VIDEO
    assert clips.pixel_values.shm.name == "smg-2"
    plain = pb.GenerateRequest.FromString(CODEC.generate(request(VllmRequestMedia((Media(), moving)))))
    assert plain.extra_mm_inputs[0].pixel_values.inline


def test_any_tensor_of_a_request_can_be_shared() -> None:
    moving = Media(primary="pixel_values_videos", modality="video", flat_keys={})
    media = VllmRequestMedia((Media(), moving))
    tensors = media.shareable
    first, last = SharedMemoryPlace("smg-3", 0, 160), SharedMemoryPlace("smg-3", 160, 32)
    shared = media.with_shared([first, *[None] * (len(tensors) - 2), last])
    got = pb.GenerateRequest.FromString(CODEC.generate(request(shared)))

    assert tensors[0] is media.batches[0].pixel_values
    assert len(tensors) == 2 * (1 + len(moving.tensors))
    assert got.mm_inputs.pixel_values.shm.nbytes == 160
    (clips,) = got.extra_mm_inputs
    assert clips.model_specific_tensors[list(moving.tensors)[-1]].shm.offset == 160
    payloads = [each.WhichOneof("payload") for each in got.mm_inputs.model_specific_tensors.values()]
    assert payloads == ["inline"] * len(payloads)
