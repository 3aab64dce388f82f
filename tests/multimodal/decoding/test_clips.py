"""MP4, MOV and WebM clips: the frames that transformers' reader has, where they belong in time, and nothing but the file's
bytes."""

import contextlib
import io
import os
import struct
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moving import CODECS, coded_clip, coded_sound, number_of
from transformers.video_utils import read_video_pyav

from smg_multimodal.clips.video import qwen2_video, qwen3_video
from smg_multimodal.decoding import av_input
from smg_multimodal.decoding.clips import clip_facts, clip_frames
from smg_multimodal.decoding.decode import ImageLimits
from smg_multimodal.records.errors import BadClip, BadMedia, MediaError, MediaTooLarge

LIMITS = ImageLimits()


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("kind", CODECS)
def test_a_clip_has_the_frames_and_the_rate_that_were_written(kind: str) -> None:
    data = coded_clip(kind, 30, rate=24)
    facts = clip_facts(data, LIMITS)
    assert (facts.frames, facts.rate, facts.size) == (30, 24.0, (48, 64))
    assert facts.isolated
    assert not facts.sound
    assert [number_of(frame) for frame in clip_frames(data, LIMITS, range(30))] == list(range(30))


@pytest.mark.full
@pytest.mark.sampled(per=("kind",))
@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("options", [{}, {"gop": 5}, {"gop": 1}])
def test_any_choice_of_frames_is_the_choice_from_all_of_them(kind: str, options: dict[str, int]) -> None:
    data = coded_clip(kind, 60, rate=24, **options)
    all_frames = list(clip_frames(data, LIMITS, range(60)))
    for places in ([0], [59], [3, 3, 4], [0, 29, 59], [7, 31, 32, 58], [1, 12, 24, 36, 48]):
        chosen = list(clip_frames(data, LIMITS, places))
        assert [frame.tobytes() for frame in chosen] == [all_frames[place].tobytes() for place in places]


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("family", [qwen2_video({}), qwen3_video({})], ids=["qwen2", "qwen3"])
@pytest.mark.parametrize("kind", ["mp4", "mov", "mpeg4"])
def test_the_frames_taken_are_those_that_transformers_reads(kind: str, family: object, tmp_path: Path) -> None:
    data = coded_clip(kind, 50, rate=12, size=(70, 50))
    file = tmp_path / "clip"
    file.write_bytes(data)
    sample = family.sample  # type: ignore[attr-defined]
    theirs, metadata = read_video_pyav(str(file), lambda metadata: sample(metadata.total_num_frames, metadata.fps))
    facts = clip_facts(data, LIMITS)
    places = sample(facts.frames, facts.rate)
    ours = np.stack([np.asarray(frame) for frame in clip_frames(data, LIMITS, places)])
    assert (facts.frames, facts.rate, places) == (metadata.total_num_frames, metadata.fps, metadata.frames_indices)
    assert facts.seconds(places) == metadata.timestamps
    assert np.array_equal(ours, theirs)


def test_frames_that_do_not_come_at_one_rate_are_taken_at_the_time_they_are_shown() -> None:
    """Eight frames in the first half of a second, one for the rest of four."""
    times = [*range(8), 8]
    data = coded_clip("mp4", 9, rate=16, times=[*times[:8], 8])
    assert clip_facts(data, LIMITS).rate == 16.0
    uneven = coded_clip("mp4", 10, rate=16, times=[*range(9), 63])
    facts = clip_facts(uneven, LIMITS)
    assert (facts.frames, facts.rate) == (10, pytest.approx(2.5))
    shown = [number_of(frame) for frame in clip_frames(uneven, LIMITS, range(10))]
    assert shown == [3, 8, 8, 8, 8, 8, 8, 8, 8, 8]  # each place is 0.4 s long; its middle counts


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("kind", ["webm", "vp8", "mkv"])
@pytest.mark.parametrize("rate", [24, 30, 7])
def test_times_that_a_container_rounds_to_milliseconds_change_nothing(kind: str, rate: int) -> None:
    data = coded_clip(kind, 36, rate=rate)
    facts = clip_facts(data, LIMITS)
    assert (facts.frames, facts.rate) == (36, float(rate))
    assert [number_of(frame) for frame in clip_frames(data, LIMITS, range(36))] == list(range(36))


