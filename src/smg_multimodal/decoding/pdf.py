"""The text of a PDF, page after page, read with pypdf, which is loaded when a file first needs it.

Decides what is refused: a file that is locked, damaged, too large in one of its bounds, or without any text (a scan). What its
pages show as pictures is not read. A file may be made to cost more than it weighs, so this runs in a process that can be stopped.

Above: `processes.worker_process`. Below: `records.errors`. Knows no request.
"""

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from smg_multimodal.records.errors import BadDocument, MediaTooLarge

__all__ = ["DocumentLimits", "check_is_pdf", "pdf_text"]

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
_FORMS = 1000
"""Parts of a page that stand in it again and again, and in each other, counted each time."""
_INFLATING = (
    *("zlib_maximum_output_length", "lzw_maximum_output_length", "run_length_maximum_output_length"),
    *("brotli_maximum_output_length", "array_based_stream_maximum_output_length"),
)
"""What pypdf bounds one stream of a document by."""


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """What one document may have: pages, characters of text, and bytes of memory while it is read."""

    max_pages: int = 600
    max_characters: int = 2_000_000
    max_memory: int = 256 * 1024 * 1024


def check_is_pdf(data: bytes) -> None:
    """Raise BadDocument for a file that does not say at its beginning that it is PDF."""
    if _MARK not in data[:_HEAD]:
        raise BadDocument("the document is no PDF: its first bytes are other than those of one")


def pdf_text(data: bytes, limits: DocumentLimits) -> str:
    """The text of all pages, an empty line between two. Raises BadDocument, and MediaTooLarge for what is over a limit."""
    from pypdf import apply_configuration, get_configuration
    from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError, PyPdfError

    check_is_pdf(data)
    most = min(_INFLATED + _INFLATED_BY * len(data), _INFLATED_MOST)
    bounds = get_configuration().with_overwrites(
        **dict.fromkeys(_INFLATING, most), xform_maximum_invocations_per_extraction=_FORMS
    )
    try:
        with apply_configuration(bounds):
            found = "\n\n".join(filter(None, _pages(data, limits, most)))
    except FileNotDecryptedError as error:
        raise BadDocument("the document is encrypted: it cannot be read without its password") from error
    except DependencyError as error:
        raise BadDocument("the document is encrypted in a way that is not known here") from error
    except LimitReachedError as error:
        raise MediaTooLarge("the document has larger or deeper parts than are read of a PDF") from error
    except MediaTooLarge:
        raise
    except (PyPdfError, *_DAMAGED) as error:
        raise BadDocument("the document, in PDF, is damaged or truncated") from error
    if not found:
        raise BadDocument(
            "the document has no text: its pages may be pictures, as those of a scan are, which are not read here"
        )
    return found


def _pages(data: bytes, limits: DocumentLimits, most: int) -> Iterator[str]:
    """The text of each page, without white space around it. What all pages have may inflate to `most` bytes."""
    from pypdf import PdfReader

    pages = PdfReader(io.BytesIO(data)).pages
    if len(pages) > limits.max_pages:
        raise MediaTooLarge(f"the document has {len(pages)} pages; at most {limits.max_pages} are read")
    length = inflated = 0
    for page in pages:
        contents = page.get_contents()
        inflated += 0 if contents is None else len(contents.get_data())
        if inflated > most:
            raise MediaTooLarge(f"the pages of the document inflate to more than {most} bytes")
        text = page.extract_text().replace("\0", "")
        length += len(text)
        if length > limits.max_characters:
            raise MediaTooLarge(f"the document has more than {limits.max_characters} characters of text")
        yield text.encode("utf-8", "replace").decode().strip()  # without halves of characters, which no encoder takes
