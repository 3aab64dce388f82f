"""A document whose pages inflate to far more than its file is refused before they are read."""

import pytest
from tests.pdf_files import bomb, drawing, pdf

from smg_multimodal.decoding import pdf as reading
from smg_multimodal.decoding.pdf import DocumentLimits, pdf_contents
from smg_multimodal.records.errors import BadDocument, MediaTooLarge


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
