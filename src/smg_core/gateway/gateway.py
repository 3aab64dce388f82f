"""`Gateway`, the class that users make: the runtime, with its ASGI app and its in-process HTTP clients (edge).

The same object runs in a notebook, in a test, inside another application and under `smg-gateway serve`: as an async context
manager, as an ASGI app, or as an HTTP client that calls that app in process. Decides nothing; `gateway.assembly` wires.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from smg_core.apis import chat
from smg_core.app.app import App
from smg_core.app.direct import DirectCalls
from smg_core.app.inprocess import async_client, sync_client
from smg_core.cards import card
from smg_core.gateway.arguments import GatewayArguments
from smg_core.gateway.assembly import Assembly
from smg_core.operation.discovery import discovery_of
from smg_core.request import GenerationRequest
from smg_core.serving.explain import rehearsal
from smg_core.simulator_package import require_simulator
from smg_core.wire.base import Incoming
from smg_core.wire.explain import Explanation

if TYPE_CHECKING:
    from smg_core.gateway.launched import LaunchArguments, LaunchedGateway
    from smg_core.gateway.simulated import SimulatedGateway
    from smg_simulator.engine.engine import SimulatorConfig

__all__ = ["Gateway"]


class Gateway(Assembly):
    """A gateway in front of `workers` (engine URLs or WorkerSpecs, beside those in `config`).

    `policy` is a name or an object; `tokenizer` a folder, without which the engine is asked for its own. Use it as an
    async context manager, mount `asgi()`, or let `smg-gateway serve` do so. The other arguments are these:.
    """

    @staticmethod
    def simulated(
        simulator: "SimulatorConfig | None" = None, *, engines: int = 1, **arguments: Unpack[GatewayArguments]
    ) -> "SimulatedGateway":
        """A gateway in front of embedded engines: no GPU and no port, but real gRPC over a Unix socket.

        `arguments` are the constructor's. Raises ConfigError where the package smg_simulator is not installed.
        """
        require_simulator("Gateway.simulated")
        from smg_core.gateway.simulated import SimulatedGateway
        from smg_simulator.engine.engine import SimulatorConfig

        return SimulatedGateway([simulator or SimulatorConfig()] * engines, **arguments)

    @staticmethod
    def launch(
        command: str | Sequence[str], *, model: str = "", **arguments: "Unpack[LaunchArguments]"
    ) -> "LaunchedGateway":
        """A gateway that starts its engine, waits for it and stops it:

            async with Gateway.launch("vllm", model="Qwen/Qwen3-8B") as gateway: ...

        Further arguments are `LaunchedGateway`'s. Raises ValueError for an engine that is not known by name."""
        from smg_core.gateway.launched import LaunchedGateway

        return LaunchedGateway(command, model=model, **arguments)

    async def start(self) -> None:
        """Begin to reach the workers, and to look for those that come and go; returns before they are reached. Calling it again
        does nothing. Raises what `Assembly.start` does."""
        discovery_of(self.services)
        await super().start()

    def asgi(self) -> App:
        """The gateway as an ASGI application."""
        return App(self)

    def http_client(self, sdk: ModuleType | None = None, **arguments: object) -> Any:
        """An async HTTP client that calls this gateway in process, of the kind the official SDKs take: of `sdk` (a module
        such as `openai`), else of whichever of httpx2 and httpx an imported SDK uses. `arguments` are its constructor's."""
        return async_client(self.asgi(), sdk, **arguments)

    def sync_http_client(self, sdk: ModuleType | None = None, **arguments: object) -> Any:
        """A synchronous client likewise, for threads other than the one in which the gateway was started. Raises RuntimeError
        before the start."""
        self._check_started()
        return sync_client(
            self.asgi(), self.services.running.loop, sdk, envelopes=self.services.apis.envelopes, **arguments
        )

    async def chat(
        self, body: Mapping[str, object] | msgspec.Struct, *, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The whole answer to a Chat Completions request, without an HTTP client. `headers` are those of the request, such as
        `{"authorization": "Bearer ..."}` where the gateway asks for a key. Raises RequestRefused. Other APIs are asked by
        `smg_core.app.direct.DirectCalls`."""
        return await DirectCalls(self._own_app, headers).answer("/v1/chat/completions", body)

    def stream(
        self, body: Mapping[str, object] | msgspec.Struct, *, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The chunks of a Chat Completions answer as they come; who leaves the loop stops the request. Raises RequestRefused."""
        fields = body if isinstance(body, Mapping) else msgspec.to_builtins(body)
        return DirectCalls(self._own_app, headers).events("/v1/chat/completions", {**fields, "stream": True})

    async def embed(
        self, body: Mapping[str, object] | msgspec.Struct, *, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The answer to a request for embeddings. Raises RequestRefused."""
        return await DirectCalls(self._own_app, headers).answer("/v1/embeddings", body)

    @cached_property
    def _own_app(self) -> App:
        return self.asgi()

    def __repr__(self) -> str:
        workers = list(self.registry)
        ready = sum(worker.state == "ready" for worker in workers)
        serves = ", ".join(sorted(self.models)) or "no model yet"
        state = "started" if self.started else "stopped" if self.services.life.stopped else "not started"
        return f"<Gateway {state}: {serves}; {ready} of {len(workers)} workers ready, {self.in_flight} in flight>"

    def _repr_html_(self) -> str:
        """The gateway in a notebook."""
        head = ("worker", "state", "serves", "in flight", "why")
        return card(repr(self)[1:-1], [worker.row_of_card() for worker in self.registry], head)

    async def explain(self, body: Mapping[str, object] | bytes) -> Explanation:
        """The plan for this Chat Completions request, without doing it: rendered prompt, ids, cache, worker, timings. Raises
        RuntimeError before the start."""
        self._check_started()
        services = self.services
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)

        def decode() -> GenerationRequest:
            incoming = Incoming(
                data, request_id=services.ids(chat.CHAT.id_prefix), limits=services.live.limits, compat=services.compat
            )
            return chat.CHAT.decode(incoming).generation

        return await rehearsal(services, decode)

    def _check_started(self) -> None:
        if not self.started:
            raise RuntimeError("the gateway is not started: use `async with gateway:` or `await gateway` first")


Assembly.__init__.__qualname__ = (
    "Gateway.__init__"  # what a TypeError for an unknown argument names: users know no Assembly
)
