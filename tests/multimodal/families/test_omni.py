"""Clips of omni models with their sound: what is made of both, and where it lies in the prompt."""

import secrets
from dataclasses import replace

import numpy as np
import pytest
from reference_families import FAMILIES
from tests.multimodal.moving import coded_clip
from vocabulary import TestVocabulary

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.preparing.packaging import for_items, for_tokenspeed, for_vllm, media_starts
from smg_multimodal.preparing.prepare import Media, Prepared, Preparer
from smg_multimodal.preparing.shared_items import SharedItems
from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import Modality

WORDS = TestVocabulary()
MARKS = {"qwen2.5-omni": ("<|audio_bos|>", "<|audio_eos|>"), "qwen3-omni": ("<|audio_start|>", "<|audio_end|>")}


def preparer(name: str, told: dict[str, object] | None = None) -> Preparer:
    family = FAMILIES[name]
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    return Preparer(files.with_kwargs(told) if told else files, WORDS)


def prepared(made: Preparer, data: bytes) -> Prepared:
    anchor = next(rule.anchor for rule in made.rules if rule.modality is Modality.VIDEO)
    return made.prepare([1, anchor, 2], [Media(data, Modality.VIDEO)])


@pytest.mark.full
@pytest.mark.parametrize("name", MARKS)
@pytest.mark.parametrize("key", ["use_audio_in_video", "load_audio_from_video"])
def test_a_clips_sound_is_what_a_recording_of_it_would_be(name: str, key: str) -> None:
    data, plain = coded_clip("mp4", 24, sound=2.0), preparer(name)
    both = prepared(preparer(name, {key: True}), data)
    alone = prepared(plain, data)
    anchor = next(rule.anchor for rule in plain.rules if rule.modality is Modality.AUDIO)
    heard = plain.prepare([1, anchor, 2], [Media(data, Modality.AUDIO)])

    frames, sound = for_items(both)
    for made, wanted in ((frames, alone), (sound, heard)):
        (item,) = for_items(wanted)
        assert {name: bytes(each.data) for name, each in made.tensors.items()} == {
            name: bytes(each.data) for name, each in item.tensors.items()
        }
        assert made.token_id == item.token_id
        assert sum(span.length for span in made.embeddings) == sum(span.length for span in item.embeddings)
    assert frames.placeholder == sound.placeholder
    ids = both.expanded.ids.tolist()
    assert [ids[0], ids[1], ids[-2], ids[-1]] == [1, *(WORDS.token_id(mark) for mark in MARKS[name]), 2]
    (place,) = both.expanded.placeholders
    assert sorted(place.features) == sorted([*frames.embeddings, *sound.embeddings])
    assert both.items[0].content_hash != alone.items[0].content_hash
    assert media_starts(both) == tuple((1, each.content_hash.hex()) for each in (frames, sound))
    assert len({hash_ for _, hash_ in (*media_starts(both), *media_starts(alone))}) == 3


@pytest.mark.full
def test_a_clip_with_its_sound_is_found_by_another_process_as_it_was() -> None:
    made = prepared(preparer("qwen3-omni", {"use_audio_in_video": True}), coded_clip("mp4", 24, sound=2.0))
    shared = SharedItems(f"test-{secrets.token_hex(8)}", 1 << 26, 1)
    try:
        (item,) = made.items
        found = shared.put(item.content_hash, item.features)
        assert found is not item.features
        assert (found.facts, found.tokens, found.grid) == (
            item.features.facts,
            item.features.tokens,
            item.features.grid,
        )
        again = replace(made, items=(replace(item, features=found),))
        assert [bytes(each.tensors[name].data) for each in for_items(again) for name in each.tensors] == [
            bytes(each.tensors[name].data) for each in for_items(made) for name in each.tensors
        ]
    finally:
        shared.close()


@pytest.mark.full
@pytest.mark.parametrize("name", MARKS)
def test_a_clip_without_sound_is_as_it_is_otherwise(name: str) -> None:
    data = coded_clip("mp4", 24)
    one, other = (prepared(preparer(name, told), data) for told in ({"use_audio_in_video": True}, None))
    assert one.expanded.ids == other.expanded.ids
    for mine, theirs in zip(for_items(one), for_items(other), strict=True):
        assert {key: bytes(each.data) for key, each in mine.tensors.items()} == {
            key: bytes(each.data) for key, each in theirs.tensors.items()
        }
    assert len(for_vllm(one)) == 1


@pytest.mark.full
def test_a_clips_cost_has_its_sound_in_it() -> None:
    media = Media(coded_clip("mp4", 24, sound=2.0), Modality.VIDEO)
    made, plain = preparer("qwen3-omni", {"use_audio_in_video": True}), preparer("qwen3-omni")
    cost, without, features = made.cost(media), plain.cost(media), made.features(media)
    assert cost.tensors >= features.nbytes
    assert without.tokens < cost.tokens <= features.tokens
    assert cost.tensors > without.tensors


@pytest.mark.full
@pytest.mark.parametrize("send", [for_vllm, for_tokenspeed])
def test_engines_that_cannot_be_told_whose_sound_it_is_are_sent_none(send: object) -> None:
    made = prepared(preparer("qwen2.5-omni", {"use_audio_in_video": True}), coded_clip("mp4", 24, sound=1.0))
    with pytest.raises(UnsupportedModel, match="which sound is of which clip"):
        send(made)  # type: ignore[operator]


@pytest.mark.parametrize("name", ["qwen2-vl", "gemma-4", "llava-1.5"])
def test_models_that_have_no_such_rule_are_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedModel, match="use_audio_in_video"):
        preparer(name, {"use_audio_in_video": True})


def test_what_is_told_for_clips_alone_stands_before_what_is_told_for_all() -> None:
    files = ModelFiles({}).with_kwargs(
        {"seconds_per_chunk": 3, "videos_kwargs": {"use_audio_in_video": True, "seconds_per_chunk": 1}, "fps": 1}
    )
    assert files.woven is not None
    assert files.woven["seconds_per_chunk"] == 1
    assert not {"use_audio_in_video", "seconds_per_chunk"} & {*files.clips, *files.image}
    assert ModelFiles({}).with_kwargs({"use_audio_in_video": False}).woven is None
    assert np.all([files.clips["fps"] == 1, files.resized_by("torch").woven == files.woven])
