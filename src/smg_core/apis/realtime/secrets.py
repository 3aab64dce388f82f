"""POST /v1/realtime/client_secrets (edge): a credential that a browser may open sessions with, and the session's settings in it.

Above: the routes. Below: client secrets, the settings of sessions.
"""

from typing import Literal

import msgspec
from msgspec import Struct

from smg_core.apis.realtime.wire.effective import (
    Abilities,
    changed,
    checked_patch,
    defaults,
    public_settings,
    settings_at,
    transcription_defaults,
)
from smg_core.errors import InvalidRequest, PermissionDenied
from smg_core.http.exchange import Exchange
from smg_core.identity.client_secrets import has_client_secret, seal_secret
from smg_core.json_types import JsonObject
from smg_core.sealing.sealer import load_ciphers
from smg_core.serving.json_handler import decoded_body, json_handler
from smg_core.serving.services import Services
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.decoding import WireDecoder
from smg_core.wire.errors import openai_error
from smg_core.wire.json_text import encode_body

__all__ = ["ClientSecretsHandler"]

_LONGEST_SETTINGS = 4096
"""Bytes of settings in a secret, which browsers send in a header."""
_LEAST, _MOST = 10, 7200  # seconds that a secret is good for


class _ExpiresAfter(Struct, forbid_unknown_fields=True):
    """When a secret expires: so many seconds after it was made."""

    seconds: int | None = None
    anchor: Literal["created_at"] = "created_at"


class ClientSecretBody(Struct, forbid_unknown_fields=True):
    """The body of POST /v1/realtime/client_secrets."""

    expires_after: _ExpiresAfter | None = None
    session: JsonObject | None = None


_DECODER = WireDecoder(ClientSecretBody, {"expires_after.anchor": ("created_at",)})


class ClientSecretsHandler:
    """Makes client secrets."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._answer = json_handler(services, "req_", openai_error, self._made)

    async def __call__(self, exchange: Exchange) -> None:
        if has_client_secret(exchange):
            raise PermissionDenied("A client secret makes no other; send an API key.")
        await self._answer(exchange)

    async def _made(self, incoming: Incoming, located: list[Locate]) -> bytes:
        services = self._services
        body = await decoded_body(
            services, incoming, lambda each: _DECODER.decode(each.body or b"{}", each.limits, each.compat)
        )
        expires_at = int(services.clock.time()) + self._seconds(body.expires_after)
        patch = body.session or {"type": "realtime"}
        model = patch.get("model")
        settings = self._settings(patch, expires_at, model if isinstance(model, str) else "")
        if isinstance(model, str) and patch["type"] == "realtime":
            services.lookup.served_or_refused(model, incoming.caller)
        if len(msgspec.json.encode(patch)) > _LONGEST_SETTINGS:
            raise InvalidRequest(
                f"The settings of a client secret have at most {_LONGEST_SETTINGS} bytes; send the rest by session.update.",
                param="session",
            )
        await services.running.executor.run(lambda _: load_ciphers(), size=0, caller=incoming.caller.tenant)
        value = seal_secret(
            services.running.sealer,
            incoming.caller,
            "realtime",
            model if isinstance(model, str) else "",
            patch,
            expires_at,
            further_models=self._further_models(settings),
        )
        return encode_body({"value": value, "expires_at": expires_at, "session": public_settings(settings)})

    def _further_models(self, settings: JsonObject) -> list[str]:
        """The models that write down what is said to a session, and speak for it."""
        writer = settings_at(settings, "audio", "input", "transcription") or {}
        names = [writer.get("model"), self._services.live.config.realtime.speech_model]
        return [name for name in names if isinstance(name, str) and name]

    def _seconds(self, asked: _ExpiresAfter | None) -> int:
        seconds = asked.seconds if asked is not None else None
        if seconds is None:
            return self._services.live.config.realtime.secret_s
        if not _LEAST <= seconds <= _MOST:
            raise InvalidRequest(
                f"Invalid 'expires_after.seconds': expected {_LEAST} to {_MOST}.",
                param="expires_after.seconds",
                code="invalid_value",
            )
        return seconds

    def _settings(self, patch: JsonObject, expires_at: int, model: str) -> JsonObject:
        """The settings that a session with this secret begins with. Raises what is wrong with them."""
        services = self._services
        abilities = Abilities(services.live.limits, hosted=services.hosted("realtime"))
        id = services.ids("sess_")
        base = (
            transcription_defaults(id, expires_at)
            if patch.get("type") == "transcription"
            else defaults(id, model, expires_at, abilities)
        )
        return changed(base, checked_patch(patch, base, abilities))
