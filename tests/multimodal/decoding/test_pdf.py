"""What a document may cost is counted before it is read, and its pictures are those that its pages draw."""

import contextlib
import io
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pypdf.generic import ArrayObject, ByteStringObject, DictionaryObject, NameObject, NumberObject, PdfObject
from tests.pdf_files import bomb, coloured, drawing, hoard, nested, pdf, pictured, strained
from tests.shared import PATIENCE
from tests.tiers import examples

from smg_multimodal.decoding import pdf as reading
from smg_multimodal.decoding import pdf_parts
from smg_multimodal.decoding.pdf import DocumentContents, DocumentLimits, PdfPages, pdf_contents
from smg_multimodal.records.errors import BadDocument, MediaError, MediaTooLarge


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (drawing(20), "larger or deeper parts"),
        (bomb(20), "larger or deeper parts"),
        (drawing(1, pages=20), "inflate to more than"),
    ],
    ids=["one page without text", "one page of text", "many pages of one content"],
)
def test_pages_that_inflate_to_much_are_refused_and_not_read(
    data: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pypdf

    read: list[int] = []
    extract = pypdf.PageObject.extract_text
    monkeypatch.setattr(pypdf.PageObject, "extract_text", lambda page: read.append(1) or extract(page))
    monkeypatch.setattr(reading, "_INFLATED", 1 << 20)
    assert len(data) < 64_000
    with pytest.raises(MediaTooLarge, match=why):
        pdf_contents(data, DocumentLimits())
    assert len(read) <= 4


def test_pages_that_are_alike_and_many_are_read_all_the_same() -> None:
    page = "\n".join("The keeper of the lighthouse writes every day." for _ in range(20))
    assert pdf_contents(pdf(*[page] * 60), DocumentLimits()).text.count("keeper") == 1200
    with pytest.raises(BadDocument, match="has no text"):
        pdf_contents(drawing(1), DocumentLimits())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (nested(3, 30, filling=200_000), "with the forms in them, inflate to more than"),
        (strained(100, 10), "fonts, counted for each page"),
        (hoard(3), "have tables of more than"),
    ],
    ids=["forms", "fonts", "tables of fonts"],
)
def test_what_forms_and_fonts_cost_is_counted_before_they_are_read(
    data: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf_parts, "_FONTS", 900)
    before = time.process_time()
    with pytest.raises(MediaTooLarge, match=why):
        pdf_contents(data, DocumentLimits())
    assert time.process_time() - before < PATIENCE


def test_forms_in_forms_are_read_as_far_as_their_number_allows() -> None:
    assert pdf_contents(nested(6, 4), DocumentLimits()).text == "seen"
    assert pdf_contents(nested(40, 1), DocumentLimits()).text == "seen"


def test_pictures_stand_behind_the_text_of_their_page_and_each_is_there_once() -> None:
    data = pictured(("One.", [(64, 48)]), ("Two.", [(16, 16), (4000, 40), (64, 48)]), ("", [(50, 60)]), ("Four.", []))
    read = pdf_contents(data, DocumentLimits(), pictures=True)
    assert read.text == "One.\n\nTwo.\n\nFour."
    assert [each.at for each in read.pictures] == [4, 10, 10]
    opened = [Image.open(io.BytesIO(each.data)) for each in read.pictures]
    assert [(each.format, each.mode, each.size) for each in opened] == [
        ("JPEG", "RGB", (64, 48)),
        ("JPEG", "RGB", (2048, 20)),
        ("JPEG", "RGB", (50, 60)),
    ]
    assert read.unseen == 0
    assert pdf_contents(data, DocumentLimits()) == DocumentContents(read.text, (), 3)


def test_a_scan_is_its_pictures_and_refused_where_they_are_not_seen() -> None:
    data = pictured(("", [(300, 400)]), ("", [(300, 401)]))
    read = pdf_contents(data, DocumentLimits(), pictures=True)
    assert (read.text, [each.at for each in read.pictures]) == ("", [0, 0])
    with pytest.raises(BadDocument, match="has no text: its pages are pictures"):
        pdf_contents(data, DocumentLimits())


