"""The routes about plugins, at the admin door (edge).

A plugin that is put here is loaded and tried first; one that cannot be used changes nothing and is refused with the reason.
Above: admin.control. Below: plugins.registry.
"""

from collections.abc import Mapping
from typing import Any

from smg_core.admin.answers import admin_operation, respond_json
from smg_core.admin.bodies import decode_body
from smg_core.admin.control_types import PluginBody, PluginRow, PluginRows
from smg_core.errors import InvalidRequest, NotFound
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.middleware.entries import Entry, parse_entries
from smg_core.plugins.registry import PluginState
from smg_core.serving.services import Services
from smg_core.settings import ConfigError

__all__ = ["PLUGINS", "PUT_PLUGIN", "REMOVE_PLUGIN", "plugin_routes"]

NEEDED = "admin.config"


PLUGINS = admin_operation("adminPlugins", "The plugins of this process.", "plugins", None, PluginRows)

PUT_PLUGIN = admin_operation(
    "putPlugin", "Add a plugin, or replace it while it serves.", "plugins", PluginBody, PluginRows
)

REMOVE_PLUGIN = admin_operation(
    "removePlugin", "Remove a plugin; requests under way keep it.", "plugins", None, PluginRows
)


def plugin_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The routes, over the plugins of `gateway`."""

    async def answer(exchange: Exchange) -> None:
        rows = [_row(name, each) for name, each in services.plugins.states.items()]
        await respond_json(services, exchange, PluginRows(rows))

    async def put(exchange: Exchange) -> None:
        body = decode_body(await exchange.body(services.live.config.admin.body_bytes), PluginBody)
        exchange.subject = exchange.path_values["name"]
        try:
            await services.plugins.put(_entry(exchange.path_values["name"], body.entry))
        except ConfigError as error:
            raise InvalidRequest(f"The plugin cannot be used: {error}", param="entry") from None
        await answer(exchange)

    async def remove(exchange: Exchange) -> None:
        name = exchange.subject = exchange.path_values["name"]
        if not await services.plugins.remove(name):
            raise NotFound("There is no plugin of this name.")
        await answer(exchange)

    return (
        Route("GET", "/admin/plugins", Endpoint(answer, NEEDED, about=PLUGINS)),
        Route("PUT", "/admin/plugins/{name}", Endpoint(put, NEEDED, reads_json=True, about=PUT_PLUGIN)),
        Route("DELETE", "/admin/plugins/{name}", Endpoint(remove, NEEDED, about=REMOVE_PLUGIN)),
    )


def _entry(name: str, fields: Mapping[str, Any]) -> Entry:
    """The entry of a body. Raises ConfigError; also for code in Python, which runs outside of any sandbox."""
    (entry,) = parse_entries([{**fields, "name": name}], "the entry")
    if not entry.source.endswith(".wasm"):
        raise ConfigError(
            "the entry: source: expected a component (.wasm); code in Python is named in the settings alone"
        )
    return entry


def _row(name: str, state: PluginState) -> PluginRow:
    entry, middleware = state.link.entry, state.link.middleware
    return PluginRow(
        name=name,
        source=entry.source,
        kind=entry.kind,
        when=entry.when,
        on_failure=entry.on_failure,
        hooks=sorted(middleware.hooks),
        sha256=str(getattr(getattr(middleware, "compiled", None), "digest", "")),
        busy=int(getattr(middleware, "busy", 0)),
        problem=state.problem,
        counts=state.counts,
        counters=state.counters,
    )
