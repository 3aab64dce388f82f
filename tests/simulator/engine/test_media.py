"""The embedded engine holds media against the prompt: what does not fit is refused, with a sentence that says why."""

from collections.abc import Callable
from typing import Any

import pytest

from smg_engine_contract import engine_pb2 as neutral
from smg_engine_contract.engines import common_pb2 as common
from smg_engine_contract.engines import vllm_engine_pb2 as pb
from smg_simulator.codecs.neutral import NeutralServerCodec
from smg_simulator.codecs.vllm import VllmServerCodec
from smg_simulator.engine.kv_feed import Batch
from smg_simulator.engine.media import check_media, describe_media, read_media
from smg_simulator.engine.prefix_cache import PrefixCache
from smg_simulator.engine.refusal import Refused

IMAGE = 9
IDS = [1, 7, IMAGE, IMAGE, 8, 2, IMAGE, 3]


def int64(*values: int, shape: tuple[int, ...] = ()) -> pb.TensorData:
    data = b"".join(value.to_bytes(8, "little") for value in values)
    return pb.TensorData(inline=data, shape=shape or (len(values),), dtype="int64")


def inputs() -> pb.MultimodalInputs:
    """Two pictures of 8 and 4 patches; the first placeholder includes its markers."""
    return pb.MultimodalInputs(
        pixel_values=pb.TensorData(inline=bytes(12 * 5 * 4), shape=(12, 5), dtype="float32"),
        model_specific_tensors={
            "image_grid_thw": int64(1, 2, 4, 1, 2, 2, shape=(2, 3)),
            "patches_per_image": int64(8, 4),
        },
        im_token_id=IMAGE,
        mm_placeholders=[pb.PlaceholderRange(offset=1, length=4), pb.PlaceholderRange(offset=6, length=1)],
        mm_hashes=["a", "b"],
        batched_keys=["image_grid_thw", "patches_per_image"],
        flat_keys={"pixel_values": "patches_per_image"},
        modality=common.IMAGE,
    )


def held(media: pb.MultimodalInputs, ids: list[int] = IDS) -> Any:
    seen = read_media(pb.GenerateRequest(mm_inputs=media))
    check_media(seen, ids, merge=2)
    return seen


def test_media_that_fit_are_taken_and_described() -> None:
    (seen,) = held(inputs())

    assert seen.tensors["pixel_values"].shape == (12, 5)
    assert seen.tensors["patches_per_image"].values == (8, 4)
    assert describe_media([seen]) == (
        "I see 2 images (4 tokens at 1, 1 tokens at 6): image_grid_thw 2x3 int64, patches_per_image 2 int64, "
        "pixel_values 12x5 float32."
    )


def test_a_request_without_media_has_none() -> None:
    assert read_media(pb.GenerateRequest()) == ()


Spoil = Callable[[pb.MultimodalInputs], None]


def spoil(**fields: Any) -> Spoil:
    """Set fields of MultimodalInputs to what is wrong."""

    def change(media: pb.MultimodalInputs) -> None:
        for name in fields:
            media.ClearField(name)
        media.MergeFrom(pb.MultimodalInputs(**fields))

    return change


