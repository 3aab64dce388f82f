"""Operators' changes of a running gateway: whether it takes requests, its log's level, its settings (edge).

Each process has one. A change is published to all processes, and applied where it is received; without a channel it is applied at
once. What is kept of it reaches processes that start later. Settings are read again from where they came from: a bad one changes
nothing, what can change live does, and what cannot is named (`operation.live_settings`). Above: processes.telemetry makes it, the
routes of the admin door call it. Below: gateway.assembly, fleet.roster.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import msgspec

from smg_core.channel.base import Notice
from smg_core.channel.settling import known_everywhere
from smg_core.config.check import check
from smg_core.config.config import Resolved
from smg_core.errors import InvalidRequest, SmgError
from smg_core.fleet.connect import specs_of, workers_in
from smg_core.fleet.roster import ADMIN, FILE, MESH, PROGRAM, SETTINGS, Reconciled
from smg_core.identity.identity import Identity, is_open, static_keys
from smg_core.operation.config_source import ConfigSource
from smg_core.operation.decision_lookup import Decided
from smg_core.operation.discovery import discovery_of
from smg_core.operation.live_settings import LIVE, differences, with_values
from smg_core.operation.log_level import LogLevel
from smg_core.operation.process_table import ProcessTable
from smg_core.serving.lifecycle import Lifecycle
from smg_core.settings import ConfigError
from smg_core.stored.history import with_filled_in
from smg_core.workers.worker import WorkerSpec

__all__ = ["LIVE_VALUES", "Control", "Reloaded"]

log = logging.getLogger("smg.server")

TAKING, LEVEL, LIVE_VALUES = "taking", "log_level", "settings"
"""Kinds of messages; each has one key, of the same name."""

KEYS = "auth."
"""How the paths of keys begin."""


@attrs.frozen
class Reloaded:
    """What became of settings that were read again: paths that changed live, paths that need a restart, and the workers."""

    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]
    workers: Reconciled


class Control:
    """What can be changed of `gateway`, whose processes are in `processes`. `source` says where its settings came from; without
    one they cannot be read again."""

    def __init__(self, gateway: Lifecycle, processes: ProcessTable, source: ConfigSource | None = None) -> None:
        self.services = services = gateway.services
        self._adopt = gateway.adopt
        self.log_level = LogLevel(services.live.config.observability.log_level, services.clock, services.call_later)
        self._resolved: Resolved | None = None
        self._processes = processes
        self._source = source
        self._reloading = asyncio.Lock()
        self._revising: set[asyncio.Task[None]] = set()
        self.decided = Decided(
            services.decisions,
            services.channel,
            processes,
            ids=services.ids,
            call_later=services.call_later,
            wait_s=services.live.config.channel.publish_s,
        )
        self._listen()

    def _listen(self) -> None:
        """Apply what other processes publish, beginning with what is kept of it."""
        for kind, apply in self._appliers.items():
            self.services.channel.subscribe(kind, partial(self._receive, apply))

    @property
    def _appliers(self) -> dict[str, Callable[[Any], None]]:
        return {TAKING: self._apply_taking, LEVEL: self._apply_level, LIVE_VALUES: self._apply_values}

    def _receive(self, apply: Callable[[Any], None], message: Notice) -> None:
        if message.body and self.services.life.started:
            apply(msgspec.json.decode(message.body))

    async def _publish(self, kind: str, what: object) -> None:
        """Return once every process has made the change. Raises Overloaded where that is not known."""
        channel = self.services.channel
        number = await channel.publish(kind, msgspec.json.encode(what), key=kind)
        await known_everywhere(channel, number, self.services.live.config.channel.publish_s)

    # ---------------------------------------------------------------------------------------------------------- requests

    async def hold(self) -> None:
        """Take no new requests, in any process, until `release`; those under way are finished."""
        await self._publish(TAKING, {"held": True})

    async def release(self) -> None:
        """Take requests again."""
        await self._publish(TAKING, {"held": False})

    def _apply_taking(self, taking: Mapping[str, bool]) -> None:
        self.services.admission.held = taking["held"]
        # Whoever asked counts the requests of all as soon as every process has been here.
        self._processes.say_in_flight(self.services.in_flight)

    @property
    def in_flight(self) -> int:
        """Requests under way in all processes."""
        in_flight = sum(each.in_flight for each in self._processes.read())
        return self.services.in_flight + in_flight - self._processes.mine.in_flight

    # --------------------------------------------------------------------------------------------------------------- log

    async def set_log_level(self, level: str, duration_s: float | None) -> None:
        """Log from `level` up in all processes, for so many seconds, or for good with None."""
        until = None if duration_s is None else self.services.clock.time() + duration_s
        await self._publish(LEVEL, {"level": level, "until": until, "over": self.log_level.configured})

    def _apply_level(self, change: Mapping[str, Any]) -> None:
        """Take a level that was set, unless it was set for good over another level than the settings have now: then they were
        edited since, and a process that starts with them has that level."""
        if change["until"] is not None or change["over"] == self.log_level.configured:
            self.log_level.set(change["level"], change["until"])

    # ---------------------------------------------------------------------------------------------------------- settings

    async def reload(self) -> Reloaded:
        """Read the settings again, and change what can change live; returns once that is so in every process. Raises
        InvalidRequest with all that is wrong with them; nothing is changed then. Raises Overloaded where it is not known whether
        every process has changed."""
        source, services = self._source, self.services
        if source is None:
            raise InvalidRequest("This gateway's settings were given by a program; there is no file to read again.")
        async with self._reloading:
            try:
                resolved = await asyncio.to_thread(source.read)
                check(resolved.config, services.apis.permissions)
                await asyncio.to_thread(static_keys, resolved.config.auth, services.clock, services.apis.permissions)
                specs, in_file = specs_of(resolved.config.workers), await workers_in(resolved.config)
                services.running.roster.check_all([*specs, *in_file])
            except (ConfigError, LookupError, ValueError) as error:
                raise InvalidRequest(f"The settings were not changed: {error}") from None
            config = with_filled_in(resolved.config, services.live.config, source.environ)
            live, restart = differences(services.live.config, config)
            if is_open(resolved.config) != is_open(
                services.live.config
            ):  # whether callers have names at all is said at the start
                restart += [path for path in live if path.startswith(KEYS)]
                live = [path for path in live if not path.startswith(KEYS)]
            kept = [path for path in LIVE if path in live or not path.startswith(KEYS)]
            await self._publish(LIVE_VALUES, {path: resolved.config.get(path) for path in kept})
            if isinstance(services.running.identify, Identity):
                await services.running.identify.adopted()
            await asyncio.gather(*self._revising)
            self._resolved = resolved
            workers = await self._adopt_workers(specs, in_file)
            lists = [", ".join(each) or "none" for each in (live, restart)]
            log.info("settings were read again: changed: %s; those that need a restart: %s", *lists)
            await services.running.roster.settled()
            return Reloaded(tuple(live), tuple(restart), workers)

    async def _adopt_workers(self, specs: Sequence[WorkerSpec], in_file: Sequence[WorkerSpec]) -> Reconciled:
        """Make the workers of the settings, and of their file, be these."""
        roster = self.services.running.roster
        workers = await roster.reconcile(SETTINGS, specs)
        if not self.services.live.config.discovery.file_interval_s:  # else the file is watched by `discovery`
            workers = workers.and_also(await roster.reconcile(FILE, in_file))
        return workers

    def revise(self) -> None:
        """Called once in the first process that was started by settings that had been read anew (SIGHUP), when it takes requests:
        what was changed of workers before gives way to what these settings say, but for drains. Workers of sources that are no
        longer asked retire."""
        task = asyncio.create_task(self._revise(), name="workers of the new settings")
        self._revising.add(task)
        task.add_done_callback(self._revising.discard)

    async def _revise(self) -> None:
        services = self.services
        config = services.live.config
        try:
            done = await self._adopt_workers(specs_of(config.workers), await workers_in(config))
            sources = {SETTINGS, PROGRAM, ADMIN, MESH, *discovery_of(services).standings}
            sources |= {FILE} if config.workers.file is not None else set()
            done = done.and_also(await services.running.roster.retire_others(sources))
        except (SmgError, ConfigError, LookupError, ValueError) as error:
            log.critical("the workers stay as they were: %s", error)
        else:
            log.info("the workers are those of the new settings: %s", done)

    async def sources(self) -> Mapping[str, str]:
        """Where each setting in use comes from, by its path; not for one whose source says another value than the one in use."""
        if self._resolved is None and self._source is not None:
            try:
                self._resolved = await asyncio.to_thread(self._source.read)
            except ConfigError:  # it was changed since the start, and nobody has asked to read it again
                return {}
        if self._resolved is None:
            return {}
        used, resolved = self.services.live.config, self._resolved
        return {
            path: source for path, source in resolved.sources.items() if used.get(path) == resolved.config.get(path)
        }

    def _apply_values(self, values: Mapping[str, Any]) -> None:
        config = with_values(self.services.live.config, {path: value for path, value in values.items() if path in LIVE})
        self._adopt(config)
        self.log_level.adopt(config.observability.log_level)
        if isinstance(self.services.running.identify, Identity):
            self.services.running.identify.adopt_keys(config.auth)

    def close(self) -> None:
        """Let the log have its configured level again."""
        self.log_level.close()
