"""The code in a decoder's process: files come in; pixels, samples and texts go out through memory that both see (edge).

Above: `workers`, which starts it and stops it. Below: `decoding.decode`, `decoding.clips`, `decoding.sounds`, `decoding.pdf`.
One request at a time over a socket at descriptor 0: a line of JSON with two descriptors, the file and a place for what is made
of it; the answer is a line of JSON, for a clip's frames one for each and one for the end. A frame's place is used again when a
byte has come for it. A process that loses its parent, or takes far longer than it was given, ends by itself.
"""

import json
import mmap
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from PIL import Image

from smg_multimodal.decoding import clips, sounds
from smg_multimodal.decoding.decode import ImageLimits, decode_image
from smg_multimodal.decoding.pdf import DocumentLimits, PdfPages
from smg_multimodal.records.errors import MediaError

__all__ = ["FRAMES_AHEAD", "limits_from", "serve_parent", "words_of"]

FRAMES_AHEAD = 2
"""Places for a clip's frames: as many are decoded before one is taken."""
_BAND = 256
"""Rows that are written at a time."""
_BASE = 512 * 1024 * 1024
"""Address space beside the item's: the interpreter and its libraries."""
_GRACE = 5
"""Seconds beyond the time budget after which a process ends itself, if nobody has ended it."""


def words_of(limits: ImageLimits) -> dict[str, Any]:
    """`limits` as JSON carries them."""
    return {**asdict(limits), "formats": sorted(limits.formats)}


def limits_from(words: dict[str, Any]) -> ImageLimits:
    """The inverse of `words_of`."""
    return ImageLimits(**{**words, "formats": frozenset(words["formats"])})


@dataclass(frozen=True, slots=True)
class _Task:
    """One request: the file, what is asked of it, and where to put what is made."""

    parent: socket.socket
    data: bytes
    limits: ImageLimits
    asked: dict[str, Any]
    target: int


def serve_parent() -> None:
    """Serve the socket at descriptor 0 until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the whole group; the parent decides
    os.nice(5)
    Image.init()
    with socket.socket(fileno=0) as parent:
        while True:
            line, descriptors, _, _ = socket.recv_fds(parent, 65536, 2)
            if not line:
                return
            while not line.endswith(b"\n"):
                line += parent.recv(65536)
            try:
                answer = _answered(parent, json.loads(line), *descriptors)
            finally:
                for each in descriptors:
                    os.close(each)
            _say(parent, answer)


def _say(parent: socket.socket, answer: dict[str, Any]) -> None:
    parent.sendall(json.dumps(answer).encode() + b"\n")


def _bound_self(seconds: int, memory: int) -> None:
    """End this process after `seconds`, and let it have no more than `memory` bytes of address space, where the system can."""
    if sys.platform != "win32":
        import resource

        signal.alarm(seconds)
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.RLIM_INFINITY))


def _answered(parent: socket.socket, request: dict[str, Any], source: int, target: int) -> dict[str, Any]:
    _bound_self(int(request["seconds"]) + _GRACE, _BASE + request["memory"])
    try:
        with mmap.mmap(source, request["bytes"], access=mmap.ACCESS_READ) as file:
            data = file[:]
        return _TASKS[request["task"]](_Task(parent, data, limits_from(request["limits"]), request, target))
    except MediaError as error:
        return {"error": type(error).__name__, "message": str(error)}
    except MemoryError:
        return {"error": "MediaTooLarge", "message": f"the {request['what']} takes more memory to decode than it may"}
    finally:
        signal.alarm(0)


def _picture(task: _Task) -> dict[str, Any]:
    image = decode_image(task.data, task.limits, fast=False)  # no room for a kernel here
    _write(image, task.target, 0)
    return {"size": image.size}


def _clip_facts(task: _Task) -> dict[str, Any]:
    return {"facts": asdict(clips.clip_facts(task.data, task.limits))}


def _clip(task: _Task) -> dict[str, Any]:
    waiting = 0
    try:
        for number, frame in enumerate(clips.clip_frames(task.data, task.limits, task.asked["places"])):
            if waiting == FRAMES_AHEAD:
                waiting -= len(task.parent.recv(1)) or waiting
            _write(frame, task.target, number % FRAMES_AHEAD * frame.width * frame.height * 3)
            _say(task.parent, {"size": frame.size, "more": True})
            waiting += 1
    finally:
        while waiting:  # what is on its way here would be taken for the next request
            waiting -= len(task.parent.recv(1)) or waiting
    return {"end": True}


def _recording_facts(task: _Task) -> dict[str, Any]:
    return {"facts": asdict(sounds.recording_facts(task.data, task.limits, task.asked["rate"]))}


def _recording(task: _Task) -> dict[str, Any]:
    samples = sounds.recording(task.data, task.limits, task.asked["rate"], task.asked["longest"])
    _put(samples.data.cast("B"), task.target, 0)
    return {"samples": len(samples)}


def _document(task: _Task) -> dict[str, Any]:
    """The text first, so that it is there whatever the pictures cost; then one after the other behind it."""
    pages = PdfPages(task.data, DocumentLimits(**task.asked["document"]))
    text = pages.text().encode()
    _put(memoryview(text), task.target, 0)
    facts = {"bytes": len(text), "found": pages.found}
    if not pages.found or not task.asked["pictures"]:
        return facts
    _say(task.parent, {**facts, "more": True})
    task.parent.recv(1)
    place = len(text)
    for picture in pages.pictures():
        _put(memoryview(picture.data), task.target, place)
        _say(task.parent, {"picture": len(picture.data), "at": picture.at, "more": True})
        task.parent.recv(1)
        place += len(picture.data)
    return {"end": True}


_TASKS: dict[str, Callable[[_Task], dict[str, Any]]] = {
    "picture": _picture,
    "clip_facts": _clip_facts,
    "clip": _clip,
    "recording_facts": _recording_facts,
    "recording": _recording,
    "document": _document,
}


def _write(image: Image.Image, target: int, place: int) -> None:
    for top in range(0, image.height, _BAND):
        band = image.crop((0, top, image.width, min(image.height, top + _BAND))).tobytes()
        _put(memoryview(band), target, place)
        place += len(band)


def _put(rest: memoryview, target: int, place: int) -> None:
    while rest:
        written = os.pwrite(target, rest, place)
        rest, place = rest[written:], place + written
