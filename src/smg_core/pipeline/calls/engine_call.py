"""One call of one engine: its reader, its requests, how it is opened, and the turn that it makes (edge).

A call that continues a turn reads on with that turn's reader, and asks for what `continuing` says is left of it. Above:
streaming, which makes one for each step and gives back what it held. Below: fit, continuing, pairing, the engines' clients.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from smg_core.engines.base import ChatEngine, Engine, EngineRequest, IdsEngine, RequestMedia
from smg_core.engines.calls import AnswerCall
from smg_core.engines.token_ids.fan_out import FanOut, requests_of
from smg_core.errors import InternalError, SmgError
from smg_core.hooks import ConceptsLost, FirstToken
from smg_core.pipeline.answer.attempt import Attempt, EventReceiver
from smg_core.pipeline.answer.citing import Citing
from smg_core.pipeline.answer.receivers import Noting, Recording, Unseen, WithoutCalls, without_finishes
from smg_core.pipeline.answer.turn import Transcript, Turn
from smg_core.pipeline.calls.chat_calls import ChatCalls
from smg_core.pipeline.fit.fit import FitForChat, FitForIds, fitted, reader_for, request_for
from smg_core.pipeline.flow.driver import Run
from smg_core.pipeline.flow.steps import Chosen, Stream
from smg_core.pipeline.output.chat_reader import ChatReader
from smg_core.pipeline.output.continuing import Rest, rest_of
from smg_core.pipeline.output.processor import OutputProcessor
from smg_core.pipeline.pairs.pairing import Pairing, lora_at
from smg_core.pipeline.prompt.media import SharedInputs
from smg_core.workers.worker import WorkerPlace

__all__ = ["EngineCall"]


class EngineCall:
    """One engine call, from the step to the engine's requests and to the turn. `engine` is the client of its engine; `ids` are
    those of its requests there; `outgoing` is what it is sent of the request's trace; `pairing` has the engines where several
    share the call. `place` is its own at the worker; `first_seconds` is how long the first output took, None also of an
    engine that was asked for its answer in one piece; `tokens_before` and `finishes_before` count what the turn had before this
    call."""

    def __init__(self, step: Stream, run: Run, now: Callable[[], float], chat: ChatCalls) -> None:
        self.step = step
        self.engine: Engine = step.chosen.worker.engine
        self.began = now()
        self.first_seconds: float | None = None
        self.pairing: Pairing | None = None
        self.place: WorkerPlace | None = None
        self._fit = fitted(step.prompted, step.chosen.worker.facts)
        self.shared: list[SharedInputs] = []
        self._chat = chat
        self._opening: asyncio.Task[object] | None = None  # the task that opens the call, meanwhile
        self._gave_up = False
        self._answer = run.answer
        reader = self._reader()
        run.calls += 1
        self._trace = run.trace
        self.outgoing = run.trace.outgoing()
        request_id = step.prompted.request.id
        # engines refuse an id that they have seen
        self.id = request_id if run.calls == 1 else f"{request_id}-{run.calls}"
        self.ids: tuple[str, ...] = (self.id,)  # of the engine's requests: one, or one for each choice that goes on
        self.cut = False  # one choice failed while the engine worked on others
        self.tokens_before = self.finishes_before = 0
        if step.continues is not None:
            self.tokens_before, self.finishes_before = reader.usage().completion_tokens, len(reader.finishes)
        self.transcript = self._transcript() if step.keep else None
        # The gateway keeps the budget: the engine does not end the turn when it is used up.
        within_budget = isinstance(self._fit, FitForIds) and self._fit.budget is not None
        # Of a stop string that began at another engine it does not see the beginning.
        engine_stops = step.chosen.worker.facts.stop_strings and not within_budget and step.continues is None
        self.citing: Citing | None = None
        straight = step.ends and step.visible and not (step.hosted or step.prompted.request.sources)
        straight = straight and self.transcript is None and run.trace.content is None
        receiver = run.answer if straight else self._receiver(step, run)

        def on_first() -> None:
            if not self._fit.request.stream:
                return  # the first output is the whole of it: the time says how long the answer took
            if self.place is not None:
                self.place.prompt_read()
            at = now()
            self.first_seconds = at - self.began
            if run.trace.first is None:
                name = step.chosen.worker.name
                run.trace.report(FirstToken(step.prompted.request.id, name, at - run.trace.started, at))

        shares = step.prompted.shares(hosted=bool(step.hosted) and run.tool_turns > 0)
        self.attempt: Attempt[Any] = Attempt(
            reader, receiver, on_first=on_first, tells_stops=engine_stops, shares=shares
        )

    def _receiver(self, step: Stream, run: Run) -> EventReceiver:
        """What the attempt's events go through on their way to the answer."""
        receiver: EventReceiver = without_finishes(run.answer) if not step.ends else run.answer
        if not step.visible:
            receiver = Unseen(run.answer)
        elif sources := step.prompted.request.sources:
            before = step.continues.citing if step.continues is not None else None
            receiver = self.citing = Citing(sources, receiver) if before is None else before.onto(receiver)
        if step.visible and step.hosted:
            receiver = WithoutCalls(step.hosted, run.answer, receiver)
        receiver = Recording(self.transcript, receiver) if self.transcript is not None else receiver
        return Noting(run.trace.content, receiver) if run.trace.content is not None else receiver

    def _reader(self) -> OutputProcessor | ChatReader:
        if self.step.continues is not None:
            return self._continued(self.step.continues)
        if isinstance(self._fit, FitForChat):
            return ChatReader(self._fit.plan, self._answer.calls)
        return reader_for(self._fit, self._answer.calls, keep_ids=self.step.keep or self.step.resumable)

    def _continued(self, turn: Turn) -> OutputProcessor:
        """The reader of `turn`, for a call that continues it. This needs an engine that takes ids, and a turn whose ids were
        kept; otherwise the error that the turn failed with is raised."""
        reader = turn.reader
        if not isinstance(reader, OutputProcessor) or not isinstance(self._fit, FitForIds):
            raise turn.error or InternalError("The gateway failed to go on with an answer.")
        reader.resume()
        return reader

    def _transcript(self) -> Transcript:
        before = self.step.continues.transcript if self.step.continues is not None else None
        return Transcript() if before is None else before

    async def start(self, connect_timeout: float | None) -> AnswerCall | None:
        """Open the call. Returns None if no engine has to be asked, or if the attempt was ended meanwhile. Raises the error if
        the request could not be sent."""
        task = self._opening = asyncio.current_task()
        others = 0 if task is None else task.cancelling()
        self.attempt.on_end = self._give_up
        try:
            return await self._open(connect_timeout)
        except asyncio.CancelledError:
            if task is None or not self._gave_up or task.uncancel() > others:
                raise
            return None
        finally:
            self.attempt.on_end = self._opening = None

    def _give_up(self) -> None:
        """Called when the attempt is ended while its call is being opened. If the task itself ended it, it is about to return,
        so the cancellation waits for the next round of the event loop."""
        asyncio.get_running_loop().call_soon(self._cancel_opening)

    def _cancel_opening(self) -> None:
        if self._opening is not None:
            self._gave_up = True
            self._opening.cancel()

    async def _open(self, connect_timeout: float | None) -> AnswerCall | None:
        fit = self._fit
        if isinstance(fit, FitForChat):
            chat: ChatEngine = self.engine  # type: ignore[assignment]  # `takes_ids` says which of the two it is
            asked, lora = replace(fit.request, id=self.id), lora_at(self.step.chosen, self.step.prompted.model.adapter)
            metadata = self.outgoing.metadata
            call = await self._chat.begin(
                chat, asked, self.attempt, metadata=metadata, connect_timeout=connect_timeout, lora=lora
            )
            if losses := getattr(call, "losses", None):  # of providers alone
                self._trace.losses = {**self._trace.losses, **losses}
                record = ConceptsLost(fit.request.id, self.step.chosen.worker.name, tuple(losses))
                self._trace.report(record)
            return call
        request, prompted = self._request(fit), self.step.prompted
        if prompted.media is not None:
            request = replace(request, multimodal=await self._media(self.step.chosen))
        alone = self.step.continues is None and self.pairing is None
        requests = {0: request} if alone else self._rest(request)
        if not requests:  # what was lost was not more than the end
            return None
        if self.pairing is not None and self.step.prefill is not None:
            media = None if prompted.media is None else await self._media(self.step.prefill)
            return await self.pairing.generate(
                requests,
                self.attempt,
                prefill_media=media,
                connect_timeout=connect_timeout,
                metadata=self.outgoing.metadata,
            )
        engine: IdsEngine = self.engine  # type: ignore[assignment]
        if [*requests] == [0]:
            return await engine.generate(
                requests[0], self.attempt, metadata=self.outgoing.metadata, connect_timeout=connect_timeout
            )
        return await self._start_each(engine, requests, connect_timeout)

    def _rest(self, request: EngineRequest) -> Mapping[int, EngineRequest]:
        """The requests for the choices that the engine is asked for, by the index of the first choice of each."""
        reader, turn, facts = self.attempt.reader, self.step.continues, self.step.chosen.worker.facts
        rest = Rest((), {0: request})
        tokenizer = self.step.prompted.model.tokenizer
        if turn is not None and isinstance(reader, OutputProcessor) and tokenizer is not None:
            rest = rest_of(
                request,
                facts,
                reader,
                tokenizer.eos_token_ids,
                context=facts.context_length or self.step.prompted.model.context_length,
            )
        if rest.ended:
            self.attempt.push(rest.ended)
        if self.pairing is not None and len(rest.requests) == 1 and (one := rest.requests.get(0)) is not None:
            return dict(enumerate(requests_of(one))) if one.sampling.n > 1 else rest.requests
        return rest.requests

    async def _start_each(
        self, engine: IdsEngine, requests: Mapping[int, EngineRequest], connect_timeout: float | None
    ) -> AnswerCall:
        """Go on with the choices of `requests`, in a call for each."""
        self.ids = tuple(each.id for each in requests.values())
        fan, first = FanOut(requests, self.attempt, lambda: None, on_left=self._leave), next(iter(requests))
        for index, each in requests.items():
            try:
                fan.attach(
                    await engine.generate(
                        each, fan.branch(index), metadata=self.outgoing.metadata, connect_timeout=connect_timeout
                    )
                )
            except SmgError as error:
                if index == first:
                    raise
                fan.closed(index, error)  # others run, and may have pushed
                break
            except BaseException:
                fan.cancel()
                raise
        return fan

    def _leave(self) -> None:
        self.cut = True

    def _request(self, fit: FitForIds) -> EngineRequest:
        step, request = self.step, request_for(fit, self.attempt.reader)
        changes: dict[str, object] = {}
        if self.id != request.id:
            changes["id"] = self.id
        if step.chosen.rank is not None:
            changes["data_parallel_rank"] = step.chosen.rank
        if step.prompted.model.adapter:
            changes["lora"] = lora_at(step.chosen, step.prompted.model.adapter)
        return replace(request, **changes) if changes else request

    async def _media(self, chosen: Chosen) -> RequestMedia | None:
        prompted, facts = self.step.prompted, chosen.worker.facts
        service = prompted.model.media
        if service is None or prompted.media is None:
            return None
        if facts not in prompted.packed:
            prompted.packed[facts] = await service.pack(prompted.media.features, facts)
        inputs = prompted.packed[facts]
        shared = await service.share(inputs, facts)
        if shared is None:
            return inputs
        self.shared.append(shared)
        return shared.inputs

    def release_shared(self) -> None:
        """Free the shared memory of this call."""
        for shared in self.shared:
            shared.release()

    @property
    def failed(self) -> str | None:
        """Of two workers, the name of the one that failed; None where one does it all."""
        return None if self.pairing is None or self.attempt.error is None else self.pairing.failed

    @property
    def handed_nothing(self) -> bool:
        """Whether the engine that answers failed while it waited for the cache that the other one had made."""
        return self.pairing is not None and self.attempt.error is not None and self.pairing.handed_nothing

    def needs(self, worker: str) -> bool:
        """Whether the call cannot go on without the worker of that name, which is one of its own."""
        return self.pairing is None or self.pairing.needs(worker)

    def turn(self) -> Turn:
        """The result of the call, once it is over."""
        attempt, reader = self.attempt, self.attempt.reader
        ids = reader if isinstance(reader, OutputProcessor) else None
        wanted = attempt.error is not None or self.step.keep or (ids is not None and ids.cut_short)
        return Turn(
            finishes=tuple(reader.finishes),
            usage=attempt.usage(),
            calls=self._answer.calls,
            error=attempt.error,
            outputs=self.transcript.outputs() if self.transcript is not None else None,
            failed=None if self.pairing is None else self.failed,
            held=not self.step.ends,
            reader=ids if ids is not None and wanted and ids.resumable else None,
            transcript=self.transcript,
            citing=self.citing,
            cut_short=ids is not None and ids.cut_short,
            begun=attempt.pushes > 0,
            handed_nothing=self.pairing is not None and self.handed_nothing,
            received=ids.tokens_received if ids is not None and wanted else 0,
        )
