"""Reads a form of `multipart/form-data` (RFC 7578) as it comes: short fields, and one file whose bytes are passed on.

python-multipart parses; what is bounded and refused is decided here. Pure: it is fed bytes and calls the function that it was
given. Above: the upload of files. Below: python-multipart, of the extra `server`, loaded when the first form is read.
"""

from collections.abc import Callable, Collection
from email.message import Message

import msgspec
from msgspec import Struct

from smg_core.errors import InvalidRequest, NotImplementedHere, UnsupportedMedia
from smg_core.extras import needs

__all__ = ["FormReader", "FormUpload"]

_LONGEST_TYPE = 512  # characters of a content type; a boundary has 70 at most
_HEADERS, _HEADER_BYTES = 8, 4224  # of one part; bytes of one header's name and value


class FormUpload(Struct):
    """A file of a form: its field, its name, its content type, its bytes."""

    field: str
    filename: str
    media_type: str = ""
    data: bytearray = msgspec.field(default_factory=bytearray)


class FormReader:
    """One form, by the content type of its request. `write` is called with the bytes of the file in the field `file`, whose own
    content type is `media_type`; the other fields, at most `most` of `most_bytes` each, are in `fields`, or with `lists` in
    `lists` where their names end in "[]". The files of the fields `files` are kept, in `uploads`. Raises UnsupportedMedia for
    another content type."""

    def __init__(
        self,
        content_type: str,
        write: Callable[[bytes], object],
        *,
        most: int,
        most_bytes: int,
        lists: bool = False,
        file: str = "file",
        files: Collection[str] = (),
    ) -> None:
        try:
            from python_multipart.exceptions import FormParserError
            from python_multipart.multipart import MultipartParser
        except ModuleNotFoundError:
            raise NotImplementedHere(needs("A form with files", "python_multipart")) from None
        self.fields: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}
        self.uploads: list[FormUpload] = []
        self.media_type = ""
        self._files = files
        self._takes_lists, self._file = lists, file
        self.filename: str | None = None
        self._write, self._most, self._most_bytes = write, most, most_bytes
        self._wrong = FormParserError
        self._ended = False
        self._parts = 0
        self._name = ""
        self._is_file = False
        self._value = b""
        self._header, self._header_value = b"", b""
        self._headers = 0  # of the present part
        kind, boundary = _parameters(content_type[:_LONGEST_TYPE], "boundary")
        if kind != "multipart/form-data" or not boundary:
            raise UnsupportedMedia("A file is uploaded as multipart/form-data with a boundary.")
        callbacks: dict[str, Callable[..., None]] = {
            "on_part_begin": self._on_part,
            "on_header_field": self._on_header_name,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header,
            "on_headers_finished": self._on_headers,
            "on_part_data": self._on_data,
            "on_part_end": self._on_part_end,
            "on_end": self._on_end,
        }
        try:
            self._parser = MultipartParser(boundary.encode("latin-1", "replace"), callbacks)  # type: ignore[arg-type]
        except FormParserError as error:
            raise InvalidRequest("The form's boundary is too long.") from error

    def feed(self, data: bytes) -> None:
        """More of the body. Raises InvalidRequest for what is no form, or one over its bounds."""
        if self._ended:
            return  # what stands behind a form is no part of it; the parser would log each piece
        try:
            self._parser.write(data)
        except self._wrong:
            raise InvalidRequest("The request body is not valid multipart/form-data.") from None

    def end(self) -> None:
        """The body has ended. Raises InvalidRequest where the form has not."""
        if not self._ended:
            raise InvalidRequest("The request body ends before its form does.")

    def _on_part(self) -> None:
        self._parts += 1
        self._name, self._is_file, self._value = "", False, b""
        self._headers = 0
        if self._parts > self._most:
            raise InvalidRequest(f"The form has more than {self._most} fields.")

    def _on_header_name(self, data: bytes, start: int, end: int) -> None:
        self._check_header(end - start)
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._check_header(end - start)
        self._header_value += data[start:end]

    def _check_header(self, more: int) -> None:
        """Raise InvalidRequest where a header with so many more bytes is too long, or one too many for its part. Some versions of
        python-multipart bound neither."""
        if len(self._header) + len(self._header_value) + more > _HEADER_BYTES:
            raise InvalidRequest(f"A header in the form is longer than {_HEADER_BYTES} bytes.")
        if self._headers == _HEADERS:
            raise InvalidRequest(f"A part of the form has more than {_HEADERS} headers.")

    def _on_header(self) -> None:
        name, text = self._header.lower(), self._header_value.decode("utf-8", "replace")
        self._header, self._header_value = b"", b""
        self._headers += 1
        if name == b"content-type" and self._is_file:
            kind = text.strip()[:_LONGEST_TYPE]
            if self._name in self._files:
                self.uploads[-1].media_type = kind
            else:
                self.media_type = kind
        if name != b"content-disposition":
            return
        self._name = _parameters(text, "name")[1]
        if self._name in self._files:
            self.uploads.append(FormUpload(self._name, _parameters(text, "filename")[1] or "file"))
            self._is_file = True
        elif self._name == self._file:
            if self.filename is not None:
                raise InvalidRequest("The form has more than one file.", param=self._file)
            self.filename = _parameters(text, "filename")[1] or "file"
            self._is_file = True

    def _on_headers(self) -> None:
        if not self._name:
            raise InvalidRequest("A field of the form has no name.")
        if self._name in self.fields:
            raise InvalidRequest(f"The form has the field '{self._name[:80]}' twice.", param=self._name[:80])

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file and self._name in self._files:
            self.uploads[-1].data += data[start:end]
            return
        if self._is_file:
            self._write(data[start:end])
            return
        self._value += data[start : min(end, start + self._most_bytes + 1)]
        if len(self._value) > self._most_bytes:
            raise InvalidRequest(
                f"The field '{self._name[:80]}' is longer than {self._most_bytes} bytes.", param=self._name[:80]
            )

    def _on_part_end(self) -> None:
        if self._is_file:
            return
        text = self._value.decode("utf-8", "replace")
        if self._takes_lists and self._name.endswith("[]"):
            self.lists.setdefault(self._name, []).append(text)
        else:
            self.fields[self._name] = text

    def _on_end(self) -> None:
        self._ended = True


def _parameters(header: str, name: str) -> tuple[str, str]:
    """A header's value without its parameters, in lower case, and the parameter `name`, "" where there is none."""
    message = Message()
    message["content-disposition"] = header.replace("\r", " ").replace("\n", " ")
    found = message.get_param(name, "", "content-disposition")
    if isinstance(found, tuple):  # RFC 2231: charset, language, value
        found = found[2]
    return header.partition(";")[0].strip().lower(), str(found)
