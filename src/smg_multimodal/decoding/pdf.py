"""The text of a PDF, page after page, and its pictures, read with pypdf, loaded on first use.

Decides what is refused: a file that is locked, damaged, too large in one of its bounds, or without anything to read. A file may
be made to cost more than it weighs, so this runs in a process that can be stopped.

Above: `processes.worker_process`. Below: `pdf_parts`, `pdf_pictures`, `records.errors`. Knows no request.
"""

import io
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from smg_multimodal.decoding.pdf_parts import FORMS, PartsBudget, pictures_drawn
from smg_multimodal.decoding.pdf_pictures import PICTURE_INFLATED, PictureRoom, is_drawn, picture_file
from smg_multimodal.records.errors import BadDocument, MediaError, MediaTooLarge

__all__ = [
    "DocumentContents",
    "DocumentLimits",
    "DocumentPicture",
    "PdfPages",
    "check_is_pdf",
    "pdf_contents",
    "scanned",
]

_MARK = b"%PDF-"
_HEAD = 1024
"""How far into a file its mark may stand, as the format allows."""

_DAMAGED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,  # RecursionError and NotImplementedError are two
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""What pypdf raises for damaged files, beside its own errors."""


_INFLATED = 4 * 1024 * 1024
"""Bytes that the pages of any document may inflate to: some seconds of reading."""
_INFLATED_BY = 64
"""Bytes more for each byte of its file: what pages have inflates to a tenth of that, also where all of them are alike."""
_INFLATED_MOST = 32 * 1024 * 1024
_INFLATING = (
    *("zlib_maximum_output_length", "lzw_maximum_output_length", "run_length_maximum_output_length"),
    *("brotli_maximum_output_length", "array_based_stream_maximum_output_length"),
)
"""What pypdf bounds one stream of a document by."""


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """What one document may have: pages, characters of text, and bytes of memory while it is read; and how many of its pictures
    are looked at, where they are asked for."""

    max_pages: int = 600
    max_characters: int = 2_000_000
    max_memory: int = 256 * 1024 * 1024
    max_pictures: int = 16


@dataclass(frozen=True, slots=True)
class DocumentPicture:
    """A picture of a document as a JPEG file, and at which character of the text it stands: behind that of its page."""

    at: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class DocumentContents:
    """What was read of a document: its text, which may be empty where there are pictures, and the pictures that were asked for.
    `unseen`: how many more pictures its pages draw."""

    text: str = field(repr=False)
    pictures: tuple[DocumentPicture, ...] = ()
    unseen: int = 0

    @property
    def size(self) -> int:
        """Characters of the text and bytes of the pictures."""
        return len(self.text) + sum(len(each.data) for each in self.pictures)


def check_is_pdf(data: bytes) -> None:
    """Raise BadDocument for a file that does not say at its beginning that it is PDF."""
    if _MARK not in data[:_HEAD]:
        raise BadDocument("the document is no PDF: its first bytes are other than those of one")


class PdfPages:
    """The pages of one PDF. `text` reads them; `found` says then how many pictures they draw, and `pictures` decodes those."""

    def __init__(self, data: bytes, limits: DocumentLimits) -> None:
        check_is_pdf(data)
        self._data, self._limits = data, limits
        self._most = min(_INFLATED + _INFLATED_BY * len(data), _INFLATED_MOST)
        self._drawn: list[tuple[int, Any]] = []

    @property
    def found(self) -> int:
        """How many different pictures the pages draw that are not too small to show something."""
        return len(self._drawn)

    def text(self) -> str:
        """The text of all pages, an empty line between two; "" where there are pictures alone. Raises BadDocument, and
        MediaTooLarge for what is over a limit."""
        with self._reading(self._most):
            text = "\n\n".join(filter(None, self._pages()))
        if not text and not self._drawn:
            raise BadDocument("the document has no text: its pages show nothing that is read here")
        return text

    def pictures(self) -> Iterator[DocumentPicture]:
        """As many of the pictures as the limits allow, in the order of the pages; those that cannot be decoded are left out."""
        left = self._limits.max_pictures
        room = PictureRoom()
        for at, part in self._drawn:
            if not left:
                return
            with self._reading(PICTURE_INFLATED):
                data = picture_file(part, room)
            if data is not None:
                left -= 1
                yield DocumentPicture(at, data)

    @contextmanager
    def _reading(self, most: int) -> Iterator[None]:
        """Streams of the document inflate to `most` bytes each, and pypdf's errors are this package's."""
        from pypdf import apply_configuration, get_configuration
        from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError, PyPdfError

        bounds = get_configuration().with_overwrites(
            **dict.fromkeys(_INFLATING, most),
            image_maximum_buffer_size=PICTURE_INFLATED,
            xform_maximum_invocations_per_extraction=FORMS,
            jbig2dec_binary=None,
        )
        try:
            with apply_configuration(bounds):
                yield
        except FileNotDecryptedError as error:
            raise BadDocument("the document is encrypted: it cannot be read without its password") from error
        except DependencyError as error:
            raise BadDocument("the document is encrypted in a way that is not known here") from error
        except LimitReachedError as error:
            raise MediaTooLarge("the document has larger or deeper parts than are read of a PDF") from error
        except MediaError:
            raise
        except (PyPdfError, *_DAMAGED) as error:
            raise BadDocument("the document, in PDF, is damaged or truncated") from error

    def _pages(self) -> Iterator[str]:
        """The text of each page, without white space around it. What all pages have may inflate to a number of bytes."""
        from pypdf import PdfReader

        limits = self._limits
        pages = PdfReader(io.BytesIO(self._data)).pages
        if len(pages) > limits.max_pages:
            raise MediaTooLarge(f"the document has {len(pages)} pages; at most {limits.max_pages} are read")
        budget, length, end = PartsBudget(self._most), 0, 0
        for page in pages:
            contents = page.get_contents()
            data = b"" if contents is None else contents.get_data()
            drawn = [part for part in pictures_drawn(page, data, budget) if is_drawn(part)]
            text = page.extract_text().replace("\0", "")
            length += len(text)
            if length > limits.max_characters:
                raise MediaTooLarge(f"the document has more than {limits.max_characters} characters of text")
            text = (
                text.encode("utf-8", "replace").decode().strip()
            )  # without halves of characters, which no encoder takes
            end += len(text) + (2 if text and end else 0)
            self._drawn += [(end, part) for part in drawn]
            yield text


def pdf_contents(data: bytes, limits: DocumentLimits, *, pictures: bool = False) -> DocumentContents:
    """The text of a PDF, and its pictures where they are asked for. Raises BadDocument, and MediaTooLarge for what is over a
    limit."""
    pages = PdfPages(data, limits)
    text = pages.text()
    made = tuple(pages.pictures()) if pictures else ()
    if not text and not made:
        raise scanned()
    return DocumentContents(text, made, pages.found - len(made))


def scanned() -> BadDocument:
    """The error for a document that shows pictures alone, where those are not seen."""
    return BadDocument(
        "the document has no text: its pages are pictures, as those of a scan are, which are not seen here"
    )
