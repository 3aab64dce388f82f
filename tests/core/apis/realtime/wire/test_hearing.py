"""The detector of speech and the buffer of sound, on synthetic speech, silence and noise."""

import base64
import io
import math
import random
import struct
import wave
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.realtime.wire.hearing import Heard, Hearing, wav_base64
from smg_core.apis.realtime.wire.vad import FRAME_BYTES, EnergyVad, levels_of
from smg_core.errors import InvalidRequest

RATE = 24_000
VAD = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}


def pcm(samples: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(samples)}h", *(int(max(-1.0, min(1.0, each)) * 32767) for each in samples))


def noise(seconds: float, level_db: float, seed: int = 1) -> bytes:
    scale, draw = 10 ** (level_db / 20), random.Random(seed)
    return pcm([draw.gauss(0, scale) for _ in range(int(seconds * RATE))])


def speech(seconds: float, level_db: float = -20.0) -> bytes:
    """Syllables: a voice of 120 Hz and its overtones, four times a second louder and softer."""
    peak = 10 ** (level_db / 20) * 2
    samples = []
    for at in range(int(seconds * RATE)):
        time = at / RATE
        envelope = max(0.0, math.sin(2 * math.pi * 4 * time)) ** 0.5
        voice = sum(math.sin(2 * math.pi * 120 * number * time) / number for number in range(1, 6))
        samples.append(peak * envelope * voice / 2)
    return pcm(samples)


def mixed(one: bytes, other: bytes) -> bytes:
    first, second = (struct.unpack(f"<{len(each) // 2}h", each) for each in (one, other))
    return pcm([(a + b) / 32767 for a, b in zip(first, second, strict=True)])


def turns(sound: bytes, **settings: float) -> list[tuple[int, bool]]:
    hearing = Hearing()
    hearing.configure({**VAD, **settings})
    found: list[Heard] = []
    for at in range(0, len(sound), 4800):
        found += hearing.hear(sound[at : at + 4800])
    return [(each.at_ms, each.sound is None) for each in found]


@pytest.mark.full
@pytest.mark.parametrize("background", [-90.0, -60.0, -45.0])
def test_a_sentence_is_heard_in_silence_and_noise(background: float) -> None:
    sound = mixed(bytes(RATE * 2) + speech(2.0) + bytes(RATE * 4), noise(5.0, background))
    (start, begins), (end, ends) = turns(sound)
    assert (begins, ends) == (True, False)
    assert 600 <= start <= 1000  # 300 ms and what it takes to be sure before the first syllable
    assert 3350 <= end <= 3600  # 500 ms behind the last


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("level", [-90.0, -60.0, -45.0, -30.0])
def test_steady_noise_is_no_speech(level: float) -> None:
    assert turns(noise(8.0, level)) == []


@pytest.mark.full
def test_loud_noise_that_begins_is_given_up_once_it_stays() -> None:
    found = turns(bytes(RATE * 2) + noise(10.0, -20.0))
    assert [begins for _, begins in found] == [True, False]
    assert found[1][0] < 6000


def test_a_click_is_no_speech() -> None:
    assert turns(bytes(RATE * 2) + noise(0.02, -10.0) + bytes(RATE * 4)) == []


@pytest.mark.full
def test_a_higher_threshold_wants_louder_speech() -> None:
    sound = mixed(bytes(RATE * 2) + speech(2.0, -38.0) + bytes(RATE * 4), noise(5.0, -52.0))
    assert turns(sound, threshold=0.3)
    assert turns(sound, threshold=1.0) == []


def test_two_sentences_are_two_turns_and_what_is_taken_is_what_was_said() -> None:
    hearing = Hearing()
    hearing.configure(VAD)
    sound = (bytes(RATE * 2) + speech(1.5) + bytes(RATE * 2)) * 2
    found = [each for at in range(0, len(sound), 960) for each in hearing.hear(sound[at : at + 960])]
    assert [each.sound is None for each in found] == [True, False, True, False]
    for start, end in (found[:2], found[2:]):
        assert end.sound == sound[start.at_ms * 48 : end.at_ms * 48]
    assert hearing.size <= RATE  # what was silent is forgotten but for the padding


def test_without_detection_all_is_kept_until_it_is_committed() -> None:
    hearing = Hearing()
    hearing.configure(None)
    assert hearing.hear(speech(1.0)) == []
    hearing.hear(bytes(960))
    assert hearing.commit() == speech(1.0) + bytes(960)
    with pytest.raises(InvalidRequest) as refused:
        hearing.commit()
    assert refused.value.code == "input_audio_buffer_commit_empty"
    hearing.hear(bytes(960))
    hearing.clear()
    assert hearing.size == 0


def test_half_a_sample_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        Hearing().hear(b"\0")


@given(st.lists(st.integers(0, 3000), max_size=30), st.integers(0, 40))
def test_it_does_not_matter_how_sound_is_cut(cuts: list[int], seconds: int) -> None:
    sound = (bytes(9600) + noise(0.2, -15.0) + bytes(4800) * 7)[: 960 * seconds * 2]
    whole, pieces = Hearing(), Hearing()
    for each in (whole, pieces):
        each.configure({**VAD, "silence_duration_ms": 60})
    expected = whole.hear(sound)
    found: list[Heard] = []
    at = 0
    for cut in cuts:
        found += pieces.hear(sound[at : at + cut * 2])
        at += cut * 2
    found += pieces.hear(sound[at:])
    assert [(each.at_ms, each.sound is None) for each in found] == [
        (each.at_ms, each.sound is None) for each in expected
    ]
    assert whole._judged == pieces._judged


def test_levels_are_those_of_whole_frames() -> None:
    assert levels_of(bytes(FRAME_BYTES + 100)) == [-100.0]
    assert levels_of(pcm([0.25] * 480)) == [-100.0]  # what is constant is not heard
    (level,) = levels_of(pcm([0.5, -0.5] * 240))
    assert level == pytest.approx(-6.02, abs=0.01)
    assert not list(EnergyVad(0.5, 500).hear([]))


def test_a_wav_file_is_one() -> None:
    with wave.open(io.BytesIO(base64.b64decode(wav_base64(speech(0.1))))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
        assert file.readframes(RATE) == speech(0.1)
