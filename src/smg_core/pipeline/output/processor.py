"""From engine output to events: decode, match stop strings, parse reasoning and tool calls, count.

`OutputProcessor.feed` is the hottest path of the project: it is called for each read of an engine's stream, and runs every stage
as a plain call. It decides what the client sees and in which order: the blocks and the `Finished` of each choice, in the grammar
of events.py. It does not end the response (`Usage`, `Done`, `Failed`), which may need several turns, and does not know how events
are encoded, who sends them, or which engine made the tokens. One processor reads one turn; a second engine call may continue it
(`resume`). Pure. Above: pipeline.answer.attempt. Below: tokenizer, smg_parsers, conformance, echo.
"""

from array import array
from collections.abc import Sequence

from smg_core.engines.base import EngineOutput
from smg_core.errors import EngineGarbled, ReadingFailed, SmgError
from smg_core.events import (
    Event,
    Finished,
    TextDelta,
    Usage,
)
from smg_core.pipeline.output.choice import TEXT, ChoiceOutput
from smg_core.pipeline.output.echo import EchoReader
from smg_core.pipeline.output.joining import one_by_one
from smg_core.pipeline.output.kept_ids import KeptIds
from smg_core.pipeline.output.plan import OutputPlan
from smg_core.pipeline.output.token_id_lookup import with_all_ids
from smg_core.tokens import reported_count

__all__ = ["OutputProcessor"]


_SPEAK = (__package__ or "", "smg_core.pipeline.prompt.conformance")
"""The modules that say what is wrong with an engine's output."""
_RECENT = 64  # ids that wait until they are kept together, 4 bytes each


