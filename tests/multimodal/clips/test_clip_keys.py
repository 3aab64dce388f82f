"""Every key of a video processor's configuration is honoured bit for bit, or the model is refused by the key's name.

The law is walked over every family that takes clips and every key that transformers' class of that family takes, with other
values than the defaults (`clip_variations`): the frames that are taken and the tensors that are made of them are those that
make_references.py wrote down, or the key is refused at load. A new family joins by its row in `FILMED`.
"""

import re
from typing import Any

import numpy as np
import pytest
from clip_variations import FILMED, Filmed, films, variations
from written import assert_tensors, written_references

from smg_multimodal.clips.video import qwen2_video
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.modalities import ClipProcessor
from smg_multimodal.families.registry import FAMILIES, family_of
from smg_multimodal.records.errors import BadMedia, UnsupportedModel
from smg_multimodal.records.types import ItemFeatures, Modality, Size

Made = list[tuple[list[int], ItemFeatures]]


def test_every_family_that_takes_clips_is_walked() -> None:
    walked = {each.name for each in FILMED}
    assert [each.name for each in FAMILIES if Modality.VIDEO in each.others and not each.model_types & walked] == []


def ours(filmed: Filmed, change: dict[str, Any]) -> Made | UnsupportedModel | BadMedia:
    """The frames that are taken of each clip, and what is made of them, or why nothing is."""
    config = {**filmed.config, **filmed.sampled(change), **change, "video_processor_type": filmed.kind}
    files = ModelFiles({"model_type": filmed.name, **filmed.model}, {}, filmed.processor, config)
    made: Made = []
    try:
        processor = family_of(files).others[Modality.VIDEO].process(files)
        assert isinstance(processor, ClipProcessor)
        for frames, rate in films():
            places = processor.sample(len(frames), rate)
            seconds = [place / rate for place in places]
            chosen = (frames[place] for place in places)
            item = processor.item(chosen, seconds, len(places) / len(frames) * rate)
            assert processor.measure(item.size, len(places)) == (item.tokens, item.grid)
            assert item.nbytes <= processor.nbytes(item.size, len(places))
            made.append((places, item))
    except (UnsupportedModel, BadMedia) as error:
        return error
    return made


def assert_named(refusal: UnsupportedModel, change: dict[str, Any]) -> None:
    assert any(re.search(rf"\b{name}\b", str(refusal)) for name in change), (change, str(refusal))


@pytest.mark.full
@pytest.mark.parametrize("filmed", FILMED, ids=lambda each: each.name)
def test_every_key_of_a_video_processor_is_honoured_or_refused_by_name(filmed: Filmed) -> None:
    usual, *varied = written_references()["clip_keys"][filmed.name]
    walked = [change for _, change in variations(filmed, iter(dict.fromkeys(row["key"] for row in varied)))]
    assert [row["change"] for row in varied] == walked
    assert usual["rows"] is not None
    for row in (usual, *varied):
        found, what = ours(filmed, row["change"]), str(row["change"])
        if isinstance(found, UnsupportedModel):
            assert_named(found, row["change"])
            assert row["rows"] != usual["rows"], f"{what} changes nothing, but is refused"
        elif isinstance(found, BadMedia):
            assert row["rows"] is None, what
        elif row["rows"] is not None:
            for (places, item), expected in zip(found, row["rows"], strict=True):
                assert places == expected["frames"], what
                assert_tensors(expected["tensors"], item.tensors, what)


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen2_5_omni", "qwen3_omni_moe"])
@pytest.mark.parametrize(
    "told",
    [
        {"max_pixels": 28 * 28 * 16, "min_pixels": 784},
        {"videos_kwargs": {"size": {"shortest_edge": 784, "longest_edge": 28 * 28 * 16}}},
    ],
)
def test_what_an_engine_was_told_stands_before_files_and_what_an_omni_model_says_of_its_own(
    name: str, told: dict[str, Any]
) -> None:
    files = ModelFiles({"model_type": name}, video={"max_pixels": 10**6}).with_kwargs(told)
    processor = family_of(files).others[Modality.VIDEO].process(files)
    assert isinstance(processor, ClipProcessor)
    assert processor.measure(Size(448, 448), 2) == (16, (1, 8, 8))


def test_what_an_engine_was_told_of_recordings_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedModel, match="audio_kwargs"):
        ModelFiles({"model_type": "qwen2_5_omni"}).with_kwargs({"audio_kwargs": {"truncation": True}})


def test_what_processor_config_says_of_a_processor_stands_before_its_own_file() -> None:
    nested = {"video_processor": {"fps": 1}, "image_processor": {"patch_size": 7}, "feature_extractor": {"n_fft": 512}}
    files = ModelFiles({}, {"patch_size": 14, "n_fft": 400}, nested, {"fps": 2})
    for each in (files, files.resized_by("torch"), files.unnormalised(), files.with_kwargs({"merge_size": 3})):
        assert (each.clips["fps"], each.image["patch_size"], each.recordings["n_fft"]) == (1, 7, 512)


def test_two_ways_of_saying_how_many_frames_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedModel, match="num_frames"):
        qwen2_video({"fps": 2, "num_frames": 8})
    assert len(qwen2_video({"num_frames": 64}).sample(30, 10.0)) == 30  # transformers refuses such a clip
    assert np.diff(qwen2_video({"num_frames": 8}).sample(80, 10.0)).tolist() == [10] * 7
