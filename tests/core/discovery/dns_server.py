"""A DNS server in the test's own process, over real UDP and TCP: it answers what a test tells it."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import dns.flags
import dns.message
import dns.rcode
import dns.rrset

LARGEST = 512  # bytes of an answer over UDP; a longer one is cut, and asked for again over TCP


@attrs.define(eq=False)
class DnsServer(asyncio.DatagramProtocol):
    """`zone` has the records of each (name, kind), as the lines of a zone file without the name: "60 IN A 10.0.0.1", or with
    another. `fails` is the code of every answer, `silent` answers nothing; `asked` has all questions."""

    zone: dict[tuple[str, str], list[str]] = attrs.field(factory=dict)
    fails: int = dns.rcode.NOERROR
    silent: bool = False
    asked: list[tuple[str, str]] = attrs.field(factory=list)
    port: int = 0
    _transport: asyncio.DatagramTransport = attrs.field(init=False)

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = self.answer(data)
        if answer is None:
            return
        wire = answer.to_wire()
        if len(wire) > LARGEST:
            answer.flags |= dns.flags.TC
            answer.answer = []
            wire = answer.to_wire()
        self._transport.sendto(wire, addr)

    def answer(self, wire: bytes) -> dns.message.Message | None:
        query = dns.message.from_wire(wire)
        (question,) = query.question
        name, kind = question.name.to_text(omit_final_dot=True), dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, kind))
        if self.silent:
            return None
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        records = self.zone.get((name, kind), [])
        known = any(each == name for each, _ in self.zone)
        answer.set_rcode(self.fails or (dns.rcode.NOERROR if known else dns.rcode.NXDOMAIN))
        if not self.fails:
            answer.answer += [_records(name, line) for line in records]
        return answer

    async def serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (length,) = struct.unpack("!H", await reader.readexactly(2))
        answer = self.answer(await reader.readexactly(length))
        if answer is not None:
            wire = answer.to_wire()
            writer.write(struct.pack("!H", len(wire)) + wire)
        await writer.drain()
        writer.close()


def _records(name: str, line: str) -> dns.rrset.RRset:
    """A record; a line may begin with another name than the one that was asked for."""
    first, rest = line.split(" ", 1)
    owner, line = (f"{name}.", line) if first.isdecimal() else (first, rest)
    ttl, family, kind, data = line.split(" ", 3)
    return dns.rrset.from_text(owner, int(ttl), family, kind, data)


@asynccontextmanager
async def dns_server() -> AsyncIterator[DnsServer]:
    """A server on the loopback, until the block ends; over TCP and UDP on one port."""
    server = DnsServer()
    streams = await asyncio.start_server(server.serve_tcp, "127.0.0.1", 0)
    server.port = streams.sockets[0].getsockname()[1]
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: server, local_addr=("127.0.0.1", server.port)
    )
    try:
        yield server
    finally:
        transport.close()
        streams.close()
        await streams.wait_closed()
