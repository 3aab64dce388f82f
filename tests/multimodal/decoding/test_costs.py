"""What an item costs is known before it is decoded: tokens exactly, tensors closely, and never less than it takes."""

import functools
import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moving import coded_clip, coded_sound
from PIL import Image
from reference_families import FAMILIES
from tests.tiers import examples

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.decoding.costs import TensorBound, cost_of_recording
from smg_multimodal.decoding.sounds import RecordingFacts
from smg_multimodal.families.registry import FAMILIES as ROWS
from smg_multimodal.families.registry import family_of
from smg_multimodal.preparing.prepare import Detail, Media, Preparer
from smg_multimodal.records.errors import BadMedia, MediaTooLarge
from smg_multimodal.records.types import ImageProcessor, Modality, Size

SIDE = st.integers(1, 1500)


@functools.cache
def processor(name: str) -> ImageProcessor:
    row = FAMILIES[name]
    files = ModelFiles(row.model, row.preprocessor, row.processor)
    made = family_of(files).image
    assert made is not None
    return made(files)


@functools.cache
def bound_of(name: str) -> TensorBound:
    return TensorBound(processor(name))


@pytest.mark.full
@pytest.mark.sampled(keep=10)
@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=12, deadline=None)
@given(SIDE, SIDE)
def test_tensors_are_bounded_closely_by_the_size_alone(name: str, width: int, height: int) -> None:
    try:
        item = processor(name).item(Image.new("RGB", (width, height)))
    except BadMedia:
        return
    bound = bound_of(name)(Size(height, width))
    assert item.nbytes <= bound <= 1.06 * item.nbytes + 4096
    assert processor(name).measure(Size(height, width))[0] == item.tokens


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", ["llava-next", "llava-onevision", "qwen2.5-vl", "phi-4", "phi-3"])
def test_the_bound_holds_where_a_family_pools_what_is_large(name: str) -> None:
    for size in (Size(2300, 2300), Size(4000, 300), Size(300, 4000)):
        item = processor(name).item(Image.new("RGB", (size.width, size.height)))
        assert item.nbytes <= bound_of(name)(size) <= 1.06 * item.nbytes + 4096


SOUND = [(row.name, kind) for row in ROWS if Modality.AUDIO in row.others for kind in sorted(row.model_types)]


@pytest.mark.sampled(keep=7)
@pytest.mark.parametrize(("name", "kind"), SOUND)
def test_the_tensors_of_a_recording_are_within_what_its_length_lets_one_expect(name: str, kind: str) -> None:
    """Samples at 24 kHz with a mask are the most; a minute of them is more than the least that is counted."""
    files = ModelFiles({"model_type": kind, "audio_model_id": "whisper-large-v3", "audio_token_index": 7})
    processor = family_of(files).others[Modality.AUDIO].process(files)
    for seconds in (1.0, 70.0):
        made = processor.item(np.zeros(int(seconds * processor.rate), np.float32))  # type: ignore[arg-type, union-attr]
        assert made.nbytes <= cost_of_recording(RecordingFacts(seconds, processor.rate, 0)).tensors, name  # type: ignore[union-attr]


class Words:
    """A vocabulary in which every token is a token."""

    def token_id(self, token: str) -> int | None:
        return 5

    def encode(self, text: str) -> list[int]:
        return [5] * len(text)


def file_of(width: int, height: int, orientation: int = 1) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    out = io.BytesIO()
    noise = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(noise).save(out, "JPEG", exif=exif)
    return out.getvalue()


