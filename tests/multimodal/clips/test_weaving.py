"""In which turns a clip's frames and its sound come: as transformers' own methods write them, token for token."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from transformers.models.qwen2_5_omni.processing_qwen2_5_omni import Qwen2_5OmniProcessor
from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import Qwen3OmniMoeProcessor

from smg_multimodal.families.omni import WEAVE_BY_MOMENT, WEAVE_IN_CHUNKS, Weave
from smg_multimodal.records.errors import UnsupportedModel

OF_TRANSFORMERS: dict[str, tuple[Any, Weave]] = {
    "qwen2.5": (Qwen2_5OmniProcessor, WEAVE_IN_CHUNKS),
    "qwen3": (Qwen3OmniMoeProcessor, WEAVE_BY_MOMENT),
}


def written(cls: Any, grid: tuple[int, int, int], interval: float, sound: int, options: dict[str, Any]) -> str:
    """What transformers writes for a clip: V for its frames' tokens, A for the sound's, between two marks."""
    stand_in = SimpleNamespace(
        audio_bos_token="<",
        audio_eos_token=">",
        video_token="V",
        audio_token="A",
        video_processor=SimpleNamespace(merge_size=2),
        get_chunked_index=lambda places, each: cls.get_chunked_index(None, places, each),
    )
    video = {"video_grid_thw": np.array([grid]), "video_second_per_grid": [interval]}
    kept = {
        "position_id_per_seconds": cls.position_id_per_seconds,
        "seconds_per_chunk": cls.seconds_per_chunk,
        **options,
    }
    found = cls.replace_video_with_audio_token(stand_in, video, 0, {"num_audio_tokens": np.array([sound])}, 0, **kept)
    return str(found)


@pytest.mark.parametrize("name", OF_TRANSFORMERS)
@given(
    groups=st.integers(1, 40),
    rows=st.integers(1, 4),
    columns=st.integers(1, 3),
    interval=st.sampled_from([2 / 2.0, 2 / 1.0, 2 / 1.875, 2 / 24, 2 / 0.3, 2 / 7]) | st.floats(0.01, 30),
    sound=st.integers(0, 700),
    options=st.fixed_dictionaries(
        {},
        optional={
            "position_id_per_seconds": st.sampled_from([25, 13.0, 12.5, 40]),
            "seconds_per_chunk": st.sampled_from([2.0, 1, 0.7]),
        },
    ),
)
@example(groups=4, rows=2, columns=2, interval=4.0, sound=120, options={})
def test_turns_are_those_of_transformers(
    name: str, groups: int, rows: int, columns: int, interval: float, sound: int, options: dict[str, Any]
) -> None:
    cls, weave = OF_TRANSFORMERS[name]
    runs = weave.reported(options).runs((groups, 2 * rows, 2 * columns), rows * columns, interval, sound)
    text = "".join(("A" if heard else "V") * count for heard, count in runs)
    assert f"<{text}>" == written(cls, (groups, 2 * rows, 2 * columns), interval, sound, options)
    assert all(count for _, count in runs)
    assert all(one[0] is not other[0] for one, other in pairwise(runs))


@pytest.mark.parametrize("key", ["seconds_per_chunk", "position_id_per_seconds"])
@pytest.mark.parametrize("value", [0, -1, "2", True, float("inf"), float("nan"), 1e-3])
def test_numbers_that_make_no_chunks_are_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(UnsupportedModel, match="seconds_per_chunk" if value == 1e-3 else key):
        WEAVE_IN_CHUNKS.reported({key: value})
