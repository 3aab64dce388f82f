"""One call from parts to an expanded prompt with items, and what each engine is sent of it."""

import io
import json
import subprocess
import sys
import wave
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from reference_families import FAMILIES, opened, reference_processor
from sound_files import clip, recording
from transformers.models.llava_onevision.processing_llava_onevision import LlavaOnevisionProcessor
from vocabulary import TestVocabulary

import smg_multimodal
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.registry import FAMILIES as ROWS
from smg_multimodal.families.registry import family_of
from smg_multimodal.preparing.engine_names import VLLM, named_for_engine
from smg_multimodal.preparing.packaging import for_items, for_sglang, for_tokenspeed, for_trtllm, for_vllm
from smg_multimodal.preparing.prepare import Detail, Media, Prepared, Preparer
from smg_multimodal.records.errors import BadClip, BadMedia, MediaTooLarge, PlaceholderMismatch, UnsupportedModel
from smg_multimodal.records.types import Modality

WORDS = TestVocabulary()
NOT_FOR_VLLM = ("minicpm-v-2.6", "minicpm-v-4.5")
ONE_AT_A_TIME = ("minicpm-v-4.6", "minicpm-ocr", "mllama")
"""MiniCPM's views lie side by side, Llama 3.2's pictures along the second axis."""


def png(width: int, height: int, seed: int = 0) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def preparer(name: str, **changes: object) -> Preparer:
    family = FAMILIES[name]
    return Preparer(ModelFiles(family.model, family.preprocessor, family.processor), WORDS, **changes)  # type: ignore[arg-type]


def prepared(name: str, *pictures: bytes) -> Prepared:
    made = preparer(name)
    anchor = made.rules[0].anchor
    ids = [1, *(each for _ in pictures for each in (anchor, 2))]
    return made.prepare(ids, [Media(picture) for picture in pictures])


@pytest.mark.full
@pytest.mark.sampled(keep=20)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_prepares_several_pictures(name: str) -> None:
    """The first again at the end, where the model takes as many."""
    pictures = [png(60, 40, 1), png(40, 90, 2), png(60, 40, 1)][: preparer(name).family.limit]
    made = prepared(name, *pictures)
    places = made.expanded.placeholders
    assert [place.index for place in places] == list(range(len(pictures)))
    for place, item in zip(places, made.items, strict=True):
        assert sum(span.length for span in place.features) == item.features.tokens
        for span in place.features:
            assert set(made.expanded.ids[span.offset : span.stop]) == {made.rules[0].feature}
    assert len({place.content_hash for place in places}) == min(len(pictures), 2)
    if len(pictures) == 3:
        assert made.items[0].features is made.items[2].features
        assert places[0].content_hash == places[2].content_hash
    assert len(places[0].content_hash) == 32


@pytest.mark.full
@pytest.mark.sampled(keep=20)
@pytest.mark.parametrize(
    "name", [name for name in FAMILIES if name not in (*NOT_FOR_VLLM, "muse-spark", "nemotron-omni")]
)
def test_every_family_is_packed_for_vllm_so_that_it_can_be_taken_apart(name: str) -> None:
    """Flat tensors split by their sizes, batched ones by item, give back every item's own tensors."""
    alone = {
        **{key: [png(60, 40, 1), png(60, 40, 2)] for key in ("pixtral", "lighton-ocr")},
        **{key: [png(60, 40, 1)] for key in ("minicpm-v", "minicpm-ocr", "mllama", "blip-2")},
    }
    made = prepared(name, *alone.get(preparer(name).family.name, [png(60, 40, 1), png(200, 90, 2)]))
    (packed,) = for_vllm(made)
    ours = {
        named_for_engine(VLLM, made.family.name, Modality.IMAGE, each): each for each in made.items[0].features.tensors
    }
    tensors = {packed.primary: packed.pixel_values, **packed.tensors}
    arrays = {key: np.frombuffer(value.data, value.dtype).reshape(value.shape) for key, value in tensors.items()}
    assert set(packed.flat_keys) | set(packed.batched_keys) == set(tensors)
    assert set(packed.keep_on_cpu_keys) <= set(tensors)
    for key, sizes in packed.flat_keys.items():
        parts = np.split(arrays[key], np.cumsum(arrays[sizes])[:-1])
        for part, item in zip(parts, made.items, strict=True):
            assert np.array_equal(part, item.features.tensors[ours[key]])
    for key in packed.batched_keys:
        assert len(arrays[key]) == len(made.items)
    assert packed.hashes == tuple(item.content_hash.hex() for item in made.items)
    assert packed.placeholders == tuple(place.span for place in made.expanded.placeholders)


