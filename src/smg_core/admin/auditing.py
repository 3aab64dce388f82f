"""Tells what is done at the admin door, in the log `smg.audit` and in the audit log (edge).

Decides what a line has: who, from where, which route and object, and how it ended; never a body, a header or a credential. A line
is written in a thread, and before what it tells of goes on: an action whose line cannot be written is refused. Above:
admin.app. Below: observability.audit_file.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Literal

from smg_core.errors import AuthenticationFailed, Overloaded, PermissionDenied
from smg_core.http.exchange import Exchange
from smg_core.observability.access_lines import time_stamp
from smg_core.observability.audit_file import AuditFile, AuditFileBroken
from smg_core.observability.repeats import Repeats
from smg_core.observability.settings import AuditConfig
from smg_core.serving.services import Services

__all__ = ["READING", "AdminAudit", "AuditedEvent", "audit_fault"]

log = logging.getLogger("smg.audit")

AuditedEvent = Literal["asked", "done", "failed", "refused"]
"""An action is "asked" before it begins, then "done" or "failed"; "refused" is a request that began nothing: one that was to
change something, or one that its caller may not make. A page that is not there, or a probe that says no, is no refusal."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
_NOT_ALLOWED = frozenset({AuthenticationFailed.__name__, PermissionDenied.__name__})
LONGEST_TEXT = 200  # characters of each text


def audit_fault(settings: AuditConfig) -> str:
    """What keeps the audit log that the settings name from being written; "" if nothing does."""
    if settings.file is None:
        return ""
    try:
        AuditFile(settings, str, str).check()
    except AuditFileBroken as error:
        return f"audit.file: {error}"
    except OSError as error:
        return f"audit.file: {settings.file} cannot be written: {error.strerror or error}"
    return ""


class AdminAudit:
    """What one process's admin door tells of its requests: lines of the log `smg.audit`, and of the audit log where the settings
    name a file."""

    def __init__(self, services: Services) -> None:
        settings, observability = services.live.config.audit, services.live.config.observability
        self._clock = clock = services.clock
        self._ids = services.ids
        self._refused = Repeats(observability.repeat_s, observability.repeats)
        self._file = AuditFile(settings, lambda: time_stamp(clock.time()), services.ids) if settings.file else None

    async def begin(self, exchange: Exchange) -> None:
        """A request is about to change something. Raises Overloaded where the audit log cannot be written."""
        if not exchange.request_id:
            exchange.take_id(self._ids, "req_")
        await self._write(exchange, "asked", "")
        exchange.audited = True

    async def end(self, exchange: Exchange, outcome: str) -> None:
        """A request has ended. Those that changed something are told, and those that were refused in a bounded way."""
        begun, good = exchange.audited, outcome == "ok"
        if good and begun:
            log.info("%s %s by %s", exchange.method, exchange.loggable_path[:LONGEST_TEXT], _who(exchange))
        record = begun
        if not good and (begun or exchange.method not in READING or outcome in _NOT_ALLOWED):
            record = self._tell_refused(exchange, outcome)
        if record or begun:
            with contextlib.suppress(Overloaded):  # it is logged, and the client has its answer
                event: AuditedEvent = "refused" if not begun else "done" if good else "failed"
                await self._write(exchange, event, outcome)

    def _tell_refused(self, exchange: Exchange, outcome: str) -> bool:
        """Whether it was logged: the same from one address is only counted for a while."""
        again = self._refused.note((exchange.address, outcome), self._clock.monotonic())
        if again is not None:
            what = f"{exchange.method} {exchange.loggable_path[:LONGEST_TEXT]}"
            more = f" ({again} more like it since the last time)" if again else ""
            log.warning("refused %s of %s: %s%s", what, _who(exchange), outcome, more)
        return again is not None

    async def _write(self, exchange: Exchange, event: AuditedEvent, outcome: str) -> None:
        """Append a line to the audit log, if there is one. Raises Overloaded where that is not possible."""
        if self._file is None:
            return
        fields = _line(exchange, event, outcome)
        try:
            await asyncio.shield(asyncio.to_thread(self._file.append, fields))
        except (OSError, ValueError) as error:
            log.critical("the audit log cannot be written: %s; missing: %s", error, fields)
            raise Overloaded("The audit log cannot be written, so nothing is done.", detail=str(error)) from None


def _who(exchange: Exchange) -> str:
    """Who sent a request, in words: whom its credential names, and from where."""
    caller, at = exchange.caller, exchange.address or "the socket"
    name = caller.principal or caller.tenant
    return f"{caller.tenant}/{name} at {at}" if name else f"whoever is at {at}"


def _line(exchange: Exchange, event: AuditedEvent, outcome: str) -> Mapping[str, object]:
    """The members of a line; those that are not known are left out."""
    caller = exchange.caller
    fields = {
        "event": event,
        "method": exchange.method,
        "path": exchange.loggable_path,
        "route": exchange.route,
        "subject": exchange.subject,
        "tenant": caller.tenant,
        "principal": caller.principal,
        "peer": exchange.address,
        "client_request_id": exchange.client_id,
        "request_id": exchange.request_id,
        "trace_id": exchange.trace_id,
        "outcome": outcome,
    }
    line: dict[str, object] = {name: _cut(text) for name, text in fields.items() if text}
    return line | {"status": exchange.status} if exchange.status else line


def _cut(text: str) -> str:
    return text[:LONGEST_TEXT].encode("utf-8", "replace").decode()
