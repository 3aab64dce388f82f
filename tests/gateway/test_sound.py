"""Recordings in Chat Completions, end to end: the official SDK in front, a simulated engine that checks every tensor behind."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from tests.gateway.conftest import in_process
from tests.gateway.test_vision import asked, refused, sdk, seeing, seen
from tests.gateway.vision_models import audio_part, image_part, phi4, picture, qwen2_audio, sound, text_part

from smg_core import Config
from smg_core.workers.settings import WorkersConfig
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SHAPES = text_part("Which shapes do you hear?")


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_audio(tmp_path_factory.mktemp("qwen-audio") / "model"))


@pytest.fixture(scope="session")
def phi(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(phi4(tmp_path_factory.mktemp("phi") / "model"))


def tokens(seconds: float) -> int:
    """What Qwen2-Audio counts for a recording: frames of ten milliseconds, halved twice."""
    return ((round(seconds * 100) - 1) // 2 + 1 - 2) // 2 + 1


@pytest.mark.full
async def test_a_recording_arrives_as_features_and_the_engine_says_their_shapes(
    qwen: str, served: Callable[..., Any]
) -> None:
    async with seeing(qwen, served) as house:
        answer = await asked(house, SHAPES, audio_part(sound(1.0)))

    media = seen(house)
    assert media.modality == "audio"
    assert media.tensors["input_features"].shape == (1, 80, 200)
    assert media.tensors["feature_attention_mask"].sums == (100,)
    assert media.batched == {"input_features", "feature_attention_mask"}
    assert [length for _, length in media.placeholders] == [tokens(1.0)]
    assert f"({tokens(1.0)} tokens at" in answer.choices[0].message.content
    assert "input_features 1x80x200 float32" in answer.choices[0].message.content
    assert answer.usage.prompt_tokens == len(house.engine.requests[-1].input_ids)
    assert (
        house.engine.engine.vocabulary.decode(house.engine.requests[-1].input_ids).count("<|audio_bos|><|AUDIO|>") == 1
    )


async def test_a_stream_with_a_recording_says_them_too(qwen: str, served: Callable[..., Any]) -> None:
    messages: Any = [{"role": "user", "content": [audio_part(sound(0.5)), SHAPES]}]
    async with seeing(qwen, served) as house, sdk(house) as client:
        stream = await client.chat.completions.create(
            model="sim", messages=messages, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert f"I see 1 audio ({tokens(0.5)} tokens at" in text
    assert chunks[-1].usage.prompt_tokens == len(house.engine.requests[-1].input_ids)


async def test_several_recordings_keep_their_order_between_the_words(qwen: str) -> None:
    short, long = sound(0.4), sound(1.5)
    async with seeing(qwen) as house:
        await asked(house, text_part("first"), audio_part(short), text_part("second"), audio_part(long))
        await asked(house, audio_part(long), audio_part(short))

    media = seen(house, 0)
    assert media.tensors["input_features"].shape == (2, 80, 200)
    assert [length for _, length in media.placeholders] == [tokens(0.4), tokens(1.5)]
    assert seen(house, 1).hashes == media.hashes[::-1]
    text = house.engine.engine.vocabulary.decode(house.engine.requests[0].input_ids)
    assert text.index("first") < text.index("<|AUDIO|>") < text.index("second") < text.rindex("<|AUDIO|>")


@pytest.mark.full
async def test_recordings_of_other_rates_and_bare_samples_are_taken(qwen: str) -> None:
    bare = sound(1.0, 24000)[44:]
    url = {
        "type": "audio_url",
        "audio_url": {"url": "data:audio/wav;base64," + base64.b64encode(sound(1.0, 44100)).decode()},
    }
    async with seeing(qwen) as house:
        await asked(house, audio_part(sound(1.0, 8000)))
        await asked(house, url)
        await asked(house, audio_part(bare, "pcm16"))

    for at in range(3):
        assert [length for _, length in seen(house, at).placeholders] == [tokens(1.0)]


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize(
    ("data", "said", "named"),
    [
        (b"ID3\x04\0\0\0\0\0\0" + bytes(400), "mp3", "MP3"),
        (b"\xff\xfb\x90\x00" + bytes(400), "mp3", "MP3"),
        (b"fLaC" + bytes(400), "flac", "FLAC"),
        (b"OggS" + bytes(400), "opus", "Ogg"),
        (b"OggS" + bytes(400), "wav", "Ogg"),
        (b"nothing of the kind" * 9, "aac", "'aac'"),
        (b"RIFF\0\0\0\0WAVE", "wav", "no format"),
        (sound(0.0), "wav", "not empty"),
    ],
)
async def test_what_is_not_decoded_is_refused_by_its_format(qwen: str, data: bytes, said: str, named: str) -> None:
    async with seeing(qwen) as house:
        error = await refused(house, text_part("x"), audio_part(data, said))

    assert error["param"] == "messages[0].content[1]"
    assert error["code"] == "invalid_audio"
    assert named in error["message"]


@pytest.mark.full
async def test_a_recording_too_long_is_refused_and_one_beyond_the_models_window_is_cut(qwen: str) -> None:
    slow = sound(601.0, 1000)
    async with seeing(qwen) as house:
        error = await refused(house, audio_part(slow))
        await asked(house, audio_part(sound(2.5)))

    assert error["code"] == "media_too_large"
    assert [length for _, length in seen(house).placeholders] == [tokens(2.0)]


async def test_a_model_of_recordings_refuses_pictures_by_name(qwen: str) -> None:
    async with seeing(qwen) as house:
        error = await refused(house, audio_part(sound(0.5)), image_part(picture(56, 56)))

    assert error["param"] == "messages[0].content[1]"
    assert error["code"] == "unsupported_parameter"


async def test_a_model_of_text_refuses_recordings_by_name() -> None:
    async with in_process(SimulatorConfig(), config=Config(workers=WorkersConfig(dialect="vllm"))) as house:
        error = await refused(house, audio_part(sound(0.1)))

    assert (error["param"], error["code"]) == ("messages[0].content[0]", "unsupported_parameter")


async def test_an_engine_takes_a_recording_for_cached_only_when_it_is_the_same(qwen: str) -> None:
    async with seeing(qwen) as house:
        cached = [
            (await asked(house, audio_part(sound(2.0, tone=tone)))).usage.prompt_tokens_details.cached_tokens
            for tone in (440.0, 880.0, 440.0)
        ]

    assert cached[0] == cached[1] == 0 < cached[2]


@pytest.mark.full
async def test_a_model_of_pictures_and_recordings_takes_either_by_vllms_names(phi: str) -> None:
    async with seeing(phi) as house:
        await asked(house, SHAPES, audio_part(sound(1.0)))
        await asked(house, SHAPES, image_part(picture(300, 200)))

    heard, saw = seen(house, 0), seen(house, 1)
    assert set(heard.tensors) == {"input_audio_embeds"}  # the model counts its tokens itself
    assert heard.tensors["input_audio_embeds"].shape == (1, 98, 80)
    assert set(saw.tensors) == {"input_image_embeds", "image_sizes", "image_attention_mask", "num_img_tokens"}


@pytest.mark.full
async def test_what_vllms_servicer_would_take_for_pictures_is_refused_beside_them(phi: str) -> None:
    async with seeing(phi) as house:
        mixed = await refused(house, image_part(picture(56, 56)), text_part("and"), audio_part(sound(0.5)))
        uneven = await refused(house, audio_part(sound(0.5)), audio_part(sound(1.0)))
        await asked(house, audio_part(sound(0.5)), audio_part(sound(0.5, tone=600.0)))

    assert mixed["param"] == "messages[0].content[2]"
    assert "images" in mixed["message"]
    assert "audio" in mixed["message"]
    assert "same length" in uneven["message"]
    assert seen(house).tensors["input_audio_embeds"].shape[0] == 2
