"""An API server of Kubernetes in the test's own process: pods, listed in pages and watched over real HTTP.

It keeps a version for every change, as etcd does, and forgets old ones when a test says so. It answers as the API's conventions
say: a watch is chunked, with one event a line; bookmarks are sent to those that ask for them; a version that is gone is 410, as
a status before the watch has begun and as an event in it.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import attrs
from tests.shared import PATIENCE

Query = dict[str, str]
_CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


def pod(name: str, ip: str = "10.0.0.1", **fields: Any) -> dict[str, Any]:
    """A pod as the API has it; `fields`: ready, phase, labels, annotations, namespace, deleted."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": fields.get("namespace", "llm"),
        "uid": f"uid-of-{name}",
        "labels": {"app": "vllm", **fields.get("labels", {})},
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    }
    if fields.get("annotations"):
        metadata["annotations"] = fields["annotations"]
    if fields.get("deleted"):
        metadata["deletionTimestamp"] = "2026-11-23T12:00:00Z"
    ready = "True" if fields.get("ready", True) else "False"
    conditions = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready, "reason": None}]
    status: dict[str, Any] = {"phase": fields.get("phase", "Running"), "conditions": conditions}
    if ip:
        status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return {"metadata": metadata, "spec": {"containers": [{"name": "engine"}]}, "status": status}


@attrs.define(eq=False)
class Watch:
    """One open watch."""

    query: Query
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def end(self) -> None:
        """The server ends it as it should: with the last chunk."""
        self.writer.write(b"0\r\n\r\n")
        self.writer.close()

    def cut(self, data: bytes = b"") -> None:
        """The connection breaks after `data`."""
        if data:
            self.send(data)
        self.writer.close()