@pytest.mark.parametrize(("turn", "corner"), [(90, (0, 0)), (-90, (0, 0)), (180, (0, 0))])
def test_a_clip_that_was_filmed_upright_stands_upright(turn: int, corner: tuple[int, int]) -> None:
    data = coded_clip("mp4", 4, turn=turn)
    plain, turned = (next(iter(clip_frames(each, LIMITS, [3]))) for each in (coded_clip("mp4", 4), data))
    assert clip_facts(data, LIMITS).size == (48, 64)  # as stored: nothing is decoded to find out
    assert turned.size == ((48, 64) if turn % 180 else (64, 48))
    assert np.array_equal(np.asarray(turned), np.rot90(np.asarray(plain), turn // 90))


def test_a_clip_says_whether_it_has_sound() -> None:
    assert clip_facts(coded_clip("mp4", 4, sound=0.2), LIMITS).sound
    assert clip_facts(coded_clip("webm", 4, sound=0.2), LIMITS).sound


# ------------------------------------------------------------------------------------------------------------- hostile files


@pytest.mark.parametrize("kind", ["mp4", "webm"])
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_clip_that_is_cut_or_scribbled_upon_is_decoded_or_refused(kind: str, data: st.DataObject) -> None:
    whole = _WHOLE[kind]
    cut = whole[: data.draw(st.integers(40, len(whole)))]
    at = data.draw(st.integers(0, len(cut) - 9))
    broken = cut[:at] + data.draw(st.binary(min_size=1, max_size=8)) + cut[at + 8 :]
    with contextlib.suppress(MediaError):
        facts = clip_facts(broken, LIMITS)
        assert facts.rate > 0
        assert len(list(clip_frames(broken, LIMITS, range(min(facts.frames, 4))))) == min(facts.frames, 4)


_WHOLE = {kind: coded_clip(kind, 12) for kind in ("mp4", "webm")}


@pytest.mark.parametrize("kind", ["mp4", "mov"])
def test_a_clip_without_its_end_is_refused(kind: str) -> None:
    whole = coded_clip(kind, 40, size=(128, 96), movflags="faststart")
    with pytest.raises(BadClip, match="damaged or truncated"):
        clip_facts(whole[: len(whole) - 200], LIMITS)


def patched(data: bytes, atom: bytes, offset: int, value: bytes) -> bytes:
    """`data` with `value` at `offset` behind the name of an atom."""
    place = data.rindex(atom) + 4 + offset
    return data[:place] + value + data[place + len(value) :]


def test_a_clip_that_claims_a_milliard_frames_has_those_that_are_there_or_none() -> None:
    whole = coded_clip("mp4", 12)
    claims = struct.pack(">I", 10**9)
    bombs = [
        patched(patched(whole, b"stsz", 4, struct.pack(">II", 1, 10**9)), b"stts", 8, claims),
        patched(whole, b"stts", 8, claims),
        patched(whole, b"stsz", 8, claims),
    ]
    for bomb in bombs:
        with contextlib.suppress(MediaError):
            facts = clip_facts(bomb, ImageLimits(max_frames=12))
            assert facts.frames <= 12
            assert len(list(clip_frames(bomb, LIMITS, [0, facts.frames - 1]))) == 2


def test_more_frames_than_may_be_are_refused_before_one_is_decoded() -> None:
    with pytest.raises(MediaTooLarge, match="more than 11 frames"):
        clip_facts(coded_clip("webm", 12), ImageLimits(max_frames=11))


def test_frames_of_16k_are_refused_by_the_header_and_where_the_header_lies() -> None:
    whole = coded_clip("mp4", 4)
    wide = patched(whole, b"avc1", 24, struct.pack(">HH", 16384, 16384))
    with pytest.raises(MediaTooLarge, match="16384x16384"):
        clip_facts(wide, LIMITS)
    with pytest.raises(MediaTooLarge, match="bytes of memory"):
        clip_facts(patched(whole, b"avc1", 24, struct.pack(">HH", 8000, 8000)), ImageLimits(max_memory=1 << 30))
    liar = patched(coded_clip("mp4", 2, size=(1920, 1088)), b"avc1", 24, struct.pack(">HH", 64, 64))
    with pytest.raises(BadClip):
        list(clip_frames(liar, LIMITS, [0]))


@pytest.mark.parametrize(
    ("start", "named"),
    [
        (b"#EXTM3U\n#EXT-X-VERSION:3\nfile:///etc/passwd\n", "playlist"),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "list of files"),
        (b"<?xml version='1.0'?><MPD/>", "XML"),
        (b"RIFF\0\0\0\0AVI LIST", "AVI"),
        (b"\x47" + bytes(187) + b"\x47" + bytes(200), "transport stream"),
        (b"FLV\x01" + bytes(60), "FLV"),
        (b"RIFF\0\0\0\0WAVEfmt ", "WAV"),
        (b"ID3\x04" + bytes(60), "MP3"),
        (b"OggS" + bytes(60), "Ogg"),
        (b"no container at all", "no format that is known"),
        (b"", "no format that is known"),
    ],
)
def test_what_is_no_clip_is_refused_by_its_name_and_told_what_is_taken(start: bytes, named: str) -> None:
    with pytest.raises(BadClip, match=rf"{named}.*; taken are GIF, WebP, PNG, MP4, MOV, WebM") as caught:
        clip_facts(start, LIMITS)
    assert caught.value.code == "invalid_video"


def test_a_picture_in_another_format_is_no_clip() -> None:
    with pytest.raises(BadMedia):
        clip_facts(b"\xff\xd8\xff\xe0" + bytes(100), LIMITS)


@pytest.mark.parametrize(
    "script", [b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", b"ffconcat version 1.0\nfile /etc/passwd\n"]
)
def test_a_script_that_calls_itself_a_video_is_opened_as_none(script: bytes) -> None:
    for disguise in (b"\0\0\0\x14ftypisom\0\0\0\0isom" + script, b"\x1a\x45\xdf\xa3" + script):
        with pytest.raises(BadClip):
            clip_facts(disguise, LIMITS)


def test_a_clip_that_names_another_file_does_not_have_it_opened(tmp_path: Path) -> None:
    """Its frames are said to lie in another file, where they really are: a demuxer that is allowed to goes there for them."""
    whole = coded_clip("mp4", 6)
    other = tmp_path / "other.mp4"
    other.write_bytes(whole)
    referring = tmp_path / "referring.mp4"
    referring.write_bytes(_referring(whole, str(other).encode()))
    trusting = {"enable_drefs": "1", "use_absolute_path": "1"}
    with av.open(str(referring), format="mov", options=trusting) as file:
        assert [number_of(frame.to_image()) for frame in file.decode(video=0)] == list(range(6))
    data = referring.read_bytes()
    with pytest.raises(BadClip):
        list(clip_frames(data, LIMITS, range(clip_facts(data, LIMITS).frames)))


def _referring(whole: bytes, path: bytes) -> bytes:
    """`whole` with its frames blanked out, and a reference to the file at `path` where it said that they are its own."""
    path += b"\0" * (len(path) % 2)
    alias = bytes(10) + bytes(28) + bytes(12) + bytes(64) + bytes(16) + bytes(4) + bytes(16)
    alias += struct.pack(">HH", 2, len(path)) + path + struct.pack(">HH", 0xFFFF, 0)
    entry = struct.pack(">I4sI", 12 + len(alias), b"alis", 0) + alias
    place = whole.index(b"dref")
    size = int.from_bytes(whole[place - 4 : place], "big")
    body = struct.pack(">II", 0, 1) + entry
    out = bytearray(whole[:place] + b"dref" + body + whole[place - 4 + size :])
    for atom in (b"dref", b"dinf", b"minf", b"mdia", b"trak", b"moov"):
        at = out.index(atom) - 4
        out[at : at + 4] = struct.pack(">I", int.from_bytes(out[at : at + 4], "big") + 8 + len(body) - size)
    data = out.index(b"mdat")
    length = int.from_bytes(out[data - 4 : data], "big") - 8
    out[data + 4 : data + 4 + length] = bytes(length)
    return bytes(out)


def test_whatever_a_demuxer_asks_for_by_name_is_refused() -> None:
    with pytest.raises(PermissionError, match="may open no other"):
        av_input._refused("file:///etc/passwd", 1, {})


def test_a_clip_of_a_codec_that_is_not_taken_is_refused_by_its_name() -> None:
    out = io.BytesIO()
    with av.open(out, "w", format="matroska") as file:
        stream = file.add_stream("ffv1", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        file.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        file.mux(stream.encode(None))
    with pytest.raises(BadClip, match=r"coded in ffv1; taken are H\.264, H\.265, MPEG-4, VP8, VP9, AV1"):
        clip_facts(out.getvalue(), LIMITS)


def test_a_file_with_sound_alone_is_no_clip() -> None:
    with pytest.raises(BadClip, match="has no video; it has audio"):
        clip_facts(coded_sound("m4a"), LIMITS)


def test_subtitles_and_attachments_are_left_alone() -> None:
    out = io.BytesIO()
    with av.open(out, "w", format="matroska") as file:
        stream = file.add_stream("libx264", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        words = file.add_stream("subrip")
        words.codec_context.subtitle_header = b"[Script Info]\n"
        file.add_attachment("notes.txt", "text/plain", os.urandom(1000))
        frame = av.VideoFrame(64, 48, "yuv420p")
        for each in range(3):
            frame.pts = each
            file.mux(stream.encode(frame))
        packet = av.Packet(b"words")
        packet.stream, packet.pts, packet.dts, packet.duration = words, 0, 0, 1000
        file.mux(packet)
        file.mux(stream.encode(None))
    data = out.getvalue()
    assert clip_facts(data, LIMITS).frames == 3
    assert len(list(clip_frames(data, LIMITS, [0, 2]))) == 2


def test_without_pyav_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(av_input, "find_spec", lambda name: None)
    with pytest.raises(
        BadClip, match=r"in MP4, for which PyAV is needed here: pip install 'smg-(sdk|multimodal)\[video\]'"
    ):
        clip_facts(coded_clip("mp4", 2), LIMITS)
