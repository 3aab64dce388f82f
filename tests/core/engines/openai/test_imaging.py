"""Pictures as servers with OpenAI's routes are asked for them and answer: cut in any pieces, escaped, broken, or none at all."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.openai.imaging import PictureDecoder, write_picture_request
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineGarbled
from smg_core.events import Event, Finished, OpaqueBlock, Usage
from smg_core.imaging import GivenPicture, Imaging, MadePicture, picture_of
from smg_core.request import GenerationRequest, Message, Text

DATA = base64.b64encode(bytes(range(256)) * 3).decode()
USAGE = {"input_tokens": 7, "output_tokens": 9, "input_tokens_details": {"image_tokens": 3, "text_tokens": 4}}
WHOLE = {
    "created": 1,
    "data": [{"b64_json": DATA, "revised_prompt": 'a "b64_json": "fox"'}, {"b64_json": "AAAA"}],
    "size": "8x8",
    "usage": USAGE,
}


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (each["type"].encode(), json.dumps(each).encode()) for each in events)


STREAM = sse(
    {"type": "image_generation.partial_image", "b64_json": "BBBB", "partial_image_index": 1, "quality": "low"},
    {"type": "image_generation.completed", "b64_json": DATA, "usage": USAGE},
)


def decoded(body: bytes, cuts: list[int], count: int = 1) -> tuple[list[Event], PictureDecoder]:
    decoder, events, at = PictureDecoder(Imaging(count), EnginesConfig()), list[Event](), 0
    for cut in [*sorted(cuts), len(body)]:
        events += decoder.feed(body[at:cut])
        at = max(at, cut)
    return events + decoder.end(), decoder


def pictures(events: list[Event]) -> list[MadePicture]:
    return [picture_of(each.payload) for each in events if isinstance(each, OpaqueBlock)]


@given(st.lists(st.integers(0, len(json.dumps(WHOLE))), max_size=6), st.sampled_from([None, 1]))
def test_an_object_in_any_pieces_has_its_pictures(cuts: list[int], indent: int | None) -> None:
    events, decoder = decoded(json.dumps(WHOLE, indent=indent).encode(), cuts, 2)
    assert decoder.error is None
    assert decoder.done
    first, second = pictures(events)
    assert (first.data.decode(), second.data) == (DATA, b"AAAA")
    assert first.about == {"size": "8x8", "revised_prompt": 'a "b64_json": "fox"'}
    assert events[-2:] == [Finished(0, "stop"), Usage(7, 9, image_tokens=3)]


@given(st.lists(st.integers(0, len(STREAM)), max_size=6), st.sampled_from([b"", b"data: [DONE]\n\n"]))
def test_a_stream_in_any_pieces_has_its_states_and_its_picture(cuts: list[int], last: bytes) -> None:
    events, decoder = decoded(STREAM + last, cuts)
    assert decoder.error is None
    partial, made = pictures(events)
    assert (partial.partial, partial.data, partial.about) == (1, b"BBBB", {"quality": "low"})
    assert (made.partial, made.data.decode()) == (None, DATA)


def test_an_event_is_told_as_soon_as_it_is_there() -> None:
    decoder = PictureDecoder(Imaging(), EnginesConfig())
    first = STREAM.partition(b"\n\n")[0] + b"\n\n"
    assert len(decoder.feed(first)) == 1
    assert not decoder.finished
    decoder.feed(STREAM[len(first) :])
    assert decoder.finished


@pytest.mark.parametrize(
    ("written", "plain"),
    [("AA\\/A", b"AA/A"), ("AA\\nAA", b"AAAA"), ("data:image\\/png;base64,QUJD", b"QUJD")],
)
def test_base64_is_read_as_servers_write_it(written: str, plain: bytes) -> None:
    events, decoder = decoded(b'{"data":[{"b64_json":"%b"}]}' % written.encode(), [])
    assert decoder.error is None
    assert pictures(events)[0].data == plain


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"<html>",
        b'{"data":[]}',
        b'{"data":[{}]}',
        b'{"data":[{"url":"http://a/b.png"}]}',
        b'{"data":[{"b64_json":"no base64!"}]}',
        b'{"data":[{"b64_json":""}]}',
        b'{"data":[{"b64_json":"AAAA',
        b'{"data":[{"b64_json":' + b" " * 40 + b'"7"}]}',
        b'{"data":[{"b64_json":5}]}',
        b'{"error":{"message":"full"}}',
        b'data: {"type":"error","message":"x"}\n\n',
        b"data: [DONE]\n\n",
        b"\xff\xfe\x00",
        b'{"data":' + b"[" * 100_000,
    ],
)
def test_what_is_no_answer_is_an_error_and_never_a_picture(body: bytes) -> None:
    for cuts in ([], [1], [len(body) // 2]):
        events, decoder = decoded(body, cuts)
        assert decoder.error is not None
        assert not decoder.done
        assert pictures(events) == []


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=4))
def test_any_bytes_end_in_pictures_or_an_error(body: bytes, cuts: list[int]) -> None:
    _, decoder = decoded(body, cuts)
    assert decoder.done is (decoder.error is None)


def test_more_pictures_than_were_asked_for_are_an_error() -> None:
    events, decoder = decoded(json.dumps({"data": [{"b64_json": "AAAA"}] * 5000}).encode(), [], 2)
    assert isinstance(decoder.error, EngineGarbled)
    assert len(pictures(events)) == 2
    state = {"type": "image_generation.partial_image", "b64_json": "BBBB", "partial_image_index": 1}
    events, decoder = decoded(sse(*[state] * 100), [])
    assert isinstance(decoder.error, EngineGarbled)
    assert len(pictures(events)) == 16


def test_an_answer_has_a_bound() -> None:
    decoder = PictureDecoder(Imaging(), EnginesConfig(http_pictures_bytes=1000))
    decoder.feed(b'{"data":[{"b64_json":"' + b"A" * 2000)
    assert isinstance(decoder.error, EngineGarbled)


def request(**fields: Any) -> GenerationRequest:
    return GenerationRequest(id="r", model="m", messages=(Message("user", (Text("a fox"),)),), **fields)


def test_a_request_is_json_or_a_form_with_the_engines_own_name_of_the_model() -> None:
    told = Imaging(2, 3, {"size": "8x8"})
    made = write_picture_request(request(stream=True), told, "flux", extras=True)
    assert made.path == "/images/generations"
    assert json.loads(made.body) == {
        "model": "flux",
        "prompt": "a fox",
        "size": "8x8",
        "n": 2,
        "stream": True,
        "partial_images": 3,
        "response_format": "b64_json",
    }
    picture = GivenPicture(b"\x89PNG", "image/png", 'a"\r\n.png')
    form = write_picture_request(request(), Imaging(given=(picture,), mask=picture), "flux", extras=False)
    assert form.path == "/images/edits"
    assert b'name="image"; filename="a___.png"' in form.body
    assert b'name="mask"' in form.body
    assert b"response_format" not in form.body
    two = write_picture_request(request(), Imaging(given=(picture, picture)), "flux", extras=False)
    assert two.body.count(b'name="image[]"') == 2


@given(st.binary(max_size=100), st.text(max_size=30))
def test_a_forms_boundary_stands_nowhere_in_it(data: bytes, prompt: str) -> None:
    asked = Imaging(given=(GivenPicture(data, "image/png"),), wishes={"size": prompt})
    form = write_picture_request(request(), asked, "m", extras=False)
    mark = form.content_type.partition("boundary=")[2].encode()
    assert form.body.count(b"--" + mark) == 5