@attrs.define(eq=False)
class ApiServer:
    """`token` is the one that is taken. `refusals` are answered first, each with its status and headers. `lies` are answered in
    the place of lists, with status 200 where they are no number; the last one again and again. A watch gets `events` at once and
    is then ended. `dripping`: an answer has no end and comes byte by byte from its "head", "page" or "watch" on.
    `requests` has path and query of all that came."""

    version: int = 100
    oldest: int = 0
    token: str = "first"
    pods: dict[tuple[str, str], dict[str, Any]] = attrs.field(factory=dict)
    log: list[tuple[int, str, dict[str, Any]]] = attrs.field(factory=list)
    refusals: list[tuple[int, dict[str, str]]] = attrs.field(factory=list)
    lies: list[Any] = attrs.field(factory=list)
    events: list[bytes] = attrs.field(factory=list)
    between_pages: list[Callable[[], None]] = attrs.field(factory=list)
    requests: list[tuple[str, Query]] = attrs.field(factory=list)
    watches: list[Watch] = attrs.field(factory=list)
    dripping: str = ""
    url: str = ""
    _changed: asyncio.Event = attrs.field(factory=asyncio.Event)

    # ------------------------------------------------------------------------------------------------------- what happens

    def put(self, *pods: dict[str, Any]) -> None:
        """Make pods, or replace those of their names."""
        for each in pods:
            key = each["metadata"]["namespace"], each["metadata"]["name"]
            self._happened("MODIFIED" if key in self.pods else "ADDED", each)
            self.pods[key] = each

    def delete(self, name: str, namespace: str = "llm") -> None:
        self._happened("DELETED", self.pods.pop((namespace, name)))

    def compact(self) -> None:
        """Forget all versions but the present one."""
        self.version += 1
        self.oldest = self.version

    def bookmark(self) -> None:
        self.version += 1
        event = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": str(self.version)}}}
        for watch in self.watches:
            if watch.query.get("allowWatchBookmarks") == "true":
                watch.send(json.dumps(event).encode() + b"\n")

    def gone(self) -> None:
        """Tell the open watches that their version is gone."""
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
        for watch in self.watches:
            watch.send(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
            watch.end()

    async def watched(self, count: int = 1) -> Watch:
        """The newest of the open watches, when there are `count`."""
        while len(self.watches) < count:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), PATIENCE)
        return self.watches[-1]

    async def asked(self, count: int) -> None:
        """Return when so many requests have come."""
        while len(self.requests) < count:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), PATIENCE)

    def event(self, kind: str, each: dict[str, Any]) -> bytes:
        return json.dumps({"type": kind, "object": each}).encode() + b"\n"

    def _happened(self, kind: str, each: dict[str, Any]) -> None:
        self.version += 1
        each["metadata"]["resourceVersion"] = str(self.version)
        self.log.append((self.version, kind, each))
        for watch in self.watches:
            if _matches(each, watch.query):
                watch.send(self.event(kind, each))

    # ---------------------------------------------------------------------------------------------------------- the protocol

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.watches = [each for each in self.watches if each.writer is not writer]
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer a request. False when the connection is done."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *rest = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in rest if each)}
        parts = urlsplit(line.split(" ")[1])
        query = dict(parse_qsl(parts.query))
        self.requests.append((parts.path, query))
        self._changed.set()
        if self.dripping == "head":
            return await self._drip(writer, b"HTTP/1.1 200 OK\r\nx-drip: ", b".")
        if self.dripping == "page" and "watch" not in query:
            return await self._drip(writer, _CHUNKED, b"1\r\n \r\n")
        if self.refusals:
            self._respond(writer, *self.refusals.pop(0))
        elif headers.get("authorization") != f"Bearer {self.token}":
            self._respond(writer, 401, {})
        elif query.get("watch") == "true":
            return await self._watch(reader, writer, query)
        else:
            self._list(writer, query)
        await writer.drain()
        return True

    async def _drip(self, writer: asyncio.StreamWriter, head: bytes, drop: bytes) -> bool:
        """Write drops until the client has left."""
        writer.write(head)
        while not writer.is_closing():
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(0.01)
        return False

    def _respond(self, writer: asyncio.StreamWriter, status: int, headers: dict[str, str], body: object = None) -> None:
        data = json.dumps(body if body is not None else {"kind": "Status", "code": status}).encode()
        lines = [f"HTTP/1.1 {status} -", "content-type: application/json", f"content-length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def _list(self, writer: asyncio.StreamWriter, query: Query) -> None:
        if self.lies:
            lie = self.lies.pop(0) if len(self.lies) > 1 else self.lies[0]
            self._respond(writer, *((lie, {}) if isinstance(lie, int) else (200, {}, lie)))
            return
        version, start = str(self.version), 0
        if "continue" in query:
            version, _, at = query["continue"].partition("/")
            start = int(at)
            if int(version) < self.oldest:
                self._respond(writer, 410, {}, {"kind": "Status", "code": 410, "reason": "Expired"})
                return
        found = [each for _, each in sorted(self.pods.items()) if _matches(each, query)]
        limit = int(query.get("limit", "500"))
        metadata = {"resourceVersion": version}
        if start + limit < len(found):
            metadata["continue"] = f"{version}/{start + limit}"
        self._respond(writer, 200, {}, {"kind": "PodList", "metadata": metadata, "items": found[start : start + limit]})
        if self.between_pages:
            self.between_pages.pop(0)()

    async def _watch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, query: Query) -> bool:
        since = int(query["resourceVersion"])
        if since < self.oldest:
            self._respond(writer, 410, {}, {"kind": "Status", "code": 410, "reason": "Expired"})
            return True
        if self.dripping == "watch":
            return await self._drip(writer, _CHUNKED, b"1\r\n{\r\n")
        writer.write(_CHUNKED)
        watch = Watch(query, writer)
        for version, kind, each in self.log:
            if version > since and _matches(each, query):
                watch.send(self.event(kind, each))
        if self.events:
            watch.send(b"".join(self.events))
            watch.end()
            return False
        self.watches.append(watch)
        self._changed.set()
        await writer.drain()
        await reader.read(1)
        return False


def _matches(each: dict[str, Any], query: Query) -> bool:
    labels = each["metadata"]["labels"]
    wanted = [part.partition("=") for part in query.get("labelSelector", "").split(",") if part]
    return all(labels.get(key) == value for key, _, value in wanted)


@asynccontextmanager
async def api_server(context: ssl.SSLContext | None = None) -> AsyncIterator[ApiServer]:
    """A server on the loopback until the block ends."""
    server = ApiServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"{'https' if context else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listening.close()
        for watch in server.watches:
            watch.writer.close()
