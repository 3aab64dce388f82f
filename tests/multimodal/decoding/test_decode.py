"""Files become upright RGB pictures, or are refused before they cost anything."""

import contextlib
import io
import struct
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from tests.tiers import examples

from smg_multimodal.decoding.decode import ImageLimits, animation_frames, decode_image, image_size, to_rgb
from smg_multimodal.decoding.formats import FORMATS, read_header
from smg_multimodal.records.errors import BadMedia, MediaError, MediaTooLarge


def saved(image: Image.Image, container: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, container, **options)  # type: ignore[arg-type]
    return out.getvalue()


def png_header(width: int, height: int, body: bytes = b"") -> bytes:
    """A PNG that says it is of that size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(60_000, 60_000), (20_000, 10_000), (8193, 8192), (2_000_000_000, 1)])
def test_a_decompression_bomb_is_refused_on_its_header(size: tuple[int, int]) -> None:
    data = png_header(*size, body=bytes(100_000))
    decode_image(png_header(1, 1, bytes(4)))  # the formats are loaded
    tracemalloc.start()
    with pytest.raises(MediaTooLarge):
        decode_image(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_more_bytes_than_the_budget_are_not_opened() -> None:
    with pytest.raises(MediaTooLarge):
        decode_image(saved(Image.new("RGB", (50, 50)), "BMP"), ImageLimits(max_bytes=1000))


@pytest.mark.parametrize(
    "data", [b"", b"GIF89a", b"no picture at all", b"%PDF-1.7", b"<svg/>", b"\xff\xd8\xff\xe0", png_header(0, 5)]
)
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(BadMedia):
        decode_image(data)


def test_formats_that_are_not_pictures_of_the_web_are_not_opened() -> None:
    for container in ("EPS", "PDF", "PCX", "TGA", "ICO", "SGI"):
        with pytest.raises(BadMedia):
            decode_image(saved(Image.new("RGB", (16, 16)), container))


def test_a_truncated_picture_is_refused() -> None:
    rng = np.random.default_rng(0)
    for container in ("PNG", "JPEG", "WEBP", "GIF", "TIFF"):
        data = saved(Image.fromarray(rng.integers(0, 256, (80, 80, 3), np.uint8)), container)
        with pytest.raises(BadMedia):
            decode_image(data[: len(data) // 2])


@settings(max_examples=examples(150))
@given(
    st.integers(0, 3000),
    st.binary(min_size=1, max_size=8),
    st.sampled_from(["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP"]),
)
def test_damage_anywhere_gives_a_picture_or_a_refusal(place: int, damage: bytes, container: str) -> None:
    rng = np.random.default_rng(3)
    data = bytearray(saved(Image.fromarray(rng.integers(0, 256, (24, 24, 3), np.uint8)), container))
    place %= len(data)
    data[place : place + len(damage)] = damage
    with contextlib.suppress(MediaError):
        assert decode_image(bytes(data)).mode == "RGB"


def test_transparency_is_laid_on_white() -> None:
    image = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (10, 20, 30, 255))
    assert np.asarray(decode_image(saved(image, "PNG"))).tolist() == [[[255, 255, 255], [10, 20, 30]]]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_stand_upright(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(Image.new("RGB", (7, 3)), "JPEG", exif=exif)
    assert decode_image(data).size == ((7, 3) if orientation < 5 else (3, 7))
    assert image_size(data) == (3, 7)


@pytest.mark.parametrize("container", ["GIF", "WEBP", "PNG"])
def test_frames_of_an_animation_are_those_on_the_screen_at_each_moment(container: str) -> None:
    frames = [Image.new("RGB", (8, 6), colour) for colour in ("red", "green", "blue")]
    options = {"lossless": True} if container == "WEBP" else {}
    data = saved(frames[0], container, save_all=True, append_images=frames[1:], duration=[100, 250, 50], **options)
    shown = animation_frames(data, ImageLimits(), [0.0, 0.09, 0.11, 0.34, 0.36, 9.0])
    red, green, blue = (255, 0, 0), (0, 128, 0), (0, 0, 255)
    assert [frame.getpixel((0, 0)) for frame in shown] == [red, red, green, green, blue, blue]
    assert read_header(data).duration == pytest.approx(0.4)


def test_an_animation_with_too_many_frames_or_pixels_is_refused() -> None:
    frames = [Image.new("RGB", (8, 6), (index, 0, 0)) for index in range(20)]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    for limits in (ImageLimits(max_frames=10), ImageLimits(max_pixels=8 * 6 * 15)):
        with pytest.raises(MediaTooLarge):
            next(animation_frames(data, limits, [0.0]))


@pytest.mark.parametrize("moving", [1, 2, 5])
def test_an_animated_png_with_a_picture_for_those_who_show_no_animation_has_that_as_its_first_frame(
    moving: int,
) -> None:
    still, *frames = (Image.new("RGB", (8, 6), (40 * place, 9, 9)) for place in range(moving + 1))
    data = saved(still, "PNG", save_all=True, append_images=frames, duration=50, default_image=True)
    assert read_header(data).frames == Image.open(io.BytesIO(data)).n_frames  # type: ignore[attr-defined]
    assert decode_image(data).getpixel((0, 0)) == (0, 9, 9)
    shown = animation_frames(data, ImageLimits(), [0.0, 0.09, *(0.12 + 0.05 * place for place in range(moving))])
    assert [frame.getpixel((0, 0))[0] for frame in shown] == [0, 0, *range(40, 40 * moving + 1, 40)]  # type: ignore[index]


GREY = (np.arange(48, dtype=np.uint16) * 1365).reshape(6, 8)


@pytest.mark.parametrize("container", ["PNG", "TIFF", "JPEG2000"])
def test_grey_of_16_bits_is_scaled_and_not_cut_off(container: str) -> None:
    data = saved(Image.fromarray(GREY), container)
    made = np.asarray(decode_image(data, ImageLimits(formats=frozenset(FORMATS))))
    assert np.array_equal(made, np.repeat((GREY >> 8).astype(np.uint8)[:, :, None], 3, axis=2))


def test_grey_of_16_bits_in_the_other_byte_order_and_in_32_bits_is_scaled_as_well() -> None:
    other = Image.frombytes("I;16B", (8, 6), GREY.astype(">u2").tobytes())
    wide = Image.fromarray(GREY.astype(np.int32))
    wide.format = "PNG"
    for image in (other, wide):
        assert np.array_equal(np.asarray(to_rgb(image))[:, :, 1], GREY >> 8)


def test_what_a_png_of_16_bits_names_as_transparent_is_white() -> None:
    made = np.asarray(decode_image(saved(Image.fromarray(GREY), "PNG", transparency=int(GREY[2, 3]))))
    expected = (GREY >> 8).astype(np.uint8)
    expected[2, 3] = 255
    assert np.array_equal(made[:, :, 2], expected)


@pytest.mark.full
@pytest.mark.parametrize("orientation", [1, 6])
def test_a_file_of_many_strange_tags_is_turned_by_its_orientation_and_not_a_word_is_said_of_them(
    orientation: int,
) -> None:
    code = f"""
from hostile import png_of_tags
from smg_multimodal.decoding.decode import decode_image
print(decode_image(png_of_tags(60_000, {orientation})).size)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], capture_output=True, check=True)
    assert (ran.stdout.decode().strip(), ran.stderr) == ("(6, 4)" if orientation == 1 else "(4, 6)", b"")


@pytest.mark.parametrize("orientation", range(10))
def test_what_exif_says_turns_a_picture_as_pillows_own_function_does(orientation: int) -> None:
    pixels = np.random.default_rng(orientation).integers(0, 256, (5, 7, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(Image.fromarray(pixels), "PNG", exif=exif)
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    for fast in (True, False):
        assert np.array_equal(np.asarray(decode_image(data, fast=fast)), np.asarray(turned))
