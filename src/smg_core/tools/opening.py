"""Opens the tools that run here, where the settings have any (edge): what speaks to MCP servers is loaded then.

Decides which kinds of tools these are. Above: `gateway.assembly`, which opens them at the start; the handlers, which ask for the
kinds. Below: `hosted` and smg_mcp.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs

from smg_core.clock import Clock
from smg_core.errors import ToolServerFailed
from smg_core.extras import missing, needs
from smg_core.history.store.base import Store
from smg_core.pipeline.settings import McpConfig
from smg_core.pipeline.tools.calls import Takes, ToolCalling, ToolListing
from smg_core.pipeline.tools.hosted import CallTools, ListTools, ToolService
from smg_core.request import Caller
from smg_core.settings import ConfigError
from smg_core.tools.file_search import FilesAlone, FileSearches
from smg_core.tools.hops import hops_header

if TYPE_CHECKING:
    from smg_core.retrieval.searching import StoreSearch
    from smg_core.tools.code_runs import CodeRuns
    from smg_core.tools.offered import PublishedTools
    from smg_core.tools.payments import PayForCall
    from smg_core.tools.pictures import PictureMaker
    from smg_mcp.functions.signature import PythonTool

__all__ = [
    "BUILT_IN_APIS",
    "AnswersServers",
    "OpenTools",
    "ToolFunctions",
    "check_functions",
    "hosted_kinds",
    "hosted_tools",
    "no_built_ins",
]

ToolFunctions: TypeAlias = "Sequence[Callable[..., Any] | PythonTool]"
"""What a program gives as tools: functions, or records that say more of one."""


BUILT_IN_APIS = frozenset({"chat", "responses", "messages", "generate_content"})
"""The APIs whose own forms of built-in tools run here."""


def no_built_ins(caller: Caller) -> frozenset[str]:
    """The `built_ins` of a gateway that runs no tools."""
    return frozenset()


class AnswersServers(Protocol):
    """Has models answer what servers ask back."""

    async def sample(self, model: str, tenant: str, params: Mapping[str, Any]) -> tuple[str, str] | None:
        """The text and the model's name; None to refuse."""
        ...

    async def elicit(
        self, model: str, tenant: str, message: str, schema: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """What the model fills in; None to decline."""
        ...


@attrs.frozen
class OpenTools:
    """What runs tools here: the performers of the steps of flows, and all that is `offered` to a caller, where there is any.
    `built_ins` gives the kinds of built-in tools that a caller may use; `for_all` are those that every caller may whose
    tools are not bounded, None where that depends on more."""

    performers: Mapping[type[Any], Any] = attrs.field(factory=dict)
    offered: "PublishedTools | None" = None
    built_ins: Callable[[Caller], frozenset[str]] = no_built_ins
    for_all: frozenset[str] | None = frozenset()


def hosted_kinds(settings: McpConfig, api: str = "", functions: ToolFunctions = ()) -> frozenset[str]:
    """The kinds of tools that run here by the settings, for requests of the API of this name. `functions` are those that the
    program gives."""
    if api == "chat" and not settings.chat:
        return frozenset()
    return frozenset({"mcp"}) if _runs(settings, functions) else frozenset()


def check_functions(functions: ToolFunctions) -> None:
    """Raise ConfigError for a function that a program gives and that can be no tool."""
    if not functions:
        return
    try:
        from smg_mcp.functions.loading import checked_functions
        from smg_mcp.records.errors import McpConfigError
    except ModuleNotFoundError as error:
        raise ConfigError(missing("tools", error, "mcp")) from None
    try:
        checked_functions(functions, "tools")
    except McpConfigError as error:
        raise ConfigError(str(error)) from None


def _runs(settings: McpConfig, functions: ToolFunctions) -> bool:
    return settings.config is not None or settings.request_servers or bool(functions)


def _performers(service: ToolService, clock: Clock, settings: McpConfig, takes: Takes) -> Mapping[type[Any], Any]:
    return {ListTools: ToolListing(service), CallTools: ToolCalling(service, clock, settings, takes)}


class _Back:
    """Has the model of a server's row answer what that server asks back; nobody where its row has none."""

    def __init__(self, answers: AnswersServers | None) -> None:
        self._answers = answers
        self.model_of: Callable[[str], str | None] = lambda server: None

    async def sample(self, server: str, tenant: str, params: Mapping[str, Any]) -> tuple[str, str] | None:
        model = self.model_of(server)
        return None if self._answers is None or model is None else await self._answers.sample(model, tenant, params)

    async def elicit(
        self, server: str, tenant: str, message: str, schema: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        model = self.model_of(server)
        if self._answers is None or model is None:
            return None
        return await self._answers.elicit(model, tenant, message, schema)


@asynccontextmanager
async def hosted_tools(
    settings: McpConfig,
    history: Store,
    clock: Clock,
    takes: Takes,
    functions: ToolFunctions = (),
    mark: str = "",
    stores: "StoreSearch | None" = None,
    code: "CodeRuns | None" = None,
    pictures: "Callable[[], PictureMaker] | None" = None,
    paid: "PayForCall | None" = None,
    answers: "Callable[[], AnswersServers] | None" = None,
) -> AsyncIterator[OpenTools]:
    """What runs tools here, while they may be used; nothing where they are switched off. `functions` are tools that the program
    gives: Python functions, or records of smg_mcp of such; `mark` tells this gateway from others, where it is one of their
    servers; `stores` searches vector stores, and `code` runs code in containers, where there are any; `pictures` makes what asks
    served models for pictures, `paid` has calls paid that cost something,
    `answers` makes what answers servers that ask back. Raises ConfigError where
    the file cannot be read or says what cannot be, or where the extra is not installed, and ToolServerFailed where a server that
    is required cannot be reached."""
    files = FileSearches(stores)
    if not _runs(settings, functions) and code is None and settings.serve == "off":
        service = FilesAlone(files)
        yield OpenTools(_performers(service, clock, settings, takes), None, files.kinds, files.kinds(Caller()))
        return
    try:
        import smg_mcp
        from smg_core.tools.code_calls import CodeCalls
        from smg_core.tools.hosted import HostedTools, noted
        from smg_core.tools.offered import PublishedTools
        from smg_core.tools.own_tools import OwnTools
        from smg_mcp.records.errors import McpConfigError, McpError
        from smg_mcp.records.settings import IN_PROGRAM

        _ = smg_mcp.McpTools  # loads what its packages need
    except ModuleNotFoundError as error:
        raise ConfigError(missing("mcp", error, "mcp")) from None
    try:
        source: Any = settings.config or {"servers": []}
        back = _Back(None if answers is None else answers())
        tools = smg_mcp.McpTools.from_config(
            source, audit=noted, functions=functions, sample=back.sample, ask_user=back.elicit
        )
        back.model_of = tools.model
        if not all(each.protocol in IN_PROGRAM for each in tools.settings.servers) and find_spec("mcp") is None:
            raise ConfigError(needs("mcp.config", "mcp"))  # now, and not at the first call of a tool
        async with tools:
            marks = {} if settings.serve == "off" else hops_header(mark)
            painting = None if pictures is None else pictures()
            hosted = HostedTools(tools, settings, history, clock, marks, files, CodeCalls(code), painting, paid)
            yield OpenTools(
                _performers(hosted, clock, settings, takes),
                PublishedTools(tools, OwnTools(hosted.built_ins), paid),
                hosted.built_ins.kinds,
                None,
            )
    except McpConfigError as error:
        raise ConfigError(str(error)) from error
    except McpError as error:
        raise ToolServerFailed(str(error)) from error
