"""Sound of telephones: the samples of G.711's two laws, streams cut anywhere, and what is left of a tone."""

import itertools
import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.realtime.wire.g711 import LAWS, FromPhone, Law, ToPhone

laws = st.sampled_from(LAWS)


def samples(pcm: bytes) -> "array[int]":
    return array("h", pcm)


def tone(hertz: int, seconds: float = 0.5) -> bytes:
    count = int(24_000 * seconds)
    return array("h", [int(8000 * math.sin(2 * math.pi * hertz * at / 24_000)) for at in range(count)]).tobytes()


def loudness(pcm: bytes) -> float:
    heard = samples(pcm)
    return math.sqrt(sum(each * each for each in heard) / len(heard))


@pytest.mark.parametrize(
    ("law", "code", "sample"),
    [
        *(
            ("audio/pcmu", code, sample)
            for code, sample in ((0xFF, 0), (0x7F, 0), (0x00, -32124), (0x80, 32124), (0xEF, 132))
        ),
        *(
            ("audio/pcma", code, sample)
            for code, sample in ((0xD5, 8), (0x55, -8), (0x2A, -32256), (0xAA, 32256), (0xC5, 264))
        ),
    ],
)
def test_a_byte_is_the_sample_that_the_standard_says(law: Law, code: int, sample: int) -> None:
    assert samples(FromPhone(law).pcm(bytes([code])))[-1] == sample


@given(laws, st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=4))
def test_a_stream_may_be_cut_anywhere(law: Law, sound: bytes, cuts: list[int]) -> None:
    whole, pieces = FromPhone(law).pcm(sound), FromPhone(law)
    places = [0, *sorted(min(cut, len(sound)) for cut in cuts), len(sound)]
    heard = b"".join(pieces.pcm(sound[at:end]) for at, end in itertools.pairwise(places))
    assert heard == whole
    assert len(whole) == 6 * len(sound)


@given(laws, st.binary(max_size=400), st.integers(0, 200))
def test_what_is_said_may_be_cut_between_any_two_samples(law: Law, pcm: bytes, cut: int) -> None:
    pcm = pcm[: len(pcm) // 2 * 2]
    one, two = ToPhone(law), ToPhone(law)
    assert two.encoded(pcm[: 2 * cut]) + two.encoded(pcm[2 * cut :]) == one.encoded(pcm)


@pytest.mark.parametrize("law", LAWS)
def test_a_tone_that_a_telephone_has_comes_through_and_a_higher_one_does_not(law: Law) -> None:
    low, high = (loudness(FromPhone(law).pcm(ToPhone(law).encoded(tone(hertz)))) for hertz in (440, 7000))
    assert low == pytest.approx(loudness(tone(440)), rel=0.05)
    assert high < loudness(tone(7000)) / 50


@pytest.mark.parametrize("law", LAWS)
def test_silence_stays_silence(law: Law) -> None:
    assert loudness(FromPhone(law).pcm(ToPhone(law).encoded(bytes(4800)))) <= 8