@pytest.mark.full
@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from(["qwen2.5-vl", "llava-next", "llava-onevision", "pixtral", "minicpm-v-4.6"]),
    st.integers(8, 900),
    st.integers(8, 900),
    st.sampled_from([1, 6]),
    st.sampled_from(list(Detail)),
    st.booleans(),
)
def test_a_files_cost_is_measured_on_its_header_whichever_way_up_it_is(
    name: str, width: int, height: int, orientation: int, detail: Detail, several: bool
) -> None:
    row = FAMILIES[name]
    preparer = Preparer(ModelFiles(row.model, row.preprocessor, row.processor), Words())
    media = Media(file_of(width, height, orientation), detail=detail, several=several)
    try:
        features = preparer.features(media)
    except BadMedia:
        return
    cost = preparer.cost(media)
    assert cost.tokens <= features.tokens
    assert cost.tensors >= features.nbytes
    if width == height and not several:
        assert cost.tokens == features.tokens


def test_a_shape_that_the_family_refuses_is_refused_on_the_header() -> None:
    row = FAMILIES["qwen2.5-vl"]
    preparer = Preparer(ModelFiles(row.model, row.preprocessor), Words())
    with pytest.raises(BadMedia, match=r"ratio|shape|times"):
        preparer.cost(Media(file_of(2100, 8)))


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("kind", ["qwen2_5_vl", "qwen3_vl"])
@pytest.mark.parametrize(
    "data",
    [coded_clip("mp4", 30), coded_clip("webm", 9, size=(160, 64)), coded_clip("mp4", 24, turn=90, size=(160, 64))],
    ids=["mp4", "webm", "turned"],
)
def test_a_clips_cost_is_measured_before_a_frame_is_decoded(kind: str, data: bytes) -> None:
    model = {"model_type": kind, "image_token_id": 5, "video_token_id": 6}
    preparer = Preparer(ModelFiles(model), Words())
    media = Media(data, Modality.VIDEO)
    cost, features = preparer.cost(media), preparer.features(media)
    assert cost.isolated
    assert cost.tokens == features.tokens
    assert features.nbytes <= cost.tensors <= features.nbytes + 8192
    assert preparer.features(media, cost.facts).tokens == features.tokens


@pytest.mark.full
@pytest.mark.sampled(per=("kind",))
@pytest.mark.parametrize("kind", ["mp3", "flac", "m4a"])
@pytest.mark.parametrize("seconds", [0.3, 4.0])
def test_a_recordings_tensors_are_never_more_than_was_reserved(kind: str, seconds: float) -> None:
    media = Media(coded_sound(kind, seconds), Modality.AUDIO)
    kinds = ("phi4mm", "voxtral", "ultravox", "qwen3_asr")
    for model in ({"model_type": "qwen2_audio", "audio_token_index": 5}, *({"model_type": each} for each in kinds)):
        preparer = Preparer(ModelFiles(model), Words())
        cost, features = preparer.cost(media), preparer.features(media)
        assert cost.isolated
        assert features.nbytes <= cost.tensors


def png_head(width: int, height: int) -> bytes:
    """The beginning of a PNG, without a pixel."""
    head = struct.pack(">4sIIBBBBB", b"IHDR", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)) + bytes(32)


@pytest.mark.sampled(keep=15)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("size", [(1, 67_000_000), (67_000_000, 1)])
def test_a_line_of_pixels_is_refused_on_its_header_or_its_whole_cost_is_known(name: str, size: tuple[int, int]) -> None:
    """Nothing is decoded here: there is nothing to decode. What the cost is over is the caller's to say."""
    row = FAMILIES[name]
    preparer = Preparer(ModelFiles(row.model, row.preprocessor, row.processor), Words())
    try:
        cost = preparer.cost(Media(png_head(*size)))
    except (BadMedia, MediaTooLarge):
        return
    assert cost.tensors > 0
    assert cost.memory >= 3 * 67_000_000


@pytest.mark.sampled(per=("name",))
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 9000), (9000, 1)])
def test_the_smallest_and_the_thinnest_are_processed_or_refused(name: str, size: tuple[int, int]) -> None:
    picture = Image.new("RGB", size)
    try:
        item = processor(name).item(picture)
    except BadMedia:
        return
    assert item.tokens == processor(name).measure(Size(size[1], size[0]))[0]
    assert all(np.isfinite(tensor).all() for tensor in item.tensors.values())
