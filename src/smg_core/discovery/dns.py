"""A name in DNS, asked again when its records run out (edge).

An answer without any address is none: a server that has just started, or that has lost its zone, says so of every name, and an
engine that is gone is found by its health checks. An SRV record whose target is "." is an answer: there is no such service, and
so no worker. Above: operation.discovery. Below: names says which workers the records mean;
resolver asks.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

from smg_core.discovery.base import Missed, SourceAnswer, WorkersSeen
from smg_core.discovery.names import DnsName, Host, Records, Service, interval, usable_records, workers_of_records
from smg_core.discovery.settings import DiscoveryConfig
from smg_core.discovery.waiting import Pause
from smg_core.engines.connections.target import Tls

__all__ = ["Ask", "DnsSource", "NoRecords", "RecordKind"]

log = logging.getLogger("smg.discovery")

RecordKind = Literal["A", "AAAA", "SRV"]


class NoRecords(Exception):
    """A question was not answered; the text is for the operator."""


Ask = Callable[[str, RecordKind], Awaitable[Records]]
"""The records of a name, of a kind; none where it has others. Raises NoRecords."""

_FAMILIES: dict[str, tuple[RecordKind, ...]] = {"both": ("A", "AAAA"), "ipv4": ("A",), "ipv6": ("AAAA",)}


class DnsSource:
    """The workers of one name. `ask` asks for records, `pause` waits; `tls` has the certificates of the settings."""

    def __init__(
        self, name: DnsName, ask: Ask, pause: Pause, settings: DiscoveryConfig, tls: Tls | None = None
    ) -> None:
        self.name = f"dns {name.text}"
        self._asked = name
        self._ask = ask
        self._pause = pause
        self._settings = settings
        self._tls = tls
        self._last_logged: tuple[str, ...] = ()
        self._kinds: tuple[RecordKind, ...] = ("SRV",) if name.srv else _FAMILIES[settings.dns_families]

    async def answers(self) -> AsyncIterator[SourceAnswer]:
        """The name's workers, each time that its records have run out."""
        settings, last = self._settings, WorkersSeen(())
        while True:
            try:
                found = await self._found()
            except NoRecords as error:
                yield Missed(str(error))
                await self._pause(settings.dns_retry_s)
                continue
            wanted = workers_of_records(self._asked, found.records, self._tls)
            if wanted != last.workers:
                last = WorkersSeen(wanted)
            yield last
            await self._pause(interval(found.ttl, settings.dns_least_s, settings.dns_most_s))

    async def _found(self) -> Records:
        """All records of the name that mean an engine, which hold as long as the shortest of them. Raises NoRecords unless every
        question was answered, with a record at least, and where none of them can be used."""
        answers = await asyncio.gather(
            *(self._ask(self._asked.host, kind) for kind in self._kinds), return_exceptions=True
        )
        found: list[Host | Service] = []
        ttl = self._settings.dns_most_s
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            found += answer.records
            ttl = min(ttl, answer.ttl) if answer.records else ttl
        if not found:
            raise NoRecords(f"it has no {' or '.join(self._kinds)} record")
        if len(found) > self._settings.most:
            raise NoRecords(f"it has {len(found)} records; discovery.most allows {self._settings.most}")
        usable, faults = usable_records(found)
        if faults != self._last_logged:
            self._last_logged = faults
            for fault in faults:
                log.warning("%s: a record is left out: %s", self.name, fault)
        if faults and not usable:
            raise NoRecords(faults[0])
        return Records(usable, ttl)
