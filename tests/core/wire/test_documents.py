"""Files of text inside a request: every API makes of them the same document or refusal."""

import base64
import contextlib
import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.chat.decode import decode_chat
from smg_core.apis.gemini.decode import decode_generate
from smg_core.apis.interactions.decode import interaction_decoder
from smg_core.apis.messages.decode import decode_messages
from smg_core.apis.responses.wire.decode import decode_responses
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.pipeline.prompt.media import media_of, refuse_unless_taken
from smg_core.request import File, Message, Part, Text
from smg_core.wire.base import Incoming
from smg_core.wire.documents import document_text, inline_text, refuse_faults


@attrs.frozen
class Api:
    """How a request with one file is written (media type, base64), read, and where an error names the file."""

    content: Callable[[str, str], dict[str, Any]]
    turns: str
    decode: Callable[[Incoming], Any]
    param: str

    def read(self, kind: str, data: str) -> Part:
        content = [self.content(kind, data)]
        body: dict[str, Any]
        if self.turns == "contents":
            body = {"contents": [{"role": "user", "parts": content}]}
        else:
            turn = (
                {"type": "user_input", "content": content}
                if self.turns == "steps"
                else {"role": "user", "content": content}
            )
            limit = {"max_tokens": 5} if self.turns == "messages" else {}
            body = {"model": "m", {"steps": "input"}.get(self.turns, self.turns): [turn], **limit}
        incoming = Incoming(json.dumps(body).encode(), request_id="r_1", path_values={"model": "m"})
        (part,) = self.decode(incoming).generation.messages[0].parts
        return part


APIS = {
    "Chat Completions": Api(
        lambda kind, data: {"type": "file", "file": {"filename": "a.txt", "file_data": f"data:{kind};base64,{data}"}},
        "messages",
        decode_chat,
        "messages[0].content[0].file.file_data",
    ),
    "Responses": Api(
        lambda kind, data: {"type": "input_file", "filename": "a.txt", "file_data": f"data:{kind};base64,{data}"},
        "input",
        decode_responses,
        "input[0].content[0].file_data",
    ),
    "Messages": Api(
        lambda kind, data: {
            "type": "document",
            "title": "a.txt",
            "source": {"type": "base64", "media_type": kind, "data": data},
        },
        "messages",
        decode_messages,
        "messages[0].content[0].source.data",
    ),
    "generateContent": Api(
        lambda kind, data: {"inlineData": {"mimeType": kind, "data": data, "displayName": "a.txt"}},
        "contents",
        decode_generate,
        "contents[0].parts[0].inlineData.data",
    ),
    "Interactions": Api(
        lambda kind, data: {"type": "document", "mime_type": kind, "data": data, "name": "a.txt"},
        "steps",
        interaction_decoder("steps"),
        "input[0].content[0].data",
    ),
}
EACH = pytest.mark.parametrize("api", APIS.values(), ids=APIS)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@EACH
@pytest.mark.parametrize(
    "kind", ["text/plain", "Text/Markdown", "text/csv;charset=utf-8", "application/json", "application/ld+json"]
)
def test_a_file_of_text_is_the_same_document_in_every_api(api: Api, kind: str) -> None:
    assert api.read(kind, encoded("süß <b>".encode())) == Text("<document>\n<title>a.txt</title>\nsüß <b>\n</document>")


@EACH
@pytest.mark.parametrize("content", [b"%PDF-1.7 text", b"a\0b", b"\xff\xfe"])
def test_a_file_of_no_type_that_is_no_text_stays_a_file(api: Api, content: bytes) -> None:
    assert isinstance(api.read("application/octet-stream", encoded(content)), File)


@EACH
def test_a_file_of_another_type_stays_a_file_whatever_is_in_it(api: Api) -> None:
    assert isinstance(api.read("application/pdf", encoded(b"plain")), File)


@EACH
@pytest.mark.parametrize("kind", ["application/pdf", "application/octet-stream"])
def test_a_pdf_is_refused_by_its_name_in_every_api(api: Api, kind: str) -> None:
    read = api.read(kind, encoded(b"%PDF-1.7"))
    with pytest.raises(UnsupportedParameter, match="PDF is not read here"):
        refuse_unless_taken(media_of([Message("user", (read,))]), "m", frozenset({"image"}))


@EACH
@pytest.mark.parametrize(
    ("kind", "data", "told"),
    [
        ("text/plain", "a", "it is not base64"),
        ("application/octet-stream", "****", "it is not base64"),
        ("text/plain", "é", "it is not base64"),
        ("text/plain", encoded(b"\xff\xfe"), "a file of type text/plain must be text in UTF-8"),
    ],
)
def test_what_cannot_be_read_is_refused_by_the_name_of_its_data(api: Api, kind: str, data: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        refuse_faults([api.read(kind, data)])
    assert (refused.value.param, refused.value.code) == (api.param, "invalid_value")
    assert refused.value.message == f"Invalid '{api.param}': {told}."


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_text_comes_back_in_any_way_of_writing_base64(text: str) -> None:
    content = text.encode()
    told = content.decode("utf-8-sig")
    broken = base64.encodebytes(content).decode()
    for written in (encoded(content), encoded(content).rstrip("="), base64.urlsafe_b64encode(content).decode(), broken):
        assert inline_text(f"data:text/plain;base64,{written}", "at") == told


@given(st.text())
def test_whatever_a_url_holds_is_read_or_refused(rest: str) -> None:
    for url in (f"data:{rest}", f"data:text/plain{rest}", f"data:;base64,{rest}"):
        with contextlib.suppress(InvalidRequest):  # anything else that is raised fails
            inline_text(url, "at")


def test_a_data_url_without_base64_is_percent_encoded() -> None:
    assert inline_text("data:text/plain,a%20b", "at") == "a b"
    assert inline_text("https://a.example/b.txt", "at") is None


def test_a_document_says_its_title_and_its_context_first() -> None:
    assert document_text("x", None) == "<document>\nx\n</document>"
    assert document_text("x", "t", "c") == "<document>\n<title>t</title>\n<context>c</context>\nx\n</document>"
