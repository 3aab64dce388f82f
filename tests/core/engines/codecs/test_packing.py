"""Prepared media, packed by each dialect's row: what an engine that normalises is sent, and what it may read from shared
memory."""

import io
from collections.abc import Sequence
from itertools import permutations
from typing import Literal

import pytest
from PIL import Image
from tests.engine_kinds import DIALECTS

from smg_core.engines.base import EngineFacts, EngineRequest
from smg_core.engines.kinds.table import kind
from smg_core.errors import UnsupportedParameter
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract import engine_pb2 as neutral
from smg_engine_contract.engines import trtllm_service_pb2 as trtllm
from smg_engine_contract.engines import vllm_engine_pb2 as vllm
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.preparing.prepare import Media, Prepared, Preparer

SPECIAL = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
FILES = ModelFiles(
    {"model_type": "qwen2_vl"},
    {"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2},
)


class Words:
    """Special tokens from 1000 on, else code points."""

    def token_id(self, token: str) -> int | None:
        return 1000 + SPECIAL.index(token) if token in SPECIAL else None

    def encode(self, text: str) -> Sequence[int]:
        return [ord(each) for each in text]


def prepared(*, normalizes: bool) -> Prepared:
    out = io.BytesIO()
    Image.new("RGB", (56, 56), (200, 20, 20)).save(out, "PNG")
    preparer = Preparer(FILES.unnormalised() if normalizes else FILES, Words())
    return preparer.prepare([1, preparer.rules[0].anchor, 2], [Media(out.getvalue())])


def sent(name: str, media: object) -> bytes:
    request = EngineRequest("r", TokenIds([1, 2]), Sampling(max_tokens=1), multimodal=media)
    return kind(name).codec().generate(request)


@pytest.mark.parametrize(
    ("normalizes", "floats", "dtype"),
    [
        (False, "float32", "float32"),
        (True, "float32", "uint8"),
        (False, "bfloat16", "bfloat16"),
        (True, "float16", "uint8"),
    ],
)
def test_vllm_is_sent_pixels_as_bytes_where_it_normalises_and_floats_as_wide_as_it_takes_them(
    normalizes: bool, floats: Literal["float32", "bfloat16", "float16"], dtype: str
) -> None:
    facts = EngineFacts("vllm", normalizes=normalizes, floats=floats)
    media = kind("vllm").packing().pack(prepared(normalizes=normalizes), facts)
    got = vllm.GenerateRequest.FromString(sent("vllm", media)).mm_inputs

    assert got.pixel_values.dtype == dtype
    assert {each.dtype for each in got.model_specific_tensors.values()} == {"int64"}
    first, *others = media.shareable
    assert first.dtype == dtype
    assert len(others) == len(got.model_specific_tensors)


def test_the_neutral_contract_is_sent_each_item_and_lends_nothing() -> None:
    media = kind("neutral").packing().pack(prepared(normalizes=False), EngineFacts("any"))
    (got,) = neutral.GenerateRequest.FromString(sent("neutral", media)).media

    assert {tensor.name: tensor.dtype for tensor in got.tensors} == {
        "pixel_values": "float32",
        "image_grid_thw": "int64",
    }
    assert list(media.shareable) == []
    assert media.with_shared([]) is media


def test_tensorrt_llm_is_sent_files_and_the_prompt_as_it_was_with_what_was_answered_since() -> None:
    """It expands the prompt itself. A request that goes on has the tokens of the answer so far behind the expanded prompt."""
    ready = prepared(normalizes=False)
    media = kind("trtllm").packing().pack(ready, EngineFacts("trtllm"))
    expanded = TokenIds(ready.expanded.ids)
    assert len(expanded) == 2 + 4
    for answered in ([], [7, 8]):
        request = EngineRequest("r", expanded + TokenIds(answered), Sampling(max_tokens=9), multimodal=media)
        got = trtllm.GenerateRequest.FromString(kind("trtllm").codec().generate(request))
        assert list(got.tokenized.input_token_ids) == [1, 1002, 2, *answered]
        assert list(got.multimodal_input.image_data) == list(ready.sources)
    assert list(media.shareable) == []
    assert media.with_shared([]) is media


PAIRS = [(name, other) for name, other in permutations(DIALECTS, 2) if DIALECTS[other].packing is not None]


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_media_packed_for_another_dialect_are_refused(name: str, other: str) -> None:
    media = kind(other).packing().pack(prepared(normalizes=False), EngineFacts("any"))

    with pytest.raises(UnsupportedParameter) as caught:
        sent(name, media)
    assert caught.value.param == "messages"
