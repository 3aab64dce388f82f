"""What a server is asked to make of a recording, and what its answers mean, in any pieces."""

import json
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.transcriptions.wire import decode_transcription, decode_translation
from smg_core.engines.openai.speech import SpeechDecoder, write_form
from smg_core.errors import EngineGarbled, SmgError, UnsupportedParameter
from smg_core.events import Finished, OpaqueBlock, TextDelta, TextEnd, Usage
from smg_core.request import Audio, GenerationRequest, MediaSource, Message, Sampling
from smg_core.speech import Transcription
from smg_core.wire.base import Incoming

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=40).filter(str.strip)


def request(data=b"RIFF", *, stream=False, temperature=0.0, source=None):
    sound = Audio(source or MediaSource(data=data))
    sampling = Sampling(temperature=temperature)
    return GenerationRequest(
        id="r-1", model="m", messages=(Message("user", (sound,)),), sampling=sampling, stream=stream
    )


@pytest.mark.full
@given(
    data=st.binary(min_size=1, max_size=200),
    language=st.none() | TEXTS,
    prompt=st.none() | TEXTS,
    filename=TEXTS,
    translate=st.booleans(),
    stream=st.booleans(),
    temperature=st.sampled_from([0.0, 0.25, 1.0]),
)
def test_what_is_written_is_read_again_by_the_decoder_of_the_same_api(
    data, language, prompt, filename, translate, stream, temperature
):
    language, stream = (None, False) if translate else (language, stream)
    asked = Transcription(translate=translate, language=language, prompt=prompt, filename=filename)
    form = write_form(request(data, stream=stream, temperature=temperature), asked, "m")
    decode = decode_translation if translate else decode_transcription
    read = decode(Incoming(form.body, request_id="r", headers={"content-type": form.content_type}))
    assert form.path == ("/audio/translations" if translate else "/audio/transcriptions")
    assert (read.asked.language, read.asked.prompt, read.asked.translate) == (language, prompt, translate)
    assert read.generation.messages[0].parts[0].source.data == data
    assert (read.generation.stream, read.generation.sampling.temperature, read.generation.model) == (
        stream,
        temperature,
        "m",
    )


def test_times_are_asked_for_where_they_are_wanted_and_are_never_streamed():
    asked = Transcription(format="verbose_json", granularities=("word", "segment"))
    body = write_form(request(stream=True), asked, "m").body
    assert b"verbose_json" in body
    assert body.count(b"timestamp_granularities[]") == 2
    assert b'name="stream"' not in body


def test_a_name_of_a_file_cannot_end_its_header():
    body = write_form(request(), Transcription(filename='a"\r\nx: y', media_type="a\r\nb"), "m").body
    assert b'filename="a___x: y"' in body
    assert b"content-type: application/octet-stream" in body


def test_a_recording_that_is_no_bytes_is_refused():
    with pytest.raises(UnsupportedParameter):
        write_form(request(source=MediaSource(url="https://a/b.wav")), Transcription(), "m")


def frames(*events):
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events)


OPENAI = frames(
    {"type": "transcript.text.delta", "delta": "Öne"},
    {"type": "transcript.text.delta", "delta": " sheep"},
    {"type": "transcript.text.done", "text": "Öne sheep", "usage": {"input_tokens": 7, "output_tokens": 2}},
)
VLLM = (
    frames(
        {"choices": [{"delta": {"content": "Öne"}}]},
        {"choices": [{"delta": {"content": " sheep"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
    )
    + b"data: [DONE]\n\n"
)


@pytest.mark.parametrize("stream", [OPENAI, OPENAI + b"data: [DONE]\n\n", VLLM])
@given(cuts=st.lists(st.integers(0, 400), max_size=6))
def test_a_stream_in_any_pieces_is_the_same_text(stream, cuts):
    decoder, events = SpeechDecoder(Transcription()), []
    places = [0, *sorted(min(each, len(stream)) for each in cuts), len(stream)]
    for start, end in pairwise(places):
        events += decoder.feed(stream[start:end])
    events += decoder.end()
    assert decoder.error is None
    assert events == [TextDelta(0, "Öne"), TextDelta(0, " sheep"), TextEnd(0), Finished(0, "stop"), Usage(7, 2)]


@pytest.mark.parametrize("stream", [OPENAI, VLLM])
def test_a_stream_that_ends_too_early_is_an_error_after_what_it_has_told(stream):
    decoder = SpeechDecoder(Transcription())
    events = decoder.feed(stream[: stream.index(b"\n\n") + 2]) + decoder.end()
    assert events == [TextDelta(0, "Öne")]
    assert isinstance(decoder.error, EngineGarbled)


def test_whole_answers_are_a_text_or_pass_as_they_are():
    decoder = SpeechDecoder(Transcription())
    assert decoder.whole(b'{"text": "One", "usage": {"type": "duration", "seconds": 3}}') == [
        TextDelta(0, "One"),
        TextEnd(0),
        Finished(0, "stop"),
    ]
    timed = SpeechDecoder(Transcription(format="srt"))
    assert timed.whole(b"1\n00:00") == [OpaqueBlock(0, "transcription", b"1\n00:00"), Finished(0, "stop")]


def test_silence_is_an_empty_text_and_no_error():
    decoder = SpeechDecoder(Transcription())
    assert decoder.whole(b'{"text": ""}') == [Finished(0, "stop")]
    assert decoder.error is None


@pytest.mark.parametrize("format", ["json", "verbose_json", "srt"])
@given(body=st.binary(max_size=60))
def test_any_bytes_are_an_answer_or_an_error(format, body):
    for read in ("whole", "feed"):
        decoder = SpeechDecoder(Transcription(format=format))
        getattr(decoder, read)(body)
        if read == "feed":
            decoder.end()
        assert decoder.done != (decoder.error is not None)


@given(body=st.binary(max_size=200), kind=st.text(max_size=40))
def test_any_form_is_a_request_or_is_refused(body, kind):
    for content_type in (kind, "multipart/form-data; boundary=x"):
        with suppress(SmgError):
            decode_transcription(Incoming(body, request_id="r", headers={"content-type": content_type}))
