"""The hand-over of a prompt's cache between embedded engines: a connector without tensors (edge).

What goes over the wire is a digest of the prompt's tokens and media. The engine that decodes compares it with what it was asked,
so a cache of another prompt is found out. Prefill puts a digest up when it has read a prompt; it is fetched once, over a socket
of its own, as the connectors of real engines have one. A digest that is asked for before it is there is waited for, without end:
it is for the gateway to lose patience. Above: server.grpc_server. The parameters are those of vLLM's connectors, NIXL and
Mooncake, and the rooms of SGLang and TokenSpeed, whose engines know by how they were started which part they do. An encode
worker of TokenSpeed hands over a digest of each medium in the same way, and the engine that reads the prompt compares it with the
medium that it was sent.
"""

import asyncio
import json
from collections import Counter, OrderedDict
from hashlib import blake2b
from typing import cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from smg_core.engines.base import Encoded, EngineRequest
from smg_core.json_types import JsonObject
from smg_simulator.engine.media import SeenMedia
from smg_simulator.engine.refusal import Refused
from smg_simulator.server.listeners import take_no_more

__all__ = ["KvExchange"]

_MOST = 1024  # digests that wait to be fetched; the oldest are dropped


class KvExchange:
    """The caches that one engine, `engine_id`, hands over or takes over; `role` as in `SimulatorConfig.kv_role`. Off where
    `connector` is "". For tests: `withheld` puts nothing up, `spoiled` puts up the digest of another prompt; `counters` has
    "offered", "fetched", and "waiting" (just now)."""

    def __init__(self, connector: str, role: str, engine_id: str) -> None:
        self.connector = connector
        self.role = role
        self.engine_id = engine_id
        self.withheld = self.spoiled = False
        self.counters: Counter[str] = Counter()
        self.port = 0
        self._offers: OrderedDict[str, str] = OrderedDict()
        self._news = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Listen, on the same port again after `stop`."""
        if self.connector:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Drop all caches and connections."""
        self._offers.clear()
        server, self._server = self._server, None
        if server is not None:
            await take_no_more(server)
            for writer in list(self._writers):
                writer.transport.abort()

    # ------------------------------------------------------------------------------------------------------ one request

    async def admit(self, request: EngineRequest, cached: int) -> tuple[EngineRequest, int]:
        """A request as it is answered, and how many tokens of its prompt need not be computed. One that is to decode gets its
        cache first. Raises Refused for a cache that cannot be had, and for that of another prompt."""
        place = request.bootstrap
        for each in request.encoded:
            await self._take_embedding(request, each)
        if self.connector and place is not None:
            if self.role == "kv_consumer":
                await self._take_over(request, place.host, place.port, str(place.room))
                return request, len(request.input_ids)
            return request, cached
        transfer = self._transfer_of(request)
        if transfer.get("do_remote_decode"):
            return replace(request, kv_transfer=self._answer(request, transfer)), cached
        if not transfer.get("do_remote_prefill"):
            return request, cached
        host, port = transfer.get("remote_host"), transfer.get("remote_port")
        if bootstrap := urlsplit(str(transfer.get("remote_bootstrap_addr", ""))):
            host, port = host or bootstrap.hostname, port or bootstrap.port
        await self._take_over(request, str(host), int(str(port)), _key(request, transfer))
        return request, len(request.input_ids)

    async def _take_over(self, request: EngineRequest, host: str, port: int, key: str) -> None:
        if await self._fetch(host, port, key) != _digest(request):
            raise Refused("the cache that was handed over is of another prompt", "INTERNAL")

    async def _take_embedding(self, request: EngineRequest, encoded: Encoded) -> None:
        item = cast("tuple[SeenMedia, ...]", request.multimodal)[encoded.item]
        found = await self._fetch(encoded.place.host, encoded.place.port, str(encoded.place.room))
        if found != _digest_of_item(item):
            raise Refused("the embedding that was handed over is of another medium", "INTERNAL")

    def embedded(self, item: SeenMedia, room: int) -> None:
        """Put the embedding of a medium up for the engine that asks for this room."""
        self._put_up(str(room), _digest_of_item(item))

    def computed(self, request: EngineRequest) -> None:
        """Put the cache of a request up, if another engine is to have it; called when its prompt has been read."""
        if self.connector and request.bootstrap is not None:
            if self.role != "kv_consumer":
                self._offer(request, str(request.bootstrap.room))
            return
        transfer = self._transfer_of(request)
        if not transfer.get("remote_request_id") and not transfer.get("transfer_id"):
            return
        if transfer.get("do_remote_prefill") and transfer.get("remote_engine_id") != self.engine_id:
            return  # this engine has taken it over
        self._offer(request, _key(request, transfer))

    def _offer(self, request: EngineRequest, key: str) -> None:
        self._put_up(key, _digest(request))

    def _put_up(self, key: str, digest: str) -> None:
        if not self.withheld:
            self._offers[key] = "spoiled" if self.spoiled else digest
            self.counters["offered"] += 1
            while len(self._offers) > _MOST:
                self._offers.popitem(last=False)
            self._news.set()
            self._news = asyncio.Event()

    def _transfer_of(self, request: EngineRequest) -> JsonObject:
        if not self.connector or request.kv_transfer is None:
            return {}
        try:
            transfer = json.loads(request.kv_transfer)
        except ValueError:
            raise Refused("kv_transfer_params_json is no JSON") from None
        return cast("JsonObject", transfer) if isinstance(transfer, dict) else {}

    def _answer(self, request: EngineRequest, transfer: JsonObject) -> str:
        """What the engine that decodes has to know. Mooncake's knows it already, and is told the id of the transfer alone."""
        if "transfer_id" in transfer:
            return json.dumps({"transfer_id": transfer["transfer_id"]})
        place = {"remote_engine_id": self.engine_id, "remote_host": "127.0.0.1", "remote_port": self.port}
        blocks = list(range(len(request.input_ids) // 16 + 1))
        return json.dumps(
            {
                "do_remote_prefill": True,
                "do_remote_decode": False,
                "remote_block_ids": blocks,
                "remote_request_id": request.id,
                "tp_size": 1,
                **place,
            }
        )

    # ------------------------------------------------------------------------------------------------------- the socket

    async def _fetch(self, host: str, port: int, key: str) -> str:
        """The digest that another engine has put up. Raises Refused when it is not to be had."""
        self.counters["waiting"] += 1
        try:
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(key.encode() + b"\n")
                found = await reader.readline()
            finally:
                writer.transport.abort()
        except OSError as error:
            raise Refused(f"the cache could not be fetched: {error}", "INTERNAL") from None
        finally:
            self.counters["waiting"] -= 1
        if not found.endswith(b"\n"):
            raise Refused("the cache could not be fetched: the other engine is gone", "INTERNAL")
        self.counters["fetched"] += 1
        return found.strip().decode()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # stopped between the connection and its task
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            key = (await reader.readline()).strip().decode("utf-8", "replace")
            gone = asyncio.ensure_future(reader.read(1))
            while key not in self._offers and not gone.done():
                news = asyncio.ensure_future(self._news.wait())
                await asyncio.wait((gone, news), return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
            gone.cancel()
            if key in self._offers:
                writer.write(self._offers.pop(key).encode() + b"\n")
                await writer.drain()
        except OSError:
            return
        finally:
            self._writers.discard(writer)
            writer.close()


def _key(request: EngineRequest, transfer: JsonObject) -> str:
    return str(transfer.get("transfer_id") or transfer.get("remote_request_id") or request.id)


def _digest_of_item(item: SeenMedia) -> str:
    """Of what an embedding depends on that both engines are sent."""
    identity = (item.modality, item.hashes, item.placeholders, item.embeddings)
    return blake2b(repr(identity).encode(), digest_size=16).hexdigest()


def _digest(request: EngineRequest) -> str:
    """Of all that a cache depends on: tokens and media."""
    media = cast("tuple[SeenMedia, ...]", request.multimodal or ())
    hashes = "".join(f"/{each}" for item in media for each in item.hashes)
    return blake2b(bytes(request.input_ids.buffer) + hashes.encode(), digest_size=16).hexdigest()
