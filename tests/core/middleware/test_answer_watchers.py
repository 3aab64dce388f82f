"""What plugins leave of what a model says: texts in any pieces, and events."""

import asyncio
import importlib.util
import re
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.event_grammar import check

from smg_core.errors import InternalError, PermissionDenied
from smg_core.events import (
    Annotation,
    Done,
    Event,
    Finished,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    Started,
    TextDelta,
    TextEnd,
    TokenLogprob,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from smg_core.middleware.answer_watchers import AnswerWatchers
from smg_core.middleware.base import (
    CONTINUE,
    About,
    AnswerPiece,
    ChangeText,
    EventVerdict,
    PieceVerdict,
    Reject,
    RequestHead,
)
from smg_core.middleware.chain import Happened, PluginChain
from smg_core.middleware.entries import Entry, Link
from smg_core.middleware.plan import PluginPlan
from smg_core.middleware.python import PythonPlugin, python_middleware

HERE = "tests.core.middleware.test_answer_watchers"
EXAMPLE = Path(__file__).parents[3] / "examples" / "plugins" / "redaction" / "redact_numbers.py"
_found = importlib.util.spec_from_file_location("redact_numbers", EXAMPLE)
assert _found is not None
assert _found.loader is not None
redact_numbers = importlib.util.module_from_spec(_found)
_found.loader.exec_module(redact_numbers)
RedactNumbers = redact_numbers.RedactNumbers
ABOUT = About("req-1", "POST", "/v1/chat/completions", "/v1/chat/completions")
STARTED = Started(3, None, "m")
USAGE = Usage(3, 3)


class Texts(PythonPlugin):
    """Does with texts what its class says: `does` maps a piece to a verdict."""

    pieces = "text"
    waits = False

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict | Awaitable[PieceVerdict]:
        verdict = self.does(piece)
        return self._later(verdict) if self.waits else verdict

    async def _later(self, verdict: PieceVerdict) -> PieceVerdict:
        await asyncio.sleep(0)
        return verdict

    def does(self, piece: AnswerPiece) -> PieceVerdict:
        return CONTINUE


class Upper(Texts):
    waits = True

    def does(self, piece: AnswerPiece) -> PieceVerdict:
        return ChangeText(piece.text.upper())


class Swallow(Texts):
    def does(self, piece: AnswerPiece) -> PieceVerdict:
        return ChangeText("")


class Late(Texts):
    """Says all of a text at its end."""

    def __init__(self, about: About, shared: Any) -> None:
        super().__init__(about, shared)
        self.held: dict[int, str] = {}

    def does(self, piece: AnswerPiece) -> PieceVerdict:
        held = self.held[piece.choice] = self.held.get(piece.choice, "") + piece.text
        return ChangeText(self.held.pop(piece.choice) if piece.last else "") if held or piece.last else CONTINUE


class Refuses(Texts):
    def does(self, piece: AnswerPiece) -> PieceVerdict:
        return Reject(403, "Not this.") if "x" in piece.text else CONTINUE


class Events(PythonPlugin):
    does: Any = None

    def on_event(self, event: Event) -> EventVerdict:
        verdict: EventVerdict = type(self).does(event)
        return verdict


def chain_of(*plugins: type[PythonPlugin], open_: bool = False, reports: list[Happened] | None = None) -> PluginChain:
    links = []
    for number, plugin in enumerate(plugins):
        module = "redact_numbers" if plugin is RedactNumbers else HERE
        entry = Entry(f"{module}:{plugin.__name__}", f"p{number}", on_failure="open" if open_ else "closed")
        links.append(Link(entry, _made(plugin, entry)))
    told: list[Happened] = [] if reports is None else reports
    chain = PluginPlan(tuple(links)).chain(ABOUT, told.append)
    assert chain is not None
    asyncio.run(chain.request_head(RequestHead("POST", "/", "", ()), "after_identity", ABOUT))
    return chain


def _made(plugin: type[PythonPlugin], entry: Entry) -> Any:
    from smg_core.middleware import python

    return python._made(entry, plugin)


def left(chain: PluginChain, *batches: Sequence[Event]) -> list[Event]:
    said = AnswerWatchers(chain)

    async def shown() -> list[Event]:
        found: list[Event] = []
        for batch in batches:
            found += await said(batch)
        return found

    return asyncio.run(shown())


def texts(events: Sequence[Event]) -> str:
    return "".join([each.text for each in events if isinstance(each, TextDelta)])


def answer(*pieces: str) -> list[Event]:
    return [STARTED, *[TextDelta(0, each) for each in pieces], TextEnd(0), Finished(0, "stop"), USAGE, Done()]


def test_a_number_that_is_cut_over_three_pieces_is_found() -> None:
    events = answer("Call 555", " 01", "00 now, not 12")
    found = left(chain_of(RedactNumbers), *[[each] for each in events])

    assert texts(found) == "Call [number] now, not 12"
    check(found)


@given(st.text(alphabet="0123456789 -.ab,(", max_size=60), st.data())
def test_however_a_text_is_cut_the_same_is_left_of_it(text: str, data: st.DataObject) -> None:
    whole = texts(left(chain_of(RedactNumbers), answer(text)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    events = answer(*pieces)
    found = left(chain_of(RedactNumbers), *[[each] for each in events])

    assert texts(found) == whole
    runs = re.findall(r"[0-9][0-9 .()-]*", texts(found).replace("[number]", "x"))
    assert all(len(run) > 64 or sum(each.isdigit() for each in run) < 7 for run in runs)


def test_text_reasoning_and_arguments_are_shown_as_what_they_are_and_what_was_held_back_comes_at_their_end() -> None:
    events: list[Event] = [
        STARTED,
        ReasoningDelta(0, "a 555"),
        ReasoningDelta(0, "0100"),
        ReasoningEnd(0, b"seal"),
        RefusalDelta(0, "no 5550"),
        RefusalDelta(0, "100"),
        TextEnd(0),
        ToolCallStart(0, 0, "c", "call"),
        ToolCallDelta(0, 0, '{"to": 555'),
        ToolCallDelta(0, 0, "0100}"),
        ToolCallEnd(0, 0),
        Finished(0, "tool_calls"),
        USAGE,
        Done(),
    ]
    found = left(chain_of(RedactNumbers), *[[each] for each in events])

    assert "".join([each.text for each in found if isinstance(each, ReasoningDelta)]) == "a [number]"
    assert "".join([each.text for each in found if isinstance(each, RefusalDelta)]) == "no [number]"
    assert "".join([each.arguments for each in found if isinstance(each, ToolCallDelta)]) == '{"to": 9999999}'
    assert ToolCallEnd(0, 0) in found
    check(found)


@pytest.mark.parametrize("plugins", [(Upper,), (Late,), (Late, Upper), (Upper, Late, RedactNumbers)])
def test_plugins_that_wait_or_hold_back_leave_an_order_that_encoders_can_read(
    plugins: tuple[type[PythonPlugin], ...],
) -> None:
    two: list[Event] = [TextDelta(0, "a"), TextDelta(1, "b"), TextDelta(0, "c"), TextEnd(1), TextEnd(0)]
    events: list[Event] = [STARTED, *two, Finished(1, "stop"), Finished(0, "stop"), USAGE, Done()]
    found = left(chain_of(*plugins), *[[each] for each in events])

    check(found)
    said = {
        index: "".join([e.text for e in found if isinstance(e, TextDelta) and e.index == index]) for index in (0, 1)
    }
    assert [said[0].lower(), said[1].lower()] == ["ac", "b"]
    assert said[0] == ("AC" if Upper in plugins else "ac")


def test_a_block_of_which_nothing_is_left_is_not_there() -> None:
    found = left(chain_of(Swallow), answer("a", "b"))
    assert found == [STARTED, Finished(0, "stop"), USAGE, Done()]


def test_a_changed_text_loses_what_still_tells_the_old_one() -> None:
    logprobs = (TokenLogprob("5550100", b"5550100", -1.0),)
    events: list[Event] = [
        STARTED,
        TextDelta(0, "Hi", (TokenLogprob("Hi", b"Hi", -1.0),), (7,)),
        TextDelta(0, " 5550100", logprobs, (8,)),
        TextDelta(0, "", logprobs, (9,)),
        Annotation(0, "url", 0, 3, "https://x", quote="5550100"),
        TextEnd(0),
        Finished(0, "stop"),
        USAGE,
        Done(),
    ]
    found = left(chain_of(RedactNumbers), events)

    assert "5550100" not in repr(found)
    assert found[1] == events[1]
    check(found)


def test_arguments_that_are_no_json_any_more_are_said_to_be_invalid() -> None:
    events: list[Event] = [
        STARTED,
        ToolCallStart(0, 0, "c", "f"),
        ToolCallDelta(0, 0, '{"a": true}'),
        ToolCallEnd(0, 0),
        Finished(0, "tool_calls"),
        USAGE,
        Done(),
    ]
    found = left(chain_of(Upper), events)
    assert ToolCallEnd(0, 0, valid=False) in found
    assert left(chain_of(Texts), events) == events


def test_a_refusal_of_a_text_is_raised_and_a_failure_counts_as_the_entry_says() -> None:
    with pytest.raises(PermissionDenied, match="Not this"):
        left(chain_of(Refuses), answer("a", "x"))


def plugin_of_events(does: Any) -> type[PythonPlugin]:
    return type("Events", (Events,), {"does": staticmethod(does)})


def test_a_plugin_changes_drops_and_adds_events() -> None:
    def does(event: Event) -> EventVerdict:
        if isinstance(event, ReasoningDelta | ReasoningEnd):
            return ()
        if isinstance(event, TextEnd):
            return (TextDelta(0, " By a model."), event)
        return CONTINUE

    thought: list[Event] = [ReasoningDelta(0, "hm"), ReasoningEnd(0)]
    found = left(chain_of(plugin_of_events(does)), [STARTED, *thought, *answer("Hi")[1:]])
    assert found == answer("Hi", " By a model.")


def _number_wrong(event: Event) -> EventVerdict:
    return (ToolCallStart(0, 3, "c", "f"),) if isinstance(event, TextDelta) else CONTINUE


WRONG: dict[str, tuple[Any, str]] = {
    "drops the usage": (lambda event: () if isinstance(event, Usage) else CONTINUE, "of the whole response"),
    "changes the start": (
        lambda event: (Started(9, None, "other"),) if isinstance(event, Started) else CONTINUE,
        "of the whole response",
    ),
    "ends the answer": (
        lambda event: (Done(),) if isinstance(event, TextDelta) else CONTINUE,
        "which is the gateway's",
    ),
    "numbers a call": (_number_wrong, "numbers a call 3 that is 0"),
    "answers a list": (lambda event: [event], "answered list to event"),
    "answers nothing": (lambda event: None, "answered NoneType to event"),
    "raises": (lambda event: 1 // 0, "ZeroDivisionError"),
}


@pytest.mark.parametrize("what", WRONG)
def test_events_that_break_the_order_are_a_failure_of_the_plugin(what: str) -> None:
    does, why = WRONG[what]
    with pytest.raises(InternalError) as failed:
        left(chain_of(plugin_of_events(does)), answer("Hi"))
    assert why in (failed.value.detail or "")

    reports: list[Happened] = []
    assert left(chain_of(plugin_of_events(does), open_=True, reports=reports), answer("Hi")) == answer("Hi")
    assert [each.outcome for each in reports] == ["failed"]


@pytest.mark.parametrize("open_", [False, True])
@pytest.mark.parametrize("dropped", [TextDelta, TextEnd])
def test_a_block_that_a_plugin_has_broken_ends_the_answer_also_where_it_may_fail(dropped: Any, open_: bool) -> None:
    does = plugin_of_events(lambda event: () if isinstance(event, dropped) else CONTINUE)
    with pytest.raises(InternalError) as failed:
        left(chain_of(does, open_=open_), answer("Hi"))
    assert "where it may not come" in (failed.value.detail or "")


def test_hooks_for_tokens_are_plain_functions_and_pieces_have_a_kind() -> None:
    from smg_core.settings import ConfigError

    waiting = type("Waiting", (PythonPlugin,), {"on_event": _waits})
    odd = type("Odd", (PythonPlugin,), {"pieces": "words", "on_piece": lambda self, piece: CONTINUE})
    for plugin, why in ((waiting, "write def on_event"), (odd, "expected wire or text")):
        with pytest.raises(ConfigError, match=why):
            _made(plugin, Entry("x:y", "p"))
    assert python_middleware(Entry(f"{HERE}:Upper", "p")).pieces == "text"


async def _waits(self: object, event: Event) -> EventVerdict:
    return CONTINUE
