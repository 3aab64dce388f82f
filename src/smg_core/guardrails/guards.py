"""`Guards`: what the gateway asks of its guardrails, wherever something reaches an engine or leaves one.

Pure. Above: the pipeline, serving. Implemented by `guarding`. Below: the request, the events.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from smg_core.events import Event
from smg_core.hooks import Moment
from smg_core.request import Caller, GenerationRequest, PoolRequest

__all__ = ["Guards", "IdsDecoder", "ShowsEvents", "Tells"]

ShowsEvents = Callable[[Sequence[Event]], Awaitable[Sequence[Event]]]
"""`await show(events)`: the events that leave in their place."""
Tells = Callable[[Moment], None]
"""Hears what happens."""


class IdsDecoder(Protocol):
    """The part of a tokenizer that is needed here."""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str: ...


class Guards(Protocol):
    """The guardrails of one process. What is held back raises GuardrailBlocked; a guardrail that fails and is "closed",
    GuardrailFailed; what none can be shown, UnsupportedParameter."""

    def sees(self, caller: Caller, model: str) -> str:
        """The name of a guardrail that sees something of requests for this model; "" where none does."""
        ...

    def mark(self, caller: Caller, model: str) -> str:
        """A text that is another where other guardrails see requests for this model; "" where none does."""
        ...

    async def request(
        self, request: GenerationRequest, tokenizer: IdsDecoder | None, report: Tells
    ) -> GenerationRequest:
        """The request as guardrails leave it."""
        ...

    async def pooled(self, request: PoolRequest, tokenizer: IdsDecoder | None, report: Tells) -> PoolRequest:
        """The same of a request for pooled work."""
        ...

    def answer(self, request: GenerationRequest, report: Tells, before: ShowsEvents | None) -> ShowsEvents | None:
        """Who is shown the events of an answer, after `before`; that alone where no guardrail sees answers to the request."""
        ...

    async def arguments(self, text: str, caller: Caller, model: str, request_id: str, report: Tells) -> str:
        """The arguments of a call that is about to be made here, as guardrails leave them."""
        ...
