"""Processes that decode what might take long, so that it can be stopped (edge).

Above: `decoders`, `documents`. Below: `worker_process`, which is what runs in them, and `decoding.decode`, `decoding.clips`,
`decoding.sounds` for what is short. A process is started when it is first needed, reused, and killed when an item takes longer
than it may; the next item gets a new one. Files, pixels, samples and texts go through memory that both sides see. All methods
block: they are for threads.
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
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field

import numpy as np
from PIL import Image

from smg_multimodal.decoding import clips, sounds
from smg_multimodal.decoding.av_input import check_readable
from smg_multimodal.decoding.clips import ClipFacts
from smg_multimodal.decoding.costs import cost_of_measuring, needs_process
from smg_multimodal.decoding.decode import ImageLimits, decode_image, picture_header
from smg_multimodal.decoding.formats import recognised
from smg_multimodal.decoding.pdf import DocumentContents, DocumentLimits, DocumentPicture, check_is_pdf, scanned
from smg_multimodal.decoding.sounds import RecordingFacts
from smg_multimodal.processes.worker_process import FRAMES_AHEAD, words_of
from smg_multimodal.records import errors
from smg_multimodal.records.errors import (
    BadClip,
    BadDocument,
    BadMedia,
    BadRecording,
    MediaBusy,
    MediaError,
    MediaTooLarge,
)
from smg_multimodal.records.types import Float32, Modality, Size

__all__ = ["DecoderProcesses"]

log = logging.getLogger(__name__)

_NO_PICTURE = ImageLimits()
"""The limits of pictures, where a file is none."""
_MEMORY_SLACK = 2
"""Times the memory that an item should take at most: beyond it the process is refused more."""

Words = dict[str, object]


@dataclass(frozen=True, slots=True)
class _Work:
    """What a process is asked: the `task` (a key of worker_process's table), the file, and what bounds it. `what` names the
    item."""

    task: str
    what: str
    data: bytes
    limits: ImageLimits
    memory: int
    seconds: float
    more: Words = field(default_factory=dict)

    def request(self) -> bytes:
        """As it goes over the socket."""
        words: Words = {
            "task": self.task,
            "what": self.what,
            "bytes": len(self.data),
            "limits": words_of(self.limits),
            "seconds": self.seconds,
            "memory": _MEMORY_SLACK * self.memory,
        }
        return json.dumps({**words, **self.more}).encode() + b"\n"

    def failed(self) -> BadMedia:
        """The error where the process ended, or answered what cannot be."""
        kind = {"clip": BadClip, "recording": BadRecording, "document": BadDocument}.get(self.what, BadMedia)
        return kind(f"the {self.what} cannot be decoded: its decoder failed")


class _Worker:
    """One process and the socket to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            "from smg_multimodal.processes.worker_process import serve_parent; serve_parent()"
        )
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
        self._read = b""

    def ask(self, request: bytes, descriptors: list[int]) -> None:
        """Send a request with the descriptors of the file and of the place for what is made of it."""
        self.fresh = False
        self._read = b""
        sent = socket.send_fds(self.socket, [request], descriptors)
        self.socket.sendall(request[sent:])

    def answer(self, deadline: float) -> Words:
        """The next answer. Raises TimeoutError, and EOFError or OSError where the process has ended."""
        while b"\n" not in self._read:
            self.socket.settimeout(max(1e-3, deadline - time.monotonic()))
            part = self.socket.recv(65536)
            if not part:
                raise EOFError("the process has ended")
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        answer: Words = json.loads(line)
        return answer

    def go_on(self) -> None:
        """What was answered last has been taken from its place."""
        self.socket.sendall(b".")

    def kill(self) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()


