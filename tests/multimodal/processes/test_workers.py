"""Pictures that may take long are decoded in processes: the same pixels, and an end that comes when it must."""

import contextlib
import os
import signal
import struct
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hostile import flat_webp, saved, scan_bomb
from moving import coded_clip, coded_sound, number_of
from PIL import Image
from tests.shared import PATIENCE

from smg_multimodal.decoding.clips import clip_facts, clip_frames
from smg_multimodal.decoding.costs import needs_process
from smg_multimodal.decoding.decode import ImageLimits, decode_image
from smg_multimodal.decoding.formats import read_header
from smg_multimodal.decoding.sounds import recording, recording_facts
from smg_multimodal.processes import workers
from smg_multimodal.processes.worker_process import limits_from, words_of
from smg_multimodal.processes.workers import DecoderProcesses
from smg_multimodal.records.errors import BadClip, BadMedia, BadRecording, MediaBusy, MediaError, MediaTooLarge

LONG = ImageLimits(max_scans=100_000)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[DecoderProcesses]:
    """Processes that decode everything, however short."""
    monkeypatch.setattr(workers, "needs_process", lambda header: True)
    made = DecoderProcesses(idle=1, seconds=PATIENCE)
    yield made
    made.close()
    assert made.processes == []


def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    noise = np.random.default_rng(width).integers(0, 256, (height, width, 4), np.uint8)
    return Image.fromarray(noise, "RGBA").convert(mode)


@pytest.mark.full
def test_pixels_are_those_that_decoding_here_gives(apart: DecoderProcesses) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    files = [
        saved(picture(700, 300), "JPEG", progressive=True, exif=turned),
        saved(picture(300, 301, "CMYK"), "JPEG"),
        saved(picture(257, 513, "RGBA"), "PNG", exif=turned),
        saved(picture(64, 64, "L"), "PNG"),
        saved(picture(90, 50, "P"), "GIF", transparency=7),
        saved(picture(333, 90, "RGBA"), "WEBP", lossless=True),
        saved(picture(1, 1), "PNG"),
    ]
    for data in files:
        here, there = decode_image(data), apart.picture(data, ImageLimits())
        assert (here.mode, here.size) == (there.mode, there.size)
        assert here.tobytes() == there.tobytes()
    assert len(apart.processes) == 1


