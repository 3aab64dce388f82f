"""One session: a server as one tenant with one set of credentials uses it (edge).

The connection is entered, watched and left by one owner task, since the mcp package's scopes belong to the task that opened
them. It is opened when it is first needed, and again after it has ended. Above: `pool`. Below: `transport.connection`,
`catalogue.inventory`, `results`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import attrs

from smg_mcp.catalogue.inventory import ListedTool, tools_of
from smg_mcp.catalogue.output_schemas import OutputSchemas
from smg_mcp.catalogue.results import error_outcome, outcome_of
from smg_mcp.records.base import ListFaults, OnProgress, ToolOutcome
from smg_mcp.records.errors import McpBadAnswer, McpBusy, McpError, McpTimeout, McpUnavailable
from smg_mcp.records.settings import McpSettings
from smg_mcp.sessions.times import SessionTimes
from smg_mcp.transport.connection import ConnectionLost, McpConnection, ServerRefusedCall

__all__ = ["Session"]

T = TypeVar("T")

log = logging.getLogger("smg.mcp")


class Session:
    """One server's session. `open_connection` opens a new connection each time; `operators`: the server is one of the
    configuration. `faults` are those of the last list of tools."""

    def __init__(
        self,
        name: str,
        open_connection: Callable[[], AbstractAsyncContextManager[McpConnection]],
        settings: McpSettings,
        times: SessionTimes,
        *,
        operators: bool = True,
    ) -> None:
        self._operators, self.faults = operators, ListFaults()
        self._name, self._open, self._settings, self._times = name, open_connection, settings, times
        self._connection: McpConnection | None = None
        self._connects = 0
        self._opening: asyncio.Task[McpConnection] | None = None
        self._owners: dict[asyncio.Task[None], asyncio.Event] = {}
        self._slots = asyncio.Semaphore(settings.pool.calls_at_once)
        self._relisting: asyncio.Task[list[ListedTool]] | None = None
        self._listed: list[ListedTool] = []
        self._listed_of: McpConnection | None = None
        self._listed_at = 0.0
        self._schemas = OutputSchemas(settings.inventory.validators)
        self.users = 0
        self.used_at = times.clock()
        self.pinged_at = times.clock()

    @property
    def open(self) -> bool:
        """Whether there is a connection that takes requests."""
        connection = self._connection
        return connection is not None and not connection.retired and not connection.streams.ended.is_set()

    # ------------------------------------------------------------------------------------------------- what it is asked

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, twice: bool, timeout_s: float, progress: OnProgress | None
    ) -> ToolOutcome:
        """Call a tool. It is asked again after a lost connection only where the server cannot have seen the call, or `twice` says
        that running it twice does no harm. A caller that is cancelled, or that waited too long, has the server told to stop."""
        await self._take_slot(timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                result = await self._asked(lambda each: each.call(tool, arguments, progress), twice=twice)
        except TimeoutError:
            raise McpTimeout(f"the tool did not answer within {timeout_s:g} s") from None
        except ServerRefusedCall as error:
            return error_outcome(str(error))
        finally:
            self._slots.release()
        outcome = outcome_of(result, self._settings.limits)
        fault = None if outcome.is_error or outcome.truncated else self._fault_of_structured(tool, outcome)
        if fault is not None:
            return attrs.evolve(error_outcome(fault), content=(*outcome.content, *error_outcome(fault).content))
        return outcome

    async def _take_slot(self, timeout_s: float) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise McpBusy(f"{self._settings.pool.calls_at_once} calls of the server {self._name} are running") from None

    def _fault_of_structured(self, tool: str, outcome: ToolOutcome) -> str | None:
        listed = next((each for each in self._listed if each.tool == tool), None)
        schema = listed.output_schema if listed is not None else None
        return None if schema is None else self._schemas.fault(tool, schema, outcome.structured)

    async def tools(self) -> list[ListedTool]:
        """The tools, listed again when the server said that they changed, or after their time to live. All who ask meanwhile wait
        for one list, and get its error where there is none."""
        connection = self._connection
        if connection is not None and connection is self._listed_of and self.open:
            aged = self._times.clock() - self._listed_at >= self._settings.inventory.tool_ttl
            if not aged and "tools" not in connection.streams.screen.changed:
                return self._listed
        if self._relisting is None:
            self._relisting = asyncio.ensure_future(self._relisted())
            self._relisting.add_done_callback(self._relisting_done)
        return await asyncio.shield(self._relisting)

    def _relisting_done(self, relisting: "asyncio.Task[list[ListedTool]]") -> None:
        self._relisting = None
        if not relisting.cancelled():
            relisting.exception()  # seen here, in case everybody who waited has gone

    async def _relisted(self) -> list[ListedTool]:
        screen, now = (await self._connected()).streams.screen, self._times.clock()
        screen.changed.discard("tools")
        screen.left_out.clear()
        raw = await self.listed("tools")
        connection = await self._connected()
        screen = connection.streams.screen
        schemas, left_out = screen.output_schemas, dict(screen.left_out)
        whole = [{**each, "inputSchema": screen.input_schemas.get(each["name"], {})} for each in raw]
        found = await asyncio.to_thread(tools_of, whole, self._settings.inventory)
        self._note(ListFaults(left_out, {each.tool: each.unconstrained for each in found if each.unconstrained}))
        self._listed = [attrs.evolve(each, output_schema=schemas.get(each.tool)) for each in found]
        self._listed_of, self._listed_at = connection, now
        return self._listed

    def _note(self, faults: ListFaults) -> None:
        """Keep what is wrong with the tools of a list, and write it to the log where it is news. A server that a request brought
        is not the operator's to mend."""
        if faults and faults != self.faults and self._operators:
            log.warning(
                "the MCP server %s lists tools that are not offered (%s) or without all of their schema (%s)",
                self._name,
                _listed(faults.left_out),
                _listed(faults.unconstrained),
            )
        self.faults = faults

    async def listed(self, what: str) -> list[dict[str, Any]]:
        """All "tools", "resources", "templates" or "prompts" as the server describes them."""
        bounds = self._settings.inventory
        return await self._within(lambda each: each.listed(what, bounds.max_tools, bounds.max_pages))

    def news(self, what: str) -> tuple[int, int]:
        """What is another one once the server has said that its "resources" or "prompts" have changed, or is connected anew."""
        connection = self._connection
        return (self._connects, 0 if connection is None else connection.streams.screen.news[what])

    async def read(self, uri: str) -> list[dict[str, Any]]:
        """The contents of a resource."""
        return await self._within(lambda each: each.read(uri))

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """A prompt, filled in."""
        return await self._within(lambda each: each.prompt(name, arguments))

    async def facts(self) -> tuple[str, str, str]:
        """The server's own name, its instructions, and the protocol's version."""
        return (await self._connected()).facts

    async def ping(self) -> bool:
        """Whether an open connection answers, be it with a refusal; one that does not is closed. True where none is open.
        Called by the pool for a session that nobody used for a while."""
        connection = self._connection
        if connection is None or not self.open:
            return True
        self.pinged_at = self._times.clock()
        try:
            async with asyncio.timeout(self._settings.pool.connect_timeout):
                await connection.ping()
        except (ConnectionLost, McpBadAnswer, TimeoutError):
            connection.streams.end("the server did not answer a ping")
            return False
        except McpError:
            return True
        return True

    async def _within(self, ask: Callable[[McpConnection], Awaitable[T]]) -> T:
        timeout_s = self._settings.limits.call_timeout
        try:
            async with asyncio.timeout(timeout_s):
                return await self._asked(ask, twice=True)
        except TimeoutError:
            raise McpTimeout(f"the server did not answer within {timeout_s:g} s") from None

    async def _asked(self, ask: Callable[[McpConnection], Awaitable[T]], *, twice: bool) -> T:
        """What the server answers. Only after a lost connection is it asked again, once, and only where the request was
        `never_sent` or `twice` says that it does no harm. Other requests that are under way over that connection find out by
        themselves what became of them: of those that a server has forgotten with their session, each is asked again."""
        self.used_at = self._times.clock()
        try:
            try:
                return await self._asked_once(ask)
            except ConnectionLost as lost:
                if not (twice or lost.never_sent):
                    raise
                may_have_run = lost.may_have_run
            try:
                return await self._asked_once(ask)
            except McpUnavailable as error:
                error.may_have_run = error.may_have_run or may_have_run
                raise
        finally:
            self.used_at = self._times.clock()

    async def _asked_once(self, ask: Callable[[McpConnection], Awaitable[T]]) -> T:
        connection = await self._connected()
        with connection.used():
            try:
                return await ask(connection)
            except ConnectionLost:
                connection.retired = True
                raise

    # ------------------------------------------------------------------------------------------------ how it is connected

    async def _connected(self) -> McpConnection:
        if self._connection is not None and self.open:
            return self._connection
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._opened())
            self._opening.add_done_callback(self._opening_done)
        return await asyncio.shield(self._opening)

    def _opening_done(self, opening: "asyncio.Task[McpConnection]") -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # seen here, in case everybody who waited has gone

    async def _opened(self) -> McpConnection:
        pool = self._settings.pool
        pause = pool.backoff
        for attempt in range(1, pool.connect_tries + 1):
            try:
                self._connection = await self._opened_once()
                self._connects += 1
            except McpUnavailable:
                if attempt == pool.connect_tries:
                    raise
                await self._times.sleep(pause * (0.5 + self._times.random.random() / 2))
                pause = min(pause * 2, pool.max_backoff)
            else:
                return self._connection
        raise McpUnavailable(f"the server {self._name} cannot be reached")

    async def _opened_once(self) -> McpConnection:
        ready: asyncio.Future[McpConnection] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        owner = asyncio.ensure_future(self._own(ready, stop))
        self._owners[owner] = stop
        owner.add_done_callback(self._owner_done)
        timeout_s = self._settings.pool.connect_timeout
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(ready)
        except TimeoutError:
            owner.cancel()
            raise McpUnavailable(f"the server {self._name} did not answer within {timeout_s:g} s") from None

    def _owner_done(self, owner: "asyncio.Task[None]") -> None:
        self._owners.pop(owner, None)
        error = None if owner.cancelled() else owner.exception()
        if error is not None:
            log.warning("the connection to the MCP server %s ended with %s", self._name, type(error).__name__)

    async def _own(self, ready: "asyncio.Future[McpConnection]", stop: asyncio.Event) -> None:
        """The owner task: opens, waits until it is to stop or the connection has ended, closes."""
        fault: McpError = ConnectionLost("the connection to the server was lost")
        try:
            async with self._open() as connection:
                ready.set_result(connection)
                waits = [asyncio.ensure_future(each) for each in (stop.wait(), connection.streams.ended.wait())]
                following = asyncio.ensure_future(connection.follow_changes())
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    connection.streams.end()
                    for task in (*waits, following):
                        task.cancel()
                    await asyncio.gather(*waits, following, return_exceptions=True)
        except McpError as error:
            fault = error
        except BaseExceptionGroup as group:
            fault = _first_of(group) or fault
            if group.subgroup((KeyboardInterrupt, SystemExit)) is not None:
                raise
        finally:
            if not ready.done():
                ready.set_exception(fault)
                ready.exception()  # seen, in case nobody waits any more

    async def close(self) -> None:
        """Close the connection and wait for its owner, for a bounded time."""
        for task in (self._opening, self._relisting):
            if task is not None:
                task.cancel()
        owners = dict(self._owners)
        for stop in owners.values():
            stop.set()
        if not owners:
            return
        _, left = await asyncio.wait(owners, timeout=self._settings.pool.close_timeout)
        for owner in left:
            owner.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*left, return_exceptions=True)


_MOST_LISTED = 20
"""Tools whose faults a line of the log has."""


def _listed(faults: Mapping[str, str]) -> str:
    reasons = [f"{ascii(name)[1:-1]}: {ascii(why)[1:-1]}" for name, why in list(faults.items())[:_MOST_LISTED]]
    more = len(faults) - len(reasons)
    return "; ".join(reasons + ([f"and {more} more"] if more else [])) or "none"


def _first_of(group: BaseExceptionGroup[BaseException]) -> McpError | None:
    """The first of our errors in a group, however deep."""
    for error in group.exceptions:
        if isinstance(error, McpError):
            return error
        if isinstance(error, BaseExceptionGroup):
            found = _first_of(error)
            if found is not None:
                return found
    return None
