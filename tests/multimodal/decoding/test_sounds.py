"""MP3, FLAC, Ogg, M4A, AAC, WebM and WAV recordings: the samples they hold, as long as they are, and no longer than they may
be."""

import contextlib
import io
import math
import wave

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moving import SOUNDS, coded_clip, coded_sound

from smg_multimodal.decoding import av_input
from smg_multimodal.decoding.decode import ImageLimits
from smg_multimodal.decoding.sounds import recording, recording_facts
from smg_multimodal.records.errors import BadRecording, MediaError, MediaTooLarge

LIMITS = ImageLimits()
TONE = np.sin(2 * np.pi * 440 * np.arange(8000) / 16000)


def likeness(samples: np.ndarray[tuple[int], np.dtype[np.float32]]) -> float:
    """How much of `samples` in their middle is a tone of 440 Hz, whatever its phase: 1 is all of it."""
    middle = samples[2000:6000].astype(np.float64)
    wave_of = np.exp(2j * np.pi * 440 * np.arange(len(middle)) / 16000)
    return float(abs(middle @ wave_of) * math.sqrt(2 / len(middle)) / np.linalg.norm(middle))


@pytest.mark.parametrize("kind", SOUNDS)
@pytest.mark.parametrize("channels", [1, 2])
def test_the_samples_are_those_that_were_coded(kind: str, channels: int) -> None:
    data = coded_sound(kind, 0.5, channels=channels)
    facts = recording_facts(data, LIMITS, 16000)
    assert facts.isolated
    assert facts.rate == SOUNDS[kind][2]
    assert facts.seconds == pytest.approx(0.5, abs=0.07)  # some codecs add silence
    samples = recording(data, LIMITS, 16000, facts.most_seconds)
    assert samples.dtype == np.float32
    assert len(samples) / 16000 == pytest.approx(0.5, abs=0.08)
    assert likeness(samples) > 0.99
    loud = 0.5 if channels == 1 else 0.375  # channels are averaged
    assert np.abs(samples[2000:6000]).max() == pytest.approx(loud, rel=0.06)


