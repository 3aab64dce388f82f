"""One choice of a turn: its stages from token ids to events.

Decides what the client sees of it, and in which order: blocks that do not interleave, and how the choice ends. Pure. Above:
`processor`, which has one for each choice. Below: tokenizer, smg_parsers, conformance.
"""

from collections.abc import Sequence

from smg_core.engines.base import EngineLogprob, EngineOutput
from smg_core.errors import EngineFailed, EngineGarbled
from smg_core.events import (
    Annotation,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    ReasoningEnd,
    SampledIds,
    TextDelta,
    TextEnd,
    TokenLogprob,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from smg_core.pipeline.output.echo import readable
from smg_core.pipeline.output.joining import joined_deltas
from smg_core.pipeline.output.plan import OutputPlan
from smg_core.pipeline.output.token_spans import Unread, held_back, take_scores, tokens_covering
from smg_core.pipeline.prompt.conformance import Conformance, Verdict
from smg_core.tokenizer.stream import StopMatcher
from smg_core.tokens import MOST_TOKENS_REPORTED
from smg_parsers import CallArguments, CallEnd, CallStart, Citation, Piece, Reasoning, Text
from smg_parsers.json_text.free_text import FreeTextReader

__all__ = ["TEXT", "ChoiceOutput"]

_NO_FORMAT = Verdict()
_ENDED_EARLY = frozenset({"length", "abort"})
"""How an engine says that it stopped the model before that had come to its end."""
TEXT, _REASONING = -1, -2
"""Values of `ChoiceOutput.block` while text or reasoning is open. While a tool call is open, `block` is its number; else it is
None."""


class ChoiceOutput:
    """The stages of one choice. `first_call` is the number of its first tool call: earlier turns may have had some."""

    __slots__ = (
        "block",
        "calls",
        "conformance",
        "decoder",
        "ending",
        "finished",
        "first_call",
        "free_text",
        "held",
        "ids",
        "index",
        "logprobs",
        "most",
        "parsed",
        "parser",
        "plain",
        "plan",
        "reasoning_tokens",
        "scores",
        "spoke",
        "stopper",
        "text_begins",
        "text_given",
        "thought",
        "tokens",
        "unread",
    )

    def __init__(self, index: int, plan: OutputPlan, first_call: int) -> None:
        self.index = index
        self.plan = plan
        self.first_call = first_call
        self.block: int | None = None
        self.decoder = plan.tokenizer.decoder(skip_special_tokens=plan.skip_special_tokens)
        self.stopper = StopMatcher(plan.stop, plan.include_stop) if plan.stop else None
        self.parser = plan.make_parser() if plan.make_parser is not None else None
        per_token = plan.logprobs or plan.token_ids
        looked_at = plan.stop or plan.hidden_ids or per_token or plan.make_parser or plan.check or plan.echo
        self.plain = not looked_at  # text goes from the decoder to the client unchanged
        # A parser reads the text, and nothing else looks at the tokens.
        self.parsed = self.parser is not None and not (plan.stop or per_token or plan.check or plan.echo)
        self.tokens = 0
        # One more than was asked for may come: an end token that the engine does not count.
        self.most = plan.most_tokens + 1 if plan.most_tokens else MOST_TOKENS_REPORTED
        self.reasoning_tokens = 0
        self.unread: list[Unread] = []  # fed to the parser since its last piece
        self.scores: Sequence[TokenLogprob] = ()  # of the tokens that are fed to the parser next
        self.held = ""  # white space at the start of the content: dropped if only reasoning or calls come beside it
        self.spoke = False
        self.calls = 0
        self.free_text: FreeTextReader | None = None  # reads the open call's arguments, where they hold free text
        self.finished = False
        self.text_given = 0  # characters of text that the parser has returned
        self.text_begins = 0  # how many of them came before the open block: citations count from the answer's start
        self.logprobs: list[TokenLogprob] = []
        self.ids: list[int] = []  # not told yet, where they are asked for
        self.conformance = None if plan.check is None else Conformance(plan.check, plan.on_violation)
        self.thought: list[str] | None = None if plan.seal is None else []  # the open reasoning, to be sealed
        self.ending = Finished(index, "error")  # replaced by `_finish`

    def feed(self, output: EngineOutput, events: list[Event]) -> None:
        """Take new tokens; appends the events that follow from them."""
        ids = output.ids
        self.tokens += len(ids)
        if self.tokens > self.most:  # it would perhaps never end
            raise EngineGarbled(f"The engine sent {self.tokens} tokens where {self.plan.most_tokens} were asked for.")
        if not self.plan.hidden_ids.isdisjoint(ids):
            ids = [each for each in ids if each not in self.plan.hidden_ids]
        if self.plan.logprobs:
            self._note_logprobs(output.logprobs)
        if self.plan.token_ids and output.ids:
            self._note_ids(output.ids, events)
        if self.parser is None or len(ids) < 2:
            self._take(self.decoder.feed(ids) if ids else "", len(ids), output, events)
            return
        start = len(events)
        if self.stopper is None:
            texts = self.decoder.feed_each(ids)
            # An end token: it is counted only where it completes a character.
            silent = output.finish is not None and not texts[-1]
            runs = self._read_runs(texts[:-1] if silent else texts, events)
            if output.finish is not None:
                self._take("", int(silent), output, events)
            if runs == 1:
                return
        else:
            last = self._all_but_last(self.stopper, ids, output, events)
            if not self.finished:
                self._take(self.decoder.feed(last), len(last), output, events)
        events[start:] = joined_deltas(events[start:])

    def take_one(self, ids: Sequence[int], events: list[Event]) -> None:
        """Take one new token that is not the last, where a parser alone reads the text: as `feed` does, by fewer calls."""
        self.tokens += 1
        if ids[0] in self.plan.hidden_ids:
            ids = ()
        text = self.decoder.feed(ids)
        if not text or self.parser is None:
            self.unread.append((text, len(ids), ()))
            return
        kind = self.parser.plain(text)
        if kind is Text and self.block == TEXT and self.spoke:
            self.text_given += len(text)
            self.unread.clear()
            events.append(TextDelta(self.index, text))
        elif kind is Reasoning and self.block == _REASONING and self.thought is None and not self.unread:
            self.reasoning_tokens += len(ids)
            events.append(ReasoningDelta(self.index, text))
        else:
            self.unread.append((text, len(ids), ()))
            self._pieces(self.parser.feed(text) if kind is None else (kind(text),), events)

    def _take(self, text: str, tokens: int, output: EngineOutput, events: list[Event]) -> None:
        """Take the text of the last tokens of an output, and its finish."""
        matched = None
        if self.stopper is not None:
            text, matched = self.stopper.feed(text)
        if matched is None and (output.finish is None or output.finish == "error"):
            if text or self.parser is not None:
                self._emit(text, tokens, events)
            if output.finish is not None:
                raise EngineFailed("The engine failed while generating.")
            return
        if matched is None:
            text, matched = self._flush(text)
        if text:
            self._emit(text, tokens, events)
        self._finish(output, matched, events)

    def _all_but_last(
        self, stopper: StopMatcher, ids: Sequence[int], output: EngineOutput, events: list[Event]
    ) -> Sequence[int]:
        """Read all ids but the last one by one, so that the count of reasoning tokens does not depend on how tokens arrived;
        returns the last. A stop string in them finishes the choice."""
        for each in ids[:-1]:
            text, matched = stopper.feed(self.decoder.feed((each,)))
            self._emit(text, 1, events)
            if matched is not None:
                self._finish(output, matched, events)
                break
        return ids[-1:]

    def _read_runs(self, texts: Sequence[str], events: list[Event]) -> int:
        """Read the texts of tokens with the same outcome as one by one, but a run of them at once where that is certainly one
        piece; returns how many runs there were. How long one may be is tried: shorter after a marker was found in it, longer
        again behind it."""
        parser, at, size, runs = self.parser, 0, len(texts), 0
        while parser is not None and at < len(texts):
            run = texts[at : at + size]
            while (
                len(run) > 1 and not run[-1]
            ):  # a token without text belongs to the character that the next one completes
                run = run[:-1]
            text = "".join(run)
            if (kind := parser.plain(text)) is None and len(run) > 1:
                size = len(run) // 4 or 1
                continue
            self.unread.append((text, len(run), ()))
            if kind is not None:
                self._pieces((kind(text),), events)
                size *= 2
            elif text:
                self._pieces(parser.feed(text), events)
            at += len(run)
            runs += 1
        return runs

    def _flush(self, text: str) -> tuple[str, str | None]:
        """The rest of the text, once no more ids can come."""
        tail, matched = self.decoder.finish(), None
        if self.stopper is None:
            return text + tail, None
        if tail:
            tail, matched = self.stopper.feed(tail)
        return text + tail + ("" if matched is not None else self.stopper.finish()), matched

    def _emit(self, text: str, tokens: int, events: list[Event]) -> None:
        if self.parser is None:
            self._visible(text, events)
            return
        self.unread.append((text, tokens, self.scores))
        self.scores = ()
        if text:
            kind = self.parser.plain(text)
            self._pieces(self.parser.feed(text) if kind is None else (kind(text),), events)

    def _open(self, block: int, events: list[Event]) -> None:
        """Close the block that is open and open another: blocks of a choice do not interleave."""
        if self.block is not None:
            self.close(events)
        self.block = block

    def repeat(self, text: str, logprobs: tuple[TokenLogprob, ...], events: list[Event]) -> None:
        """Put a part of the prompt before the text."""
        if text or logprobs:
            if self.block != TEXT:
                self._open(TEXT, events)
            events.append(TextDelta(self.index, text, logprobs, echo=True))

    def end_after_echo(self, events: list[Event]) -> None:
        """End the choice: the echo is all of it."""
        self.close(events)
        self.finished = True
        self.ending = Finished(self.index, "length")

    def close(self, events: list[Event], *, valid: bool = False, repaired: bool = False) -> None:
        """End the block that is open, if one is. A call that is closed without `valid` was cut off."""
        block, self.block = self.block, None
        if block is None:
            return
        if block == TEXT:
            events.append(TextEnd(self.index))
        elif block == _REASONING:
            events.append(ReasoningEnd(self.index, self._seal()))
        else:
            if self.free_text is not None and (rest := self.free_text.finish()):
                events.append(ToolCallDelta(self.index, block, rest))
            events.append(ToolCallEnd(self.index, block, valid, repaired))

    @property
    def reasons(self) -> bool:
        """Whether reasoning is open."""
        return self.block == _REASONING

    def end_held(self, events: list[Event]) -> None:
        """Read what is held back while reasoning is open: it begins no stop string, and no character is completed any more."""
        if self.stopper is not None and (held := self.stopper.finish()):
            self._emit(held, 0, events)
        if self.reasons and (tail := self.decoder.finish()):
            self._emit(tail, 0, events)

    def end_reasoning(self, marker: str, ids: Sequence[int]) -> list[Event]:
        """Close the open reasoning, of which nothing is held, with the family's marker (of these ids): the model wrote none."""
        events: list[Event] = []
        self.decoder.feed(ids)  # what follows stands behind them
        if self.plan.token_ids:
            self._note_ids(ids, events)
        if self.parser is not None:
            self._pieces(self.parser.feed(marker), events)
        self.unread.clear()
        if self.reasons:
            self.close(events)
        return events

    def _seal(self) -> bytes | None:
        """The seal of the reasoning that ends."""
        if self.thought is None or self.plan.seal is None:
            return None
        text = "".join(self.thought)
        self.thought.clear()
        return self.plan.seal(text)

    def _spoken(self, text: str, events: list[Event]) -> None:
        """Take content from the parser; white space at its start is held until other content comes."""
        if not self.spoke:
            text = self.held + text
            if not text or text.isspace():
                self.held = text
                return
            held, self.spoke, self.held = len(self.held), True, ""
            self.text_given -= held  # it is part of the block that opens now
        else:
            held = 0
        if self.conformance is None:
            self._say(text, events)
        else:
            self._visible(text, events)
        self.text_given += held

    def _visible(self, text: str, events: list[Event]) -> None:
        if self.conformance is None or (text := self.conformance.feed(text)):
            self._say(text, events)

    def _say(self, text: str, events: list[Event]) -> None:
        if self.block != TEXT:
            self._open(TEXT, events)
            self.text_begins = self.text_given
        if self.logprobs or self.ids:
            events.append(TextDelta(self.index, text, tuple(self.logprobs), tuple(self.ids)))
            self.logprobs.clear()
            self.ids.clear()
        else:
            events.append(TextDelta(self.index, text))

    def _pieces(self, pieces: Sequence[Piece], events: list[Event]) -> None:
        if not pieces:
            return
        thought = 0
        for place, piece in enumerate(pieces):
            if isinstance(piece, Text):
                if self.plan.logprobs:
                    self.logprobs += take_scores(self.unread, piece.text, self._behind(pieces[place + 1 :]))
                self._spoken(piece.text, events)
                self.text_given += len(piece.text)
            elif isinstance(piece, Reasoning):
                thought += len(piece.text)
                if self.block != _REASONING:
                    self._open(_REASONING, events)
                events.append(ReasoningDelta(self.index, piece.text))
                if self.thought is not None:
                    self.thought.append(piece.text)
            elif isinstance(piece, Citation):
                self._cite(piece, events)
            else:
                self._call_piece(piece, events)
        if thought:
            self.reasoning_tokens += tokens_covering(self.unread, thought)
        if self.plan.logprobs:
            self.unread = held_back(self.unread, self._behind(()))
        else:
            self.unread.clear()

    def _behind(self, later: Sequence[Piece]) -> int:
        """How many characters that the parser has read stand behind a piece: those of `later` pieces, and those it holds."""
        held = self.parser.waiting if self.parser is not None else 0
        return held + sum([len(piece.text) for piece in later if isinstance(piece, Text | Reasoning)])

    def _cite(self, citation: Citation, events: list[Event]) -> None:
        """Append one annotation for each source, if the open text block has the cited words."""
        start, end = citation.start - self.text_begins, citation.end - self.text_begins
        if self.block == TEXT and start >= 0:
            events.extend(Annotation(self.index, "document", start, end, source) for source in citation.sources)

    def _call_piece(self, piece: CallStart | CallArguments | CallEnd, events: list[Event]) -> None:
        if self.plan.single_call and piece.index:
            return
        call = self.first_call + piece.index
        if isinstance(piece, CallStart):
            self.calls += 1
            self._open(call, events)
            custom = piece.name in self.plan.free_text
            self.free_text = FreeTextReader() if custom else None
            events.append(ToolCallStart(self.index, call, piece.id, piece.name, custom=custom))
        elif isinstance(piece, CallArguments):
            if text := piece.delta if self.free_text is None else self.free_text.feed(piece.delta):
                events.append(ToolCallDelta(self.index, call, text))
        else:
            self.close(events, valid=True, repaired=piece.repaired)

    def _note_ids(self, ids: Sequence[int], events: list[Event]) -> None:
        """Tell the ids with the text that they become, or ahead of what a parser makes of them."""
        if self.parser is None:
            self.ids += ids
        else:
            events.append(SampledIds(self.index, tuple(ids)))

    def _note_logprobs(self, logprobs: Sequence[EngineLogprob]) -> None:
        """Tell the logprobs with the text that comes next, or with that which a parser finds their tokens to have written."""
        scores = [readable(each, self.plan.tokenizer) for each in logprobs]
        if self.parser is None:
            self.logprobs += scores
        else:
            self.scores = scores

    def _finish(self, output: EngineOutput, matched: str | None, events: list[Event]) -> None:
        stop = output.matched if matched is None else matched
        # A string of the client's is the family's own end of a call only where the model has written that call to its end.
        closes = stop in self.plan.call_ends and self.parser is not None and self.parser.call_over
        stopped = stop in self.plan.stop and not closes
        cut = self.block is not None and (self.block >= 0 or output.finish == "length")
        if self.parser is not None:
            pieces = self.parser.finish(cut_off=stopped or output.finish in _ENDED_EARLY)
            if stopped:  # what the parser would complete now the model has not: no client may run it
                pieces = [] if cut else [each for each in pieces if isinstance(each, Text | Reasoning | Citation)]
            if pieces:
                self._pieces(pieces, events)
            if self.held and not self.calls and not self.reasoning_tokens:
                self._visible(self.held, events)
        reason: FinishReason = "stop" if matched is not None or output.finish is None else output.finish
        verdict = _NO_FORMAT
        if self.conformance is not None:
            verdict = self._judge(self.conformance, reason, events)
        if self.ids:
            self._say("", events)
        if not stopped:
            cut = self.block is not None and (self.block >= 0 or output.finish == "length")
        self.close(events)
        self.finished = True
        if reason == "stop" and self.calls and not stopped:
            reason = "tool_calls"
        self.ending = Finished(self.index, reason, stop, cut, verdict.violation, verdict.mended)

    def _judge(self, conformance: Conformance, reason: FinishReason, events: list[Event]) -> Verdict:
        """The verdict on the complete text; text that was held back is passed on."""
        verdict = conformance.finish(reason, calls=self.calls > 0)
        if verdict.rest:
            self._say(verdict.rest, events)
        return verdict
