"""The plugins of one process: which there are, loaded, replaced and drained (edge).

They come from the settings, from their file and from the admin door. A change is loaded and tried beside what serves; only then
do new exchanges meet it. What cannot be loaded changes nothing, and is told. An exchange keeps the plugins that it began with.
Above: server.runtime opens, server.app asks for `plan`, server.admin.plugins changes. Below: the rooms `middleware` and `wasm`.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from smg_core.auth.roles import Roles
from smg_core.clock import CallLater, Clock, IdSource
from smg_core.config import Config
from smg_core.hooks import Observer, PluginActed, PluginChanged, PluginCounted
from smg_core.middleware.base import Middleware
from smg_core.middleware.chain import Apart, Happened
from smg_core.middleware.entries import Entry, Link, check_plugins, entry_of_source, parse_entries
from smg_core.middleware.plan import PluginPlan
from smg_core.observability.repeats import Repeats
from smg_core.request import Caller
from smg_core.server.channel.local import LocalChannel
from smg_core.server.channel.settling import Channel, Notice, known_everywhere
from smg_core.server.plugin_code import NotLoaded, PluginCode, is_refusing, rules_of
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.wasm.told import GuestSaid

__all__ = ["Channel", "LocalChannel", "PluginState", "Plugins"]

log = logging.getLogger("smg.plugins")

KIND = "plugins"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_Print = tuple[int, int, int] | None
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
    print: _Print
    problem: str = ""
    counts: dict[str, float] = attrs.field(factory=dict)
    counters: dict[str, float] = attrs.field(factory=dict)


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
        apart: Apart,
    ) -> None:
        """`names_of` has all names of what a caller's request for a model may lead to; `ids` makes the ids of requests; `apart`
        does long work off the event loop."""
        self.names_of, self.ids = names_of, ids
        self.plan = PluginPlan((), rules_of(config, apart))
        self.states: dict[str, PluginState] = {}
        self.roles = Roles(())
        self._auth = config.auth
        self._config, self._settle_s = config.middleware, config.channel.publish_s
        self._channel, self._clock, self._call_later, self._observer = channel, clock, call_later, observer
        self._repeats = Repeats(config.observability.repeat_s, config.observability.repeats)
        self._changes: dict[str, Entry | None] = {}
        self._file_problem = ""
        self._listed: tuple[Entry, ...] = ()
        self._file_print: _Print = None
        self._changing = asyncio.Lock()
        self._code = PluginCode(config.middleware, self._hear)
        self._pending: set[asyncio.Task[None]] = set()
        self.standing = 0

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """While plugins are asked about a request that no handler has admitted yet: `standing` counts it, so that a gateway that
        leaves waits for it."""
        self.standing += 1
        try:
            yield
        finally:
            self.standing -= 1

    @property
    def changes(self) -> bool:
        """Whether a change is known here that new exchanges do not meet yet."""
        return bool(self._pending)

    async def changed(self) -> None:
        """Return when new exchanges meet every change that is known here. Called before an exchange looks for its plugins: one
        that comes while a plugin is loaded does not go by it."""
        while self._pending:
            await asyncio.wait(set(self._pending))

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Load what the settings name, while a gateway is started. Raises ConfigError."""
        self._channel.subscribe(KIND, self._receive)
        try:
            self.roles = Roles(self._auth.roles)
            self._read_entries()
            await self._apply(strict=True)
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
        """Take what has changed in the file of plugins, or in a component. What is wrong is logged and changes nothing."""
        try:
            if self._config.file is not None and _print(self._config.file) != self._file_print:
                self._read_entries()
            if (
                any(each.print != _print(each.link.entry.source) for each in self.states.values())
                or self._wanted_differ()
            ):
                await self._apply(strict=False)
        except ConfigError as error:
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
            told = f", {again} more like it since the last time" if again else ""
            log.error("plugin %s failed at %s: %s%s", happened.plugin, happened.hook, happened.reason, told)

    # -------------------------------------------------------------------------------------------------------- changes

    def _read_entries(self) -> None:
        """Read which plugins the settings and their file name. Raises ConfigError."""
        entries = [entry_of_source(each) for each in self._config.plugins]
        if self._config.file is not None:
            self._file_print = _print(self._config.file)
            entries += entries_in_file(self._config.file)
        check_plugins(entries, "middleware")
        if len(entries) > self._config.most:
            raise ConfigError(f"middleware: {len(entries)} plugins, over middleware.most ({self._config.most})")
        self._listed = tuple(entries)
        self._file_problem = ""

    def _wanted(self) -> list[Entry]:
        changes = dict(self._changes)
        found = [changes.pop(each.name, each) for each in self._listed]
        return [each for each in (*found, *changes.values()) if each is not None]

    def _wanted_differ(self) -> bool:
        return {each.name for each in self._wanted()} != self.states.keys() or any(
            self.states[each.name].link.entry != each for each in self._wanted() if not self.states[each.name].problem
        )

    async def _apply(self, *, strict: bool) -> None:
        """Have new exchanges meet what is wanted now. Raises ConfigError if `strict` and something that the settings name cannot
        be loaded. What the admin door put is for no start to fail by: it was loaded where it was put, and the process that starts
        is one of several that serve."""
        async with self._changing:
            states: dict[str, PluginState] = {}
            for entry in self._wanted():
                named = entry.name not in self._changes
                state = await self._state(entry, self.states.get(entry.name), strict=strict and named)
                if state is not None:
                    states[entry.name] = state
            before, self.states = self.states, states
            self.plan = attrs.evolve(self.plan, links=tuple(each.link for each in states.values()))
            kept = {id(each.link.middleware) for each in states.values()}
            for name, state in before.items():
                if name not in states:
                    self._observer.report(PluginChanged(name, "removed"))
                if id(state.link.middleware) not in kept:
                    _close(state.link.middleware)

    async def _state(self, entry: Entry, now: PluginState | None, *, strict: bool) -> PluginState | None:
        printed = _print(entry.source)
        if now is not None and now.link.entry == entry and now.print == printed:
            return now
        try:
            link = Link(entry, await self._code.load(entry))
        except ConfigError as error:
            if strict:
                raise
            refuses = now is None and entry.name in self._changes and is_refusing(entry)
            after = "the one before it stays" if now is not None else "it is left out"
            log.warning("%s; %s", error, "its requests are refused" if refuses else after)
            self._observer.report(PluginChanged(entry.name, "refused"))
            if now is not None:
                now.problem, now.print = str(error), printed
            elif refuses:  # the process where it was put could load it, and has said so
                return PluginState(Link(entry, NotLoaded(entry.name)), printed, str(error))
            return now
        outcome = "replaced" if now is not None else "loaded"
        log.info("plugin %s is %s", entry.name, outcome)
        self._observer.report(PluginChanged(entry.name, outcome))
        if now is None:
            return PluginState(link, printed)
        return PluginState(link, printed, counts=now.counts, counters=now.counters)

    def _hear(self, name: str, said: "GuestSaid") -> None:
        """Log and count what a guest said."""
        for level, line in said.lines:
            log.log(_LEVELS.get(level, logging.INFO), "plugin %s: %s", name, line)
        state = self.states.get(name)
        if state is None:
            return
        dropped = said.dropped
        for counter, by in said.counts.items():
            if counter not in state.counters and len(state.counters) >= _COUNTERS:
                dropped += 1
                continue
            state.counters[counter] = state.counters.get(counter, 0) + by
            self._observer.report(PluginCounted(name, counter, by))
        if dropped:
            state.counts["not_told"] = state.counts.get("not_told", 0) + dropped

    async def _tell(self, change: _Change) -> None:
        number = await self._channel.publish(KIND, msgspec.json.encode(change), key=change.name)
        await known_everywhere(self._channel, number, self._settle_s)
        await self.changed()

    def _receive(self, message: Notice) -> None:
        """A process, this one too, tells of a change."""
        change = msgspec.json.decode(message.body, type=_Change)
        try:
            entries = parse_entries([json.loads(change.entry)], "the admin door") if change.entry else (None,)
        except ConfigError as error:
            log.warning("%s", error)
            return
        self._changes[change.name] = entries[0]
        task = asyncio.get_running_loop().create_task(self._apply(strict=False), name="plugins change")
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _close(self) -> None:
        for state in self.states.values():
            _close(state.link.middleware)
        self.states, self.plan = {}, attrs.evolve(self.plan, links=())
        await self._code.close()