class DecoderProcesses:
    """A `reader.MediaReader` that decodes in processes what may take long.

    Keeps at most `idle` processes that have nothing to do. `seconds` is what decoding one picture may take, `clip_seconds` a
    clip, from its first frame to its last, or a recording; `document_seconds` a document.
    """

    def __init__(
        self,
        *,
        idle: int = 2,
        seconds: float = 10.0,
        clip_seconds: float = 30.0,
        document_seconds: float = 30.0,
    ) -> None:
        self._most_idle = idle
        self._seconds = seconds
        self._clip_seconds = clip_seconds
        self._document_seconds = document_seconds
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._closed = False

    def picture(self, data: bytes, limits: ImageLimits) -> Image.Image:
        """`decode.decode_image`."""
        header = picture_header(data, limits)
        if not needs_process(header):
            return decode_image(data, limits)
        work = _Work("picture", "image", data, limits, header.memory(), self._seconds)
        try:
            with closing(self._asked(work)) as answers:
                words, target = next(answers)
                return _pixels(words, work, target, header.pixels)
        except OSError as error:  # no process, no descriptor: better slow than not at all
            log.warning("a picture is decoded without a process of its own: %s", error)
            return decode_image(data, limits)

    def clip_facts(self, data: bytes, limits: ImageLimits) -> ClipFacts:
        """`clips.clip_facts`; a library that opens the file to find out does so in a process."""
        if recognised(data) is not None:
            return clips.animation_facts(data, limits)
        check_readable(data, Modality.VIDEO)
        words = self._found(_Work("clip_facts", "clip", data, limits, _measuring(data), self._clip_seconds))
        return ClipFacts(**{**words, "size": Size(*words["size"])})  # type: ignore[arg-type,misc]  # as the process wrote it

    def clip_frames(
        self, data: bytes, limits: ImageLimits, facts: ClipFacts, places: Sequence[int]
    ) -> Generator[Image.Image, None, None]:
        """`clips.clip_frames`. The process is a few frames ahead; it is stopped where not all of them are taken."""
        if not facts.isolated:
            yield from clips.clip_frames(data, limits, places)
            return
        work = _Work("clip", "clip", data, limits, facts.memory, self._clip_seconds, {"places": list(places)})
        pixels = facts.size.height * facts.size.width
        with _no_process(), closing(self._asked(work)) as answers:
            for number, (words, target) in enumerate(answers):
                if "end" in words:
                    return
                yield _pixels(words, work, target, pixels, number % FRAMES_AHEAD)

    def recording_facts(self, data: bytes, limits: ImageLimits, rate: int) -> RecordingFacts:
        """`sounds.recording_facts`; a library that opens the file to find out does so in a process."""
        if sounds.is_wave(data):
            return sounds.recording_facts(data, limits, rate)
        check_readable(data, Modality.AUDIO)
        more: Words = {"rate": rate}
        work = _Work("recording_facts", "recording", data, limits, _measuring(data), self._clip_seconds, more)
        return RecordingFacts(**self._found(work))  # type: ignore[arg-type]  # as the process wrote it

    def recording(self, data: bytes, limits: ImageLimits, facts: RecordingFacts, rate: int) -> Float32:
        """`sounds.recording`."""
        longest = facts.most_seconds
        if not facts.isolated:
            return sounds.recording(data, limits, rate, longest)
        more: Words = {"rate": rate, "longest": longest}
        work = _Work("recording", "recording", data, limits, facts.memory, self._clip_seconds, more)
        with _no_process(), closing(self._asked(work)) as answers:
            words, target = next(answers)
            count = words.get("samples")
            if not isinstance(count, int) or not 0 < count * 4 == os.fstat(target).st_size:
                raise work.failed()
            with mmap.mmap(target, count * 4, access=mmap.ACCESS_READ) as samples:
                return np.frombuffer(samples[:], np.float32)

    def document(self, data: bytes, limits: DocumentLimits, *, pictures: bool = False) -> DocumentContents:
        """`pdf.pdf_contents`, always in a process. Where that ends over a picture, those before it are there, and the text."""
        check_is_pdf(data)
        more: Words = {"document": asdict(limits), "pictures": pictures}
        work = _Work("document", "document", data, _NO_PICTURE, limits.max_memory, self._document_seconds, more)
        made: list[DocumentPicture] = []
        with _no_process(), closing(self._asked(work)) as answers:
            words, target = next(answers)
            count, found = words.get("bytes"), words.get("found")
            if not isinstance(count, int) or not isinstance(found, int) or os.fstat(target).st_size != count:
                raise work.failed()
            text = _between(target, 0, count).decode("utf-8", "replace")
            with suppress(MediaError):
                made += _pictures(answers, count, len(text))
        if not text and not made:
            raise scanned()
        return DocumentContents(text, tuple(made), max(0, found - len(made)))

    def _found(self, work: _Work) -> Words:
        """What a process found out about a file."""
        with _no_process(), closing(self._asked(work)) as answers:
            words, _ = next(answers)
            facts = words.get("facts")
            if not isinstance(facts, dict):
                raise work.failed()
            return facts

    def _asked(self, work: _Work) -> Generator[tuple[Words, int], None, None]:
        """The answers of a process, each with a descriptor of the place where it has put what it made. Closed before the last, it
        stops the process. Raises the MediaError that the process answers, and OSError where there can be no process."""
        deadline = time.monotonic() + work.seconds
        with _memory(work.data) as source, _memory(b"") as target:
            worker, words = self._begun(work, source, target, deadline)
            over = False
            try:
                while True:
                    over = "more" not in words
                    if "error" in words:
                        raise _error(words)
                    yield words, target
                    if over:
                        return
                    words = self._next(worker, work, deadline)
            finally:
                (self._returned if over else self._dropped)(worker)

    def _begun(self, work: _Work, source: int, target: int, deadline: float) -> tuple[_Worker, Words]:
        """A process that has begun, and its first answer. One that had been idle and is gone is no fault of the item."""
        while True:
            worker = self._taken()
            fresh = worker.fresh
            os.ftruncate(target, 0)
            try:
                worker.ask(work.request(), [source, target])
                return worker, worker.answer(deadline)
            except TimeoutError as error:
                self._dropped(worker)
                raise _late(work) from error
            except (EOFError, OSError, ValueError) as error:
                self._dropped(worker)
                if fresh:
                    raise work.failed() from error

    @staticmethod
    def _next(worker: _Worker, work: _Work, deadline: float) -> Words:
        try:
            worker.go_on()
            return worker.answer(deadline)
        except TimeoutError as error:
            raise _late(work) from error
        except (EOFError, OSError, ValueError) as error:
            raise work.failed() from error

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


