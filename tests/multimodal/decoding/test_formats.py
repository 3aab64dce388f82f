"""Headers are read without decoding, formats are an allow-list, and what a file claims bounds what it costs."""

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pillow_heif
import pytest
from hostile import flat_jpeg2000, flat_png, flat_webp, png_of_profiles, saved, scan_bomb
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, features
from tests.tiers import examples

from smg_core.http.settings import MediaFormat
from smg_multimodal.decoding import decode
from smg_multimodal.decoding.costs import needs_process
from smg_multimodal.decoding.decode import ImageLimits, decode_image, picture_header
from smg_multimodal.decoding.formats import DEFAULT_FORMATS, FORMATS, format_table, read_header
from smg_multimodal.records.errors import BadMedia, MediaError, MediaTooLarge

ALL = frozenset(FORMATS)
WRITTEN = {
    "jpeg": ("JPEG", {"progressive": True}),
    "png": ("PNG", {}),
    "webp": ("WEBP", {"lossless": True}),
    "gif": ("GIF", {}),
    "bmp": ("BMP", {}),
    "tiff": ("TIFF", {"compression": "tiff_lzw"}),
    "avif": ("AVIF", {}),
    "jpeg2000": ("JPEG2000", {}),
    "heic": ("HEIF", {}),
}
pillow_heif.register_heif_opener()
if not features.check("avif"):
    del WRITTEN["avif"]


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300))
def test_the_size_is_the_one_that_the_library_finds(name: str, width: int, height: int) -> None:
    container, options = WRITTEN[name]
    data = saved(Image.new("RGB", (width, height), "teal"), container, **options)
    header = read_header(data, ALL)
    assert header.format.name == container
    beyond = 64 if name == "heic" else 1  # HEIC is stored in whole blocks, and cropped
    assert header.size.height in range(height, height + beyond)
    assert header.size.width in range(width, width + beyond)
    assert decode_image(data, ImageLimits(formats=ALL)).size == (width, height)


@pytest.mark.full
@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 5000), st.binary(min_size=1, max_size=8), st.booleans())
def test_damage_anywhere_gives_a_header_or_a_refusal(name: str, place: int, damage: bytes, cut: bool) -> None:
    container, options = WRITTEN[name]
    data = bytearray(saved(Image.new("RGB", (24, 30), "teal"), container, **options))
    place %= len(data)
    data[place : place + len(damage)] = damage
    with contextlib.suppress(MediaError):
        read_header(bytes(data[:place] if cut else data), ALL)


MARKS = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"GIF89a",
    b"RIFF\0\0\0\0WEBP",
    b"II*\0",
    b"BM",
    b"\xff\x4f\xff\x51",
    b"",
)


@given(st.sampled_from(MARKS), st.binary())
def test_any_bytes_give_a_header_or_a_refusal(mark: bytes, rest: bytes) -> None:
    with contextlib.suppress(MediaError):
        read_header(mark + rest, ALL)


def test_formats_are_taken_by_name_and_the_refusal_says_which_is_missing() -> None:
    assert frozenset({"jpeg", "png", "webp", "gif"}) == DEFAULT_FORMATS
    for name in WRITTEN:
        container, options = WRITTEN[name]
        data = saved(Image.new("RGB", (8, 8)), container, **options)
        decode_image(data, ImageLimits(formats=frozenset({name})))
        with pytest.raises(
            BadMedia, match=rf"{FORMATS[name].label}, .* where the setting media\.formats names {name!r}; taken are"
        ):
            decode_image(data, ImageLimits(formats=ALL - {name}))
    assert set(get_args(MediaFormat)) == set(FORMATS)


@pytest.mark.parametrize(
    "mark", [b"%PDF-1.7", b"<svg xmlns=", b"<!DOCTYPE html>", b"RIFF\0\0\0\0AVI ", b"\0\0\0 ftypisom", b"OggS"]
)
def test_what_is_sent_by_mistake_is_named(mark: bytes) -> None:
    with pytest.raises(BadMedia, match=r"it looks like (PDF|SVG|HTML|AVI|a clip|Ogg)"):
        read_header(mark + bytes(50))


def test_a_format_without_a_decoder_is_named_with_what_would_bring_one(monkeypatch: pytest.MonkeyPatch) -> None:
    heic = saved(Image.new("RGB", (64, 48), "red"), "HEIF")
    with pytest.raises(BadMedia, match=r"HEIC, .* names 'heic'"):
        decode_image(heic)
    found = decode_image(heic, ImageLimits(formats=ALL))
    assert found.size == (64, 48)
    monkeypatch.setattr(decode, "_supported", lambda: frozenset({"JPEG"}))
    with pytest.raises(BadMedia, match=r"HEIC, .*: pip install 'smg-(sdk|multimodal)\[heic\]'"):
        decode_image(heic, ImageLimits(formats=ALL))


def test_scans_of_a_progressive_jpeg_are_counted_before_anything_is_decoded() -> None:
    """The reproducer took 14 s: 338 KiB, one scan 3,500 times."""
    bomb = scan_bomb(2000, 3500)
    assert len(bomb) < 400 * 1024
    with pytest.raises(MediaTooLarge, match="more than 64 scans"):
        decode_image(bomb)
    usual = saved(Image.new("RGB", (64, 64)), "JPEG", progressive=True)
    assert read_header(usual).scans == 10
    assert decode_image(usual).size == (64, 64)
    assert read_header(scan_bomb(64, 20), max_scans=30).scans == 30
    assert read_header(scan_bomb(64, 21), max_scans=31).scans == 31