def test_what_is_coded_without_loss_has_the_very_samples() -> None:
    out = io.BytesIO()
    noise = np.random.default_rng(3).integers(-30000, 30000, 16000, np.int16)
    with av.open(out, "w", format="flac") as file:
        stream = file.add_stream("flac", rate=16000)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(noise[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts = 16000, 0
        file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    assert np.array_equal(recording(out.getvalue(), LIMITS, 16000, 2.0), noise / np.float32(32768))


@pytest.mark.parametrize("kind", ["mp4", "webm", "mkv"])
def test_the_sound_of_a_clip_is_a_recording(kind: str) -> None:
    data = coded_clip(kind, 6, sound=0.5)
    assert recording_facts(data, LIMITS, 16000).seconds == pytest.approx(0.5, abs=0.07)
    assert likeness(recording(data, LIMITS, 16000, 1.0)) > 0.99
    with pytest.raises(BadRecording, match="has no audio; it has video"):
        recording_facts(coded_clip(kind, 6), LIMITS, 16000)


def test_a_cover_picture_is_no_sound_and_does_no_harm() -> None:
    plain = coded_sound("mp3", 0.5)
    picture = b"\x89PNG\r\n\x1a\n" + bytes(500)
    body = b"\0image/png\0\x03\0" + picture
    frame = b"APIC" + len(body).to_bytes(4, "big") + b"\0\0" + body
    size = bytes(len(frame) >> shift & 0x7F for shift in (21, 14, 7, 0))
    tagged = b"ID3\x03\0\0" + size + frame + plain[plain.index(b"\xff\xfb") :]
    assert likeness(recording(tagged, LIMITS, 16000, 1.0)) > 0.99


# ------------------------------------------------------------------------------------------------------------- hostile files


def silent_opus(seconds: int) -> bytes:
    """Silence in a few kilobytes: the smallest packets that Opus has, of 120 ms each."""
    out = io.BytesIO()
    with av.open(out, "w", format="ogg") as file:
        stream = file.add_stream("libopus", rate=48000, options={"frame_duration": "120", "b": "500", "dtx": "1"})
        stream.layout = "mono"
        stream.codec_context.open()
        for number in range(seconds * 1000 // 120):
            packet = av.Packet(b"\x0b\x46")  # six empty frames of 20 ms
            packet.stream, packet.pts, packet.dts, packet.duration = stream, number * 5760, number * 5760, 5760
            packet.time_base = stream.codec_context.time_base
            file.mux(packet)
    return out.getvalue()


def test_an_hour_of_silence_in_a_few_kilobytes_is_refused_before_it_is_decoded() -> None:
    data = silent_opus(3600)
    assert len(data) < 200_000
    with pytest.raises(MediaTooLarge, match=r"s long; at most 600 s are taken"):
        recording_facts(data, LIMITS, 16000)


def test_a_recording_that_is_longer_than_it_states_is_stopped() -> None:
    data = coded_sound("flac", 3.0)
    with pytest.raises(MediaTooLarge, match="more than 1 s long"):
        recording(data, LIMITS, 16000, 1.0)


def test_a_recording_that_takes_more_memory_than_there_is_is_refused() -> None:
    with pytest.raises(MediaTooLarge, match=r"0\.5 s at 44100 Hz, which take \d+ bytes of memory"):
        recording_facts(coded_sound("flac", 0.5), ImageLimits(max_memory=1024), 16000)


@pytest.mark.parametrize("kind", ["mp3", "ogg", "m4a", "flac"])
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_recording_that_is_cut_or_scribbled_upon_is_decoded_or_refused(kind: str, data: st.DataObject) -> None:
    whole = _WHOLE[kind]
    cut = whole[: data.draw(st.integers(20, len(whole)))]
    at = data.draw(st.integers(0, len(cut) - 9))
    broken = cut[:at] + data.draw(st.binary(min_size=1, max_size=8)) + cut[at + 8 :]
    with contextlib.suppress(MediaError):
        facts = recording_facts(broken, LIMITS, 16000)
        assert len(recording(broken, LIMITS, 16000, facts.most_seconds)) <= facts.most_seconds * 16000 + 1


_WHOLE = {kind: coded_sound(kind, 0.3) for kind in ("mp3", "ogg", "m4a", "flac")}


@pytest.mark.parametrize(
    ("start", "named"),
    [
        (b"#EXTM3U\nhttp://127.0.0.1/\n", "playlist"),
        (b"FORM\0\0\0\0AIFF", "AIFF"),
        (b"#!AMR\n", "AMR"),
        (b"GIF89a" + bytes(60), "picture in GIF"),
        (b"caff\0\1\0\0", "CAF"),
        (b"nothing of the kind", "no format that is known"),
        (b"", "no format that is known"),
    ],
)
def test_what_is_no_recording_is_refused_by_its_name_and_told_what_is_taken(start: bytes, named: str) -> None:
    with pytest.raises(BadRecording, match=f"{named}.*; taken are WAV, MP4, MOV, WebM, MP3, FLAC, Ogg, AAC") as caught:
        recording_facts(start, LIMITS, 16000)
    assert caught.value.code == "invalid_audio"


@pytest.mark.parametrize(("kind", "label"), [("mp3", "MP3"), ("ogg", "Ogg"), ("m4a", "MP4"), ("aac", "AAC")])
def test_without_pyav_the_error_says_what_to_install(kind: str, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(av_input, "find_spec", lambda name: None)
    with pytest.raises(
        BadRecording, match=rf"in {label}, for which PyAV is needed here: pip install 'smg-(sdk|multimodal)\[video\]'"
    ):
        recording_facts(coded_sound(kind, 0.2), LIMITS, 16000)


def test_a_wav_file_needs_no_pyav_and_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(av_input, "find_spec", lambda name: None)
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", "NONE"))
        file.writeframes((TONE * 9000).astype("<i2").tobytes())
    facts = recording_facts(out.getvalue(), LIMITS, 16000)
    assert (facts.seconds, facts.rate, facts.isolated) == (0.5, 16000, False)
    assert likeness(recording(out.getvalue(), LIMITS, 16000, 1.0)) > 0.99
