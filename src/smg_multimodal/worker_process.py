"""What runs in a decoder's process: pictures come in, pixels go out through memory that both processes see (edge).

Above: `workers`, which starts it and stops it. Below: `decode`. One request at a time over a socket at descriptor 0: a line of
JSON with two descriptors, the file and a place for the pixels; the answer is a line of JSON. A process that loses its parent, or
takes far longer than it was given, ends by itself.
"""

import json
import mmap
import os
import signal
import socket
import sys
from typing import Any

from PIL import Image

from smg_multimodal.decode import ImageLimits, decode_image
from smg_multimodal.errors import MediaError

__all__ = ["limits_from", "main", "words_of"]

_BAND = 256
"""Rows that are written at a time."""
_BASE = 512 * 1024 * 1024
"""Address space beside the picture's: the interpreter and its libraries."""
_GRACE = 5
"""Seconds beyond the time budget after which a process ends itself, if nobody has ended it."""


def words_of(limits: ImageLimits) -> dict[str, Any]:
    """`limits` as JSON carries them."""
    return {
        "max_bytes": limits.max_bytes,
        "max_pixels": limits.max_pixels,
        "max_frames": limits.max_frames,
        "max_scans": limits.max_scans,
        "max_memory": limits.max_memory,
        "formats": sorted(limits.formats),
    }


def limits_from(words: dict[str, Any]) -> ImageLimits:
    """The inverse of `words_of`."""
    return ImageLimits(**{**words, "formats": frozenset(words["formats"])})


def main() -> None:
    """Serve the socket at descriptor 0 until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the whole group; the parent decides
    os.nice(5)
    Image.init()
    with socket.socket(fileno=0) as parent:
        while True:
            line, descriptors, _, _ = socket.recv_fds(parent, 65536, 2)
            if not line:
                return
            try:
                answer = _answered(json.loads(line), *descriptors)
            finally:
                for each in descriptors:
                    os.close(each)
            parent.sendall(json.dumps(answer).encode() + b"\n")


def _bound_self(seconds: int, memory: int) -> None:
    """End this process after `seconds`, and let it have no more than `memory` bytes of address space, where the system can."""
    if sys.platform != "win32":
        import resource

        signal.alarm(seconds)
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.RLIM_INFINITY))


def _answered(request: dict[str, Any], source: int, target: int) -> dict[str, Any]:
    _bound_self(int(request["seconds"]) + _GRACE, _BASE + request["memory"])
    try:
        with mmap.mmap(source, request["bytes"], access=mmap.ACCESS_READ) as file:
            image = decode_image(file[:], limits_from(request["limits"]))
        _write(image, target)
    except MediaError as error:
        return {"error": type(error).__name__, "message": str(error)}
    except MemoryError:
        return {"error": "MediaTooLarge", "message": "the image takes more memory to decode than it may"}
    finally:
        signal.alarm(0)
    return {"size": image.size}


def _write(image: Image.Image, target: int) -> None:
    for top in range(0, image.height, _BAND):
        band = image.crop((0, top, image.width, min(image.height, top + _BAND))).tobytes()
        rest = memoryview(band)
        while rest:
            rest = rest[os.write(target, rest) :]
