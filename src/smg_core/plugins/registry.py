"""The plugins of one process: which there are, loaded, replaced and drained (edge).

They come from the settings, from their file and from the admin door. A change is loaded and tried beside what serves; only then
do new exchanges meet it. What cannot be loaded changes nothing, and is told. An exchange keeps the plugins that it began with.
Above: gateway.assembly opens, app.app asks for `plan`, admin.plugins changes. Below: the rooms `middleware` and `wasm`.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import msgspec

from smg_core.auth.roles import Roles
from smg_core.channel.base import Channel, Notice
from smg_core.channel.settling import known_everywhere
from smg_core.clock import CallLater, Clock, IdSource
from smg_core.config.config import Config
from smg_core.hooks import Observer, PluginActed, PluginChanged, PluginCounted
from smg_core.middleware.chain import Happened, Offload
from smg_core.middleware.entries import Entry, Link, check_plugins, entry_of_source, parse_entries
from smg_core.middleware.plan import PluginPlan
from smg_core.middleware.python import given_plugins
from smg_core.observability.repeats import Repeats
from smg_core.outside_words.exceptions import FaultWords
from smg_core.plugins.code import NotLoaded, PluginCode, dispose, is_refusing, rules_of
from smg_core.plugins.file import FilePrint, entries_in_file, print_of
from smg_core.request import Caller
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.wasm.guest_report import GuestReport

__all__ = ["PluginState", "Plugins"]

log = logging.getLogger("smg.plugins")

KIND = "plugins"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_Seen = tuple[tuple[Entry, FilePrint], ...]
"""Plugins that are wanted, and their files: while neither changes, nothing is loaded."""
_MOST_COUNTED = 2.0**53  # as wasm.guest_report has it for one call
_COUNTERS = 32
"""The counters of its own that a component may have."""


class _Change(msgspec.Struct, frozen=True):
    """What the admin door says of the plugin `name`: its entry as JSON, "" to remove it."""

    name: str
    entry: str


@attrs.define(eq=False)
class PluginState:
    """One plugin: its entry, its code, the file that it was made of, and what was counted of it (`counters`: a component's own).
    `problem` says why a newer one is not in its place, "" if there is none."""

    link: Link
    print: FilePrint
    problem: str = ""
    counts: dict[str, float] = attrs.field(factory=dict)
    counters: dict[str, float] = attrs.field(factory=dict)


@attrs.frozen
class _Refused:
    """A plugin that could not be loaded: what was said of it, its file as that was then, and why."""

    entry: Entry
    print: FilePrint
    problem: str


class Plugins:
    """The plugins of one gateway in this process. `plan` is what new exchanges meet, `standing` how many requests are with
    plugins before they are admitted."""

    def __init__(
        self,
        config: Config,
        channel: Channel,
        clock: Clock,
        call_later: CallLater,
        observer: Observer,
        names_of: Callable[[str, Caller], Collection[str]],
        ids: IdSource,
        offload: Offload,
        permissions: Mapping[str, str],
    ) -> None:
        """`names_of` has all names of what a caller's request for a model may lead to; `ids` makes the ids of requests; `offload`
        does long work off the event loop."""
        self.names_of, self.ids = names_of, ids
        self.plan = PluginPlan((), rules_of(config, offload))
        self.states: dict[str, PluginState] = {}
        self.roles = Roles((), permissions)
        self._auth, self._permissions = config.auth, permissions
        self._config, self._settle_s = config.middleware, config.channel.publish_s
        self._words = config.observability.fault_words or config.observability.author_words
        self._given: tuple[Entry, ...] = ()
        self._channel, self._clock, self._call_later, self._observer = channel, clock, call_later, observer
        self._repeats = Repeats(config.observability.repeat_s, config.observability.repeats)
        self._changes: dict[str, Entry | None] = {}
        self._file_problem = ""
        self._listed: tuple[Entry, ...] = ()
        self._offered: tuple[Entry, ...] = ()
        self._file_print: FilePrint = None
        self._looked: _Seen = ()
        self._refused: dict[str, _Refused] = {}
        self._changing = asyncio.Lock()
        self._code = PluginCode(config.middleware, self._hear)
        self.pending: set[asyncio.Task[None]] = (
            set()
        )  # changes that are known here, and that new exchanges do not meet yet
        self._open = self._listens = False
        self.standing = 0

    def give(self, given: Sequence[object]) -> None:
        """Have these run before those of the settings (`middleware.python.given_plugins`). Raises ConfigError."""
        plugins = given_plugins(given)
        self._given = tuple(each.entry for each in plugins)
        check_plugins(self._given, "middleware")
        self._code.given = {
            (each.entry.name, each.entry.source): each.code for each in plugins if each.code is not None
        }

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """While plugins are asked about a request that no handler has admitted yet: `standing` counts it, so that a gateway that
        leaves waits for it."""
        self.standing += 1
        try:
            yield
        finally:
            self.standing -= 1

    async def changed(self) -> None:
        """Return when new exchanges meet every change that is known here. Called before an exchange looks for its plugins: one
        that comes while a plugin is loaded does not go by it."""
        while self.pending:
            await asyncio.wait(set(self.pending))

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Load what the settings name, while a gateway is started, and what was put at the admin door in this start or an earlier
        one. Raises ConfigError."""
        self._open = True
        if not self._listens:
            self._listens = True
            self._channel.subscribe(KIND, self._receive)
        try:
            self.roles = Roles(self._auth.roles, self._permissions)
            printed = print_of(self._config.file)  # first: a file that is written meanwhile is read again
            self._offer(self._read_entries(), printed)
            await self._apply(self._offered)
            yield
        finally:
            await self._close()

    async def run(self) -> None:
        """Look for changes of files, until this is cancelled."""
        if not self._config.follow:
            return
        while True:
            looked = asyncio.Event()
            timer = self._call_later(self._config.follow_s, looked.set)
            try:
                await looked.wait()
            finally:
                timer.cancel()
            await self.look()

    async def look(self) -> None:
        """Take what has changed in the file of plugins, or in a component. What is wrong is logged once and changes nothing: it
        is not tried again before something has changed."""
        try:
            printed = print_of(self._config.file)
            if printed != self._file_print:
                self._file_print = printed
                self._offer(await asyncio.to_thread(self._read_entries), printed)
        except ConfigError as error:
            self._complain(error)
        seen = self._seen()
        if seen == self._looked:
            return
        self._looked = seen
        try:
            await self._apply(self._offered)
            self._file_problem = ""
        except ConfigError as error:
            self._complain(error)
            await self._apply(self._listed)

    def _complain(self, error: ConfigError) -> None:
        if str(error) != self._file_problem:
            log.warning("the plugins stay as they are: %s", error)
        self._file_problem = str(error)

    async def put(self, entry: Entry) -> str:
        """Add or replace a plugin, in every process. Raises ConfigError where it cannot be used; what was there stays then."""
        await self._code.load(entry)
        text = json.dumps(_as_object(entry))
        await self._tell(_Change(entry.name, text))
        return entry.name

    async def remove(self, name: str) -> bool:
        """Remove a plugin in every process; False if there is none of this name."""
        if name not in self.states:
            return False
        await self._tell(_Change(name, ""))
        return True

    def report(self, happened: Happened) -> None:
        """Called for what plugins do: counted, and failures logged."""
        state = self.states.get(happened.plugin)
        if state is not None:
            state.counts[happened.outcome] = state.counts.get(happened.outcome, 0) + 1
        self._observer.report(PluginActed(happened.plugin, happened.hook, happened.outcome))
        if happened.outcome != "failed":
            return
        again = self._repeats.note((happened.plugin, happened.hook, happened.reason), self._clock.monotonic())
        if again is not None:
            repeats = f", {again} more like it since the last time" if again else ""
            reason: str = happened.reason
            if self._words and isinstance(reason, FaultWords):
                reason = f"{reason}: {reason.outside_text}"
            log.error("plugin %s failed at %s: %s%s", happened.plugin, happened.hook, reason, repeats)

    # -------------------------------------------------------------------------------------------------------- changes

    def _read_entries(self) -> tuple[Entry, ...]:
        """Which plugins the settings and their file name. Raises ConfigError. Reads a file."""
        entries = [*self._given, *(entry_of_source(each) for each in self._config.plugins)]
        if self._config.file is not None:
            entries += entries_in_file(self._config.file, self._config.component_bytes)
        check_plugins(entries, "middleware")
        if len(entries) > self._config.most:
            raise ConfigError(f"middleware: {len(entries)} plugins, over middleware.most ({self._config.most})")
        return tuple(entries)

    def _offer(self, entries: tuple[Entry, ...], printed: FilePrint) -> None:
        """Want these plugins from now on, as the file says that was read."""
        self._offered, self._file_print = entries, printed
        self._looked, self._refused = (), {}
        self._file_problem = ""

    def _wanted(self, listed: tuple[Entry, ...]) -> list[Entry]:
        changes = dict(self._changes)
        found = [changes.pop(each.name, each) for each in listed]
        return [each for each in (*found, *changes.values()) if each is not None]

    def _seen(self) -> _Seen:
        """What is wanted now and what is used now, with their files."""
        used = [each.link.entry for each in self.states.values()]
        return tuple((each, print_of(each.source)) for each in (*self._wanted(self._offered), *used))

    async def _apply(self, listed: tuple[Entry, ...]) -> None:
        """Have new exchanges meet what these and the admin door want. All is loaded first. Raises ConfigError, and changes
        nothing, if one that is listed cannot be loaded and there is none of its name that could stay: what it was to replace may
        have another name. What the admin door put is for nothing to fail by: it was loaded where it was put, and this process is
        one of several that serve."""
        async with self._changing:
            states: dict[str, PluginState] = {}
            try:
                for entry in self._wanted(listed):
                    state = await self._state(entry, self.states.get(entry.name))
                    if state is not None:
                        states[entry.name] = state
            except (ConfigError, asyncio.CancelledError):
                self._dispose(states, self.states)
                raise
            before, self.states, self._listed = self.states, states, listed
            self.plan = attrs.evolve(self.plan, links=tuple(each.link for each in states.values()))
            self._tell_changes(before, states)
            self._dispose(before, states)

    def _tell_changes(self, before: Mapping[str, PluginState], after: Mapping[str, PluginState]) -> None:
        """Log and report which plugins exchanges meet now."""
        for name, state in after.items():
            now = before.get(name)
            if isinstance(state.link.middleware, NotLoaded) or (now is not None and now.link is state.link):
                continue
            outcome = "loaded" if now is None or isinstance(now.link.middleware, NotLoaded) else "replaced"
            log.info("plugin %s is %s", name, outcome)
            self._observer.report(PluginChanged(name, outcome))
        for name in before:
            if name not in after:
                self._observer.report(PluginChanged(name, "removed"))

    def _dispose(self, gone: Mapping[str, PluginState], kept: Mapping[str, PluginState]) -> None:
        """Close the code of plugins that is not kept. What it raises then is logged."""
        ids = {id(each.link.middleware) for each in kept.values()}
        for name, state in gone.items():
            if id(state.link.middleware) not in ids:
                dispose(name, state.link.middleware)

    async def _state(self, entry: Entry, now: PluginState | None) -> PluginState | None:
        """The plugin of an entry: loaded, or what stays in its place; None for nothing. Raises ConfigError."""
        printed = print_of(entry.source)
        if now is not None and isinstance(now.link.middleware, NotLoaded):
            now = None
        if now is not None and now.link.entry == entry and now.print == printed:
            self._refused.pop(entry.name, None)
            now.problem = ""
            return now
        refused = self._refused.get(entry.name)
        if refused is None or (refused.entry, refused.print) != (entry, printed):
            try:
                link = Link(entry, await self._code.load(entry))
            except ConfigError as error:
                refused = self._refuse(_Refused(entry, printed, str(error)), now)
            else:
                self._refused.pop(entry.name, None)
                if now is None:
                    return PluginState(link, printed)
                return PluginState(link, printed, counts=now.counts, counters=now.counters)
        if now is not None:
            now.problem = refused.problem
            return now
        if entry.name not in self._changes:
            raise ConfigError(refused.problem)
        # the process where it was put could load it, and has said so
        return PluginState(Link(entry, NotLoaded(entry.name)), printed, refused.problem) if is_refusing(entry) else None

    def _refuse(self, refused: _Refused, now: PluginState | None) -> _Refused:
        """Remember what cannot be loaded, so that it is neither tried nor told of again before it has changed."""
        entry = refused.entry
        if now is not None:
            after = "the one before it stays"
        elif entry.name not in self._changes:
            after = "nothing is changed"
        else:
            after = "its requests are refused" if is_refusing(entry) else "it is left out"
        log.warning("%s; %s", refused.problem, after)
        self._observer.report(PluginChanged(entry.name, "refused"))
        self._refused[entry.name] = refused
        return refused

    def _hear(self, name: str, guest_words: "GuestReport") -> None:
        """Log and count what a guest said."""
        for level, line in guest_words.lines:
            log.log(_LEVELS.get(level, logging.INFO), "plugin %s: %s", name, line)
        state = self.states.get(name)
        if state is None:
            return
        dropped = guest_words.dropped
        for counter, by in guest_words.counts.items():
            total = state.counters.get(counter, 0) + by
            if (counter not in state.counters and len(state.counters) >= _COUNTERS) or total > _MOST_COUNTED:
                dropped += 1
                continue
            state.counters[counter] = total
            self._observer.report(PluginCounted(name, counter, by))
        if dropped:
            state.counts["not_told"] = state.counts.get("not_told", 0) + dropped

    async def _tell(self, change: _Change) -> None:
        number = await self._channel.publish(KIND, msgspec.json.encode(change), key=change.name)
        await known_everywhere(self._channel, number, self._settle_s)
        await self.changed()

    def _receive(self, message: Notice) -> None:
        """A process, this one too, tells of a change. While this gateway is stopped it is kept for the next start."""
        change = msgspec.json.decode(message.body, type=_Change)
        try:
            entries = parse_entries([json.loads(change.entry)], "the admin door") if change.entry else (None,)
        except ConfigError as error:
            log.warning("%s", error)
            return
        self._changes[change.name] = entries[0]
        if not self._open:
            return
        task = asyncio.get_running_loop().create_task(self._change(), name="plugins change")
        self.pending.add(task)
        task.add_done_callback(self.pending.discard)

    async def _change(self) -> None:
        """Have new exchanges meet what the admin door has changed."""
        try:
            await self._apply(self._listed)
        except ConfigError as error:
            self._complain(error)

    async def _close(self) -> None:
        """Leave every plugin. A change that was told of last may still be loading one: it is given up first, and none begins."""
        self._open = False
        changing = [task for task in self.pending if task.cancel()]
        await asyncio.gather(*changing, return_exceptions=True)
        self._dispose(self.states, {})
        self.states, self.plan = {}, attrs.evolve(self.plan, links=())
        await self._code.close()


def _as_object(entry: Entry) -> Mapping[str, object]:
    """An entry as `parse_entries` reads it."""
    found: dict[str, object] = attrs.asdict(entry)
    limits = found.pop("limits")
    return {**found, **limits} if isinstance(limits, dict) else found
