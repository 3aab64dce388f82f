"""The routes of virtual keys, at the admin door (edge).

Each calls one operation of the gateway's virtual keys; what a key may be is decided there. The key itself is in the answer that
creates or rotates it, and nowhere else. Above: admin.app. Below: identity.virtual_keys.
"""

from typing import TypeVar

import msgspec

from smg_core.admin.bodies import decode_body
from smg_core.admin.key_types import (
    CreateKeyBody,
    ExpireKeyBody,
    KeyPage,
    ListedKey,
    RevokeKeyBody,
    RotateKeyBody,
    TextOfKey,
)
from smg_core.errors import InvalidRequest
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.identity.virtual_keys import NewKey, VirtualKeys, read_key
from smg_core.json_types import JsonObject
from smg_core.serving.offload import worked
from smg_core.serving.services import Services
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["CREATE_KEY", "EXPIRE_KEY", "KEY", "KEYS", "REVOKE_KEY", "ROTATE_KEY", "key_routes"]

B = TypeVar("B", bound=msgspec.Struct)
NEEDED = "admin.keys"


def _about(name: str, summary: str, body: object, status: int, answer: object) -> Operation:
    return Operation(name, summary, "keys", body, (OperationResponse(status, "Done.", answer),))


KEYS = _about("listKeys", "Virtual keys, newest first; limit and after go through them.", None, 200, KeyPage)

KEY = _about("getKey", "One virtual key.", None, 200, ListedKey)

CREATE_KEY = _about("createKey", "Make a virtual key; it is told now and never again.", CreateKeyBody, 201, TextOfKey)

ROTATE_KEY = _about("rotateKey", "Give a virtual key a new secret.", RotateKeyBody, 200, TextOfKey)

EXPIRE_KEY = _about("expireKey", "Say when a virtual key expires.", ExpireKeyBody, 200, ListedKey)

REVOKE_KEY = _about("revokeKey", "End a virtual key, in every process.", RevokeKeyBody, 200, ListedKey)


def key_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The routes, over the virtual keys of `gateway`."""
    keys = _Keys(services)
    changing = (
        ("/admin/keys", keys.create, CREATE_KEY),
        ("/admin/keys/{id}/rotate", keys.rotate, ROTATE_KEY),
        ("/admin/keys/{id}/expire", keys.expire, EXPIRE_KEY),
        ("/admin/keys/{id}/revoke", keys.revoke, REVOKE_KEY),
    )
    return (
        Route("GET", "/admin/keys", Endpoint(keys.listed, NEEDED, about=KEYS)),
        Route("GET", "/admin/keys/{id}", Endpoint(keys.one, NEEDED, about=KEY)),
        *(
            Route("POST", path, Endpoint(answer, NEEDED, reads_json=True, about=about))
            for path, answer, about in changing
        ),
    )


class _Keys:
    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def _keys(self) -> VirtualKeys:
        keys = self._services.running.virtual_keys
        if keys is None:
            raise InvalidRequest("This gateway takes no virtual keys; auth.virtual_keys switches them on.")
        return keys

    async def listed(self, exchange: Exchange) -> None:
        most = self._services.live.config.admin.most_listed
        asked = exchange.query.get("limit", (str(most),))[-1]
        if not asked.isdecimal() or len(asked) > len(str(most)) or not 1 <= int(asked) <= most:
            raise InvalidRequest(f"'limit' is a number from 1 to {most}.", param="limit")
        after = exchange.query.get("after", (None,))[-1]
        page = await self._keys.list_page(after=_id(after) if after else None, limit=int(asked))
        now = self._services.clock.time()

        def listed() -> bytes:
            keys = [read_key(record.body).listed(now) for record in page.data]
            return msgspec.json.encode({"data": keys, "has_more": page.has_more})

        size = sum(len(record.body) for record in page.data)
        await self._send(exchange, await worked(self._services, exchange.caller.tenant, size, listed), 200)

    async def one(self, exchange: Exchange) -> None:
        key = await self._keys.get(_id(exchange.path_values["id"]))
        await self._respond(exchange, key.listed(self._services.clock.time()), 200)

    async def create(self, exchange: Exchange) -> None:
        body = await self._body(exchange, CreateKeyBody)
        made = await self._keys.create(
            tenant=body.tenant,
            principal=body.principal,
            name=body.name,
            roles=body.roles,
            models=body.models,
            tools=body.tools,
            expires_at=body.expires_at,
            by=exchange.caller.grants,
        )
        await self._respond_new(exchange, made, 201)

    async def rotate(self, exchange: Exchange) -> None:
        body = await self._body(exchange, RotateKeyBody)
        id, by = _id(exchange.path_values["id"]), exchange.caller.grants
        await self._respond_new(exchange, await self._keys.rotate(id, body.overlap_s, by), 200)

    async def expire(self, exchange: Exchange) -> None:
        body = await self._body(exchange, ExpireKeyBody)
        key = await self._keys.expire(_id(exchange.path_values["id"]), body.expires_at, exchange.caller.grants)
        await self._respond(exchange, key.listed(self._services.clock.time()), 200)

    async def revoke(self, exchange: Exchange) -> None:
        await self._body(exchange, RevokeKeyBody)
        key = await self._keys.revoke(_id(exchange.path_values["id"]))
        await self._respond(exchange, key.listed(self._services.clock.time()), 200)

    async def _body(self, exchange: Exchange, shape: type[B]) -> B:
        return decode_body(await exchange.body(self._services.live.config.admin.body_bytes), shape)

    async def _respond_new(self, exchange: Exchange, made: NewKey, status: int) -> None:
        """Answer with a key that was created or rotated: the only place where it is told."""
        exchange.subject = made.key.prefix
        await self._respond(exchange, {"key": made.text, **made.key.listed(self._services.clock.time())}, status)

    async def _respond(self, exchange: Exchange, answer: JsonObject, status: int) -> None:
        await self._send(exchange, msgspec.json.encode(answer), status)

    async def _send(self, exchange: Exchange, answer: bytes, status: int) -> None:
        exchange.take_id(self._services.ids, "req_")
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        headers.append(self._services.request_ids.header(exchange.name))
        await exchange.respond(status, answer, headers)


def _id(text: str) -> str:
    """The id of a key, which may be named by its prefix."""
    return text.removeprefix("smg_")
