"""Clips and compressed recordings in Chat Completions, end to end: a gateway in front, processes that decode, a simulated engine
that checks every tensor behind."""

import base64
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.test_sound import tokens
from tests.gateway.test_vision import asked, refused, seeing, seen
from tests.gateway.vision_models import audio_part, picture, qwen2_audio, qwen2_vl, text_part
from tests.multimodal.moving import coded_clip, coded_sound

from smg_multimodal.decoding import av_input
from smg_multimodal.processes.workers import DecoderProcesses

pytestmark = pytest.mark.anyio

WORDS = text_part("Which shapes do you see?")


@pytest.fixture(scope="session")
def seer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_vl(tmp_path_factory.mktemp("seer") / "model"))


@pytest.fixture(scope="session")
def hearer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_audio(tmp_path_factory.mktemp("hearer") / "model"))


def url_part(kind: str, data: bytes, media_type: str) -> dict[str, Any]:
    url = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
    return {"type": kind, kind: {"url": url}}


@pytest.mark.full
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "media_type"), [("mp4", "video/mp4"), ("mov", "video/quicktime"), ("webm", "video/webm")]
)
async def test_a_clip_arrives_as_the_frames_that_the_family_takes(seer: str, kind: str, media_type: str) -> None:
    """Four seconds at twelve frames a second, of which Qwen2-VL takes two a second."""
    async with seeing(seer) as house:
        answer = await asked(house, WORDS, url_part("video_url", coded_clip(kind, 48, size=(112, 84)), media_type))

    media = seen(house)
    assert media.modality == "video"
    assert media.tensors["video_grid_thw"].values[0] == 4  # eight frames, two at a time
    assert answer.usage.prompt_tokens == len(house.engine.requests[-1].input_ids)
    assert f"I see 1 video ({media.placeholders[0][1]} tokens" in answer.choices[0].message.content


@pytest.mark.full
async def test_a_clip_seen_before_is_neither_measured_nor_decoded_again(
    seer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(processes: DecoderProcesses) -> None:
        raise AssertionError("a process was asked")

    part = url_part("video_url", coded_clip("mp4", 24), "video/mp4")
    async with seeing(seer) as house:
        first = await asked(house, WORDS, part)
        monkeypatch.setattr(DecoderProcesses, "_taken", nobody)
        again = await asked(house, WORDS, part)

    assert first.usage.prompt_tokens == again.usage.prompt_tokens


@pytest.mark.full
@pytest.mark.sampled
@pytest.mark.parametrize(("kind", "said"), [("mp3", "mp3"), ("flac", "flac"), ("ogg", "opus"), ("m4a", "m4a")])
async def test_a_compressed_recording_arrives_as_features(hearer: str, kind: str, said: str) -> None:
    async with seeing(hearer) as house:
        await asked(house, WORDS, audio_part(coded_sound(kind, 1.0), said))
        await asked(house, WORDS, url_part("audio_url", coded_sound(kind, 1.0), "audio/mpeg"))

    for at in (0, 1):
        media = seen(house, at)
        assert media.modality == "audio"
        assert media.tensors["input_features"].shape == (1, 80, 200)
        (length,) = (length for _, length in media.placeholders)
        assert tokens(1.0) <= length <= tokens(1.06)  # some codecs add silence


@pytest.mark.full
@pytest.mark.parametrize("form", ["bare", "wrapped", "url-safe", "data url"])
async def test_base64_is_taken_as_people_send_it(seer: str, hearer: str, form: str) -> None:
    def written(data: bytes, media_type: str) -> str:
        plain = base64.b64encode(data).decode()
        forms = {
            "bare": plain,
            "wrapped": f"data:{media_type};base64," + "\n".join(textwrap.wrap(plain, 76)),
            "url-safe": f"data:{media_type};base64," + base64.urlsafe_b64encode(data).decode().rstrip("="),
            "data url": f"data:{media_type};base64,{plain}",
        }
        return forms[form]

    def inner(data: bytes) -> str:
        whole = written(data, "audio/mpeg")
        return whole if form == "data url" else whole.partition(",")[2] or whole

    async with seeing(seer) as house:
        await asked(house, {"type": "image_url", "image_url": {"url": written(picture(64, 64), "image/png")}})
        await asked(house, {"type": "video_url", "video_url": {"url": written(coded_clip("mp4", 8), "video/mp4")}})
    async with seeing(hearer) as house:
        sound = coded_sound("mp3", 0.5)
        await asked(house, {"type": "audio_url", "audio_url": {"url": written(sound, "audio/mpeg")}})
        await asked(house, {"type": "input_audio", "input_audio": {"data": inner(sound), "format": "mp3"}})
        assert seen(house, 0).hashes == seen(house, 1).hashes


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b"#EXTM3U\nfile:///etc/passwd\n" + bytes(40), "invalid_video", "playlist"),
        (coded_clip("mp4", 12)[:-200], "invalid_video", "damaged or truncated"),
        (b"RIFF\0\0\0\0AVI LIST" + bytes(60), "invalid_video", "AVI; taken are GIF, WebP, PNG, MP4, MOV, WebM"),
        (coded_clip("mp4", 40), "media_too_large", "more than 39 frames"),
    ],
)
async def test_what_is_no_clip_is_refused_with_its_place(seer: str, data: bytes, code: str, words: str) -> None:
    async with seeing(seer, max_frames=39) as house:
        error = await refused(house, WORDS, url_part("video_url", data, "video/mp4"))

    assert (error["param"], error["code"]) == ("messages[0].content[1]", code)
    assert words in error["message"]


@pytest.mark.full
async def test_a_recording_longer_than_the_setting_allows_is_refused(hearer: str) -> None:
    async with seeing(hearer, max_seconds=1.5) as house:
        error = await refused(house, audio_part(coded_sound("mp3", 2.0), "mp3"))

    assert (error["param"], error["code"]) == ("messages[0].content[0]", "media_too_large")
    assert "at most 1.5 s" in error["message"]


@pytest.mark.full
async def test_a_clip_that_takes_too_long_is_stopped_and_the_gateway_goes_on(seer: str) -> None:
    slow = coded_clip("mp4", 900, size=(640, 480), gop=900, preset="ultrafast")
    async with seeing(seer, clip_timeout_s=0.1) as house:
        error = await refused(house, url_part("video_url", slow, "video/mp4"))
        answer = await asked(house, WORDS)

    assert error["code"] == "media_too_large"
    assert "more than 0.1 s" in error["message"]
    assert answer.choices[0].finish_reason == "stop"


async def test_without_pyav_the_client_is_told_what_the_gateway_lacks(
    seer: str, hearer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(av_input, "find_spec", lambda name: None)
    async with seeing(seer) as house:
        clip = await refused(house, url_part("video_url", coded_clip("mp4", 4), "video/mp4"))
    async with seeing(hearer) as house:
        sound = await refused(house, audio_part(coded_sound("mp3"), "mp3"))

    assert "in MP4, for which PyAV is needed here: pip install 'smg-sdk[video]'" in clip["message"]
    assert "in MP3, for which PyAV is needed here: pip install 'smg-sdk[video]'" in sound["message"]


@pytest.mark.full
async def test_a_file_below_the_allowed_folder_may_be_a_clip(seer: str, tmp_path: Path) -> None:
    (tmp_path / "clip.webm").write_bytes(coded_clip("webm", 8))
    async with seeing(seer, allow_files=str(tmp_path)) as house:
        await asked(house, {"type": "video_url", "video_url": {"url": (tmp_path / "clip.webm").as_uri()}})

    assert seen(house).modality == "video"