@contextmanager
def _no_process() -> Iterator[None]:
    """Where no process can be started, nothing is decoded in its stead: foreign libraries are let at a file in processes
    alone."""
    try:
        yield
    except OSError as error:
        log.warning("no process for decoding could be started: %s", error)
        raise MediaBusy("no process is free to decode the media") from error


def _pictures(answers: Iterator[tuple[Words, int]], place: int, most: int) -> Iterator[DocumentPicture]:
    """The pictures that a process answers, which lie one after the other from `place` on, behind a text of `most` characters."""
    for words, target in answers:
        if "end" in words:
            return
        size, at = words.get("picture"), words.get("at")
        if not isinstance(size, int) or not isinstance(at, int) or size <= 0 or not 0 <= at <= most:
            raise BadDocument("the document's pictures cannot be decoded: their decoder failed")
        if os.fstat(target).st_size < place + size:
            raise BadDocument("the document's pictures cannot be decoded: their decoder failed")
        yield DocumentPicture(at, _between(target, place, place + size))
        place += size


def _between(target: int, begin: int, end: int) -> bytes:
    """What a process has put between two places."""
    if begin == end:
        return b""
    with mmap.mmap(target, end, access=mmap.ACCESS_READ) as whole:
        return whole[begin:end]


def _measuring(data: bytes) -> int:
    return cost_of_measuring(len(data)).memory


def _late(work: _Work) -> MediaTooLarge:
    return MediaTooLarge(f"the {work.what} took more than {work.seconds:g} s to decode")


def _error(words: Words) -> MediaError:
    """What the process answered, as the error it is."""
    kind = getattr(errors, str(words["error"]), BadMedia)
    known = isinstance(kind, type) and issubclass(kind, MediaError)
    return (kind if known else BadMedia)(str(words.get("message")))


def _pixels(words: Words, work: _Work, target: int, most: int, place: int = 0) -> Image.Image:
    """The RGB picture or frame that was answered, which lies at the given one of `target`'s places. Nothing is believed that has
    more pixels than its header states."""
    size = words.get("size")
    if not isinstance(size, list) or len(size) != 2 or not all(isinstance(side, int) and side > 0 for side in size):
        raise work.failed()
    width, height = size
    length = width * height * 3
    begin, end = place * length, (place + 1) * length
    if width * height > most or os.fstat(target).st_size < end:
        raise work.failed()
    with mmap.mmap(target, end, access=mmap.ACCESS_READ) as whole, memoryview(whole)[begin:] as lent:
        return Image.frombuffer("RGB", (width, height), lent, "raw", "RGB", 0, 1)  # type: ignore[arg-type]  # any buffer
