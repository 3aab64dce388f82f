"""Runs the middleware of one exchange, in order (edge).

Requests meet the plugins in their order, answers in the reverse. What a plugin changes is checked, and the next one sees it. One
that fails ends the exchange ("closed") or is left out of the rest of it ("open"); either way it is reported. An exchange keeps
the plugins that it began with, whatever is added or replaced meanwhile. Decides order and failure and knows no transport. Above:
`server`. Below: `base`, `checks`, `entries`.
"""

import asyncio
from bisect import insort
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Literal, Protocol, TypeVar

import attrs

from smg_core.errors import InternalError, SmgError, UnsupportedMedia
from smg_core.events import Event
from smg_core.middleware.active import Active, AnswerWatcher, Identified
from smg_core.middleware.asking import (
    begun_session,
    checked,
    close_session,
    event_verdict,
    fault_words,
    piece_verdict,
)
from smg_core.middleware.base import (
    About,
    AnswerPiece,
    ChangeHead,
    ChangeText,
    Continue,
    End,
    Failure,
    HeadVerdict,
    HookName,
    MiddlewareFault,
    PieceVerdict,
    Reject,
    RequestBody,
    RequestHead,
    RequestVerdict,
    ResponseHead,
    TextVerdict,
)
from smg_core.middleware.checks import bounded_text, changed_head, changed_response, refusal_of
from smg_core.middleware.entries import Entry, Link
from smg_core.middleware.event_order import checked_events, is_of_choice
from smg_core.middleware.request_checks import BoundRequest, changed_request, unbound, weight_of
from smg_core.middleware.settings import MiddlewareConfig
from smg_core.request import GenerationRequest

__all__ = ["Happened", "NamesOf", "Offload", "PluginChain", "PluginRules", "ReportHappened", "When"]

When = Literal["before_identity", "after_identity"]
T = TypeVar("T")


@attrs.frozen
class Happened:
    """What a plugin did other than letting something pass: `outcome` is "changed", "rejected" or "failed", with the reason of a
    failure, which is for the operator. The hook of ASGI middleware is "asgi"."""

    plugin: str
    hook: HookName | Literal["asgi"]
    outcome: Literal["changed", "rejected", "failed"]
    reason: str = ""


ReportHappened = Callable[[Happened], None]
ModelOf = Callable[[str], Awaitable[str | None]]
"""The model that a body asks for: "" where it names none, None where it is no body that could."""
_OF_BODIES: tuple[HookName, ...] = ("request_body",)
NamesOf = Callable[[str], Collection[str]]
"""All names of the models that a request for one may lead to; "" is asked for by a request that names none."""


class Offload(Protocol):
    """Does `work` on texts of `size` bytes or characters together, of a tenant: off the event loop where they are long."""

    def __call__(self, work: Callable[[], T], size: int, tenant: str) -> Awaitable[T]: ...


async def _at_once(work: Callable[[], T], size: int, tenant: str) -> T:
    return work()


@attrs.frozen
class PluginRules:
    """What holds for all plugins of a gateway: their settings, the limits of a request, and where long work is done."""

    config: MiddlewareConfig = attrs.field(factory=MiddlewareConfig)
    bound: BoundRequest = unbound
    offload: Offload = _at_once