class OutputProcessor:
    """All choices of one turn. `done`: every choice is finished. `engine_done`: the engine has finished all its choices too; a
    stop string that is found here finishes a choice earlier. `first_call`: the number of the turn's first tool call. `keep_ids`:
    keep the ids of each of the engine's choices, so that another engine call can continue the turn."""

    __slots__ = (
        "_alone",
        "_choices",
        "_echo",
        "_engine_open",
        "_engine_reasoning",
        "_kept",
        "_open",
        "_per_token",
        "_plan",
        "_recent",
        "_resumed",
        "cached_tokens",
        "cut_short",
        "done",
        "finishes",
        "prompt_tokens",
        "rest",
        "strict",
    )

    def __init__(self, plan: OutputPlan, first_call: int = 0, *, keep_ids: bool = False) -> None:
        self._plan = plan
        self.strict: frozenset[str] | None = plan.strict
        engine_choices = plan.choices // plan.copies
        self._kept = KeptIds(engine_choices) if keep_ids else None
        self._choices = [ChoiceOutput(0, plan, first_call)]
        if plan.choices > 1:
            self._choices += [ChoiceOutput(index, plan, first_call) for index in range(1, plan.choices)]
        self._echo = EchoReader(plan.echo, plan.choices, plan.tokenizer) if plan.echo is not None else None
        # So that each logprob stays with its token's text, and no id is told that stands behind a stop string.
        self._per_token = plan.logprobs or (plan.token_ids and bool(plan.stop))
        self._open = plan.choices
        self._engine_open = engine_choices
        self.prompt_tokens = plan.prompt_tokens
        self.cached_tokens = 0
        self._engine_reasoning = 0
        first = self._choices[0]
        self._alone = first if plan.choices == 1 and (first.plain or first.parsed) else None
        self._recent = self._kept.recent if self._kept is not None and self._alone is not None else None
        self._resumed = False
        self.cut_short = False  # the budget of reasoning is used up: another call continues the turn
        self.finishes: list[Finished] = []
        self.rest: list[Event] = []
        self.done = False

    @property
    def family(self) -> str:
        return self._plan.family

    @property
    def resumable(self) -> bool:
        """Whether another engine call can continue this turn: its ids were kept."""
        return self._kept is not None

    def resume(self) -> None:
        """Called before the outputs of another engine call. The prompt of each of its choices is this turn's prompt with the
        tokens of that choice after it, so its counts of prompt, cached and reasoning tokens are not used. Choices that are
        finished stay finished."""
        self._resumed = self.tokens_received > 0
        self._engine_open = len(self.unfinished)
        # The engine does not see a stop string that began before: its tokens behind one are not to be counted.
        self._per_token = self._per_token or bool(self._plan.stop)
        if self._echo is not None:
            self._echo.resume()

    @property
    def unfinished(self) -> tuple[int, ...]:
        """The engine's choices that are not finished, by their index."""
        copies = self._plan.copies
        return tuple(
            index
            for index in range(len(self._choices) // copies)
            if not all(choice.finished for choice in self._choices[index * copies : (index + 1) * copies])
        )

    def echoes(self, index: int) -> bool:
        """Whether logprobs of the prompt are still needed for choice `index` of the engine."""
        copies = self._plan.copies
        return self._echo is not None and not all(
            self._echo.whole(each) for each in range(index * copies, (index + 1) * copies)
        )

    def feed(self, outputs: Sequence[EngineOutput]) -> list[Event]:
        """The events that follow from `outputs`. Raises a WorkerError if the engine failed or broke its protocol, and
        ReadingFailed where a parser or a detokeniser raises such an error; `rest` then holds the events before the error."""
        events: list[Event] = []
        recent = self._recent
        try:
            for output in outputs:
                if output.text:
                    output = with_all_ids(output, self._plan.tokenizer)
                prompt, cached = output.prompt_tokens, output.cached_tokens
                if ((prompt and prompt != self.prompt_tokens) or (cached and cached != self.cached_tokens)) and (
                    not self._resumed
                ):
                    self._count_prompt(output)
                alone = self._alone
                if (
                    alone is not None
                    and output.finish is None
                    and not output.index
                    and not alone.finished
                    and alone.tokens + len(output.ids) <= alone.most
                    and (alone.plain or len(output.ids) == 1)
                ):
                    # Nearly every token of most answers comes this way.
                    if recent is not None:
                        recent += output.ids
                        if len(recent) > _RECENT and self._kept is not None:
                            self._kept.fold()
                    if alone.plain:
                        alone.tokens += len(output.ids)
                        if text := alone.decoder.feed(output.ids):
                            alone.block = TEXT
                            events.append(TextDelta(0, text))
                    else:
                        alone.take_one(output.ids, events)
                    continue
                self._feed_choices(output, events)
        except SmgError as error:
            self.rest = events
            if _is_of_engine(error):
                raise
            raise ReadingFailed.hiding(error) from error
        return events

    @property
    def whole(self) -> bool:
        return self.done

    @property
    def engine_done(self) -> bool:
        return self._engine_open <= 0

    @property
    def next_call(self) -> int:
        most = 0
        for choice in self._choices:
            most = max(most, choice.first_call + choice.calls)
        return most

    @property
    def put_in(self) -> Sequence[int]:
        """Ids among those received that the gateway wrote, not the model."""
        return () if self._kept is None else self._kept.put_in

    @property
    def put_in_last(self) -> bool:
        """Whether the model has written nothing behind them."""
        return self._kept is not None and self._kept.put_in_last

    def received(self, index: int = 0) -> "array[int]":
        """The ids of the engine's choice `index` so far; empty if they are not kept."""
        return array("I") if self._kept is None else self._kept.of(index)

    @property
    def tokens_received(self) -> int:
        """How many ids are kept, of all choices."""
        return 0 if self._kept is None else self._kept.count

    def _count_prompt(self, output: EngineOutput) -> None:
        if output.cached_tokens:
            self.cached_tokens = reported_count(output.cached_tokens) or self.cached_tokens
        self.prompt_tokens = reported_count(output.prompt_tokens) or self.prompt_tokens

    def _feed_choices(self, output: EngineOutput, events: list[Event]) -> None:
        """Take what is new of one of the engine's choices."""
        if self._kept is not None and output.ids:
            self._kept.add(output.index, output.ids)
        if output.finish is not None:
            self._engine_open -= 1
        first = output.index * self._plan.copies
        for index in range(first, first + self._plan.copies):
            self._feed_choice(index, output, events)

    def _feed_choice(self, index: int, output: EngineOutput, events: list[Event]) -> None:
        if index >= len(self._choices):
            raise EngineGarbled("The engine answered with a choice nobody asked for.")
        choice = self._choices[index]
        if choice.finished:
            return
        for whole in (output,) if self._echo is None else self._echoed(self._echo, choice, output, events):
            for part in one_by_one(whole) if self._per_token else (whole,):
                if not choice.finished:
                    choice.feed(part, events)
        if choice.finished:
            if not self._resumed:
                self._engine_reasoning += output.reasoning_tokens
            self._open -= 1
            self.done = not self._open
            self.finishes.append(choice.ending)
            events.append(choice.ending)

    def _echoed(
        self, echo: EchoReader, choice: ChoiceOutput, output: EngineOutput, events: list[Event]
    ) -> list[EngineOutput]:
        """Put the echo before the choice; returns the outputs that can be read now."""
        parts, ready = echo.take(choice.index, output)
        for text, logprobs in parts:
            choice.repeat(text, logprobs, events)
        if echo.echo.alone and echo.whole(choice.index):
            choice.end_after_echo(events)
        return ready

    def cut(self) -> list[Event]:
        """The ends of the blocks that are open, for a turn that is not completed."""
        events: list[Event] = []
        for choice in self._choices:
            choice.close(events)
        return events

    def usage(self) -> Usage:
        """Token counts so far."""
        completion = reasoning = 0
        for choice in self._choices:
            completion += choice.tokens
            reasoning += choice.reasoning_tokens
        return Usage(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=completion,
            cached_tokens=min(self.cached_tokens, self.prompt_tokens),
            reasoning_tokens=(0 if self._resumed else self._engine_reasoning) or reasoning,
        )


def _is_of_engine(error: SmgError) -> bool:
    """Whether the error says what it says of the engine: it was raised by the code that looks for that, not by a part that reads
    text (a parser, a detokeniser), which knows nothing of engines."""
    raised = error.__traceback__
    while raised is not None and raised.tb_next is not None:
        raised = raised.tb_next
    return raised is None or str(raised.tb_frame.f_globals.get("__name__", "")).startswith(_SPEAK)
