"""The text of a kept file, piece by piece: of texts as they are, of PDF as it is read for requests (edge).

No text is in memory whole, except that of a PDF, which the settings of documents bound. Above: indexing. Below: the kept files,
what reads documents.
"""

import codecs
from collections.abc import AsyncIterator

from smg_core.errors import InvalidRequest, NotFound, Overloaded
from smg_core.files.kept import KeptFiles
from smg_core.files.types import KeptFile
from smg_core.pipeline.prompt.documents import DocumentService
from smg_core.pipeline.prompt.media import MediaItem
from smg_core.request import MediaSource
from smg_core.vector_stores.records import IndexFault

__all__ = ["NotIndexable", "kept_text"]

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_PDF = b"%PDF-"


class NotIndexable(ValueError):
    """A file cannot be indexed, and why."""

    def __init__(self, fault: IndexFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


async def kept_text(
    kept: KeptFiles, tenant: str, file: KeptFile, documents: DocumentService | None, most: int
) -> AsyncIterator[str]:
    """The text of a file of at most `most` bytes. Raises NotIndexable."""
    if file.bytes > most:
        raise NotIndexable(IndexFault("invalid_file", f"The file has more than {most:,} bytes."))
    pieces = kept.contents(tenant, file)
    try:
        first = await anext(pieces, b"")
        if first.startswith(_PDF) or file.media_type == "application/pdf":
            yield await _of_pdf(first, pieces, tenant, documents)
            return
        async for text in _of_text(first, pieces):
            yield text
    except NotFound:
        raise NotIndexable(IndexFault("invalid_file", "The file is not kept any more.")) from None


async def _of_pdf(first: bytes, pieces: AsyncIterator[bytes], tenant: str, documents: DocumentService | None) -> str:
    if documents is None:
        raise NotIndexable(IndexFault("unsupported_file", "PDF documents are not read here."))
    data = b"".join([first, *[piece async for piece in pieces]])
    item = MediaItem("file", MediaSource(data=data, media_type="application/pdf"), "file_id")
    try:
        (document,) = await documents.read([item], tenant=tenant)
    except Overloaded:
        raise
    except InvalidRequest as error:
        raise NotIndexable(IndexFault("invalid_file", error.message)) from None
    return document.text


async def _of_text(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    name = next((name for mark, name in _BOMS if first.startswith(mark)), "utf-8")
    decoder = codecs.getincrementaldecoder(name)()
    try:
        yield _checked(decoder.decode(first))
        async for piece in pieces:
            yield _checked(decoder.decode(piece))
        yield _checked(decoder.decode(b"", final=True))
    except UnicodeDecodeError:
        raise _no_text() from None


def _checked(text: str) -> str:
    if "\0" in text:
        raise _no_text()
    return text


def _no_text() -> NotIndexable:
    return NotIndexable(IndexFault("unsupported_file", "The file is neither a text in UTF-8 or UTF-16 nor a PDF."))