@pytest.mark.parametrize("name", ["qwen2-vl", "qwen3-vl", "glm-4.5v", "kimi-k2.5", "mistral-3"])
def test_pixels_left_to_the_engine_to_normalise_are_the_bytes_of_those_normalised_here(name: str) -> None:
    family, data = FAMILIES[name], png(280, 140)
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    ours, raw = (Preparer(each, WORDS) for each in (files, files.unnormalised()))
    ids = [1, ours.rules[0].anchor, 2]
    done, bare = (each.prepare(ids, [Media(data)]) for each in (ours, raw))
    (packed,) = for_vllm(bare, raw=True)

    assert packed.pixel_values.dtype == "uint8"
    assert {tensor.dtype for tensor in packed.tensors.values()} <= {"int64"}
    assert bare.expanded.ids == done.expanded.ids
    assert packed.hashes != tuple(item.content_hash.hex() for item in done.items)
    pixels = np.frombuffer(packed.pixel_values.data, np.uint8)
    floats = done.items[0].features.tensors["pixel_values"]
    channels = floats.shape[-3] if floats.ndim > 2 else 3
    mean, std = (np.array(family.preprocessor[key], np.float64)[:, None] for key in ("image_mean", "image_std"))
    normalised = (pixels.reshape(-1, channels, floats[0].size // channels) / 255 - mean) / std
    assert np.abs(normalised.ravel() - floats.ravel()).max() < 1e-5


@pytest.mark.full
@pytest.mark.parametrize("name", ONE_AT_A_TIME)
def test_pictures_that_lie_side_by_side_are_not_called_batched(name: str) -> None:
    """What several pictures make cannot be split along axis 0, so vLLM is sent one at a time."""
    with pytest.raises(UnsupportedModel):
        for_vllm(prepared(name, png(60, 40, 1), png(900, 600, 2)))


def test_views_of_a_minicpm_picture_are_sent_apart_and_hold_its_strip() -> None:
    made = prepared("minicpm-v-4.6", png(900, 600, 2))
    (packed,) = for_vllm(made)
    own = made.items[0].features.tensors
    views = np.frombuffer(packed.pixel_values.data, np.float32).reshape(packed.pixel_values.shape)
    lengths = [int(rows * columns) * 14 for rows, columns in own["target_sizes"]]
    assert views.shape[:2] == (1, len(lengths)) == packed.tensors["tgt_sizes"].shape[:2]
    strip = np.concatenate([view[..., :length] for view, length in zip(views[0], lengths, strict=True)], axis=-1)
    assert np.array_equal(strip, own["pixel_values"][0])


@pytest.mark.parametrize("name", ["pixtral", "lighton-ocr"])
def test_pictures_that_would_be_padded_unseen_are_refused(name: str) -> None:
    """vLLM's class of Pixtral, and what is made of it, is not told where a picture ends."""
    with pytest.raises(UnsupportedModel, match="one shape"):
        for_vllm(prepared(name, png(60, 40, 1), png(200, 90, 2)))


def test_sglang_gets_embedding_spans_alone_and_the_files() -> None:
    pictures = (png(60, 40, 1), png(40, 90, 2))
    made = prepared("pixtral", *pictures)
    packed = for_sglang(made)
    assert packed.image_data == pictures
    assert packed.placeholders == tuple(span for place in made.expanded.placeholders for span in place.features)
    assert packed.pixel_values.dtype == "float32"
    assert {tensor.dtype for tensor in packed.tensors.values()} == {"int64"}


def test_tensorrt_llm_gets_the_files_in_prompt_order() -> None:
    pictures = (png(60, 40, 1), png(40, 90, 2))
    made = prepared("qwen2.5-vl", *pictures)
    packed = for_trtllm(made)
    assert packed.image_data == pictures
    assert packed.expanded == len(made.expanded.ids)
    assert sum(each == made.rules[0].anchor for each in packed.prompt) == len(pictures)


def test_tokenspeed_gets_one_item_per_picture_in_bfloat16() -> None:
    made = prepared("qwen3-vl", png(60, 40, 1), png(300, 90, 2))
    packed = for_tokenspeed(made)
    assert [item.content_hash for item in packed.items] == [item.content_hash for item in made.items]
    for item, ready in zip(packed.items, made.items, strict=True):
        assert item.modality is Modality.IMAGE
        assert item.encoder_input.dtype == "bfloat16"
        words = np.frombuffer(item.encoder_input.data, "<u2").astype(np.uint32) << 16
        values = words.view(np.float32).reshape(item.encoder_input.shape)
        exact = ready.features.tensors["pixel_values"]
        assert np.abs(values - exact).max() <= np.abs(exact).max() / 256
        assert item.tensors["image_grid_thw"].shape == (1, 3)


def animation(frames: int) -> bytes:
    out = io.BytesIO()
    pictures = clip(64, 48, frames)
    pictures[0].save(out, "WEBP", save_all=True, append_images=pictures[1:], duration=250, lossless=True)
    return out.getvalue()


def tone(seconds: float) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((recording(seconds, 8000) * 30000).astype("<i2").tobytes())
    return out.getvalue()


@pytest.mark.parametrize("name", ["qwen2.5-vl", "qwen3-vl"])
def test_clips_and_pictures_of_one_prompt_are_expanded_together(name: str) -> None:
    made = preparer(name)
    rules = {rule.modality: rule for rule in made.rules}
    ids = [1, rules[Modality.VIDEO].anchor, 2, rules[Modality.IMAGE].anchor, 3]
    done = made.prepare(ids, [Media(animation(8), Modality.VIDEO), Media(png(60, 40))])
    assert [place.modality for place in done.expanded.placeholders] == [Modality.VIDEO, Modality.IMAGE]
    for place, item in zip(done.expanded.placeholders, done.items, strict=True):
        assert sum(span.length for span in place.features) == item.features.tokens
    clips = for_tokenspeed(done).items[0]
    assert clips.tensors["video_grid_thw"].shape == (1, 3)
    moving, still = for_vllm(done)
    assert (moving.modality, still.modality) == (Modality.VIDEO, Modality.IMAGE)
    assert moving.flat_keys == {"pixel_values_videos": "patches_per_video"}
    assert [moving.placeholders, still.placeholders] == [(place.span,) for place in done.expanded.placeholders]
    assert not set(moving.tensors) & set(still.tensors)
    with pytest.raises(UnsupportedModel):
        for_sglang(made.prepare(ids[:3], [Media(animation(8), Modality.VIDEO)]))


@pytest.mark.parametrize("kind", ["qwen2_audio", "phi4_multimodal"])
def test_recordings_become_features_and_their_tokens(kind: str) -> None:
    made = Preparer(ModelFiles({"model_type": kind}), WORDS)
    rule = next(rule for rule in made.rules if rule.modality is Modality.AUDIO)
    done = made.prepare([1, rule.anchor, 2], [Media(tone(1.5), Modality.AUDIO)])
    (item,) = for_tokenspeed(done, "float32").items
    assert item.modality is Modality.AUDIO
    assert sum(span.length for span in item.placeholders) == done.items[0].features.tokens > 10
    assert item.encoder_input.dtype == "float32"


def phi4(*media: Media) -> Prepared:
    made = Preparer(ModelFiles({"model_type": "phi4mm"}, FAMILIES["phi-4"].preprocessor), WORDS)
    anchors = {rule.modality: rule.anchor for rule in made.rules}
    return made.prepare([1, *(each for item in media for each in (anchors[item.modality], 2))], media)


def test_several_pictures_of_a_prompt_are_looked_at_as_transformers_does() -> None:
    """LLaVA-OneVision makes tiles of a picture that is alone, and one square of each of several."""
    row, pictures = FAMILIES["llava-onevision"], [png(600, 400, 1), png(90, 200, 2), png(50, 50, 3)]
    done = prepared(row.name, *pictures)
    expected = reference_processor(row)(images=[[opened(each) for each in pictures]], return_tensors="np")
    tensors = done.collated([item.features for item in done.items])
    for name in row.tensors:
        assert tensors[name].dtype == expected[name].dtype
        assert np.array_equal(tensors[name], expected[name])
    facts = SimpleNamespace(num_image_tokens=729, vision_feature_select_strategy="full", image_token="x")
    written = [LlavaOnevisionProcessor.replace_image_token(facts, expected, at) for at in range(3)]
    assert [place.features[0].length for place in done.expanded.placeholders] == [len(text) for text in written]

    (packed,) = for_vllm(done)
    assert packed.pixel_values.shape == (3, 1, 3, 384, 384)
    alone = prepared(row.name, pictures[0])
    assert alone.items[0].features.tokens > done.items[0].features.tokens
    assert alone.items[0].content_hash != done.items[0].content_hash


def test_a_family_without_such_a_rule_looks_at_several_pictures_as_at_one() -> None:
    picture = png(60, 40)
    assert prepared("llava-next", picture, png(8, 8)).items[0].content_hash == preparer("llava-next").key(
        Media(picture)
    )


def test_vllm_is_sent_its_own_names_for_a_familys_tensors() -> None:
    (pictures,) = for_vllm(phi4(Media(png(60, 40))))
    assert pictures.primary == "input_image_embeds"
    assert set(pictures.tensors) == {"image_sizes", "image_attention_mask", "num_img_tokens"}
    assert pictures.batched_keys == ("input_image_embeds", *pictures.tensors)
    (sound,) = for_vllm(phi4(Media(tone(1.0), Modality.AUDIO)))
    assert (sound.primary, sound.modality) == ("input_audio_embeds", Modality.AUDIO)


@pytest.mark.parametrize("name", NOT_FOR_VLLM)
def test_pictures_that_vllms_servicer_cannot_pass_on_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedModel, match="a list of tensors"):
        for_vllm(prepared(name, png(60, 40, 1)))


@pytest.mark.parametrize("name", ["qwen2.5-omni", "qwen3-omni"])
def test_recordings_that_vllms_servicer_cannot_pass_on_are_refused(name: str) -> None:
    made = preparer(name)
    anchor = next(rule.anchor for rule in made.rules if rule.modality is Modality.AUDIO)
    done = made.prepare([1, anchor, 2], [Media(tone(1.0), Modality.AUDIO)])
    assert done.items[0].features.tokens > 10
    with pytest.raises(UnsupportedModel, match="second axis"):
        for_vllm(done)


@pytest.mark.parametrize("name", ["gemma-3n", "gemma-4"])
def test_recordings_of_gemma_have_vllms_names_and_their_tokens_around_them(name: str) -> None:
    made = preparer(name)
    rule = next(rule for rule in made.rules if rule.modality is Modality.AUDIO)
    done = made.prepare([1, rule.anchor, 2], [Media(tone(1.0), Modality.AUDIO)])
    (packed,) = for_vllm(done)
    assert (packed.primary, set(packed.tensors)) == ("input_features_padded", {"input_features_mask"})
    (place,) = done.expanded.placeholders
    assert sum(span.length for span in place.features) == done.items[0].features.tokens < place.span.length


@pytest.mark.parametrize("name", ["qwen2.5-omni", "qwen3-omni"])
def test_clips_of_omni_models_stay_within_the_models_own_bounds(name: str) -> None:
    """What the files say of pictures' sizes is not for clips; patch and arithmetic are."""
    made = preparer(name)
    anchor = next(rule.anchor for rule in made.rules if rule.modality is Modality.VIDEO)
    done = made.prepare([1, anchor, 2], [Media(animation(8), Modality.VIDEO)])
    (moving,) = for_vllm(done)
    patch = FAMILIES[name].preprocessor["patch_size"]
    tensors = done.items[0].features.tensors
    frames, rows, columns = tensors["video_grid_thw"][0]
    assert 128 * 4 <= rows * columns <= 768 * 4
    assert tensors["pixel_values_videos"].shape == (frames * rows * columns, 3 * 2 * patch * patch)
    assert {"video_grid_thw", "second_per_grid_ts"} < set(moving.batched_keys)


def test_features_of_recordings_stay_floats_where_pixels_go_as_bytes() -> None:
    (sound,) = for_vllm(phi4(Media(tone(1.0), Modality.AUDIO)), raw=True)
    assert sound.pixel_values.dtype == "float32"


def test_vllm_is_not_sent_recordings_that_it_would_take_for_pictures_or_cannot_tell_apart() -> None:
    with pytest.raises(UnsupportedModel, match="beside pictures"):
        for_vllm(phi4(Media(png(60, 40)), Media(tone(1.0), Modality.AUDIO)))
    with pytest.raises(UnsupportedModel, match="same length"):
        for_vllm(phi4(Media(tone(1.0), Modality.AUDIO), Media(tone(2.0), Modality.AUDIO)))
    (both,) = for_vllm(phi4(*[Media(tone(1.0), Modality.AUDIO)] * 2))
    assert both.pixel_values.shape[0] == len(both.hashes) == 2


def test_items_by_themselves_keep_their_tensors_whatever_stands_beside_them() -> None:
    done = phi4(Media(tone(1.0), Modality.AUDIO), Media(png(60, 40)), Media(tone(2.0), Modality.AUDIO))
    items = for_items(done)
    assert [item.modality for item in items] == [Modality.AUDIO, Modality.IMAGE, Modality.AUDIO]
    for item, ready, place in zip(items, done.items, done.expanded.placeholders, strict=True):
        assert {name: tensor.shape for name, tensor in item.tensors.items()} == {
            name: array.shape for name, array in ready.features.tensors.items()
        }
        assert (item.placeholder, item.embeddings) == (place.span, place.features)
        assert item.content_hash == place.content_hash


def test_a_modality_the_family_does_not_have_is_refused() -> None:
    with pytest.raises(UnsupportedModel):
        preparer("llava-1.5").ready(Media(tone(0.5), Modality.AUDIO))
    with pytest.raises(UnsupportedModel):
        Preparer(ModelFiles({"model_type": "qwen2_audio"}), WORDS).ready(Media(png(4, 4)))


def test_low_detail_costs_fewer_tokens_and_has_a_key_of_its_own() -> None:
    made, picture = preparer("qwen2.5-vl"), png(1000, 800)
    low, high = made.ready(Media(picture, detail=Detail.LOW)), made.ready(Media(picture, detail=Detail.HIGH))
    automatic = made.ready(Media(picture))
    assert low.features.tokens < high.features.tokens
    assert low.content_hash != high.content_hash == automatic.content_hash
    assert automatic.features is high.features


def test_the_same_picture_of_two_owners_is_two_items() -> None:
    ready, data = preparer("llava-1.5"), png(300, 200)
    owned = [Media(data, owner=owner) for owner in ("", "a", "b")]
    keys = [ready.key(each) for each in owned]

    assert len(set(keys)) == 3
    assert [ready.key(each) for each in owned] == keys
    ready.remember(keys[1], ready.features(owned[1]))
    assert [ready.remembered(key) is not None for key in keys] == [False, True, False]


def test_another_pillow_makes_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of Pillow differ in single pixels, so what one has made does not stand for what another would make."""
    media = Media(png(60, 40))
    before = preparer("qwen2-vl").key(media)
    monkeypatch.setattr("smg_multimodal.preparing.prepare.pillow_version", "0.0")
    assert preparer("qwen2-vl").key(media) != before


def test_models_with_other_files_have_other_keys() -> None:
    picture = Media(png(20, 20))
    assert preparer("qwen2.5-vl").key(picture) == preparer("qwen2.5-vl").key(picture)
    assert preparer("qwen2.5-vl").key(picture) != preparer("qwen2-vl").key(picture)


def test_too_many_pictures_and_damaged_ones_are_refused() -> None:
    made = preparer("llama-4")
    with pytest.raises(MediaTooLarge):
        made.prepare([], [Media(png(2, 2))] * 9)
    with pytest.raises(BadMedia):
        made.prepare([made.rules[0].anchor], [Media(b"nothing")])
    with pytest.raises(PlaceholderMismatch):
        made.prepare([1, 2], [Media(png(2, 2))])


def test_models_are_recognised_by_their_type_and_unknown_ones_refused() -> None:
    for family in FAMILIES.values():
        assert family_of(ModelFiles(family.model)).name
    pixtral = family_of(ModelFiles(FAMILIES["pixtral"].model))
    assert pixtral.name == "pixtral"
    for model in ({}, {"model_type": "llama"}, {"model_type": "qwen2"}):
        with pytest.raises(UnsupportedModel):
            family_of(ModelFiles(model))


def test_every_row_of_the_table_is_compared_with_a_reference_and_no_type_is_in_two() -> None:
    compared = {family_of(ModelFiles(family.model)).name for family in FAMILIES.values()}
    assert compared == {row.name for row in ROWS if row.image is not None}
    types = [kind for row in ROWS for kind in row.model_types]
    assert len(types) == len(set(types))
    for row in ROWS:
        for modality in (*([Modality.IMAGE] if row.image else []), *row.others):
            primary, layouts, on_host = row.layout(modality)
            assert primary in layouts
            assert on_host <= set(layouts)


def test_the_image_settings_may_stand_in_processor_config() -> None:
    inside = FAMILIES["qwen3-vl"]
    files = ModelFiles(inside.model, {}, {"image_processor": inside.preprocessor})
    assert family_of(files).image(files).measure((64, 64)) == preparer("qwen3-vl").images.measure((64, 64))  # type: ignore[arg-type]


def test_importing_the_package_loads_neither_numpy_nor_pillow() -> None:
    heavy = ("numpy", "PIL", "httpx", "asyncio")
    code = f"import sys, json, smg_multimodal; print(json.dumps([m for m in {heavy} if m in sys.modules]))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == []


def test_every_public_name_is_there() -> None:
    for name in smg_multimodal.__all__:
        assert getattr(smg_multimodal, name).__name__ == name
    assert set(smg_multimodal.__all__) <= set(dir(smg_multimodal))
    with pytest.raises(AttributeError):
        _ = smg_multimodal.nothing_of_the_kind


@pytest.mark.full
def test_molmos_pooled_patches_are_counted_by_picture_for_vllm_and_through_all_of_them_by_transformers() -> None:
    made = prepared("molmo-2", png(60, 40, 1), png(500, 330, 2))
    first, second = (item.features.tensors for item in made.items)
    (packed,) = for_vllm(made)
    sent = packed.tensors["image_token_pooling"]
    own = np.concatenate([first["image_token_pooling"], second["image_token_pooling"]])
    assert np.array_equal(np.frombuffer(sent.data, sent.dtype).reshape(sent.shape), own)
    joint = made.collated([item.features for item in made.items])["image_token_pooling"]
    later = own[len(first["image_token_pooling"]) :]
    moved = np.where(later >= 0, later + first["image_num_patches"], later)
    assert np.array_equal(joint[-len(later) :], moved)
    assert "image_grids" not in packed.tensors


@pytest.mark.parametrize("size", [(1, 10_000), (10_000, 1)])
def test_a_picture_that_is_too_thin_is_refused_by_the_size_that_it_has(size: tuple[int, int]) -> None:
    """It may have to be turned, which is not known before it is opened."""
    file = io.BytesIO()
    Image.new("RGB", size).save(file, "PNG")
    preparer = Preparer(ModelFiles({"model_type": "qwen3_vl"}), TestVocabulary())
    with pytest.raises(BadMedia, match=f"the image is {size[0]}x{size[1]};"):
        preparer.cost(Media(file.getvalue()))


@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen3_vl", "glm4v", "hy_v4_vl"])
def test_a_clip_that_is_too_thin_is_refused_as_a_clip_of_its_size(kind: str) -> None:
    file = io.BytesIO()
    frames = [Image.new("RGB", (4000, 3), colour) for colour in ("red", "blue")]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=400)
    preparer = Preparer(ModelFiles({"model_type": kind}), TestVocabulary())
    for work in (preparer.cost, preparer.features):
        with pytest.raises(BadClip, match="the clip is 4000x3"):
            work(Media(file.getvalue(), Modality.VIDEO))