SKIPPED = (b"\xff\x01", b"\xff\x02\xff\xff", b"\xff\xd0", b"\xff\xff\xff", b"\xff\xd8", b"")


@settings(max_examples=examples(80), deadline=None)
@given(st.binary(max_size=40), st.sampled_from(SKIPPED))
def test_no_scan_hides_behind_what_a_decoder_skips(junk: bytes, marker: bytes) -> None:
    """Coded data, fill, restarts and reserved markers before a scan: it is counted all the same."""
    bomb = scan_bomb(16, 5)
    last = bomb.rindex(b"\xff\xda")
    harmless = bytes(each & 0x7F for each in junk)  # else it might spell a marker that a decoder would see too
    hidden = bomb[:last] + marker + harmless + bomb[last:]
    assert read_header(hidden, max_scans=1000).scans >= read_header(bomb, max_scans=1000).scans


def test_files_that_are_slow_for_other_reasons_than_pixels_are_known_by_their_pieces() -> None:
    assert not needs_process(read_header(png_of_profiles(5)))
    assert needs_process(read_header(png_of_profiles(310)))  # 0.3 s of inflating
    with pytest.raises(MediaTooLarge, match="pieces"):
        read_header(b"\xff\xd8" + b"\xff" * 200_000 + b"\xda")
    with pytest.raises(MediaTooLarge, match="pieces"):
        read_header(b"GIF89a" + bytes(7) + b"\x21\xf9\0" * 70_000)


def test_an_animation_counts_its_frames_in_the_header() -> None:
    frames = [Image.fromarray(np.full((6, 8, 3), index * 9, np.uint8)) for index in range(20)]
    for container in ("GIF", "PNG", "WEBP"):
        data = saved(frames[0], container, save_all=True, append_images=frames[1:], duration=50)
        assert read_header(data).frames == 20
        with pytest.raises(MediaTooLarge):
            read_header(data, max_frames=19)


def test_memory_is_bounded_by_format_before_the_file_is_opened() -> None:
    limits = ImageLimits(max_memory=100_000_000)
    assert picture_header(flat_png(2500, 2500), limits).memory() == 75_000_000
    with pytest.raises(MediaTooLarge, match="3000x3000 in WebP, which takes 198000000 bytes of memory"):
        picture_header(flat_webp(3000), limits)


@pytest.mark.full
def test_without_arguments_memory_is_bounded_too() -> None:
    """The reproducer: 2 KiB that took 1,057 MiB. A picture of a phone, of 12 million pixels, is taken in every usual format."""
    bomb = flat_webp(6900)
    assert len(bomb) < 4096
    with pytest.raises(MediaTooLarge, match="6900x6900 in WebP, which takes 1047420000 bytes of memory to decode"):
        decode_image(bomb)
    most = ImageLimits().max_memory
    assert all(most >= 12_000_000 * (each.pixel_bytes + each.scanned_bytes) for each in FORMATS.values())
    assert {"jpeg", "png", "webp", "gif"} == DEFAULT_FORMATS


def test_the_page_has_the_table_of_formats_that_errors_are_written_from() -> None:
    page = (Path(__file__).parents[3] / "docs" / "multimodal" / "embedding.md").read_text()
    assert "\n".join(format_table(ImageLimits().max_memory)) in page


@pytest.mark.parametrize("mode", ["1", "L", "RGB"])
def test_a_picture_of_netpbm_is_refused_by_its_name(mode: str) -> None:
    for magic in (saved(Image.new(mode, (9, 9)), "PPM"), b"P3 1 1 255 9 9 9"):
        with pytest.raises(BadMedia, match=r"it looks like PBM, PGM or PPM; taken are JPEG, PNG, WebP, GIF$"):
            decode_image(magic)


MEASURED = {
    "png": lambda: flat_png(3000, 3000),
    "webp": lambda: flat_webp(3000),
    "jpeg": lambda: saved(Image.new("CMYK", (3000, 3000)), "JPEG", progressive=True),
    "gif": lambda: saved(Image.new("P", (3000, 3000)), "GIF", transparency=0),
    "jpeg2000": lambda: flat_jpeg2000(3000),
}

PEAK = """
import resource, sys
from smg_multimodal.decoding.decode import ImageLimits, decode_image
from smg_multimodal.decoding.formats import FORMATS, read_header
limits = ImageLimits(formats=frozenset(FORMATS))
small, large = (open(path, "rb").read() for path in sys.argv[1:])
decode_image(small, limits)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
decode_image(large, limits)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, read_header(large, limits.formats).memory())
"""


@pytest.mark.full
@pytest.mark.parametrize("name", MEASURED)
def test_decoding_takes_no_more_memory_than_the_header_lets_one_expect(name: str, tmp_path: Path) -> None:
    container, options = WRITTEN[name]
    (tmp_path / "small").write_bytes(saved(Image.new("RGB", (16, 16)), container, **options))
    (tmp_path / "large").write_bytes(MEASURED[name]())
    arguments = [sys.executable, "-c", PEAK, str(tmp_path / "small"), str(tmp_path / "large")]
    out = subprocess.run(arguments, capture_output=True, text=True, check=True)
    taken, expected = map(int, out.stdout.split())
    assert taken < expected + 8 * 1024 * 1024