def test_pictures_beyond_a_bound_and_damaged_ones_are_left_out_and_the_text_stays() -> None:
    many = pictured(*[("Page.", [(40 + at, 40)]) for at in range(20)])
    read = pdf_contents(many, DocumentLimits(max_pictures=3), pictures=True)
    assert (len(read.pictures), read.unseen) == (3, 17)
    for data in (pictured(("Text.", [(40, 40)]), most=50_000), pictured(("Text.", [(40, 40)]), most=600)):
        assert pdf_contents(data, DocumentLimits(), pictures=True) == DocumentContents("Text.", (), 1)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.integers(8, 3000), st.binary(min_size=1, max_size=6)), min_size=1, max_size=6))
def test_any_bytes_are_read_with_their_pictures_or_refused(changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(pictured(("One.", [(64, 48)]), ("Two.", [(40, 40)])))
    for at, put in changes:
        data[at % len(data) : at % len(data) + len(put)] = put
    with contextlib.suppress(MediaError):
        read = pdf_contents(bytes(data), DocumentLimits(), pictures=True)
        assert len(read.pictures) <= 2
        assert all(0 <= each.at <= len(read.text) for each in read.pictures)


GREY, RGB = NameObject("/DeviceGray"), NameObject("/DeviceRGB")
PALETTE = ArrayObject([NameObject("/Indexed"), RGB, NumberObject(1), ByteStringObject(b"\0\0\0\xfa\0\0")])
INK = ArrayObject([NameObject("/Separation"), NameObject("/Black"), NameObject("/DeviceCMYK"), DictionaryObject()])


@pytest.mark.parametrize(
    ("data", "space", "told", "colour"),
    [
        (b"\xfa\0\0" * 4096, RGB, {"referred": True}, (250, 0, 0)),
        (b"\1" * 4096, PALETTE, {}, (250, 0, 0)),
        (b"\1" * 4096, PALETTE, {"packed": False}, (250, 0, 0)),
        (b"\x11" * 2048, PALETTE, {"packed": False, "bits": 4}, (250, 0, 0)),
        (b"\xff" * 4096, INK, {}, (0, 0, 0)),
        (b"\0" * 4096, INK, {}, (255, 255, 255)),
    ],
)
def test_pictures_have_the_colours_that_the_document_gives_them(
    data: bytes, space: PdfObject, told: Any, colour: tuple[int, int, int]
) -> None:
    (made,) = pdf_contents(coloured(data, space, **told), DocumentLimits(), pictures=True).pictures
    seen = Image.open(io.BytesIO(made.data))
    found = seen.getpixel((32, 32))
    assert seen.size == (64, 64)
    assert isinstance(found, tuple)
    assert max(abs(one - other) for one, other in zip(found, colour, strict=True)) <= 2


def test_pictures_of_colours_that_would_be_noise_are_left_out_and_counted() -> None:
    lab = ArrayObject([NameObject("/Lab"), DictionaryObject()])
    for data in (coloured(b"\x80\0" * 4096, GREY, bits=16), coloured(b"\x80\0\0" * 4096, lab)):
        assert PdfPages(data, DocumentLimits()).text() == ""
        with pytest.raises(BadDocument, match="its pages are pictures"):
            pdf_contents(data, DocumentLimits(), pictures=True)


@pytest.mark.full  # two large pictures are decoded
@pytest.mark.parametrize(("side", "bytes_each", "shown"), [(5900, 1, 1), (6100, 1, 0), (4200, 3, 1), (4400, 3, 0)])
def test_pictures_are_shown_up_to_the_pixels_that_are_documented_for_grey_and_colour(
    side: int, bytes_each: int, shown: int
) -> None:
    data = coloured(bytes(side * side * bytes_each), GREY if bytes_each == 1 else RGB, side=side)
    pages = PdfPages(data, DocumentLimits())
    pages.text()
    assert (pages.found, len(list(pages.pictures()))) == (1, shown)
