"""From the bytes of a picture file to an upright RGB picture, within budgets.

Above: `preparing.prepare`. Below: `formats`, which reads headers, and Pillow. Decides what a picture may cost, and how colour
modes become RGB: as Hugging Face's processors do, EXIF orientation is applied and transparency is laid on white; grey of 16
bits is scaled, where theirs make a white picture of it. Knows nothing of models. All is checked on the header, before a library
opens the file, so a decompression bomb costs nothing.
"""

import io
import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import numpy as np
from PIL import Image
from PIL.ExifTags import Base

from smg_multimodal.decoding.fast_decode import decoded
from smg_multimodal.decoding.formats import DEFAULT_FORMATS, ImageHeader, read_header
from smg_multimodal.records.errors import BadMedia, MediaTooLarge
from smg_multimodal.records.extras import line_to_install
from smg_multimodal.records.types import Size
from smg_multimodal.records.walks import MOST_STEPS

__all__ = ["ImageLimits", "animation_frames", "decode_image", "image_size", "picture_header", "to_rgb"]

_ROWS = 256
"""Rows that are laid on white at a time: what is in between takes memory for these alone."""
_USUAL_SCANS = 16
"""A JPEG of more scans is left to Pillow at once: a damaged file is decoded twice, as far as the damage."""

_UNREADABLE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    ZeroDivisionError,
    AttributeError,
    NotImplementedError,
    struct.error,
    zlib.error,
    Warning,
)
# Pillow's plugins let all of these escape on damaged files (warnings where the interpreter makes errors of them).


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """Budgets of one item: encoded bytes, pixels of a picture or frame (of all frames together of an animated picture), frames
    of a clip, scans of a progressive JPEG, bytes of memory while it is decoded (0: no bound; the default has room for a JPEG of
    59 million pixels, a PNG of 44, a WebP of 24), seconds of a recording, the formats of pictures that are taken
    (`formats.FORMATS`), and steps of a walk over the file's pieces (`walks.LongWalk` is raised beyond them)."""

    max_bytes: int = 32 * 1024 * 1024
    max_pixels: int = 64 * 1024 * 1024
    max_frames: int = 36_000
    max_scans: int = 64
    max_memory: int = 512 * 1024 * 1024
    max_seconds: float = 600.0
    formats: frozenset[str] = DEFAULT_FORMATS
    max_steps: int = MOST_STEPS


def picture_header(data: bytes, limits: ImageLimits, *, animated: bool = False) -> ImageHeader:
    """The header of a picture, or of an animation whose frames will all be decoded, within `limits`. Nothing is decoded.

    Raises `MediaTooLarge` for what is over a budget and `BadMedia` for what is no picture of a format that is taken."""
    if len(data) > limits.max_bytes:
        raise MediaTooLarge(f"the image has {len(data)} bytes; at most {limits.max_bytes} are taken")
    header = read_header(
        data,
        limits.formats,
        max_scans=limits.max_scans,
        max_frames=limits.max_frames if animated else _ANY,
        max_steps=limits.max_steps,
    )
    height, width = header.size
    frames = header.frames if animated else 1
    if frames * header.pixels > limits.max_pixels:
        of = f"has {frames} frames of" if frames > 1 else "is"
        raise MediaTooLarge(f"the image {of} {width}x{height}; at most {limits.max_pixels} pixels are taken")
    memory = header.memory(_FRAMES_HELD if animated else 1)
    if limits.max_memory and memory > limits.max_memory:
        raise MediaTooLarge(
            f"the image is {width}x{height} in {header.format.label}, which takes {memory} bytes of memory to decode; "
            f"at most {limits.max_memory} are taken"
        )
    return header


_ANY = 1 << 62
_FRAMES_HELD = 2
"""Frames of an animation that are in memory: the last one, and the one that is made of it."""


@cache
def _supported() -> frozenset[str]:
    """Names of the formats that this Pillow can decode. Called before the first file is opened."""
    # A damaged file may have Pillow warn of each of 65535 tags, and each would be a line of standard error.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    Image.init()
    if find_spec("pillow_heif") is not None:
        import pillow_heif

        pillow_heif.register_heif_opener(thumbnails=False, depth_images=False, aux_images=False, decode_threads=1)
    return frozenset(Image.OPEN)


