"""Silero's model finds turns: in a voice, in a voice amid noise, and not in noise alone; other streams begin anew."""

import pytest
from tests.core.apis.realtime.wire.test_hearing import VAD, noise, pcm, speech

from smg_core.apis.realtime.wire.hearing import Heard, Hearing
from smg_core.apis.realtime.wire.silero import SileroVad

SILENCE = bytes(48_000)


def turns(hearing: Hearing, sound: bytes, piece: int = 4800) -> list[Heard]:
    return [each for at in range(0, len(sound), piece) for each in hearing.hear(sound[at : at + piece])]


def heard(sound: bytes, piece: int = 4800) -> list[Heard]:
    hearing = Hearing(SileroVad)
    hearing.configure(VAD)
    return turns(hearing, sound, piece)


def louder(sound: bytes, other: bytes) -> bytes:
    """Both at once."""
    mixed = (int.from_bytes(sound[at : at + 2], "little", signed=True) for at in range(0, len(sound), 2))
    beside = (int.from_bytes(other[at : at + 2], "little", signed=True) for at in range(0, len(other), 2))
    return pcm([(one + two) / 32767 for one, two in zip(mixed, beside, strict=False)])


@pytest.mark.full
def test_a_voice_between_silences_is_a_turn_with_its_padding() -> None:
    begins, ends = heard(SILENCE + speech(1.5) + SILENCE * 2)
    assert begins.sound is None
    assert 500 <= begins.at_ms <= 1100
    assert ends.sound is not None
    assert 2500 <= ends.at_ms <= 3300
    assert len(ends.sound) == (ends.at_ms - begins.at_ms) * 48


def test_how_a_stream_is_cut_changes_nothing() -> None:
    sound = SILENCE + speech(1.0) + SILENCE * 2
    assert heard(sound, 1538) == heard(sound, 48_000) == heard(sound, len(sound))


@pytest.mark.full
def test_a_voice_is_heard_amid_noise_and_noise_alone_is_none() -> None:
    loud = noise(3, -20)
    assert heard(loud) == []
    begins, *_ = heard(louder(SILENCE + speech(1.0) + SILENCE, noise(3, -45)))
    assert begins.at_ms < 1300


def test_a_stream_that_begins_anew_is_heard_as_another() -> None:
    hearing = Hearing(SileroVad)
    hearing.configure(VAD)
    assert [each.sound for each in turns(hearing, SILENCE + speech(0.8))] == [None]
    hearing.clear()
    assert turns(hearing, SILENCE) == []
    assert hearing.inline_bytes > 0
