"""What waits to be played in a call: in order, counted, cut where the caller interrupts, by examples and by a plain model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.realtime.wire.playing import FRAME_SOUND_BYTES, CutSound, Playing

MS = 48


def sound(milliseconds: int, value: int = 1) -> bytes:
    return bytes([value]) * (milliseconds * MS)


def test_sound_is_played_in_order_and_silence_behind_it() -> None:
    playing = Playing(1 << 20)
    assert playing.put("r1", "i1", 0, sound(30))
    assert not playing.put("r1", "i1", 0, sound(5, 2))
    frames = [playing.take() for _ in range(3)]
    assert b"".join(frame for frame, _ in frames) == (sound(30) + sound(5, 2)).ljust(3 * FRAME_SOUND_BYTES, b"\0")
    assert [over for _, over in frames] == [[], [], []]


def test_a_response_is_over_once_it_has_ended_and_all_of_it_is_played() -> None:
    playing = Playing(1 << 20)
    playing.put("r1", "i1", 0, sound(30))
    assert playing.end("r1") == []
    assert playing.take()[1] == []
    assert playing.take()[1] == ["r1"]
    assert not playing
    playing.put("r2", "i2", 0, sound(20))
    playing.take()
    assert playing.end("r2") == ["r2"]
    assert playing.end("r3") == []


def test_what_is_cut_is_told_with_what_was_played_of_it_and_nothing_more_of_it_is_heard() -> None:
    playing = Playing(1 << 20)
    playing.put("r1", "i1", 0, sound(30))
    playing.put("r1", "i2", 0, sound(30))
    playing.take()
    assert playing.cut() == [CutSound("r1", "i1", 0, 20), CutSound("r1", "i2", 0, 0)]
    assert not playing.put("r1", "i2", 0, sound(30))
    assert playing.take() == (bytes(FRAME_SOUND_BYTES), [])
    assert playing.end("r1") == []
    assert playing.cut() == []


def test_sound_over_the_bound_is_not_heard() -> None:
    playing = Playing(1000)
    playing.put("r1", "i1", 0, bytes(999))
    assert not playing.put("r2", "i2", 0, bytes(2))
    assert playing.put("r2", "i2", 0, bytes(1))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 3000)),
        st.tuples(st.just("end"), st.sampled_from("ab")),
        st.tuples(st.just("take")),
        st.tuples(st.just("cut")),
    ),
    max_size=40,
)


@given(STEPS)
def test_nothing_is_lost_played_twice_or_told_over_twice(steps: list[tuple[str, ...]]) -> None:
    playing = Playing(1 << 30)
    waiting = played = 0
    over: list[str] = []
    alive: set[str] = set()
    muted: set[str] = set()
    ended: set[str] = set()
    for step in steps:
        match step:
            case ("put", response, item, size) if response not in muted | ended:
                first = playing.put(response, item, 0, b"\1" * int(size))
                assert first == (response not in alive)
                alive.add(response)
                waiting += int(size)
            case ("end", response) if response not in ended:
                done = playing.end(response)
                over += done
                alive -= set(done)
                ended.add(response)
                muted.discard(response)
            case ("take",):
                frame, done = playing.take()
                assert len(frame) == FRAME_SOUND_BYTES
                heard = frame.count(1)
                assert heard == min(waiting, FRAME_SOUND_BYTES)
                waiting -= heard
                played += heard
                over += done
                alive -= set(done)
            case ("cut",):
                cut = playing.cut()
                assert {each.response for each in cut} == alive
                muted |= alive - ended
                alive.clear()
                waiting = 0
    assert len(over) == len(set(over))
    assert bool(playing) == bool(alive)


@pytest.mark.parametrize("size", [0, 1, 959, 960, 961])
def test_a_frame_is_always_whole(size: int) -> None:
    playing = Playing(1 << 20)
    playing.put("r1", "i1", 0, b"\1" * size)
    assert playing.take()[0] == (b"\1" * min(size, 960)).ljust(960, b"\0")
