"""Answers of Completions: a stream says the same as the whole answer, whatever the events are and however they come."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.completions.decode import CompletionRequest
from smg_core.apis.completions.encode import CompletionStreamEncoder, CompletionWholeEncoder
from smg_core.events import Done, Event, Finished, Started, TextDelta, TextEnd, TokenLogprob, TopLogprob, Usage
from smg_core.request import GenerationRequest, Sampling
from smg_core.sse import SseReader

CHOICES = 2
LOGPROBS = st.one_of(st.none(), st.floats(-30, 0), st.just(float("-inf")))


@st.composite
def tokens(draw: st.DrawFn) -> TokenLogprob:
    raw = draw(st.binary(min_size=1, max_size=3) | st.text(min_size=1, max_size=2).map(str.encode))
    tops = draw(st.lists(st.text(max_size=2), max_size=2))
    top = tuple(TopLogprob(each, each.encode(), -1.0, 5) for each in tops)
    return TokenLogprob(raw.decode("utf-8", "replace"), raw, draw(LOGPROBS), top, id=3)


@st.composite
def choices(draw: st.DrawFn, index: int, *, scored: bool, echo: bool) -> list[Event]:
    def deltas(most: int, *, echo: bool) -> list[Event]:
        texts = draw(st.lists(st.text(max_size=6), max_size=most))
        rows = st.lists(tokens(), min_size=1, max_size=3).map(tuple) if scored else st.just(())
        return [TextDelta(index, text, draw(rows), echo=echo) for text in texts]

    reason = draw(st.sampled_from(["stop", "length", "context", "content_filter", "abort"]))
    prompt = deltas(3, echo=True) if echo else []
    return [*prompt, *deltas(4, echo=False), TextEnd(index), Finished(index, reason, draw(st.none() | st.just("END")))]


@st.composite
def responses(draw: st.DrawFn) -> tuple[CompletionRequest, list[Event]]:
    scored, echo = draw(st.booleans()), draw(st.booleans())
    sampling = Sampling(n=CHOICES, echo=echo, logprobs=1 if scored else None)
    generation = GenerationRequest(id="cmpl-1", model="m", prompt="so ", sampling=sampling)
    request = CompletionRequest((generation,), CHOICES, 1 if scored else None, include_usage=draw(st.booleans()))
    waiting = [draw(choices(index, scored=scored, echo=echo)) for index in range(CHOICES)]
    mixed: list[Event] = []
    while any(waiting):
        mixed.append(draw(st.sampled_from([each for each in waiting if each])).pop(0))
    return request, [Started(3, None, "m"), *mixed, Usage(3, draw(st.integers(0, 9))), Done()]


def joined(data: bytes) -> dict[str, Any]:
    """What a client makes of a stream."""
    *events, last = SseReader().feed(data)
    assert last.data == "[DONE]"
    found: dict[str, Any] = {}
    made: dict[int, dict[str, Any]] = {}
    for chunk in [json.loads(event.data) for event in events]:
        found |= {name: value for name, value in chunk.items() if name != "choices" and value is not None}
        for part in chunk["choices"]:
            choice = made.setdefault(part["index"], {"index": part["index"], "text": "", "logprobs": None})
            assert "stop_reason" not in choice
            choice["text"] += part["text"]
            if part["logprobs"] is not None:
                lists = choice["logprobs"] = choice["logprobs"] or {name: [] for name in part["logprobs"]}
                for name, each in part["logprobs"].items():
                    lists[name] += each
            choice |= {name: part[name] for name in ("finish_reason", "stop_reason") if name in part}
    return found | {"choices": [made[index] for index in sorted(made)]}


@given(responses(), st.data())
def test_a_stream_says_what_the_whole_answer_says(
    response: tuple[CompletionRequest, list[Event]], data: st.DataObject
) -> None:
    request, events = response
    whole, stream = CompletionWholeEncoder(request, 1), CompletionStreamEncoder(request, 1)
    written, left = stream.start(), events
    while left:
        size = data.draw(st.integers(1, len(left)))
        written += stream.encode(left[:size])
        whole.add(left[:size])
        whole, left = (whole.fork() if data.draw(st.booleans()) else whole), left[size:]
    told, said = joined(written), json.loads(whole.body())

    assert told["object"] == said["object"] == "text_completion"
    for choice in said["choices"]:
        if choice["logprobs"] == {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}:
            choice["logprobs"] = None  # a stream has no chunk for no tokens
    assert told["choices"] == said["choices"]
    if request.include_usage:
        assert told["usage"] == said["usage"]
