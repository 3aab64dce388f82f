"""The guardrails of one process, as the gateway asks them: about requests, answers and the arguments of tools (edge).

Decides which of them are for a request. Texts that have passed are remembered for a while, since clients send the whole talk with
each turn. Above: the pipeline, serving. Below: `asking`, `prompts`, `answers`.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from hashlib import blake2b

import attrs

from smg_core.clock import CallLater, Clock
from smg_core.errors import GuardrailBlocked
from smg_core.guardrails.answers import GuardedAnswer, Holding
from smg_core.guardrails.asking import AskedFor, GuardAccount, RailAsking, spans_found
from smg_core.guardrails.guards import IdsDecoder, ShowsEvents, Tells
from smg_core.guardrails.prompts import GuardedPrompt
from smg_core.guardrails.records import GuardPlace, Guardrail, GuardSpan
from smg_core.guardrails.settings import GuardrailsConfig
from smg_core.guardrails.texts import plain_json, with_masks
from smg_core.request import Caller, GenerationRequest, PoolRequest

__all__ = ["Guarding"]

_REMEMBERED = 8192
"""Texts of which is known that they have passed."""
_PASSES_S = 300.0
"""For how long that is believed: what guardrails look for changes."""
_HASHED = 1 << 20
"""Longest text that is remembered: its digest is made on the event loop."""


class Guarding:
    """The guardrails `rails`, in their order. `names_of` has all names of the models that a request for one may lead to."""

    def __init__(
        self,
        rails: Sequence[Guardrail],
        settings: GuardrailsConfig,
        clock: Clock,
        call_later: CallLater,
        account: GuardAccount,
        names_of: Callable[[str, Caller], Collection[str]],
    ) -> None:
        self._names_of = names_of
        self._rails = tuple([RailAsking(each, settings.held_chars, clock, account) for each in rails])
        self._holding = Holding(settings.held_chars, settings.piece_chars, settings.held_s)
        self._clock, self._call_later = clock, call_later
        self._passed: OrderedDict[bytes, float] = OrderedDict()

    def close(self) -> None:
        """Ask nothing more."""
        for each in self._rails:
            each.close()

    def _for(self, caller: Caller, model: str, place: GuardPlace) -> tuple[RailAsking, ...]:
        """Those that are asked about texts that stand in this place."""
        names = frozenset({model, *self._names_of(model, caller)})
        return tuple([each for each in self._rails if place in each.rail.on and each.rail.is_for(caller.tenant, names)])

    def sees(self, caller: Caller, model: str) -> str:
        """The name of a guardrail that sees something of requests for this model; "" where none does."""
        names = frozenset({model, *self._names_of(model, caller)})
        return next((each.rail.name for each in self._rails if each.rail.is_for(caller.tenant, names)), "")

    def mark(self, caller: Caller, model: str) -> str:
        """A text that is another where other guardrails see requests for this model; "" where none does."""
        names = frozenset({model, *self._names_of(model, caller)})
        rails = [each.rail for each in self._rails if each.rail.is_for(caller.tenant, names)]
        return repr([(*_settings_of(each),) for each in rails]) if rails else ""

    # ------------------------------------------------------------------------------------------------------------ input

    async def request(
        self, request: GenerationRequest, tokenizer: IdsDecoder | None, report: Tells
    ) -> GenerationRequest:
        """The request as guardrails leave it. Raises GuardrailBlocked, GuardrailFailed, and UnsupportedParameter for what they
        cannot be shown."""
        rails = self._for(request.caller, request.model, "input")
        if not rails:
            return request
        asked = AskedFor(request.caller, request.model, request.id, report)
        return await self._prompt(rails, asked, tokenizer).of(request)

    async def pooled(self, request: PoolRequest, tokenizer: IdsDecoder | None, report: Tells) -> PoolRequest:
        """The same of a request for pooled work."""
        rails = self._for(request.caller, request.model, "input")
        if not rails:
            return request
        asked = AskedFor(request.caller, request.model, request.id, report)
        return await self._prompt(rails, asked, tokenizer).of_pooled(request)

    def _prompt(self, rails: Sequence[RailAsking], asked: AskedFor, tokenizer: IdsDecoder | None) -> GuardedPrompt:
        whose = "\0".join(
            (*[each.rail.name for each in rails], asked.caller.tenant, asked.caller.principal, asked.model)
        )
        key = blake2b(whose.encode(errors="surrogatepass"), digest_size=32).digest()
        return GuardedPrompt(rails, asked, partial(self._has_passed, key), partial(self._note_passed, key), tokenizer)

    def _has_passed(self, whose: bytes, text: str) -> bool:
        if len(text) > _HASHED:
            return False
        key = _digest(whose, text)
        until = self._passed.get(key)
        if until is None:
            return False
        if until <= self._clock.monotonic():
            del self._passed[key]
            return False
        self._passed.move_to_end(key)
        return True

    def _note_passed(self, whose: bytes, text: str) -> None:
        if len(text) > _HASHED:
            return
        self._passed[_digest(whose, text)] = self._clock.monotonic() + _PASSES_S
        if len(self._passed) > _REMEMBERED:
            self._passed.popitem(last=False)

    # ----------------------------------------------------------------------------------------------------------- output

    def answer(self, request: GenerationRequest, report: Tells, before: ShowsEvents | None) -> ShowsEvents | None:
        """What is shown the events of an answer, `before` first; that alone where no guardrail sees answers to the request."""
        caller, model = request.caller, request.model
        output, called = self._for(caller, model, "output"), self._for(caller, model, "arguments")
        if not output and not called:
            return before
        asked = AskedFor(caller, model, request.id, report)

        async def spans(text: str, place: GuardPlace) -> tuple[GuardSpan, ...]:
            return await spans_found(called if place == "arguments" else output, text, place, asked)

        name = (called or output)[-1].rail.name
        choices = request.sampling.n
        return GuardedAnswer(name, spans, choices, self._holding, self._clock, self._call_later, before)

    async def arguments(self, text: str, caller: Caller, model: str, request_id: str, report: Tells) -> str:
        """The arguments of a call that is about to be made here, as guardrails leave them. Raises GuardrailBlocked and
        GuardrailFailed."""
        rails = self._for(caller, model, "arguments")
        readable = plain_json(text) or text
        if not rails or not readable:
            return text
        spans = await spans_found(rails, readable, "arguments", AskedFor(caller, model, request_id, report))
        if not spans:
            return text
        left = with_masks(readable, spans)
        if plain_json(left) is None:
            raise GuardrailBlocked(rails[-1].rail.name, "arguments")
        return left


def _digest(whose: bytes, text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16, key=whose).digest()


def _settings_of(rail: Guardrail) -> Iterator[object]:
    """All that is set of a guardrail but its check, which is an object."""
    for field in attrs.fields(Guardrail):
        if field.name != "check":
            yield getattr(rail, field.name)
