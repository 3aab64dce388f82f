"""Decoders that are faster than Pillow: their pixels are Pillow's, or Pillow decodes."""

import io
import logging
import struct
import sys
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.multimodal.pictures import EVERY_FORMAT, Picture, encoded, pictures
from tests.tiers import examples

from smg_multimodal.decoding import fast_decode
from smg_multimodal.decoding.decode import decode_image
from smg_multimodal.decoding.fast_jpeg import JpegDecoder
from smg_multimodal.pixels.resample import BICUBIC, resize
from smg_multimodal.pixels.rgbx import RgbxImage
from smg_multimodal.records.errors import MediaError
from smg_multimodal.records.types import Size

QUICK = 250_000
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def noise(height: int, width: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    rng = np.random.default_rng(seed)
    soft = Image.fromarray(rng.integers(0, 256, (height // 9 + 1, width // 9 + 1, 3), np.uint8))
    grain = rng.integers(0, 40, (height, width, 3))
    return np.clip(np.asarray(soft.resize((width, height))) + grain, 0, 255).astype(np.uint8)


def saved(image: Image.Image, container: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, container, **options)
    return out.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(
    rows: bytes, width: int, height: int, *, colour: int = 2, pieces: int = 1, before: bytes = b"", after: bytes = b""
) -> bytes:
    packed = zlib.compress(rows, 1)
    step = max(1, -(-len(packed) // pieces))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))
    body = b"".join(chunk(b"IDAT", packed[start : start + step]) for start in range(0, len(packed), step))
    return SIGNATURE + head + before + body + after + chunk(b"IEND", b"")


def is_fast(data: bytes) -> bool:
    with Image.open(io.BytesIO(data)) as opened:
        return fast_decode.decoded(data, opened) is not None


def outcome(data: bytes, *, fast: bool) -> bytes | str:
    """The picture's size and pixels, or what is wrong with it."""
    try:
        image = decode_image(data, EVERY_FORMAT, fast=fast)
    except MediaError as error:
        return str(error)
    return repr(image.size).encode() + image.tobytes()


def assert_alike(data: bytes) -> None:
    assert outcome(data, fast=True) == outcome(data, fast=False)


def test_both_decoders_prove_themselves_here() -> None:
    fast_decode._trusted.cache_clear()
    fast_decode.prove_decoders()
    assert is_fast(saved(Image.fromarray(noise(30, 40)), "JPEG"))
    assert is_fast(saved(Image.fromarray(noise(30, 40)), "PNG"))


@pytest.mark.sampled(keep=15)
@pytest.mark.parametrize(
    "picture",
    [each for each in pictures() if each.pixels < QUICK and each.kind[:3] in {"jpe", "png"}][::3],
    ids=lambda each: each.name,
)
def test_pictures_of_the_corpus_are_decoded_as_pillow_decodes_them(picture: Picture) -> None:
    assert_alike(encoded(picture))


@pytest.mark.slow
@pytest.mark.parametrize("picture", pictures(), ids=lambda each: each.name)
def test_every_picture_of_the_corpus_is_decoded_as_pillow_decodes_it(picture: Picture) -> None:
    assert_alike(encoded(picture))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(1, 90),
    st.integers(1, 90),
    st.integers(1, 100),
    st.sampled_from(["4:4:4", "4:2:2", "4:2:0"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
)
def test_any_jpeg_has_pillows_pixels(
    height: int, width: int, quality: int, subsampling: str, progressive: bool, optimize: bool, restart: int
) -> None:
    image = Image.fromarray(noise(height, width, quality))
    data = saved(
        image,
        "JPEG",
        quality=quality,
        subsampling=subsampling,
        progressive=progressive,
        optimize=optimize,
        restart_marker_blocks=restart,
    )
    assert is_fast(data)
    assert_alike(data)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from([2, 6]), st.integers(1, 9), st.integers(0, 1 << 30))
def test_any_bytes_under_any_filters_of_a_png_have_pillows_pixels(
    height: int, width: int, colour: int, pieces: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, (height, 1 + (3 if colour == 2 else 4) * width), np.uint8)
    rows[:, 0] = rng.integers(0, 5, height)
    data = png(rows.tobytes(), width, height, colour=colour, pieces=pieces)
    assert is_fast(data)
    assert_alike(data)


@pytest.mark.full
def test_a_png_of_many_bands_has_pillows_pixels() -> None:
    for level in (1, 6, 9):
        data = saved(Image.fromarray(noise(900, 700, level)), "PNG", compress_level=level)
        assert is_fast(data)
        assert_alike(data)


def test_an_opaque_png_with_alpha_needs_no_white_and_a_transparent_one_is_laid_on_it() -> None:
    image = Image.fromarray(noise(40, 50)).convert("RGBA")
    data = saved(image, "PNG")
    assert isinstance(decode_image(data), RgbxImage)
    image.putpixel((49, 39), (1, 2, 3, 254))
    assert_alike(data)
    assert_alike(saved(image, "PNG"))


def _odd_files() -> dict[str, bytes]:
    image = Image.fromarray(noise(40, 56))
    turned = Image.Exif()
    turned[0x0112] = 6
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf tiff:Orientation="8"/></x:xmpmeta>'
    rows = np.zeros((40, 1 + 3 * 56), np.uint8).tobytes()
    deep = chunk(b"IHDR", struct.pack(">IIBBBBB", 56, 40, 16, 2, 0, 0, 0)) + chunk(
        b"IDAT", zlib.compress(np.zeros((40, 1 + 6 * 56), np.uint8).tobytes())
    )
    interlaced = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 1)) + chunk(b"IDAT", zlib.compress(b"\0abc"))
    clear = chunk(b"tRNS", struct.pack(">HHH", 0, 0, 0))
    return {
        "jpeg-cmyk": saved(image.convert("CMYK"), "JPEG"),
        "jpeg-grey": saved(image.convert("L"), "JPEG"),
        "jpeg-rgb": saved(image, "JPEG", keep_rgb=True),
        "jpeg-sampled-oddly": saved(image, "JPEG", subsampling=0).replace(b"\x01\x11\x00\x02", b"\x01\x41\x00\x02"),
        "jpeg-turned": saved(image, "JPEG", exif=turned),
        "jpeg-turned-by-xmp": saved(image, "JPEG", xmp=xmp),
        "jpeg-of-several": saved(image, "MPO", save_all=True, append_images=[image]),
        "png-palette": saved(image.quantize(16), "PNG"),
        "png-palette-clear": saved(image.quantize(16), "PNG", transparency=1),
        "png-grey": saved(image.convert("L"), "PNG"),
        "png-16": SIGNATURE + deep + chunk(b"IEND", b""),
        "png-interlaced": SIGNATURE + interlaced + chunk(b"IEND", b""),
        "png-clear-colour": png(rows, 56, 40, before=clear),
        "png-turned": saved(image, "PNG", exif=turned),
        "png-turned-at-the-end": png(rows, 56, 40, after=chunk(b"eXIf", turned.tobytes()[6:])),
        "png-animated": saved(image, "PNG", save_all=True, append_images=[image.rotate(180)]),
    }


@pytest.mark.parametrize("name", list(_odd_files()))
def test_an_odd_file_is_left_to_pillow(name: str) -> None:
    data = _odd_files()[name]
    assert not is_fast(data)
    assert_alike(data)


def test_a_profile_and_an_upright_orientation_change_no_pixel() -> None:
    image = Image.fromarray(noise(40, 56))
    upright = Image.Exif()
    upright[0x0112] = 1
    for container in ("JPEG", "PNG"):
        data = saved(image, container, exif=upright, icc_profile=b"profile" * 99)
        assert is_fast(data)
        assert_alike(data)


def test_a_jpeg_of_many_scans_is_left_to_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    data = saved(Image.fromarray(noise(40, 56)), "JPEG", progressive=True)
    start = data.rindex(b"\xff\xda")
    repeated = data[:start] + data[start:-2] * 17 + data[-2:]
    asked: list[bytes] = []
    monkeypatch.setattr("smg_multimodal.decoding.decode.decoded", lambda file, opened: asked.append(file))
    decode_image(data)
    assert asked == [data]
    assert_alike(repeated)
    assert asked == [data]


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(["JPEG", "PNG"]), st.integers(0, 1 << 30), st.integers(0, 255), st.booleans())
def test_a_damaged_file_ends_as_it_does_with_pillow(container: str, place: int, value: int, cut: bool) -> None:
    whole = saved(Image.fromarray(noise(33, 47)), container)
    place %= len(whole)
    assert_alike(whole[:place] if cut else whole[:place] + bytes([value]) + whole[place + 1 :])


@pytest.mark.parametrize("rows", [39, 41])
def test_a_png_of_fewer_or_more_rows_than_it_states_is_left_to_pillow(rows: int) -> None:
    data = png(np.zeros((rows, 1 + 3 * 56), np.uint8).tobytes(), 56, 40)
    assert not is_fast(data)
    assert_alike(data)


def test_a_png_with_an_unknown_filter_is_left_to_pillow() -> None:
    rows = np.full((40, 1 + 3 * 56), 5, np.uint8).tobytes()
    assert not is_fast(png(rows, 56, 40))
    assert_alike(png(rows, 56, 40))


class _OffByOne(JpegDecoder):
    def decode(self, data: bytes, opened: Image.Image) -> Image.Image | None:
        made = super().decode(data, opened)
        if made is None:
            return None
        return Image.fromarray(np.asarray(made) ^ np.uint8(1))


def test_a_decoder_whose_pixels_differ_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    data = saved(Image.fromarray(noise(30, 40)), "JPEG")
    fast_decode._trusted.cache_clear()
    monkeypatch.setitem(fast_decode._KINDS, "JPEG", _OffByOne)
    with caplog.at_level(logging.WARNING):
        assert not is_fast(data)
    assert "JPEG files are decoded by Pillow alone" in caplog.text
    assert_alike(data)
    fast_decode._trusted.cache_clear()


@pytest.mark.parametrize(("module", "container"), [("simplejpeg", "JPEG"), ("isal", "PNG")])
def test_without_its_package_a_format_is_pillows(
    module: str, container: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fast_decode._trusted.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    data = saved(Image.fromarray(noise(30, 40)), container)
    assert not is_fast(data)
    assert caplog.text == ""
    fast_decode._trusted.cache_clear()


def test_a_picture_that_lies_elsewhere_is_to_pillow_a_picture_like_any_other() -> None:
    pixels = np.dstack([noise(30, 40), np.full((30, 40), 9, np.uint8)])
    plain = Image.fromarray(noise(30, 40))

    def lent() -> RgbxImage:
        return RgbxImage(pixels)

    assert (lent().size, lent().mode, lent().getbands()) == (plain.size, plain.mode, plain.getbands())
    assert np.array_equal(np.asarray(lent()), np.asarray(plain))
    assert lent().crop((3, 4, 20, 25)).tobytes() == plain.crop((3, 4, 20, 25)).tobytes()
    assert lent().resize((17, 9)).tobytes() == plain.resize((17, 9)).tobytes()
    assert lent().convert("L").tobytes() == plain.convert("L").tobytes()
    assert lent().copy().tobytes() == plain.tobytes()
    for size in (Size(13, 11), Size(50, 60), Size(30, 40)):
        assert np.array_equal(resize(lent(), size, BICUBIC), resize(plain, size, BICUBIC))


def test_a_change_made_through_pillow_is_seen_by_whoever_reads_the_pixels() -> None:
    image = RgbxImage(np.dstack([noise(30, 40), np.zeros((30, 40), np.uint8)]))
    image.paste((1, 2, 3), (0, 0, 20, 20))
    assert image.getpixel((5, 5)) == (1, 2, 3)
    resized = resize(image, Size(12, 16), BICUBIC)
    assert np.array_equal(resized, np.asarray(image.resize((16, 12), BICUBIC)))
