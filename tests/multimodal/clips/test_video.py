"""Clips of the Qwen families: the frames, sizes, times and pixels transformers would have."""

import gzip
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sound_files import CLIPS, SAMPLINGS, clip

from smg_multimodal.clips.video import PatchVideoProcessor, qwen2_video, qwen3_video
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import Modality, Size

PROCESSORS = {"qwen2_vl": qwen2_video({}), "qwen3_vl": qwen3_video({})}


@cache
def written() -> dict[str, Any]:
    path = Path(__file__).parents[1] / "references.json.gz"
    read: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))["video"]
    return read


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_frames_taken_are_those_written_down(name: str) -> None:
    rows = written()[name]["samplings"]
    assert len(rows) == len(SAMPLINGS)
    for (total, rate), expected in zip(SAMPLINGS, rows, strict=True):
        if expected is None:
            with pytest.raises(BadMedia):
                PROCESSORS[name].sample(total, rate)
            continue
        assert PROCESSORS[name].sample(total, rate) == expected, (total, rate)


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("index", range(len(CLIPS)))
def test_the_tensors_of_a_clip_are_those_written_down_and_as_large_as_was_said(name: str, index: int) -> None:
    frames, row = clip(*CLIPS[index]), written()[name]["clips"][index]
    item = PROCESSORS[name].item(frames, [0.5 * number for number in range(len(frames))])
    pixels = np.ascontiguousarray(item.tensors["pixel_values_videos"])
    assert item.tensors["video_grid_thw"].tolist() == row["grid"]
    assert list(pixels.shape) == row["pixel_values_videos"]["shape"]
    assert hashlib.sha256(pixels.tobytes()).hexdigest()[:32] == row["pixel_values_videos"]["sha256"]
    assert item.tokens == np.prod(row["grid"]) // 4
    assert item.modality is Modality.VIDEO
    assert PROCESSORS[name].measure(item.size, len(frames)) == (item.tokens, item.grid)
    assert item.nbytes <= PROCESSORS[name].nbytes(item.size, len(frames)) <= item.nbytes + 4096


def test_times_lie_in_the_middle_of_each_group_of_frames() -> None:
    processor = qwen3_video({})
    item = processor.clip(clip(64, 48, 90), 30.0)
    assert processor.sample(90, 30.0) == [0, 18, 36, 53, 71, 89]
    assert item.facts["seconds"] == pytest.approx(((0 + 18) / 60, (36 + 53) / 60, (71 + 89) / 60))


def test_seconds_between_groups_are_told_to_qwen_2_5() -> None:
    item = qwen2_video({"fps": 4}).clip(clip(64, 48, 8), 4.0)
    assert item.tensors["second_per_grid_ts"].tolist() == [0.5]


def test_seconds_between_groups_are_those_of_the_frames_that_were_taken() -> None:
    """Two seconds have at least four frames, whatever the rate that is wanted."""
    item = qwen2_video({"fps": 1}).clip(clip(64, 48, 20), 10.0)
    assert item.grid[0] == 2
    assert item.tensors["second_per_grid_ts"].tolist() == [1.0]


@pytest.mark.parametrize("processor", PROCESSORS.values(), ids=PROCESSORS)
def test_clips_without_frames_or_of_mixed_sizes_are_refused(processor: PatchVideoProcessor) -> None:
    red, small = Image.new("RGB", (40, 40)), Image.new("RGB", (30, 40))
    for frames, seconds in (
        ([], []),
        ([red, small], [0.0, 1.0]),
        ([red], []),
        ([red], [0.0, 1.0]),
        ([red] * 3, [0.0, 1.0]),
    ):
        with pytest.raises(BadMedia):
            processor.item(frames, seconds)
    for total, rate in ((0, 1.0), (5, 0.0)):
        with pytest.raises(BadMedia):
            processor.sample(total, rate)
    with pytest.raises(BadMedia):
        processor.measure(Size(10, 5000), 4)
