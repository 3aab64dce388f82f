"""The plugins around calls of the history's store, by the order and failure of all plugins (edge).

Each plugin that applies to the tenant is asked before a call, in the order of the list: it lets it happen, changes its texts, or
rejects it; after the call all are told. A session of a plugin is of one call. Routes and models do not apply: a call has none.
Above: plugins.storage. Below: `chain`, `base`.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec

from smg_core.errors import InternalError, SmgError
from smg_core.middleware.asking import begun_session, checked, close_session, fault_words, hook_verdict
from smg_core.middleware.base import (
    About,
    ChangeStored,
    Continue,
    HookName,
    MiddlewareFault,
    PluginSession,
    Reject,
    StorageCall,
    StorageVerdict,
)
from smg_core.middleware.chain import Happened, ReportHappened
from smg_core.middleware.checks import bounded_text, refusal_of
from smg_core.middleware.entries import Link
from smg_core.middleware.plan import PluginPlan

__all__ = ["StoragePlugins"]

T = TypeVar("T")


class StoragePlugins:
    """The plugins of a plan that have hooks around the store. `tenants` of an entry hold, its routes and models do not."""

    def __init__(self, plan: PluginPlan, report: ReportHappened) -> None:
        self._config, self._report = plan.rules.config, report
        self._links = [each for each in plan.links if each.middleware.hooks & {"store", "stored"}]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._links)

    async def before(self, call: StorageCall) -> Mapping[str, str]:
        """The texts that are changed, by name. Raises SmgError: the refusal of a plugin, or InternalError where one failed that
        is "closed"."""
        changed: dict[str, str] = {}
        for link in self._for(call.tenant, "store"):
            current = StorageCall(
                call.operation,
                call.kind,
                call.id,
                call.tenant,
                call.principal,
                tuple((name, changed.get(name, text)) for name, text in call.texts),
            )
            try:
                changed.update(await self._asked(link, current))
            except MiddlewareFault as fault:
                self._failed(link, "store", fault)
        return changed

    async def after(self, call: StorageCall) -> None:
        """Tell of a call that has happened. What fails here is reported, and refuses nothing more."""
        for link in self._for(call.tenant, "stored"):
            try:
                await _in_session(link, call, _stored)
            except (MiddlewareFault, SmgError) as error:
                self._report(Happened(link.entry.name, "stored", "failed", fault_words(error)))

    def _for(self, tenant: str, hook: HookName) -> list[Link]:
        return [
            each
            for each in self._links
            if hook in each.middleware.hooks and (not each.entry.tenants or tenant in each.entry.tenants)
        ]

    async def _asked(self, link: Link, call: StorageCall) -> dict[str, str]:
        """The texts that one plugin changes. Raises its refusal, and MiddlewareFault."""
        verdict = await _in_session(link, call, _store)
        if isinstance(verdict, Continue):
            return {}
        if isinstance(verdict, Reject):
            refused = checked(refusal_of, verdict)
            self._report(Happened(link.entry.name, "store", "rejected"))
            raise refused
        if not isinstance(verdict, ChangeStored):
            raise MiddlewareFault(f"answered {type(verdict).__name__} to store")
        found = checked(self._checked, call, verdict)
        self._report(Happened(link.entry.name, "store", "changed"))
        return found

    def _checked(self, call: StorageCall, verdict: ChangeStored) -> dict[str, str]:
        names, changed = {name for name, _ in call.texts}, dict[str, str]()
        for name, text in verdict.texts:
            if name not in names:
                raise MiddlewareFault(f"changes the text {name[:60]!r}, which this call does not have")
            changed[name] = bounded_text(text, self._config.body_bytes)
            try:
                msgspec.json.decode(text)
            except (msgspec.DecodeError, UnicodeEncodeError):
                raise MiddlewareFault(f"makes the text {name[:60]!r} no JSON") from None
        return changed

    def _failed(self, link: Link, hook: HookName, fault: MiddlewareFault) -> None:
        self._report(Happened(link.entry.name, hook, "failed", fault.reason))
        if link.entry.on_failure == "closed":
            detail = f"{link.entry.name}: {fault.reason}"
            raise InternalError("A plugin of this gateway failed.", detail=detail) from fault


async def _in_session(
    link: Link, call: StorageCall, hook: Callable[[PluginSession], Callable[[StorageCall], Awaitable[T]]]
) -> T:
    """What a hook of a plugin answers, in a session of its own. Raises its refusal, and MiddlewareFault for whatever else it
    raises."""
    session = begun_session(link.middleware, About("", "", "", tenant=call.tenant, principal=call.principal))
    try:
        found = await hook_verdict(hook(session), link.within, call)
    except BaseException:
        with contextlib.suppress(MiddlewareFault):  # it may not take the place of a cancellation
            close_session(session)
        raise
    close_session(session)
    return found


def _store(session: PluginSession) -> Callable[[StorageCall], Awaitable[StorageVerdict]]:
    return session.on_store


def _stored(session: PluginSession) -> Callable[[StorageCall], Awaitable[None]]:
    return session.on_stored
