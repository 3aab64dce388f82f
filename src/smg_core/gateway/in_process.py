"""Ways to call a gateway in the process that runs it: ASGI, SDKs, verbs, explanations (edge).

Decides nothing. Above: `gateway.gateway`, which loads this when a gateway is made. Below: the app, `serving.explain`.
"""

from collections.abc import Mapping
from functools import cached_property
from types import ModuleType
from typing import Any

import msgspec

from smg_core.apis import chat
from smg_core.app.app import App
from smg_core.app.direct import DirectCalls
from smg_core.app.inprocess import async_client, sync_client
from smg_core.request import GenerationRequest
from smg_core.serving.explain import rehearsal
from smg_core.serving.lifecycle import Lifecycle
from smg_core.wire.base import Incoming
from smg_core.wire.explain import Explanation

__all__ = ["InProcess"]


class InProcess:
    """What calls `gateway` in this process."""

    def __init__(self, gateway: Lifecycle) -> None:
        self._gateway = gateway

    def app(self) -> App:
        """A new ASGI app over the gateway."""
        return App(self._gateway)

    def client(self, sdk: ModuleType | None, **arguments: object) -> Any:
        """An asynchronous HTTP client of the kind that `sdk` takes."""
        return async_client(self.app(), sdk, **arguments)

    def sync_client(self, sdk: ModuleType | None, **arguments: object) -> Any:
        """A synchronous one; the gateway is started."""
        services = self._gateway.services
        return sync_client(self.app(), services.running.loop, sdk, envelopes=services.apis.envelopes, **arguments)

    def direct(self, headers: Mapping[str, str] | None) -> DirectCalls:
        """Calls with these headers, without an HTTP client; all by one app."""
        return DirectCalls(self._own_app, headers)

    async def explain(self, body: Mapping[str, object] | bytes) -> Explanation:
        """What would be done with this Chat Completions request; the gateway is started."""
        services = self._gateway.services
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)

        def decode() -> GenerationRequest:
            incoming = Incoming(
                data, request_id=services.ids(chat.CHAT.id_prefix), limits=services.live.limits, compat=services.compat
            )
            return chat.CHAT.decode(incoming).generation

        return await rehearsal(services, decode)

    @cached_property
    def _own_app(self) -> App:
        return self.app()
