"""Media as the contract's messages: what was put is what an engine reads, and tensors are not copied on the way."""

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import pytest
from tests.core.engines.codecs.vllm.test_media import Tensor

from smg_core.engines.base import EngineRequest
from smg_core.engines.codecs.neutral.codec import NeutralCodec
from smg_core.engines.codecs.neutral.media import NeutralRequestMedia, neutral_medium
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract import engine_pb2 as pb


@attrs.frozen(eq=False)
class Item:
    """One picture; every field may be given."""

    modality: str = "image"
    content_hash: bytes = bytes(range(32))
    tensors: Mapping[str, Tensor] = attrs.field(
        factory=lambda: {
            "pixel_values": Tensor(np.arange(40, dtype=np.float32).reshape(10, 4)),
            "image_grid_thw": Tensor(np.array([[1, 2, 5]])),
        }
    )
    placeholder: tuple[int, int] = (1, 70_000)
    embeddings: Sequence[tuple[int, int]] = ((2, 5), (9, 1))
    token_id: int = 151655


def test_everything_arrives_as_it_was_put() -> None:
    item = Item()
    message = neutral_medium(item)
    found = pb.Media.FromString(message.join())

    assert found.kind == pb.MEDIA_KIND_IMAGE
    assert found.hash == item.content_hash
    assert (found.placeholder.offset, found.placeholder.length) == item.placeholder
    assert [(span.offset, span.length) for span in found.embeddings] == list(item.embeddings)
    assert found.token_id == item.token_id
    assert [tensor.name for tensor in found.tensors] == list(item.tensors)
    for tensor in found.tensors:
        array = np.frombuffer(tensor.data, tensor.dtype).reshape(tuple(tensor.shape))
        assert np.array_equal(array, item.tensors[tensor.name].array)
    borrowed = [np.frombuffer(piece, np.uint8) for piece in message.pieces if isinstance(piece, memoryview)]
    assert any(np.shares_memory(piece, item.tensors["pixel_values"].array) for piece in borrowed)
    assert message.size == len(message.join())


@pytest.mark.parametrize(
    ("kind", "number"), [("video", pb.MEDIA_KIND_VIDEO), ("audio", pb.MEDIA_KIND_AUDIO), ("image", pb.MEDIA_KIND_IMAGE)]
)
def test_a_request_carries_an_item_a_field_beside_its_ids(kind: str, number: int) -> None:
    media = NeutralRequestMedia((Item(modality=kind), Item(content_hash=bytes(32))))
    request = EngineRequest("r", TokenIds([5, 300]), Sampling(max_tokens=3), multimodal=media, cache_salt="s")
    found = pb.GenerateRequest.FromString(NeutralCodec().generate(request))

    assert list(found.input_ids) == [5, 300]
    assert found.cache_salt == "s"
    assert [each.kind for each in found.media] == [number, pb.MEDIA_KIND_IMAGE]
    assert found.media[1].hash == bytes(32)


def test_an_engine_says_which_kinds_it_takes() -> None:
    said = pb.GetModelResponse(
        model=pb.Model(name="m"), capabilities=pb.Capabilities(media=[pb.MEDIA_KIND_AUDIO, pb.MEDIA_KIND_IMAGE, 99])
    )

    assert NeutralCodec().describes.parse(said.SerializeToString()).media == {"audio", "image"}
    assert NeutralCodec().describes.parse(pb.GetModelResponse().SerializeToString()).media == frozenset()