def test_errors_are_the_same_and_the_process_goes_on(apart: DecoderProcesses) -> None:
    whole = saved(picture(300, 300), "PNG")
    with pytest.raises(BadMedia, match="damaged or truncated"):
        apart.picture(whole[: len(whole) // 2], ImageLimits())
    with pytest.raises(MediaTooLarge, match="pixels"):
        apart.picture(whole, ImageLimits(max_pixels=100))
    (before,) = apart.processes
    assert apart.picture(whole, ImageLimits()).size == (300, 300)
    assert apart.processes == [before]


@pytest.mark.full
def test_what_takes_longer_than_it_may_is_stopped_and_the_next_gets_a_new_process() -> None:
    """The bomb of 338 KiB would take 14 s and more: its process is killed."""
    bomb = scan_bomb(2000, 3500)
    assert needs_process(read_header(bomb, max_scans=100_000))
    processes = DecoderProcesses(idle=1, seconds=0.5)
    try:
        with pytest.raises(MediaTooLarge, match=r"more than 0\.5 s"):
            processes.picture(bomb, LONG)
        assert processes.processes == []
        processes._seconds = 60.0
        long = scan_bomb(1000, 60)
        assert needs_process(read_header(long, max_scans=100))
        assert processes.picture(long, LONG).size == (1000, 1000)
        assert len(processes.processes) == 1
    finally:
        processes.close()


@pytest.mark.full
def test_a_process_that_dies_fails_its_picture_and_no_other(apart: DecoderProcesses) -> None:
    small = saved(picture(30, 30), "PNG")
    apart.picture(small, ImageLimits())
    (process,) = apart.processes
    os.kill(process, signal.SIGSTOP)
    apart._seconds = 0.2
    with pytest.raises(MediaTooLarge):
        apart.picture(small, ImageLimits())
    apart._seconds = 30.0
    assert apart.picture(small, ImageLimits()).size == (30, 30)
    (process,) = apart.processes
    os.kill(process, signal.SIGKILL)
    assert apart.picture(small, ImageLimits()).size == (30, 30)


@pytest.mark.full
def test_a_process_may_not_take_much_more_memory_than_the_header_says(
    apart: DecoderProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_MEMORY_SLACK", 0)
    with pytest.raises((MediaTooLarge, BadMedia)):  # Pillow's WebP decoder calls a lack of memory damage
        apart.picture(flat_webp(7000), ImageLimits())


def test_without_processes_pictures_are_decoded_all_the_same(
    apart: DecoderProcesses, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none(*arguments: object, **named: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(workers.subprocess, "Popen", none)
    assert apart.picture(saved(picture(30, 30), "PNG"), ImageLimits()).size == (30, 30)
    assert "without a process of its own" in caplog.text


def test_what_is_short_starts_no_process() -> None:
    processes = DecoderProcesses()
    assert processes.picture(saved(picture(300, 300), "JPEG"), ImageLimits()).size == (300, 300)
    assert processes.processes == []
    processes.close()


def test_limits_travel_unchanged() -> None:
    limits = ImageLimits(1, 2, 3, 4, 5, 6.5, frozenset({"png", "tiff"}))
    assert limits_from(words_of(limits)) == limits


# ------------------------------------------------------------------------------------------------- clips and recordings


@pytest.mark.full
def test_a_clip_comes_frame_by_frame_as_it_would_here(apart: DecoderProcesses) -> None:
    limits = ImageLimits()
    for data in (coded_clip("mp4", 30), coded_clip("webm", 30), gif(9)):
        facts = replace(apart.clip_facts(data, limits), isolated=True)
        assert replace(clip_facts(data, limits), isolated=True) == facts
        for places in ([0, 1, 2, 3, 7, 8], [5], [2, 2, 2], []):
            there = list(apart.clip_frames(data, limits, facts, places))
            here = list(clip_frames(data, limits, places))
            assert [frame.tobytes() for frame in there] == [frame.tobytes() for frame in here]
            assert [frame.size for frame in there] == [frame.size for frame in here]
    assert len(apart.processes) == 1


@pytest.mark.full
def test_a_recording_comes_as_it_would_here(apart: DecoderProcesses) -> None:
    limits = ImageLimits()
    for data in (coded_sound("mp3"), coded_sound("ogg"), coded_clip("mp4", 4, sound=0.3)):
        facts = apart.recording_facts(data, limits, 16000)
        assert facts == recording_facts(data, limits, 16000)
        here = recording(data, limits, 16000, facts.most_seconds)
        assert np.array_equal(apart.recording(data, limits, facts, 16000), here)
    assert len(apart.processes) == 1


@pytest.mark.full
def test_errors_of_clips_and_recordings_are_the_same_and_the_process_goes_on(apart: DecoderProcesses) -> None:
    limits, whole = ImageLimits(), coded_clip("mp4", 30)
    facts = apart.clip_facts(whole, limits)
    (before,) = apart.processes
    with pytest.raises(BadRecording, match="no audio"):
        apart.recording_facts(whole, limits, 16000)
    apart.recording_facts(coded_sound("mp3"), limits, 16000)
    with pytest.raises(MediaTooLarge, match="pixels"):
        apart.clip_facts(whole, ImageLimits(max_pixels=100))
    damaged = bytearray(coded_clip("mp4", 30, gop=1))
    half = damaged.index(b"mdat") + (len(damaged) - damaged.index(b"mdat")) // 2
    damaged[half : half + 400] = b"\xff" * 400
    with contextlib.suppress(BadClip):
        list(apart.clip_frames(bytes(damaged), limits, apart.clip_facts(bytes(damaged), limits), range(30)))
    assert [number_of(frame) for frame in apart.clip_frames(whole, limits, facts, [0, 29])] == [0, 29]
    assert apart.processes == [before]


@pytest.mark.full
def test_a_clip_that_nobody_takes_to_its_end_stops_its_process(apart: DecoderProcesses) -> None:
    limits, data = ImageLimits(), coded_clip("mp4", 30)
    facts = apart.clip_facts(data, limits)
    (before,) = apart.processes
    with contextlib.closing(apart.clip_frames(data, limits, facts, range(30))) as frames:
        assert number_of(next(frames)) == 0
    assert apart.processes == []
    assert len(list(apart.clip_frames(data, limits, facts, range(30)))) == 30
    assert apart.processes != [before]


@pytest.mark.full
@pytest.mark.parametrize("what", ["clip", "recording"])
def test_a_clip_or_recording_that_takes_longer_than_it_may_is_stopped(what: str, apart: DecoderProcesses) -> None:
    limits = ImageLimits()
    clip, sound = coded_clip("mp4", 6), coded_sound("mp3")
    facts, heard = apart.clip_facts(clip, limits), apart.recording_facts(sound, limits, 16000)
    (process,) = apart.processes
    os.kill(process, signal.SIGSTOP)
    apart._clip_seconds = 0.2
    asked = {
        "clip": lambda: list(apart.clip_frames(clip, limits, facts, range(6))),
        "recording": lambda: apart.recording(sound, limits, heard, 16000),
    }
    with pytest.raises(MediaTooLarge, match=rf"the {what} took more than 0\.2 s"):
        asked[what]()
    assert apart.processes == []


@pytest.mark.full
def test_a_clip_may_not_take_much_more_memory_than_its_header_says(
    apart: DecoderProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header says 64 by 48 pixels; the frames have 2,000 by 1,504."""
    large = coded_clip("mp4", 3, size=(2000, 1504), preset="ultrafast")
    at = large.rindex(b"avc1") + 28
    liar = large[:at] + struct.pack(">HH", 64, 48) + large[at + 4 :]
    facts = apart.clip_facts(liar, ImageLimits())
    assert facts.size == (48, 64)
    with pytest.raises(MediaError):
        list(apart.clip_frames(liar, ImageLimits(), facts, [0]))
    honest = apart.clip_facts(large, ImageLimits())
    monkeypatch.setattr(workers, "_MEMORY_SLACK", -2)  # less than the process has without a frame
    with pytest.raises(MediaError):
        list(apart.clip_frames(large, ImageLimits(), honest, [0, 1, 2]))


def test_without_processes_no_foreign_library_opens_a_file(
    apart: DecoderProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*arguments: object, **named: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(workers.subprocess, "Popen", none)
    with pytest.raises(MediaBusy) as busy:
        apart.clip_facts(coded_clip("mp4", 2), ImageLimits())
    assert busy.value.status == 503
    with pytest.raises(MediaBusy):
        apart.recording_facts(coded_sound("mp3"), ImageLimits(), 16000)


def gif(frames: int) -> bytes:
    pictures = [picture(20 + at, 30).resize((20, 10)) for at in range(frames)]
    return saved(pictures[0], "GIF", save_all=True, append_images=pictures[1:], duration=80)
