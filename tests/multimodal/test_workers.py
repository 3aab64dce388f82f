"""Pictures that may take long are decoded in processes: the same pixels, and an end that comes when it must."""

import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest
from hostile import flat_webp, saved, scan_bomb
from PIL import Image

from smg_multimodal import workers
from smg_multimodal.costs import is_apart
from smg_multimodal.decode import ImageLimits, decode_image
from smg_multimodal.errors import BadMedia, MediaTooLarge
from smg_multimodal.formats import read_header
from smg_multimodal.worker_process import limits_from, words_of
from smg_multimodal.workers import DecoderProcesses

LONG = ImageLimits(max_scans=100_000)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[DecoderProcesses]:
    """Processes that decode everything, however short."""
    monkeypatch.setattr(workers, "is_apart", lambda header: True)
    made = DecoderProcesses(idle=1, seconds=30)
    yield made
    made.close()
    assert made.processes == []


def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    noise = np.random.default_rng(width).integers(0, 256, (height, width, 4), np.uint8)
    return Image.fromarray(noise, "RGBA").convert(mode)


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


def test_what_takes_longer_than_it_may_is_stopped_and_the_next_gets_a_new_process() -> None:
    """The bomb of 338 KiB would take 14 s and more: its process is killed."""
    bomb = scan_bomb(2000, 3500)
    assert is_apart(read_header(bomb, max_scans=100_000))
    processes = DecoderProcesses(idle=1, seconds=0.5)
    try:
        with pytest.raises(MediaTooLarge, match=r"more than 0\.5 s"):
            processes.picture(bomb, LONG)
        assert processes.processes == []
        processes._seconds = 60.0
        long = scan_bomb(1000, 60)
        assert is_apart(read_header(long, max_scans=100))
        assert processes.picture(long, LONG).size == (1000, 1000)
        assert len(processes.processes) == 1
    finally:
        processes.close()


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
