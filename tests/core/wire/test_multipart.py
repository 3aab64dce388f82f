"""Forms: what is read of one, and what is bounded whatever version of python-multipart parses it."""

from collections.abc import Iterator

import pytest
from python_multipart.multipart import MultipartParser

from smg_core.errors import InvalidRequest
from smg_core.wire.multipart import FormReader

PIECE = 64 * 1024


@pytest.fixture(params=["as it is", "without bounds"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """python-multipart as it is installed, and as a version was that bounds no part's head."""
    if request.param == "without bounds":
        for bound in ("max_header_count", "max_header_size"):
            monkeypatch.setitem(MultipartParser.__init__.__kwdefaults__, bound, 1 << 40)


def form(*headers: bytes) -> bytes:
    head = b"".join(b"%b\r\n" % each for each in headers)
    disposition = b'content-disposition: form-data; name="purpose"\r\n'
    return b"--b\r\n" + disposition + head + b"\r\nbatch\r\n--b--\r\n"


def pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + PIECE] for at in range(0, len(data), PIECE))


def read(data: Iterator[bytes]) -> tuple[FormReader, int]:
    """The reader of a form, and how many bytes it took."""
    reader, taken = FormReader("multipart/form-data; boundary=b", lambda data: None, most=4, most_bytes=100), 0
    try:
        for piece in data:
            taken += len(piece)
            reader.feed(piece)
        reader.end()
    except InvalidRequest:
        return reader, -taken
    return reader, taken


@pytest.mark.parametrize(
    "headers",
    [(b"x: " + b"a" * 6_000_000,), (b"x" * 6_000_000 + b": a",), (b"x: a",) * 100_000],
    ids=["value", "name", "number"],
)
def test_the_head_of_a_part_is_refused_as_soon_as_it_is_too_long(parser: None, headers: tuple[bytes, ...]) -> None:
    _, taken = read(pieces(form(*headers)))
    assert taken == -PIECE


def test_the_head_of_a_part_may_have_what_clients_write_there(parser: None) -> None:
    data = form(b"content-type: text/plain", b"content-transfer-encoding: 8bit", b"x: " + b"a" * 4000)
    for step in (1, len(data)):
        reader, taken = read(data[at : at + step] for at in range(0, len(data), step))
        assert taken == len(data)
        assert reader.fields == {"purpose": "batch"}


def test_what_stands_behind_a_form_is_passed_over_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    data = form()
    reader, taken = read(iter([data, b"x" * PIECE, b"x" * PIECE]))
    assert taken == len(data) + 2 * PIECE
    assert reader.fields == {"purpose": "batch"}
    assert caplog.records == []
