"""The routes `/openapi.json` and `/docs` (edge).

Both are made once, when they are first asked for, in a thread: that takes some 40 ms. Above: app.app, whose routes they
describe. Below: wire.openapi and the page's text.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from smg_core.apis.chat.answer_types import ErrorBody
from smg_core.app.docs_page import docs_page
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.http.scope import Header
from smg_core.json_types import JsonObject
from smg_core.serving.services import Services
from smg_core.version import SDK_VERSION
from smg_core.wire.openapi import Described, document
from smg_core.wire.operation import HTML_PAGE, Operation, OperationResponse

__all__ = ["DOCS_OPERATION", "OPENAPI_OPERATION", "describing_routes"]

JSON_TYPE: Header = (b"content-type", b"application/json")
HTML: tuple[Header, ...] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
)


OPENAPI_OPERATION = Operation(
    "openapi", "This document.", "about", None, (OperationResponse(200, "The document.", JsonObject),)
)

DOCS_OPERATION = Operation(
    "docs", "This document as a page.", "about", None, (OperationResponse(200, "The page.", None, HTML_PAGE),)
)


def describing_routes(
    services: Services, described: Iterable[Route[Endpoint]], *, prefix: str = "", needs: str = "models"
) -> tuple[Route[Endpoint], ...]:
    """The two routes, below `prefix` and with the permission that they need; the document describes them and those of
    `described`."""
    describing = _Describing(services)
    own = (
        Route("GET", f"{prefix}/openapi.json", Endpoint(describing.openapi, needs, about=OPENAPI_OPERATION)),
        Route("GET", f"{prefix}/docs", Endpoint(describing.docs, needs, about=DOCS_OPERATION)),
    )
    keyed = not prefix and services.live.config.idempotency.kept_s > 0  # the admin door takes no keys
    describing.routes = [
        Described(
            route.method,
            route.pattern,
            route.target.about,
            takes_key=keyed and route.method == "POST" and not route.target.public,
        )
        for route in (*described, *own)
        if route.target.about is not None
    ]
    return own


class _Describing:
    """Writes the OpenAPI document of `routes`, and the page made from it."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.routes: list[Described] = []
        self._document: bytes = b""
        self._page: bytes = b""

    async def openapi(self, exchange: Exchange) -> None:
        await self._made()
        await self._respond(exchange, self._document, JSON_TYPE)

    async def docs(self, exchange: Exchange) -> None:
        await self._made()
        await self._respond(exchange, self._page, *HTML)

    async def _made(self) -> None:
        if not self._document:
            self._document, self._page = await asyncio.to_thread(self._write)

    def _write(self) -> tuple[bytes, bytes]:
        made = document(self.routes, version=SDK_VERSION, error=ErrorBody)
        return msgspec.json.encode(made), docs_page(made)

    async def _respond(self, exchange: Exchange, body: bytes, *headers: Header) -> None:
        exchange.take_id(self._services.ids, "req_")
        await exchange.respond(200, body, [*headers, self._services.request_ids.header(exchange.name)])
