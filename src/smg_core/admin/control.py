"""The routes about the gateway itself, at the admin door: its settings, whether it takes requests, its log's level (edge).

Each calls one operation of `operation.control`, which makes the change in every process. Above: admin.app. Below:
operation.control.
"""

import asyncio
from typing import TypeVar

import msgspec

from smg_core.admin.answers import admin_operation, respond_json
from smg_core.admin.bodies import decode_body
from smg_core.admin.control_types import (
    ConfigRows,
    DrainBody,
    Drained,
    Level,
    LevelBody,
    ReloadAnswer,
    ReloadBody,
    SettingRow,
    UndrainBody,
)
from smg_core.admin.decisions import decision_routes
from smg_core.admin.keys import key_routes
from smg_core.admin.models import model_routes
from smg_core.admin.plugins import plugin_routes
from smg_core.config.config import describe, masked
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.json_types import Json
from smg_core.operation.control import Control
from smg_core.operation.live_settings import LIVE
from smg_core.serving.services import Services
from smg_core.settings import Value

__all__ = ["CONFIG", "DRAIN", "LOG_LEVEL", "RELOAD", "SET_LOG_LEVEL", "UNDRAIN", "control_routes"]

B = TypeVar("B", bound=msgspec.Struct)

LOOKS_S = 0.2
"""Seconds between two looks at whether requests are left: each process says twice a second how many it has."""


CONFIG = admin_operation("adminConfig", "The settings in use, secrets masked.", "gateway", None, ConfigRows)

RELOAD = admin_operation(
    "reload", "Read the settings again, and change what can change live.", "gateway", ReloadBody, ReloadAnswer
)

DRAIN = admin_operation("drain", "Take no new requests, in any process.", "gateway", DrainBody, Drained)

UNDRAIN = admin_operation("undrain", "Take requests again.", "gateway", UndrainBody, Drained)

LOG_LEVEL = admin_operation("logLevel", "The level of the log.", "gateway", None, Level)

SET_LOG_LEVEL = admin_operation(
    "setLogLevel", "Change the level of the log, for a while or for good.", "gateway", LevelBody, Level
)


def control_routes(services: Services, control: Control) -> tuple[Route[Endpoint], ...]:
    """The routes, over `control`, which is `gateway`'s; those of its decisions of routing, keys and models among them."""
    routes = _Control(services, control)
    return (
        *decision_routes(services, control.decided),
        *key_routes(services),
        *model_routes(services),
        *plugin_routes(services),
        Route("GET", "/admin/config", Endpoint(routes.config, "admin.config", about=CONFIG)),
        Route("POST", "/admin/reload", Endpoint(routes.reload, "admin.config", reads_json=True, about=RELOAD)),
        Route("POST", "/admin/drain", Endpoint(routes.drain, "admin.drain", reads_json=True, about=DRAIN)),
        Route("POST", "/admin/undrain", Endpoint(routes.undrain, "admin.drain", reads_json=True, about=UNDRAIN)),
        Route("GET", "/admin/log-level", Endpoint(routes.log_level, "admin.logging", about=LOG_LEVEL)),
        Route(
            "PUT",
            "/admin/log-level",
            Endpoint(routes.set_log_level, "admin.logging", reads_json=True, about=SET_LOG_LEVEL),
        ),
    )


class _Control:
    def __init__(self, services: Services, control: Control) -> None:
        self._services = services
        self._control = control

    async def config(self, exchange: Exchange) -> None:
        config, sources = self._services.live.config, await self._control.sources()
        rows = [
            SettingRow(
                each.path,
                _json(masked(each, config.get(each.path))),
                _json(masked(each, each.default)),
                sources.get(each.path, ""),
                LIVE.get(each.path, ""),
            )
            for each in describe()
        ]
        await respond_json(self._services, exchange, ConfigRows(rows))

    async def reload(self, exchange: Exchange) -> None:
        await self._body(exchange, ReloadBody)
        changes = await self._control.reload()
        workers = changes.workers
        answer = ReloadAnswer(
            list(changes.changed),
            list(changes.needs_restart),
            list(workers.added),
            list(workers.changed),
            list(workers.retired),
        )
        await respond_json(self._services, exchange, answer)

    async def drain(self, exchange: Exchange) -> None:
        body = await self._body(exchange, DrainBody)
        await self._control.hold()
        clock = self._services.clock
        until = clock.monotonic() + body.wait_s
        while self._control.in_flight and (left := until - clock.monotonic()) > 0:
            looked = asyncio.Event()
            timer = self._services.call_later(min(left, LOOKS_S), looked.set)
            try:
                await looked.wait()
            finally:
                timer.cancel()
        await self._answer_taking(exchange)

    async def undrain(self, exchange: Exchange) -> None:
        await self._body(exchange, UndrainBody)
        await self._control.release()
        await self._answer_taking(exchange)

    async def log_level(self, exchange: Exchange) -> None:
        level = self._control.log_level
        configured = self._services.live.config.observability.log_level
        await respond_json(self._services, exchange, Level(level.level, configured, level.until))

    async def set_log_level(self, exchange: Exchange) -> None:
        body = await self._body(exchange, LevelBody)
        await self._control.set_log_level(body.level, body.duration_s)
        await self.log_level(exchange)

    async def _answer_taking(self, exchange: Exchange) -> None:
        taking = not (self._services.admission.draining or self._services.admission.held)
        await respond_json(self._services, exchange, Drained(taking, self._control.in_flight))

    async def _body(self, exchange: Exchange, shape: type[B]) -> B:
        return decode_body(await exchange.body(self._services.live.config.admin.body_bytes), shape)


def _json(value: Value) -> Json:
    return list(value) if isinstance(value, tuple) else value
