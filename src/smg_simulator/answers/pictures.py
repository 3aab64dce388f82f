"""Pictures of the embedded engine: PNG of one colour, which the prompt and what is to be changed decide.

Pure. Above: the HTTP server. Answers as OpenAI's routes for pictures do: one object, or events with earlier states.
"""

import base64
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

__all__ = ["picture_events", "picture_object", "png_of"]

_USUAL, _EDGE = 64, 4096  # pixels of an edge
_MOST = 10
_AREA = 1024  # pixels of a token


def png_of(width: int, height: int, colour: bytes) -> bytes:
    """A PNG of this size, all of this colour (three bytes)."""
    row = b"\0" + colour * width
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(row * height, 1)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def picture_object(asked: Mapping[str, Any], given: Sequence[bytes]) -> bytes:
    """The whole answer. Raises ValueError."""
    width, height, count = _checked(asked)
    data = [{"b64_json": _picture(asked, given, width, height, order, 4)} for order in range(count)]
    return json.dumps(
        {"created": 0, "data": data, **_facts(width, height), "usage": _usage(asked, given, width, height, count)}
    ).encode()


def picture_events(asked: Mapping[str, Any], given: Sequence[bytes]) -> list[bytes]:
    """The data of the events of a streamed answer. Raises ValueError."""
    width, height, count = _checked(asked)
    kind = "image_edit" if given else "image_generation"
    facts: dict[str, Any] = {"created_at": 0, **_facts(width, height)}
    events: list[dict[str, Any]] = []
    for order in range(count):
        for partial in range(int(asked.get("partial_images") or 0)):
            made = _picture(asked, given, width, height, order, partial + 1)
            events.append({"type": f"{kind}.partial_image", **facts, "b64_json": made, "partial_image_index": partial})
        made = _picture(asked, given, width, height, order, 4)
        usage = _usage(asked, given, width, height, count)
        events.append({"type": f"{kind}.completed", **facts, "b64_json": made, "usage": usage})
    return [json.dumps(each).encode() for each in events]


def _checked(asked: Mapping[str, Any]) -> tuple[int, int, int]:
    size, count = str(asked.get("size") or "auto"), int(asked.get("n") or 1)
    if not asked.get("prompt"):
        raise ValueError("there is no prompt")
    if not 1 <= count <= _MOST:
        raise ValueError(f"n has to be from 1 to {_MOST}")
    if size == "auto":
        return _USUAL, _USUAL, count
    width, _, height = size.partition("x")
    if not (width.isdecimal() and height.isdecimal() and 1 <= int(width) <= _EDGE and 1 <= int(height) <= _EDGE):
        raise ValueError(f"there is no size {size!r}")
    return int(width), int(height), count


def _facts(width: int, height: int) -> dict[str, str]:
    return {"size": f"{width}x{height}", "quality": "low", "background": "opaque", "output_format": "png"}


def _picture(asked: Mapping[str, Any], given: Sequence[bytes], width: int, height: int, order: int, state: int) -> str:
    """The picture, darker in its earlier states, of which there are three."""
    seen = sha256(repr((asked.get("prompt"), order)).encode())
    for each in given:
        seen.update(each)
    colour = bytes(each * state // 4 for each in seen.digest()[:3])
    return base64.b64encode(png_of(width, height, colour)).decode()


def _usage(asked: Mapping[str, Any], given: Sequence[bytes], width: int, height: int, count: int) -> dict[str, Any]:
    text, image = len(str(asked.get("prompt")).split()), sum(1 + len(each) // _AREA for each in given)
    made = count * max(1, width * height // _AREA)
    details = {"text_tokens": text, "image_tokens": image}
    return {
        "input_tokens": text + image,
        "input_tokens_details": details,
        "output_tokens": made,
        "total_tokens": text + image + made,
    }
