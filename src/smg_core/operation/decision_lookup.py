"""Finds the decisions of routing for a request in whichever process made them (edge).

Each process keeps its own. One that has none for a request asks the others over the channel, and each of them answers, with what
it has or with nothing. Above: operation.control has one in each process, the admin door asks it. Below: the
channel, `routing.Decisions`.
"""

import asyncio
import logging

import msgspec

from smg_core.channel.base import Channel, Notice
from smg_core.clock import CallLater, IdSource
from smg_core.errors import NotFound, PayloadTooLarge, SmgError
from smg_core.operation.process_table import ProcessTable
from smg_core.routing import Decisions, RoutingDecision

__all__ = ["Decided"]

log = logging.getLogger("smg.routing")

DECISIONS_ASKED, DECISIONS_FOUND = "decisions_asked", "decisions_told"
"""Kinds of messages; both are events."""


class Asked(msgspec.Struct, frozen=True):
    """Somebody wants to know the decisions for a request; `question` is the name of this question."""

    question: str
    request_id: str


class DecisionsFound(msgspec.Struct, frozen=True):
    """What one process has of what was asked. `left_out`: it has some, which are too large for a message."""

    question: str
    decisions: list[RoutingDecision]
    left_out: bool = False


_ASKED = msgspec.msgpack.Decoder(Asked)
_FOUND = msgspec.msgpack.Decoder(DecisionsFound)


class _Question:
    """A question under way; `found` is set with the first answer that has decisions, or with the last one of all."""

    def __init__(self, others: int) -> None:
        self.left = others
        self.found: asyncio.Future[DecisionsFound | None] = asyncio.get_running_loop().create_future()

    def take(self, answer: DecisionsFound) -> None:
        self.left -= 1
        if not self.found.done() and (answer.decisions or answer.left_out or not self.left):
            self.found.set_result(answer)

    def give_up(self) -> None:
        if not self.found.done():
            self.found.set_result(None)


class Decided:
    """`decisions` are those that this process keeps, `processes` those there are. After `wait_s` seconds a process that does not
    answer counts as one that has none."""

    def __init__(
        self,
        decisions: Decisions,
        channel: Channel,
        processes: ProcessTable,
        *,
        ids: IdSource,
        call_later: CallLater,
        wait_s: float,
    ) -> None:
        self._decisions = decisions
        self._channel = channel
        self._processes = processes
        self._ids = ids
        self._call_later = call_later
        self._wait_s = wait_s
        self._questions: dict[str, _Question] = {}
        self._answering: set[asyncio.Task[None]] = set()
        channel.subscribe(DECISIONS_ASKED, self._asked)
        channel.subscribe(DECISIONS_FOUND, self._take_found)

    async def of(self, request_id: str) -> list[RoutingDecision]:
        """The decisions for one request that any process still keeps, in order; none if there are none. Raises NotFound where
        they are too large to be told, and what the channel raises."""
        found = self._decisions.of(request_id)
        others = sum(1 for each in self._processes.read() if each.pid) - 1
        if found or others < 1:
            return found
        name = self._ids("ask-")
        question = self._questions[name] = _Question(others)
        timer = self._call_later(self._wait_s, question.give_up)
        try:
            await self._channel.publish(DECISIONS_ASKED, msgspec.msgpack.encode(Asked(name, request_id)))
            answer = await question.found
        finally:
            timer.cancel()
            del self._questions[name]
        if answer is not None and answer.left_out:
            raise NotFound(
                "The decisions for this request are larger than processes tell each other (channel.message_bytes)."
            )
        return [] if answer is None else answer.decisions

    def _asked(self, message: Notice) -> None:
        asked = _ASKED.decode(message.body)
        if asked.question not in self._questions:  # else it is one's own
            task = asyncio.get_running_loop().create_task(self._answer(asked), name="tell decisions")
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, asked: Asked) -> None:
        """Say what this process has. Whoever asked waits no longer than `wait_s` for it."""
        answer = DecisionsFound(asked.question, self._decisions.of(asked.request_id))
        try:
            try:
                await self._channel.publish(DECISIONS_FOUND, msgspec.msgpack.encode(answer))
            except PayloadTooLarge:
                await self._channel.publish(
                    DECISIONS_FOUND, msgspec.msgpack.encode(DecisionsFound(asked.question, [], left_out=True))
                )
        except SmgError as error:
            log.warning("decisions that another process wants cannot be told: %s", error)

    def _take_found(self, message: Notice) -> None:
        answer = _FOUND.decode(message.body)
        question = self._questions.get(answer.question)
        if question is not None:
            question.take(answer)
