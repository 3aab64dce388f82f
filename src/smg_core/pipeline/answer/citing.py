"""Takes the marks of sources out of an answer, and tells where they stood.

A mark is 【, one or more numbers of sources, 】: 【2】, 【1,3】; what some families write behind a dagger within it (【2†L1】) is
passed over. A mark that is cut between two pieces of an answer is held until it is whole or can be none, at most `LONGEST`
characters of it; everything else goes on at once. A mark of a number that no source has is text.

What is cited is the sentence before the mark: from where the last sentence or line ended, or the mark before. Several marks
side by side cite the same. Pure. Above: pipeline.calls. Below: events, sources.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from smg_core.events import Annotation, Event, SampledIds, TextDelta, TokenLogprob
from smg_core.pipeline.answer.attempt import EventReceiver
from smg_core.sources import CitableSource

__all__ = ["LONGEST", "Citing"]

LONGEST = 64
"""Characters of the longest mark. What is longer is text."""
_DIGITS = 5  # of one number
_STOPS = frozenset(".!?")  # end a sentence where a space follows
_ENDS = frozenset("\n。！？")
_CLOSING = frozenset(".,;:!?。，；：！？)]}\"'")  # begin no sentence
_WITHIN_NUMBERS = frozenset(",， ")


class Citing:
    """Passes a turn's events on to a receiver, annotations in place of marks."""

    def __init__(self, sources: Sequence[CitableSource], receiver: EventReceiver) -> None:
        self._receiver = receiver
        self._sources = sources
        self._texts: dict[int, _OpenText] = {}

    def onto(self, receiver: EventReceiver) -> "Citing":
        """The same, on to another receiver: for a call that goes on with the turn."""
        self._receiver = receiver
        return self

    def take(self, events: Sequence[Event], over: bool) -> None:
        if len(events) == 1 and type(event := events[0]) is TextDelta and "【" not in event.text:
            text = self._texts.get(event.index)
            if text is not None and not text.held:  # one more token
                text.hear(event.text)
                self._receiver.take(events, over)
                return
        passed: list[Event] = []
        for event in events:
            self._event(event, passed)
        self._receiver.take(passed, over)

    def _event(self, event: Event, passed: list[Event]) -> None:
        if type(event) is TextDelta:
            text = self._texts.get(event.index)
            if text is None:
                text = self._texts[event.index] = _OpenText(event.index)
            text.take(event, self._sources, passed)
            return
        if self._texts and not isinstance(event, SampledIds | Annotation):
            text = self._texts.pop(getattr(event, "index", -1), None)
            if text is not None and text.held:
                text.let_go(passed)
        passed.append(event)


class _OpenText:
    """The open text of a choice: how much of it has gone on, where its last sentences began, and what is held of a mark."""

    def __init__(self, index: int) -> None:
        self.held = ""
        self._index = index
        self._logprobs: tuple[TokenLogprob, ...] = ()
        self._ids: tuple[int, ...] = ()
        self._length = 0
        self._last = ""  # character
        self._solid = 0  # where the last character ends that is no space
        self._claim: int | None = None  # where the sentence under way began
        self._earlier = 0  # where the one before began

    def take(self, event: TextDelta, sources: Sequence[CitableSource], passed: list[Event]) -> None:
        """More text, as it came from the model."""
        self._logprobs += event.logprobs
        self._ids += event.ids
        text, self.held = self.held + event.text, ""
        while True:
            before, opening, rest = text.partition("【")
            self._say(before, event, passed)
            if not opening:
                break
            text = opening + rest
            found = _mark(text)
            if found is None:
                self.held = text
                break
            length, numbers = found
            if numbers and all(0 < number <= len(sources) for number in numbers):
                passed += self._cited([(number, sources[number - 1]) for number in dict.fromkeys(numbers)])
                text = text[length:]
            else:
                self._say(opening, event, passed)
                text = rest
        if (self._logprobs or self._ids) and not self.held:
            self._say("", event, passed, bare=True)

    def let_go(self, passed: list[Event]) -> None:
        """The text has ended, so that what is held is none of a mark."""
        text, self.held = self.held, ""
        self._say(text, TextDelta(self._index, ""), passed, bare=True)

    def hear(self, text: str) -> None:
        """Note where sentences begin and end in text that goes on."""
        last, claim = self._last, self._claim
        for place, char in enumerate(text, self._length):
            space = char.isspace()
            if not space:
                self._solid = place + 1
                if claim is None and char not in _CLOSING:
                    claim = place
            if claim is not None and (char in _ENDS or (space and last in _STOPS)):
                self._earlier, claim = claim, None
            last = char
        self._last, self._claim = last, claim
        self._length += len(text)

    def _say(self, text: str, event: TextDelta, passed: list[Event], *, bare: bool = False) -> None:
        if text or bare:
            passed.append(replace(event, text=text, logprobs=self._logprobs, ids=self._ids))
            self._logprobs, self._ids = (), ()
            self.hear(text)

    def _cited(self, cited: Sequence[tuple[int, CitableSource]]) -> list[Event]:
        if self._claim is not None:
            self._earlier, self._claim = self._claim, None
        start, end = self._earlier, self._solid
        return [
            Annotation(self._index, source.kind, start, end, source.id, source.title, source.quote, number - 1)
            for number, source in cited
        ]


def _mark(text: str) -> tuple[int, list[int]] | None:
    """The length and the numbers of the mark that `text` begins with; no numbers where it begins with none, and None where more
    text may make it one."""
    numbers: list[int] = []
    digits, noted = "", False
    for place in range(1, min(len(text), LONGEST)):
        char = text[place]
        if char == "】" and (digits or noted):
            return place + 1, [*numbers, int(digits)] if digits else numbers
        if noted:
            if char in "【\n":
                return 0, []
        elif char.isascii() and char.isdigit():
            digits += char
            if len(digits) > _DIGITS:
                return 0, []
        elif char == "†" and digits:
            numbers.append(int(digits))
            digits, noted = "", True
        elif char in _WITHIN_NUMBERS and (digits or numbers):
            numbers += [int(digits)] if digits else []
            digits = ""
        else:
            return 0, []
    return None if len(text) < LONGEST else (0, [])
