"""The tools `search` and `fetch` of a server of the protocol `web` (edge).

Above: the package's front, which offers them as it offers functions. Below: `fetching`, `reading`, `services`.
"""

from collections.abc import Callable
from typing import Annotated

import httpx
import msgspec

from smg_egress.resolving import Resolver, resolve_host
from smg_mcp.functions.signature import PythonTool
from smg_mcp.records.base import ToolHints, ToolOutcome, ToolText
from smg_mcp.records.settings import FetchSettings, SearchSettings, WebSettings
from smg_mcp.web.fetching import PageFetcher, PageRefused, asked_of_service
from smg_mcp.web.page_reading import PageReader
from smg_mcp.web.reading import foreign
from smg_mcp.web.services import SERVICES, results_of

__all__ = ["web_tools"]

_READS = ToolHints(read_only=True, destructive=False, idempotent=True, open_world=True)


def web_tools(
    settings: WebSettings,
    *,
    resolver: Resolver = resolve_host,
    transport: Callable[[], httpx.AsyncBaseTransport] = httpx.AsyncHTTPTransport,
) -> list[PythonTool]:
    """The tools that these settings switch on. The other arguments are for tests."""
    found = []
    if settings.search is not None:
        found.append(PythonTool(_searching(settings.search, transport), name="search", hints=_READS))
    if settings.fetch is not None:
        found.append(
            PythonTool(_fetching(settings.fetch, PageFetcher(settings.fetch, resolver=resolver)), hints=_READS)
        )
    return found


def _searching(settings: SearchSettings, transport: Callable[[], httpx.AsyncBaseTransport]) -> Callable[..., object]:
    service = SERVICES[settings.service]

    async def search(
        query: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)],
        count: Annotated[int, msgspec.Meta(ge=1, le=20)] = settings.results,
    ) -> ToolOutcome:
        """Searches the web. Gives addresses, titles and what is said of each.

        Args:
            query: What to look for.
            count: How many results, at most.
        """
        asked = service.ask(settings.url or service.url, query, count, settings.key or "")
        try:
            results = results_of(settings, await asked_of_service(asked, settings, transport), count)
        except (PageRefused, ValueError) as error:
            return ToolOutcome((ToolText(str(error)),), is_error=True)
        text = "\n\n".join(f"{each.title}\n{each.url}\n{each.text}".strip() for each in results) or "Nothing was found."
        lines = [
            {"url": each.url, "title": each.title, "text": each.text, **({"age": each.age} if each.age else {})}
            for each in results
        ]
        return ToolOutcome((ToolText(foreign(text, "results of a search")),), {"results": lines})

    return search


def _fetching(settings: FetchSettings, fetcher: PageFetcher) -> Callable[..., object]:
    reader = PageReader(settings)

    async def fetch(url: Annotated[str, msgspec.Meta(max_length=8192)]) -> ToolOutcome:
        """Reads a page of the web, and gives its text.

        Args:
            url: The address, beginning with https:// or http://.
        """
        try:
            found = await fetcher.fetch(url)
            title, text = await reader.read(found.body, found.content_type)
        except PageRefused as error:
            return ToolOutcome((ToolText(f"The page cannot be read: {error}."),), {"code": error.code}, is_error=True)
        text, cut = text[: settings.characters], len(text) > settings.characters
        head = f"{title}\n{found.url}\n" if title else f"{found.url}\n"
        end = f"\n[cut at {settings.characters} characters]" if cut else ""
        return ToolOutcome(
            (ToolText(foreign(head + text + end, "a page of the web")),), {"url": found.url, "title": title, "cut": cut}
        )

    return fetch
