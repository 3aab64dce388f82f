"""PDF files for tests, written by pypdf, and such that were made to cost more than they weigh."""

import io
import zlib
from collections.abc import Sequence
from random import Random
from typing import Any

from pypdf import PdfWriter
from pypdf.generic import (
    ArrayObject,
    DictionaryObject,
    IndirectObject,
    NameObject,
    NumberObject,
    PdfObject,
    StreamObject,
)

__all__ = [
    "bomb",
    "coloured",
    "deep_tree",
    "drawing",
    "hoard",
    "locked",
    "many_pages",
    "nested",
    "pdf",
    "pictured",
    "scan",
    "strained",
]


def _page_of(writer: PdfWriter, content: bytes) -> None:
    page = writer.add_blank_page(612, 792)
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
            NameObject("/Encoding"): NameObject("/WinAnsiEncoding"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    stream = StreamObject()
    stream.set_data(content)
    page[NameObject("/Contents")] = writer._add_object(stream.flate_encode())


def _shown(text: str) -> bytes:
    lines = []
    for line in text.splitlines():
        escaped = line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        lines.append(b"(" + escaped.encode("cp1252") + b") Tj T*")
    return b"BT /F1 12 Tf 14 TL 72 720 Td " + b" ".join(lines) + b" ET"


def _file(writer: PdfWriter) -> bytes:
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _written(pages: Sequence[str]) -> PdfWriter:
    writer = PdfWriter()
    for text in pages:
        _page_of(writer, _shown(text))
    return writer


def pdf(*pages: str) -> bytes:
    """A document with a page for each text, whose lines stand below each other."""
    return _file(_written(pages))


def locked(text: str, password: str, *, owner: str = "owner") -> bytes:
    """A document of one page that opens with `password`; "" is one that anybody may read."""
    writer = _written([text])
    writer.encrypt(password, owner, algorithm="AES-256")
    return _file(writer)


def scan() -> bytes:
    """A page that has a drawing and no text."""
    writer = PdfWriter()
    _page_of(writer, b"0 0 100 100 re f")
    return _file(writer)


def many_pages(count: int) -> bytes:
    """A small file that says of one page so often that it is the next."""
    writer = _written(["again"])
    pages = writer.root_object["/Pages"].get_object()
    kid = pages["/Kids"][0]
    assert isinstance(kid, IndirectObject)
    pages[NameObject("/Kids")] = ArrayObject([kid] * count)
    pages[NameObject("/Count")] = NumberObject(count)
    return _file(writer)


def deep_tree(depth: int) -> bytes:
    """A tree of pages, each node of which has one below it."""
    writer = _written(["far below"])
    pages = writer.root_object["/Pages"].get_object()
    for _ in range(depth):
        below = DictionaryObject({NameObject("/Type"): NameObject("/Pages"), NameObject("/Kids"): pages["/Kids"]})
        below[NameObject("/Count")] = NumberObject(1)
        pages[NameObject("/Kids")] = ArrayObject([writer._add_object(below)])
    return _file(writer)


def bomb(megabytes: int) -> bytes:
    """A page whose content, of a few kilobytes, inflates to so many megabytes of text."""
    writer = PdfWriter()
    _page_of(writer, b"")
    stream = StreamObject()
    line = b"(" + b"x" * 998 + b") Tj "
    packer = zlib.compressobj(9)
    body = packer.compress(b"BT /F1 12 Tf ")
    body += b"".join(packer.compress(line * 1000) for _ in range(megabytes)) + packer.compress(b" ET") + packer.flush()
    stream._data = body
    stream[NameObject("/Filter")] = NameObject("/FlateDecode")
    writer.pages[0][NameObject("/Contents")] = writer._add_object(stream)
    return _file(writer)


def drawing(megabytes: int, pages: int = 1) -> bytes:
    """Pages without a text, whose contents, of some kilobytes, inflate to so many megabytes of operations each."""
    writer = PdfWriter()
    body = zlib.compress(b"q 1 0 0 1 0 0 cm Q\n" * (megabytes * 1_000_000 // 19), 9)
    for _ in range(pages):
        _page_of(writer, b"")
        stream = StreamObject()
        stream._data = body
        stream[NameObject("/Filter")] = NameObject("/FlateDecode")
        writer.pages[-1][NameObject("/Contents")] = writer._add_object(stream)
    return _file(writer)


def hoard(fonts: int, filled: bytes = b" ") -> bytes:
    """A page with fonts whose tables, of some kilobytes each, inflate to 30 MB each that a reader keeps, all of one character."""
    writer = _written(["kept"])
    body = zlib.compress(filled * 30_000_000, 9)
    named = writer.pages[0]["/Resources"]["/Font"]  # type: ignore[index]
    for number in range(fonts):
        table = StreamObject()
        table._data = body
        table[NameObject("/Filter")] = NameObject("/FlateDecode")
        font = DictionaryObject(named["/F1"].get_object())
        font[NameObject("/ToUnicode")] = writer._add_object(table)
        named[NameObject(f"/G{number}")] = writer._add_object(font)
    filling = StreamObject()
    filling.set_data(Random(1).randbytes(600_000))
    writer._add_object(filling)
    return _file(writer)


def pictured(*pages: tuple[str, Sequence[tuple[int, int]]], most: int = 0) -> bytes:
    """A document with a text and pictures of these sizes on each page, of different greys; the same size is the same picture.
    Each states `most` pixels a side, where that is not 0."""
    writer = PdfWriter()
    made: dict[tuple[int, int], IndirectObject] = {}
    for text, sizes in pages:
        drawn = "".join(f"/P{width}x{height} Do\n" for width, height in sizes).encode()
        _page_of(writer, (_shown(text) if text else b"") + b"\n" + drawn)
        named = DictionaryObject()
        for width, height in sizes:
            if (width, height) not in made:
                stream = StreamObject()
                stream.set_data(bytes([len(made) * 40 % 256]) * (width * height))
                stream = stream.flate_encode()
                stream[NameObject("/Subtype")] = NameObject("/Image")
                stream[NameObject("/ColorSpace")] = NameObject("/DeviceGray")
                stream[NameObject("/BitsPerComponent")] = NumberObject(8)
                stream[NameObject("/Width")] = NumberObject(most or width)
                stream[NameObject("/Height")] = NumberObject(most or height)
                made[width, height] = writer._add_object(stream)
            named[NameObject(f"/P{width}x{height}")] = made[width, height]
        writer.pages[-1]["/Resources"][NameObject("/XObject")] = named  # type: ignore[index]
    return _file(writer)


def coloured(
    data: bytes, space: PdfObject, *, bits: int = 8, packed: bool = True, referred: bool = False, side: int = 64
) -> bytes:
    """A page with one picture, 64 pixels a side, with these samples in this space of colours; `referred`: its size stands
    elsewhere."""
    writer = PdfWriter()
    _page_of(writer, b"/P Do")
    stream = StreamObject()
    stream.set_data(data)
    stream = stream.flate_encode() if packed else stream
    size = writer._add_object(NumberObject(side)) if referred else NumberObject(side)
    stream[NameObject("/Subtype")] = NameObject("/Image")
    stream[NameObject("/ColorSpace")] = space
    stream[NameObject("/BitsPerComponent")] = NumberObject(bits)
    stream[NameObject("/Width")] = stream[NameObject("/Height")] = size
    resources: Any = writer.pages[0]["/Resources"]
    resources[NameObject("/XObject")] = DictionaryObject({NameObject("/P"): writer._add_object(stream)})
    return _file(writer)


def nested(depth: int, each: int, filling: int = 0) -> bytes:
    """A page with a form that stands in it so often, in which the next form stands as often; the last has `filling` bytes."""
    writer = PdfWriter()
    inner: IndirectObject | None = None
    for _ in range(depth):
        form = StreamObject()
        form.set_data(b" " * filling if inner is None else b"/F Do\n" * each)
        form = form.flate_encode()
        form[NameObject("/Subtype")] = NameObject("/Form")
        if inner is not None:
            forms = DictionaryObject({NameObject("/F"): inner})
            form[NameObject("/Resources")] = DictionaryObject({NameObject("/XObject"): forms})
        inner = writer._add_object(form)
    _page_of(writer, _shown("seen") + b"\n" + b"/F Do\n" * each)
    if inner is not None:
        writer.pages[0]["/Resources"][NameObject("/XObject")] = DictionaryObject({NameObject("/F"): inner})  # type: ignore[index]
    return _file(writer)


def strained(fonts: int, pages: int) -> bytes:
    """Pages which all name the same fonts, of which they use one: a reader works through all of them for each page."""
    writer = _written(["many fonts"] * pages)
    named = writer.pages[0]["/Resources"]["/Font"]  # type: ignore[index]
    for number in range(fonts):
        named[NameObject(f"/G{number}")] = named.raw_get("/F1")
    for page in writer.pages:
        page["/Resources"][NameObject("/Font")] = named  # type: ignore[index]
    return _file(writer)
