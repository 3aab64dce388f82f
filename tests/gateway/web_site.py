"""A search service in the form of SearXNG, and pages that it finds, on this machine; and a gateway that searches with it."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
from tests.gateway.conftest import House, over_http

from smg_core import Config
from smg_core.pipeline.settings import McpConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

HITS = (
    {
        "url": "https://fjords.example/oslo",
        "title": "Oslo",
        "content": "Oslo lies at a fjord.",
        "publishedDate": "2026",
    },
    {"url": "https://news.example/a/oslo", "title": "News", "content": "Oslo has a mayor."},
)
PAGE = b"<html><head><title>Fjord</title></head><body><p>The fjord is deep, and 100 km long.</p></body></html>"


@attrs.define(eq=False)
class WebSite:
    """What it was asked: the queries, and the paths of pages. `hits` are what is found."""

    port: int = 0
    hits: Sequence[dict[str, Any]] = HITS
    queries: list[str] = attrs.field(factory=list)
    pages: list[str] = attrs.field(factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str) -> tuple[int, str, bytes]:
        if path.startswith("/search"):
            self.queries.append(parse_qs(urlsplit(path).query)["q"][0])
            return 200, "application/json", json.dumps({"results": list(self.hits)}).encode()
        self.pages.append(path)
        if path == "/picture":
            return 200, "image/png", b"x"
        return (404, "text/plain", b"") if path == "/missing" else (200, "text/html", PAGE)


@asynccontextmanager
async def web_site() -> AsyncIterator[WebSite]:
    site = WebSite()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split(" ")[1]
        status, kind, body = site.answer(path)
        head = (
            f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        site.port = server.sockets[0].getsockname()[1]
        yield site


def web_config(folder: Path, site: WebSite, *, search: bool = True, fetch: bool = True, **sections: Any) -> Config:
    """The configuration of a gateway that searches with the site and reads its pages."""
    web: dict[str, Any] = {
        "search": {"service": "searxng", "url": f"{site.url}/search"} if search else None,
        "fetch": {"ports": [site.port], "private": ["127.0.0.1"]} if fetch else None,
    }
    file = folder / "mcp.json"
    file.write_text(json.dumps({"servers": [{"name": "web", "protocol": "web", "web": web}]}))
    return Config(mcp=McpConfig(config=str(file)), **sections)


@asynccontextmanager
async def searching_house(folder: Path, site: WebSite, **settings: Any) -> AsyncIterator[House]:
    async with over_http(SimulatorConfig(seed=1), config=web_config(folder, site, **settings)) as house:
        yield house


def calls(name: str, text: str = "", **arguments: Any) -> Reply:
    """What a model says that calls a tool."""
    return Reply(text, tool_calls=((name, arguments),))


SEARCH = calls("web_search", query="oslo")
CITES = Reply("Oslo lies at a fjord【1】. It has a mayor.【2】 That is all.")
PLAIN = "Oslo lies at a fjord. It has a mayor. That is all."