def _open(data: bytes, header: ImageHeader) -> Image.Image:
    if header.format.name not in _supported():
        extra = f": {line_to_install('heic')}" if header.format.name == "HEIF" else ""
        raise BadMedia(f"the image is in {header.format.label}, for which no decoder is installed here{extra}")
    try:
        image = Image.open(io.BytesIO(data), formats=(header.format.name,))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise MediaTooLarge("the image has too many pixels") from error
    except _UNREADABLE as error:
        raise BadMedia("the image is damaged or truncated") from error
    if max(image.size) > max(header.size) or min(image.size) > min(
        header.size
    ):  # some formats are turned as they are opened
        raise BadMedia("the image is not of the size that its header states")
    return image


def _is_deep_grey(image: Image.Image) -> bool:
    """Whether it is grey of 16 bits, in any of the modes that Pillow has for that."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG")


def _of_eight_bits(image: Image.Image) -> Image.Image:
    """Grey of 16 bits in 8: the upper byte, as Pillow does with colours of 16 bits. Its own conversion of grey cuts what is over
    255 off, which leaves a white picture. What the file names as transparent is transparent."""
    deep = np.asarray(image)
    grey = Image.fromarray((deep >> 8).astype(np.uint8))
    clear = image.info.get("transparency")
    if not isinstance(clear, int):
        return grey
    return Image.merge("LA", (grey, Image.fromarray(np.where(deep == clear, 0, 255).astype(np.uint8))))


def to_rgb(image: Image.Image) -> Image.Image:
    """`image` in mode RGB, transparency laid on white. The same object when it is RGB already."""
    if _is_deep_grey(image):
        image = _of_eight_bits(image)
    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image if image.mode == "RGB" else image.convert("RGB")
    whole = Image.new("RGB", image.size)
    for top in range(0, image.height, _ROWS):
        rows = image.crop((0, top, image.width, min(image.height, top + _ROWS))).convert("RGBA")
        white = Image.new("RGBA", rows.size, (255, 255, 255, 255))
        whole.paste(Image.alpha_composite(white, rows).convert("RGB"), (0, top))
    return whole


_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What makes a picture upright, by its orientation in EXIF."""


def _upright(image: Image.Image) -> Image.Image:
    """`image` turned as its EXIF or XMP says. Pillow's own function writes the EXIF anew after that, for which it reads every
    directory that the file has, as often as the file says."""
    turn = _TURNS.get(image.getexif().get(Base.Orientation, 1))
    return image if turn is None else image.transpose(turn)


def decode_image(data: bytes, limits: ImageLimits | None = None, *, fast: bool = True) -> Image.Image:
    """The first frame of an encoded picture, upright, RGB, fully decoded; by Pillow alone where not `fast`.

    Raises `MediaTooLarge` when a budget is exceeded (before decoding) and `BadMedia` when it does not decode.
    """
    header = picture_header(data, limits or ImageLimits())
    image = _open(data, header)
    try:
        if fast and header.scans <= _USUAL_SCANS:
            quick = decoded(data, image)
            if quick is not None:
                return to_rgb(quick)
            image = _open(data, header)  # Pillow keeps what it was asked of a file before its pixels were read
        image.load()
        return to_rgb(_upright(image))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise MediaTooLarge("the image grows beyond its budget while it is decoded") from error
    except _UNREADABLE as error:
        raise BadMedia("the image is damaged or truncated") from error


def image_size(data: bytes, limits: ImageLimits | None = None) -> Size:
    """(height, width) as the header states them, before EXIF rotation; nothing is decoded."""
    return picture_header(data, limits or ImageLimits()).size


def _frame_count(image: Image.Image) -> int:
    try:
        return int(getattr(image, "n_frames", 1))
    except _UNREADABLE as error:
        raise BadMedia("the animation is damaged or truncated") from error


def animation_frames(data: bytes, limits: ImageLimits, moments: Sequence[float]) -> Iterator[Image.Image]:
    """The frames of an animated GIF, WebP or PNG that are on the screen at `moments`, which ascend, in seconds: RGB, one after
    the other; the last frame stays for ever. Raises as `decode_image` does.
    """
    header = picture_header(data, limits, animated=True)
    image = _open(data, header)
    count = _frame_count(image)
    if count > header.frames:
        raise BadMedia("the animation has not as many frames as its header states")
    taken, end = 0, 0.0
    for index in range(count):
        if taken == len(moments):
            return
        try:
            image.seek(index)
            image.load()  # some plugins know how long a frame is shown only now
            end += float(image.info.get("duration") or 100.0) / 1000.0
            last = index == count - 1
            frame = to_rgb(image).copy() if last or moments[taken] < end else None
        except _UNREADABLE as error:
            raise BadMedia("the animation is damaged or truncated") from error
        while frame is not None and taken < len(moments) and (last or moments[taken] < end):
            yield frame
            taken += 1