class PluginChain:
    """The plugins of one exchange. The methods are called in the order in which things happen to an exchange; `close` last,
    however it ended. All raise SmgError: the refusal of a plugin, or InternalError where one failed that is "closed"."""

    def __init__(
        self,
        links: Sequence[Link],
        about: About,
        rules: PluginRules,
        report: ReportHappened,
        names_of: NamesOf,
    ) -> None:
        self._links = links
        self._names_of = names_of
        self._about = about
        self._config, self._rules = rules.config, rules
        self._report = report
        self._active: list[Active] = []
        self._model: str | None = None  # that the body names, None before it was read
        self._wire: list[Active] = []
        self._watching: list[Active] = []

    # --------------------------------------------------------------------------------------------------------- requests

    async def request_head(
        self, head: RequestHead, when: When, about: About | None = None
    ) -> tuple[RequestHead, Identified]:
        """The head as the plugins of this time leave it, and whose the request is by them. `about` has what has become known:
        after identity, the tenant."""
        self._about = about or self._about
        identified = Identified()
        for at, link in enumerate(self._links):
            if link.entry.when != when or link.entry.models or not link.entry.applies(self._about):
                continue
            active = self._begin(at, link)
            if active is None:
                continue
            head, verdict = await self._request_head(active, head)
            identified = verdict if verdict is not None else identified
        return head, identified

    def join(self, about: About) -> None:
        """Begin the plugins before identity, whose head hook is for every connection: this exchange is a request within
        another one, of a caller who is known."""
        self._about = about
        for at, link in enumerate(self._links):
            if link.entry.when == "before_identity" and link.entry.applies(about):
                self._begin(at, link)

    def join_all(self, about: About) -> None:
        """Begin all plugins of an answer that is made for nobody who waits, by the tenant and the model in `about`."""
        self._about, self._model = about, about.model
        for at, link in enumerate(self._links):
            if link.entry.applies(about) and (not link.entry.models or self._is_for(link.entry, about.model)):
                self._begin(at, link)

    def _is_for(self, entry: Entry, model: str | None) -> bool:
        """Whether a plugin for some models meets a request for this one: it may lead to one of them."""
        return bool(entry.models) and model is not None and not set(entry.models).isdisjoint(self._names_of(model))

    def _begin_for(self, at: int, link: Link, model: str) -> Active | None:
        """The session of a plugin for some models, to which a request for this one may lead."""
        self._about = attrs.evolve(self._about, model=model or min(set(link.entry.models) & set(self._names_of(model))))
        return self._begin(at, link) if link.entry.applies(self._about) else None

    async def join_of_model(self, model: str, head: RequestHead) -> RequestHead:
        """Begin the plugins for some models that could not be known by the body, such as that of a form, now that it was decoded
        as a request for this model; returns the head as they leave it. Raises UnsupportedMedia where one looks at bodies, which
        it was not shown."""
        for at, link in enumerate(self._links):
            if self._begun(at) is not None or not self._is_for(link.entry, model):
                continue
            active = self._begin_for(at, link, model)
            if active is not None:
                head, _ = await self._request_head(active, head)
                self._unseen_by(active, _OF_BODIES)
        return head

    def leave_model_open(self) -> None:
        """The request is run apart from this exchange, in the background. Plugins may change there which model it is for, so the
        answer here is shown to those for all models."""
        if any("request" in each.middleware.hooks for each in self._links):
            self._model = ""

    def join_unnamed(self) -> None:
        """Begin the plugins for some models at an answer to a request that names none: it may be what one of them has said."""
        if self._model:
            return
        self._model = "?"
        for at, link in enumerate(self._links):
            if link.entry.models and link.entry.applies(self._about) and all(each.at != at for each in self._active):
                self._begin(at, link)

    def unseen(self, hooks: Collection[HookName]) -> None:
        """Something comes that cannot be shown to plugins that have one of these hooks. Raises UnsupportedMedia unless all of
        them let it pass."""
        for active in self._active:
            self._unseen_by(active, hooks)

    def _unseen_by(self, active: Active, hooks: Collection[HookName]) -> None:
        found = active.hooks & set(hooks)
        if found and not active.failed and active.link.entry.unseen == "refuse":
            self._report(Happened(active.link.entry.name, next(iter(found)), "rejected"))
            raise UnsupportedMedia(
                "This gateway has plugins that could not be shown this: it is no UTF-8, or too large."
            )

    async def request_body(self, text: str, model_of: ModelOf, head: RequestHead) -> tuple[str, RequestHead]:
        """The body and the head as the plugins leave them. Those for some models are asked from here on, for the head too;
        `model_of` reads the model of a body. Where one of them changes it, those for the new model are asked as well, in their
        order, and none twice."""
        model, asked, begun = await model_of(text), set[int](), {each.at for each in self._active}
        waiting = self._places(model)
        while waiting:
            at = waiting.pop(0)
            asked.add(at)
            active = self._begun(at) or self._begin_for(at, self._links[at], model or "")
            if active is None:
                continue
            if at not in begun:
                head, _ = await self._request_head(active, head)
            before = text
            text, head = await self._request_body(active, text, head)
            if text is not before and (changed := await model_of(text)) != model:
                model = changed
                waiting = [each for each in self._places(model) if each not in asked]
        self._model = model or ""
        return text, head

    def _begun(self, at: int) -> Active | None:
        """The plugin of this place where it has been begun."""
        return next((each for each in self._active if each.at == at), None)

    def _places(self, model: str | None) -> list[int]:
        """The places, in order, of the plugins that have been begun, and of those that count for this model."""
        begun = {each.at for each in self._active}
        return [at for at, link in enumerate(self._links) if at in begun or self._is_for(link.entry, model)]

    def _begin(self, at: int, link: Link) -> Active | None:
        """The session of a plugin, None of one that fails here and is "open"."""
        try:
            session = begun_session(link.middleware, self._about)
        except MiddlewareFault as fault:
            self._fault(link.entry, "request_head", fault)
            return None
        turn = None if link.entry.is_component else asyncio.Lock()
        active = Active(at, link, session, link.middleware.hooks, turn)
        insort(self._active, active, key=lambda each: each.at)
        if "piece" in active.hooks:
            for_mode = self._wire if link.middleware.pieces == "wire" else self._watching
            insort(for_mode, active, key=lambda each: -each.at)
        return active

    async def _request_head(self, active: Active, head: RequestHead) -> tuple[RequestHead, Identified | None]:
        if "request_head" not in active.hooks:
            return head, None
        entry = active.link.entry
        try:
            verdict: HeadVerdict = await active.asked(active.session.on_request_head, head)
            change = self._change(active, "request_head", verdict, ChangeHead)
            if change is None:
                return head, None
            granted = "tenant" in entry.grants
            changed = checked(changed_head, head, change, most=self._config.header_bytes, may_identify=granted)
        except MiddlewareFault as fault:
            self._failed(active, "request_head", fault)
            return head, None
        self._report(Happened(entry.name, "request_head", "changed"))
        return changed, Identified(change.tenant, change.principal) if change.tenant is not None else None

    async def _request_body(self, active: Active, text: str, head: RequestHead) -> tuple[str, RequestHead]:
        if active.failed or "request_body" not in active.hooks:
            return text, head
        try:
            verdict: TextVerdict = await active.asked(active.session.on_request_body, RequestBody(text))
            change = self._change(active, "request_body", verdict, ChangeText)
            if change is None:
                return text, head
            changed = await self._bounded(change.text)
            if change.head is not None:
                head = checked(changed_head, head, change.head, most=self._config.header_bytes, may_identify=False)
        except MiddlewareFault as fault:
            self._failed(active, "request_body", fault)
            return text, head
        self._report(Happened(active.link.entry.name, "request_body", "changed"))
        return changed, head

    # ---------------------------------------------------------------------------------------------------------- answers

    def wants(self, hook: HookName) -> bool:
        """Whether a plugin of this exchange has the hook."""
        return any(hook in each.hooks and not each.failed for each in self._active)

    @property
    def sees_wire(self) -> bool:
        """Whether a plugin sees the answer as it leaves."""
        return bool(self._wire) or self.wants("response")

    @property
    def watches_answers(self) -> bool:
        """Whether a plugin sees what the model says."""
        return bool(self._watching) or self.wants("event")

    def watchers(self) -> list[AnswerWatcher]:
        """The plugins that see what the model says, in the order in which an answer meets them; made anew for each answer."""
        links: list[AnswerWatcher] = []
        for active in reversed(self._active):
            if "event" in active.hooks:
                links.append(AnswerWatcher(active, events=True))
            if active in self._watching:
                links.append(AnswerWatcher(active, events=False))
        return links

    def watched_piece(self, link: AnswerWatcher, piece: AnswerPiece) -> str | Awaitable[str]:
        """The text of a piece as one plugin leaves it; to be awaited if it waits."""
        return self._piece((link.active,), 0, piece)

    def turn_of(self, link: AnswerWatcher) -> Awaitable[str] | None:
        """What to wait for before a plugin is shown an event, None for nothing."""
        return link.active.passed() if link.active.is_in_call else None

    def event(self, link: AnswerWatcher, event: Event) -> Sequence[Event]:
        """The events that one plugin puts in the place of an event. One that fails where what it has left cannot be gone on with
        ends the answer, also if it is "open"."""
        active = link.active
        if active.is_out():
            return (event,)
        try:
            verdict = event_verdict(active.session, event)
            changed: tuple[Event, ...] | None = None
            if not isinstance(verdict, Continue):
                changed = self._change(active, "event", verdict, tuple)
            left = checked(checked_events, event, (event,) if changed is None else changed, link.left)
        except MiddlewareFault as fault:
            self._failed(active, "event", fault)
            if link.seen != link.left:
                active.refusal = _failure(active.link.entry, fault)
                raise active.refusal from fault
            return (event,)
        if is_of_choice(event):
            link.seen.take(event)
        if left != (event,):
            self._report(Happened(active.link.entry.name, "event", "changed"))
        return left

    async def request(
        self, request: GenerationRequest, head: RequestHead | None
    ) -> tuple[GenerationRequest, RequestHead | None]:
        """A decoded request and its head as the plugins leave them; the head is None where it is no longer at hand. Where one
        changes the model, those for the new one are begun, and asked in their order; none is asked twice."""
        asked = set[int]()
        while (active := next((each for each in self._active if each.at not in asked), None)) is not None:
            asked.add(active.at)
            left = await self._request(active, request)
            if left.model != request.model:
                head = await self._join_of_changed_model(left.model, head)
            request = left
        return request, head

    async def _request(self, active: Active, request: GenerationRequest) -> GenerationRequest:
        if active.is_out() or "request" not in active.hooks:
            return request
        try:
            verdict: RequestVerdict = await active.asked(active.session.on_request, request)
            change = self._change(active, "request", verdict, GenerationRequest)
            if change is None:
                return request
            weight = checked(weight_of, request, change)
            check = partial(checked, changed_request, request, change, self._config.body_bytes, self._rules.bound)
            changed = await self._rules.offload(check, weight, request.caller.tenant)
        except MiddlewareFault as fault:
            self._failed(active, "request", fault)
            return request
        self._report(Happened(active.link.entry.name, "request", "changed"))
        return changed

    async def _join_of_changed_model(self, model: str, head: RequestHead | None) -> RequestHead | None:
        """Begin the plugins for some models to which a request may lead only now that another plugin has changed its model;
        returns the head as they leave it. One that would have been shown what is no longer at hand, the body, has failed, unless
        it lets that pass."""
        for at, link in enumerate(self._links):
            if self._begun(at) is not None or not self._is_for(link.entry, model):
                continue
            active = self._begin_for(at, link, model)
            if active is None:
                continue
            if head is not None:
                head, _ = await self._request_head(active, head)
            gone: set[HookName] = {"request_body"} if head is not None else {"request_head", "request_body"}
            found = sorted(active.hooks & gone)
            if found and not active.failed and link.entry.unseen == "refuse":
                words = (
                    f"could not be shown the {found[0]}: another plugin changed the model behind it, to {model[:60]}"
                )
                self._failed(active, found[0], MiddlewareFault(words))
        return head

    async def response_head(self, head: ResponseHead) -> ResponseHead:
        """The head of an event stream as the plugins leave it."""
        self.join_unnamed()
        for active in reversed(self._active):
            head = await self._response_head(active, head)
        return head

    async def response(self, head: ResponseHead, text: str) -> tuple[ResponseHead, str]:
        """An answer that is sent whole, as the plugins leave it. `response_head` and `piece` are not called for it."""
        self.join_unnamed()
        for active in reversed(self._active):
            if "response" in active.hooks:
                head, text = await self._response(active, head, text)
                continue
            head = await self._response_head(active, head)
            if active in self._wire:
                changed = self._piece((active,), 0, AnswerPiece(text, "wire", last=True))
                text = changed if isinstance(changed, str) else await changed
        return head, text

    async def _response(self, active: Active, head: ResponseHead, text: str) -> tuple[ResponseHead, str]:
        if active.is_out():
            return head, text
        try:
            of_head, of_text = await active.asked(active.session.on_response, head, text)
            change = self._change(active, "response", of_head, ChangeHead)
            changed = self._change(active, "response", of_text, ChangeText)
            new_head = head if change is None else checked(changed_response, head, change, self._config.header_bytes)
            new_text = text if changed is None else await self._bounded(changed.text)
        except MiddlewareFault as fault:
            self._failed(active, "response", fault)
            return head, text
        if change is not None or changed is not None:
            self._report(Happened(active.link.entry.name, "response", "changed"))
        return new_head, new_text

    async def _response_head(self, active: Active, head: ResponseHead) -> ResponseHead:
        if active.is_out() or "response_head" not in active.hooks:
            return head
        try:
            verdict: HeadVerdict = await active.asked(active.session.on_response_head, head)
            change = self._change(active, "response_head", verdict, ChangeHead)
            if change is not None:
                head = checked(changed_response, head, change, self._config.header_bytes)
                self._report(Happened(active.link.entry.name, "response_head", "changed"))
        except MiddlewareFault as fault:
            self._failed(active, "response_head", fault)
        return head

    def piece(self, piece: AnswerPiece) -> str | Awaitable[str]:
        """The text of a piece as the plugins leave it, "" where it is held back; to be awaited if a plugin waits."""
        return self._piece(self._wire if piece.kind == "wire" else self._watching, 0, piece)

    def _piece(self, asked: Sequence[Active], at: int, piece: AnswerPiece) -> str | Awaitable[str]:
        text = piece.text
        for number in range(at, len(asked)):
            if not text and not piece.last:
                return ""
            active = asked[number]
            if active.is_out():
                continue
            watched = piece if text is piece.text else attrs.evolve(piece, text=text)
            if active.is_in_call:
                return self._piece_waiting(asked, number, watched, None)
            try:
                verdict = piece_verdict(active.session, watched)
            except MiddlewareFault as fault:
                text = self._piece_failed(active, fault, text)
                continue
            if isinstance(verdict, Awaitable):
                return self._piece_waiting(asked, number, watched, verdict)
            text = self._piece_text(active, verdict, text)
        return text

    async def _piece_waiting(
        self, asked: Sequence[Active], at: int, piece: AnswerPiece, verdict: Awaitable[PieceVerdict] | None
    ) -> str:
        """The same where a plugin waits: for `verdict`, or for its turn."""
        active = asked[at]

        async def answer() -> PieceVerdict:
            found = piece_verdict(active.session, piece) if verdict is None else verdict
            return await found if isinstance(found, Awaitable) else found

        try:
            text = self._piece_text(active, await active.asked(answer), piece.text)
        except MiddlewareFault as fault:
            text = self._piece_failed(active, fault, piece.text)
        rest = self._piece(asked, at + 1, attrs.evolve(piece, text=text))
        return rest if isinstance(rest, str) else await rest

    def _piece_text(self, active: Active, verdict: PieceVerdict, text: str) -> str:
        if isinstance(verdict, Continue):
            return text
        try:
            change = self._change(active, "piece", verdict, ChangeText)
            return text if change is None else checked(bounded_text, change.text, self._config.piece_bytes)
        except MiddlewareFault as fault:
            return self._piece_failed(active, fault, text)

    def _piece_failed(self, active: Active, fault: MiddlewareFault, text: str) -> str:
        """The text of a piece of which a plugin made nothing. Raises InternalError."""
        self._failed(active, "piece", fault)
        return text

    async def end(self, end: End) -> str:
        """What plugins send behind the last piece of an event stream. What fails here is reported, and refuses nothing more."""
        names: list[str] = []
        for active in reversed(self._active):
            if active.failed or "end" not in active.hooks:
                continue
            try:
                names.append(
                    checked(bounded_text, await active.asked(active.session.on_end, end), self._config.piece_bytes)
                )
            except (MiddlewareFault, SmgError) as error:
                active.failed = True
                self._report(Happened(active.link.entry.name, "end", "failed", fault_words(error)))
        return "".join(names)

    def lift_refusals(self) -> None:
        """From now on plugins are shown an error that the client gets in place of the answer: those that have refused the answer
        do not refuse that too."""
        for active in self._active:
            active.refusal = None

    async def error(self, failure: Failure) -> SmgError | None:
        """The error to tell the client instead of this one; None to leave it as it is."""
        found: SmgError | None = None
        for active in reversed(self._active):
            if active.failed or "error" not in active.hooks:
                continue
            try:
                verdict = await active.asked(active.session.on_error, failure)
                if isinstance(verdict, Reject):
                    found = checked(refusal_of, verdict)
                    failure = Failure(found.status, found.code or "", found.message)
                    self._report(Happened(active.link.entry.name, "error", "changed"))
            except (MiddlewareFault, SmgError) as error:
                active.failed = True
                self._report(Happened(active.link.entry.name, "error", "failed", fault_words(error)))
        return found

    def close(self) -> None:
        """The exchange is over. What fails here is reported."""
        while self._active:
            active = self._active.pop()
            try:
                close_session(active.session)
            except MiddlewareFault as fault:
                self._report(Happened(active.link.entry.name, "end", "failed", fault.reason))

    # --------------------------------------------------------------------------------------------------------- verdicts

    async def _bounded(self, text: object) -> str:
        """A body that a plugin made. Raises MiddlewareFault for one that is too large, and for what is no text."""
        check = partial(checked, bounded_text, text, self._config.body_bytes)
        return await self._rules.offload(check, len(text) if isinstance(text, str) else 0, self._about.tenant)

    def _change(self, active: Active, hook: HookName, verdict: object, kind: type[T]) -> T | None:
        """The change that a verdict asks for, None for none. Raises what refuses, and MiddlewareFault for what is no verdict."""
        if isinstance(verdict, Continue):
            return None
        if isinstance(verdict, kind):
            return verdict
        if isinstance(verdict, Reject):
            active.refusal = checked(refusal_of, verdict)
            self._report(Happened(active.link.entry.name, hook, "rejected"))
            raise active.refusal
        raise MiddlewareFault(f"answered {type(verdict).__name__} to {hook}")

    def _failed(self, active: Active, hook: HookName, fault: MiddlewareFault) -> None:
        """A plugin failed: it is out of this exchange. Raises InternalError unless it may be left out."""
        active.failed = True
        try:
            self._fault(active.link.entry, hook, fault)
        except InternalError as error:
            active.refusal = error
            raise

    def _fault(self, entry: Entry, hook: HookName, fault: MiddlewareFault) -> None:
        """Report a failure. Raises InternalError if the plugin is "closed"."""
        self._report(Happened(entry.name, hook, "failed", fault.reason))
        if entry.on_failure == "closed":
            raise _failure(entry, fault) from fault


def _failure(entry: Entry, fault: MiddlewareFault) -> InternalError:
    """The error that a client gets where a plugin failed."""
    return InternalError("A plugin of this gateway failed.", detail=f"{entry.name}: {fault.reason}")
