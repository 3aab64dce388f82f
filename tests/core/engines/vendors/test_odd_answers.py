"""Answers that are damaged in any way: readers raise nothing, say what is wrong, and keep to the grammar of events."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.event_grammar import check
from tests.providers.answers import FORMATS

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.anthropic.format import MessagesFormat
from smg_core.engines.vendors.gemini.format import GeminiFormat
from smg_core.engines.vendors.responses.format import ResponsesFormat
from smg_core.errors import SmgError
from smg_core.events import Event, Started, Usage
from smg_core.request import GenerationRequest, Message, Text

READERS: dict[str, Any] = {"anthropic": MessagesFormat, "gemini": GeminiFormat, "openai-responses": ResponsesFormat}


def read(kind: str, data: bytes, size: int) -> tuple[list[Event], SmgError | None]:
    request = GenerationRequest("r", FORMATS[kind].model, (Message("user", (Text("Hi"),)),))
    decoder = READERS[kind]().ask(request, request.model, EnginesConfig()).decoder
    assert decoder is not None
    events = [each for at in range(0, len(data), size) for each in decoder.feed(data[at : at + size])]
    events += decoder.end()
    assert decoder.done or decoder.error is not None
    return events, decoder.error


@pytest.mark.full
@pytest.mark.parametrize("kind", READERS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_stream_is_an_error_or_an_answer(kind: str, data: st.DataObject) -> None:
    stream = FORMATS[kind].streams[data.draw(st.sampled_from(sorted(FORMATS[kind].streams)))]
    pieces = stream.split(b"\n\n")
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(pieces) - 1))
        what = data.draw(st.sampled_from(["gone", "twice", "cut", "null", "swapped"]))
        match what:
            case "gone" if len(pieces) > 1:
                del pieces[at]
            case "twice":
                pieces.insert(at, pieces[at])
            case "cut":
                pieces[at] = pieces[at][: len(pieces[at]) // 2]
            case "null":
                pieces[at] = pieces[at].replace(b'"index":0', b'"index":9').replace(b'"content"', b'"contents"')
            case "swapped":
                other = data.draw(st.integers(0, len(pieces) - 1))
                pieces[at], pieces[other] = pieces[other], pieces[at]

    events, error = read(kind, b"\n\n".join(pieces), data.draw(st.sampled_from([1, 50, 10_000])))

    told = [each for each in events if not isinstance(each, Started | Usage)]
    check([Started(0, None, "m"), *told], complete=False)
    assert error is None or isinstance(error, SmgError)


@pytest.mark.parametrize("kind", READERS)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_an_error(kind: str, data: bytes) -> None:
    _, error = read(kind, data, 7)

    assert isinstance(error, SmgError)