def entries_in_file(name: str) -> tuple[Entry, ...]:
    """The plugins that a file lists. Raises ConfigError."""
    source = f"middleware.file: {name}"
    try:
        text = Path(name).expanduser().read_text(encoding="utf-8")
        if name.endswith(".json"):
            found = json.loads(text)
        else:
            import yaml

            found = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source} cannot be read: {error}") from None
    except ImportError:
        raise ConfigError(f"{source}: YAML needs PyYAML: pip install 'smg-sdk[plugins]', or write JSON") from None
    except ValueError as error:
        raise ConfigError(f"{source}: not JSON: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: not YAML: {str(error).splitlines()[0]}") from None
    folder = str(Path(name).expanduser().parent)
    return parse_entries([_beside(each, folder) for each in found] if isinstance(found, list) else found, source)


def _beside(found: Any, folder: str) -> Any:
    """An entry whose component is looked for beside the file that lists it."""
    source = found.get("source") if isinstance(found, dict) else None
    if isinstance(source, str) and source.endswith(".wasm") and not source.startswith(("/", "~")):
        return {**found, "source": f"{folder}/{source}"}
    return found


def _print(source: str) -> _Print:
    """By what a change of a file is noticed; None for what is no file."""
    try:
        found = Path(source).expanduser().stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _close(middleware: Middleware) -> None:
    close = getattr(middleware, "close", None)
    if close is not None:
        close()


def _as_object(entry: Entry) -> Mapping[str, object]:
    """An entry as `parse_entries` reads it."""
    found: dict[str, object] = attrs.asdict(entry)
    limits = found.pop("limits")
    return {**found, **limits} if isinstance(limits, dict) else found