def pixels(**fields: Any) -> Spoil:
    return spoil(pixel_values=pb.TensorData(**{"inline": bytes(240), "shape": (12, 5), "dtype": "float32", **fields}))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda media: media.ClearField("pixel_values"), "without pixel_values"),
        (lambda media: media.ClearField("modality"), "no modality"),
        (pixels(inline=bytes(239)), "239 bytes for 12x5 float32, which has 240"),
        (pixels(dtype="float64"), "unknown dtype 'float64'"),
        (pixels(dtype="bfloat16"), "which has 120"),
        (pixels(shape=(24, 5), inline=bytes(480)), "24 rows, but the sizes"),
        (spoil(mm_hashes=["a"]), "2 placeholders for 1 image hashes"),
        (spoil(mm_placeholders=[], mm_hashes=[]), "0 placeholders"),
        (spoil(batched_keys=["nothing"]), "no tensor 'nothing'"),
        (spoil(flat_keys={"pixel_values": "nothing"}), "no tensor 'nothing'"),
        (spoil(batched_keys=["pixel_values"], flat_keys={}), "pixel_values: 12 rows for 2 items"),
        (
            spoil(mm_placeholders=[pb.PlaceholderRange(offset=1, length=4), pb.PlaceholderRange(offset=4, length=3)]),
            "does not fit",
        ),
        (
            spoil(mm_placeholders=[pb.PlaceholderRange(offset=1, length=4), pb.PlaceholderRange(offset=6, length=3)]),
            "does not fit the prompt of 8",
        ),
        (
            spoil(mm_placeholders=[pb.PlaceholderRange(offset=1, length=4), pb.PlaceholderRange(offset=7, length=1)]),
            "has no token 9",
        ),
        (
            spoil(mm_placeholders=[pb.PlaceholderRange(offset=2, length=1), pb.PlaceholderRange(offset=6, length=1)]),
            "outside of the placeholders",
        ),
        (spoil(im_token_id=7), "the placeholder at 6 has no token 7"),
        (
            lambda media: media.model_specific_tensors["image_grid_thw"].CopyFrom(
                int64(1, 2, 2, 1, 2, 4, shape=(2, 3))
            ),
            "2 tokens for 4 patches",
        ),
        (
            lambda media: media.model_specific_tensors["image_grid_thw"].CopyFrom(
                int64(1, 2, 2, 1, 2, 2, shape=(2, 3))
            ),
            "12 rows for grids of 8 patches",
        ),
        (
            lambda media: media.model_specific_tensors["image_grid_thw"].CopyFrom(int64(1, 2, 1, 2, shape=(2, 2))),
            "image_grid_thw: 2x2 int64",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(change: Spoil, sentence: str) -> None:
    media = inputs()
    change(media)

    with pytest.raises(Refused, match=sentence):
        held(media)


def test_tensors_elsewhere_than_in_the_message_are_refused() -> None:
    media = inputs()
    media.pixel_values.shm.name = "x"

    with pytest.raises(Refused, match="within the message"):
        held(media)


def test_tensors_in_shared_memory_are_read_from_there() -> None:
    media, asked = inputs(), []
    media.pixel_values.shm.CopyFrom(common.ShmHandle(name="x", offset=8, nbytes=240))

    def shared(name: str, offset: int, nbytes: int) -> bytes:
        asked.append((name, offset, nbytes))
        return bytes(nbytes)

    (seen,) = read_media(pb.GenerateRequest(mm_inputs=media), shared)
    assert asked == [("x", 8, 240)]
    assert seen.tensors["pixel_values"].shared
    with pytest.raises(Refused, match="239 bytes"):
        read_media(pb.GenerateRequest(mm_inputs=media), lambda name, offset, nbytes: bytes(239))


@pytest.mark.parametrize("codec", [VllmServerCodec(), NeutralServerCodec()])
def test_kv_events_say_which_media_lie_in_which_block(codec: Any) -> None:
    cache = PrefixCache(block_size=4)
    changes = cache.store([1, 2, IMAGE, IMAGE, IMAGE, IMAGE, 3, 4], "", [(2, 4, "ab" * 32)])
    message = codec.kv_batch(Batch(1, 0.0, 1, tuple(changes)))

    if isinstance(codec, VllmServerCodec):
        (event,) = common.KvEventBatch.FromString(message).events
        keys = [
            [(key.multimodal.identifier, key.multimodal.offset) for key in block.extra_keys]
            for block in event.stored.blocks
        ]
        assert keys == [[("ab" * 32, 2)], [("ab" * 32, -2)]]
    else:
        (event,) = neutral.KvEventBatch.FromString(message).events
        media = [(each.block, each.hash.hex(), each.offset) for each in event.stored.media]
        assert media == [(0, "ab" * 32, 2), (1, "ab" * 32, -2)]


def sound(frames: int = 40, tokens: int = 10, bands: int = 80, masked: int = 60) -> pb.MultimodalInputs:
    """A recording of `frames` real frames of 60, in a prompt that gives it `tokens`."""
    mask = [1] * frames + [0] * (masked - frames)
    return pb.MultimodalInputs(
        pixel_values=pb.TensorData(inline=bytes(bands * 60 * 4), shape=(1, bands, 60), dtype="float32"),
        model_specific_tensors={"feature_attention_mask": int64(*mask, shape=(1, masked))},
        im_token_id=IMAGE,
        mm_placeholders=[pb.PlaceholderRange(offset=1, length=tokens)],
        mm_hashes=["a"],
        batched_keys=["input_features", "feature_attention_mask"],
        modality=common.AUDIO,
        encoder_input_key="input_features",
    )


def test_recordings_are_held_against_their_masks_and_their_bands() -> None:
    def heard(media: pb.MultimodalInputs, tokens: int = 10) -> None:
        check_media(read_media(pb.GenerateRequest(mm_inputs=media)), [1, *[IMAGE] * tokens, 2], merge=2, mels=80)

    heard(sound())
    with pytest.raises(Refused, match=r"\[11\] tokens for recordings that have \[10\]"):
        heard(sound(tokens=11), 11)
    with pytest.raises(Refused, match="the model has 80 bands"):
        heard(sound(bands=128))
    with pytest.raises(Refused, match="with the mask"):
        heard(sound(masked=59))


def test_batches_that_share_tensors_or_places_are_refused() -> None:
    def both(first: pb.MultimodalInputs, second: pb.MultimodalInputs) -> None:
        check_media(read_media(pb.GenerateRequest(mm_inputs=first, extra_mm_inputs=[second])), IDS, merge=2)

    clips = inputs()
    clips.modality, clips.im_token_id = common.VIDEO, 7
    clips.mm_placeholders[0].CopyFrom(pb.PlaceholderRange(offset=1, length=1))
    del clips.mm_placeholders[1:], clips.mm_hashes[1:]
    for name in ("image_grid_thw", "patches_per_image"):
        clips.model_specific_tensors.pop(name)
    clips.ClearField("flat_keys")
    clips.ClearField("batched_keys")
    with pytest.raises(Refused, match="lies within"):
        both(inputs(), clips)
    with pytest.raises(Refused, match="same tensor keys"):
        both(inputs(), inputs())
    with pytest.raises(Refused, match="recordings beside another"):
        both(inputs(), sound())


@pytest.mark.parametrize("kind", ["whisper", "voxtral_realtime"])
def test_recordings_beside_a_prompt_begin_with_it_and_have_no_token(kind: str) -> None:
    media = sound(tokens=1500)
    media.ClearField("im_token_id")
    media.mm_placeholders[0].CopyFrom(pb.PlaceholderRange(offset=0, length=1500))
    seen = read_media(pb.GenerateRequest(mm_inputs=media))
    check_media(seen, [1, 2, 3, 4], merge=2, kind=kind)
    with pytest.raises(Refused, match="does not fit the prompt"):
        check_media(seen, [1, 2, 3, 4], merge=2, kind="qwen2_audio")
    for change in ({"im_token_id": 9}, {"mm_placeholders": [pb.PlaceholderRange(offset=1, length=1500)]}):
        wrong = pb.MultimodalInputs.FromString(media.SerializeToString())
        for name in change:
            wrong.ClearField(name)
        wrong.MergeFrom(pb.MultimodalInputs(**change))  # type: ignore[arg-type]
        with pytest.raises(Refused, match="begins with the prompt"):
            check_media(read_media(pb.GenerateRequest(mm_inputs=wrong)), [1, 2, 3, 4], merge=2, kind=kind)
