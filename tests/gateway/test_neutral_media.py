"""Media through the neutral contract, end to end: every item by itself, whatever stands beside it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import House, in_process
from tests.gateway.test_vision import asked, refused, sdk
from tests.gateway.vision_models import (
    audio_part,
    clip,
    image_part,
    phi4,
    picture,
    qwen2_audio,
    qwen2_vl,
    qwen25_omni,
    sound,
    text_part,
    video_part,
)
from tests.multimodal.moving import coded_clip

from smg_core import Config
from smg_core.config import MediaConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.media import SeenMedia

pytestmark = pytest.mark.anyio

SHAPES = text_part("Which shapes do you see?")
MODELS = {"qwen": qwen2_vl, "audio": qwen2_audio, "phi": phi4, "omni": qwen25_omni}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    parent = tmp_path_factory.mktemp("neutral")
    return {name: str(make(parent / name)) for name, make in MODELS.items()}


def neutral(folder: str, serve: Callable[..., Any] = in_process, dialect: str = "neutral", **told: Any) -> Any:
    """A gateway before an engine of the contract that has the model in `folder`, and was `told` that of its processor."""
    media = MediaConfig(processor_kwargs=json.dumps({"sim": told}))
    return serve(
        SimulatorConfig(model_folder=folder), config=Config(workers=WorkersConfig(dialect=dialect), media=media)
    )


def seen(house: House, at: int = -1) -> list[SeenMedia]:
    return list(house.engine.requests[at].multimodal)


@pytest.mark.full
async def test_pictures_and_clips_arrive_one_by_one_in_their_order(
    folders: dict[str, str], served: Callable[..., Any]
) -> None:
    parts = [image_part(picture(280, 140)), video_part(clip(56, 56, 8)), image_part(picture(56, 56))]
    async with neutral(folders["qwen"], served) as house:
        answer = await asked(house, SHAPES, *parts)

    first, moving, last = seen(house)
    assert [media.modality for media in (first, moving, last)] == ["image", "video", "image"]
    assert first.tensors["pixel_values"].shape == (200, 1176)
    assert last.tensors["image_grid_thw"].values == (1, 4, 4)
    assert {"pixel_values_videos", "video_grid_thw"} <= set(moving.tensors)
    assert first.embeddings == first.placeholders
    assert answer.choices[0].message.content.count("I see 1 image") == 2
    assert answer.usage.prompt_tokens == len(house.engine.requests[-1].input_ids)


@pytest.mark.full
async def test_a_stream_with_a_recording_says_its_shapes(folders: dict[str, str]) -> None:
    messages: Any = [{"role": "user", "content": [audio_part(sound(1.0)), SHAPES]}]
    async with neutral(folders["audio"]) as house, sdk(house) as client:
        stream = await client.chat.completions.create(model="sim", messages=messages, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    assert "input_features 1x80x200 float32" in text
    assert seen(house)[0].tensors["feature_attention_mask"].sums == (100,)


@pytest.mark.full
async def test_pictures_and_recordings_of_any_length_stand_in_one_message(folders: dict[str, str]) -> None:
    parts = [audio_part(sound(1.0)), text_part("then"), image_part(picture(300, 200)), audio_part(sound(0.5))]
    async with neutral(folders["phi"]) as house:
        await asked(house, *parts)

    long, still, short = seen(house)
    assert [media.modality for media in (long, still, short)] == ["audio", "image", "audio"]
    assert long.tensors["audio_input_features"].shape == (1, 98, 80)
    assert short.tensors["audio_input_features"].shape == (1, 48, 80)
    assert long.placeholders < still.placeholders < short.placeholders
    assert len({media.hashes for media in (long, still, short)}) == 3


@pytest.mark.full
async def test_the_prefix_cache_tells_pictures_apart_and_keeps_salts_apart(folders: dict[str, str]) -> None:
    async def cached(house: House, colour: str, salt: str | None = None) -> int:
        more = {"extra_body": {"cache_salt": salt}} if salt else {}
        answer = await asked(house, image_part(picture(280, 140, colour)), **more)
        return int(answer.usage.prompt_tokens_details.cached_tokens)

    async with neutral(folders["qwen"]) as house:
        assert await cached(house, "red") == 0
        assert await cached(house, "blue") == 0
        assert await cached(house, "red") > 0
        assert await cached(house, "red", "tenant") == 0


async def test_what_the_model_does_not_take_is_refused_by_name(folders: dict[str, str]) -> None:
    async with neutral(folders["qwen"]) as house:
        error = await refused(house, text_part("x"), audio_part(sound(0.1)))

    assert error["param"] == "messages[0].content[1]"
    assert "audio" in error["message"]


@pytest.mark.full
async def test_the_sound_of_a_clip_comes_with_it_where_engines_were_told_so(folders: dict[str, str]) -> None:
    """Four seconds: a hundred tokens of sound in two chunks, each behind those of its frames."""
    heard, silent = (video_part(coded_clip("mp4", 48, sound=seconds)) for seconds in (4.0, 0.0))
    async with neutral(folders["omni"], use_audio_in_video=True) as house:
        answer = await asked(house, SHAPES, heard, audio_part(sound(1.0)), silent)
        again = await asked(house, SHAPES, heard, audio_part(sound(1.0)), silent)

    moving, loud, alone, still = seen(house)
    assert [each.modality for each in (moving, loud, alone, still)] == ["video", "audio", "audio", "video"]
    assert moving.placeholders == loud.placeholders
    assert moving.hashes != loud.hashes
    assert set(loud.tensors) == {"input_features", "feature_attention_mask"}
    assert {"pixel_values_videos", "video_grid_thw", "second_per_grid_ts"} == set(moving.tensors)
    assert moving.embeddings is not None
    assert loud.embeddings is not None
    assert len(moving.embeddings) == len(loud.embeddings) == 2
    assert moving.embeddings[0] < loud.embeddings[0] < moving.embeddings[1] < loud.embeddings[1]
    assert loud.embeddings[0][1] == 50
    assert answer.usage.prompt_tokens == again.usage.prompt_tokens == len(house.engine.requests[-1].input_ids)


@pytest.mark.full
@pytest.mark.parametrize("dialect", ["vllm", "tokenspeed"])
async def test_engines_that_cannot_be_told_whose_sound_it_is_get_none(folders: dict[str, str], dialect: str) -> None:
    heard, silent = (video_part(coded_clip("mp4", 24, sound=seconds)) for seconds in (1.0, 0.0))
    async with neutral(folders["omni"], dialect=dialect, use_audio_in_video=True) as house:
        error = await refused(house, SHAPES, heard)
        await asked(house, SHAPES, silent)

    assert "which sound is of which clip" in error["message"]


@pytest.mark.full
async def test_the_sound_of_a_clip_is_left_where_engines_were_told_nothing(folders: dict[str, str]) -> None:
    async with neutral(folders["omni"]) as house:
        await asked(house, SHAPES, video_part(coded_clip("mp4", 24, sound=1.0)))

    assert [each.modality for each in seen(house)] == ["video"]


@pytest.mark.full
async def test_an_engine_that_takes_clips_alone_is_sent_none_with_sound(tmp_path: Path) -> None:
    folder = qwen25_omni(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    del config["audio_config"]
    (folder / "config.json").write_text(json.dumps(config))
    heard, silent = (video_part(coded_clip("mp4", 24, sound=seconds)) for seconds in (1.0, 0.0))
    async with neutral(str(folder), use_audio_in_video=True) as house:
        error = await refused(house, SHAPES, heard)
        await asked(house, SHAPES, silent)

    assert "this engine takes no audio" in error["message"]
