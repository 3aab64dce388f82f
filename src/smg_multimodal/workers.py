"""Processes that decode what might take long, so that it can be stopped (edge).

Above: `decoders`. Below: `worker_process`, which is what runs in them, and `decode` for what is short. A process is started when
it is first needed, reused, and killed when a picture takes longer than it may; the next picture gets a new one. Files and pixels
go through memory that both sides see. `decode` blocks: it is for threads.
"""

import json
import logging
import mmap
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from PIL import Image

from smg_multimodal import errors
from smg_multimodal.costs import is_apart
from smg_multimodal.decode import ImageLimits, decode_image, picture_header
from smg_multimodal.errors import BadMedia, MediaError, MediaTooLarge
from smg_multimodal.formats import Header
from smg_multimodal.worker_process import words_of

__all__ = ["DecoderProcesses"]

log = logging.getLogger(__name__)

_MEMORY_SLACK = 2
"""Times the memory that a picture should take at most: beyond it the process is refused more."""


class _Worker:
    """One process and the socket to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        code = f"import sys; sys.path[:] = {sys.path!r}; from smg_multimodal.worker_process import main; main()"
        try:
            with theirs:
                self.process = subprocess.Popen(  # noqa: S603 - this interpreter, and code that is written here
                    [sys.executable, "-c", code],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
        except OSError:
            ours.close()
            raise
        self.socket = ours
        self.fresh = True

    def ask(self, request: dict[str, object], descriptors: list[int], seconds: float) -> dict[str, object]:
        """The answer. Raises TimeoutError, and EOFError or OSError where the process has ended."""
        self.fresh = False
        self.socket.settimeout(seconds)
        socket.send_fds(self.socket, [json.dumps(request).encode()], descriptors)
        line = b""
        while not line.endswith(b"\n"):
            part = self.socket.recv(4096)
            if not part:
                raise EOFError("the process has ended")
            line += part
        answer: dict[str, object] = json.loads(line)
        return answer

    def kill(self) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()


class DecoderProcesses:
    """Keeps at most `idle` processes that have nothing to do. `seconds` is what decoding one picture may take."""

    def __init__(self, *, idle: int = 2, seconds: float = 10.0) -> None:
        self._most_idle = idle
        self._seconds = seconds
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._closed = False

    def decode(self, data: bytes, limits: ImageLimits) -> Image.Image:
        """`decode.decode_image`; in a process where it might take long or much memory. In any thread, which waits."""
        header = picture_header(data, limits)
        if not is_apart(header):
            return decode_image(data, limits)
        with _memory(data) as source, _memory(b"") as target:
            request = {
                "bytes": len(data),
                "limits": words_of(limits),
                "seconds": self._seconds,
                "memory": _MEMORY_SLACK * header.memory(),
            }
            while True:
                try:
                    worker = self._taken()
                except OSError as error:  # no process, no descriptor: better slow than not at all
                    log.warning("a picture is decoded without a process of its own: %s", error)
                    return decode_image(data, limits)
                os.ftruncate(target, 0)
                os.lseek(target, 0, os.SEEK_SET)
                answer = self._asked(worker, request, [source, target])
                if answer is not None:
                    return _picture(answer, header, target)

    def _asked(self, worker: _Worker, request: dict[str, object], descriptors: list[int]) -> dict[str, object] | None:
        """The answer; None where a process that had been idle is gone, for which this picture is not to blame."""
        fresh = worker.fresh
        try:
            answer = worker.ask(request, descriptors, self._seconds)
        except TimeoutError as error:
            self._dropped(worker)
            raise MediaTooLarge(f"the image took more than {self._seconds:g} s to decode") from error
        except (EOFError, OSError, ValueError) as error:
            self._dropped(worker)
            if not fresh:
                return None
            raise BadMedia("the image cannot be decoded: its decoder failed") from error
        self._returned(worker)
        return answer

    def _taken(self) -> _Worker:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        worker = worker or _Worker()
        with self._lock:
            self._busy.add(worker)
        return worker

    def _returned(self, worker: _Worker) -> None:
        with self._lock:
            self._busy.discard(worker)
            if not self._closed and len(self._idle) < self._most_idle:
                self._idle.append(worker)
                return
        worker.kill()

    def _dropped(self, worker: _Worker) -> None:
        with self._lock:
            self._busy.discard(worker)
        worker.kill()

    @property
    def processes(self) -> list[int]:
        """Ids of the processes there are."""
        with self._lock:
            return sorted(worker.process.pid for worker in (*self._idle, *self._busy))

    def close(self) -> None:
        """Stop every process; what is being decoded fails."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for worker in idle:
            worker.kill()
        for worker in busy:
            worker.process.kill()  # the thread that waits for it sees the end and takes it away


@contextmanager
def _memory(content: bytes) -> Iterator[int]:
    """A descriptor of memory, or of a file without a name where there is nothing of the kind, that begins with `content`."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("media")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        yield descriptor
    finally:
        with suppress(OSError):
            os.close(descriptor)


def _picture(answer: dict[str, object], header: Header, target: int) -> Image.Image:
    """What the process answered, as a picture or as the error it is. Believes nothing that does not fit the header."""
    said = answer.get("error")
    if said is not None:
        kind = getattr(errors, str(said), BadMedia)
        raise (kind if isinstance(kind, type) and issubclass(kind, MediaError) else BadMedia)(
            str(answer.get("message"))
        )
    size = answer.get("size")
    if not isinstance(size, list) or len(size) != 2 or not all(isinstance(side, int) and side > 0 for side in size):
        raise BadMedia("the image cannot be decoded: its decoder failed")
    width, height = size
    if width * height > header.pixels or os.fstat(target).st_size != width * height * 3:
        raise BadMedia("the image cannot be decoded: its decoder failed")
    with mmap.mmap(target, width * height * 3, access=mmap.ACCESS_READ) as pixels, memoryview(pixels) as lent:
        return Image.frombuffer("RGB", (width, height), lent, "raw", "RGB", 0, 1)  # type: ignore[arg-type]  # any buffer
