"""Latency that a gateway adds to one small chat, asked one after another on an idle machine.

    python bench/latency.py [--requests 2000] [--smg PATH]

The same request goes to the gateways over HTTP and to the engine over gRPC directly, in turn, so that all meet the same
machine. Two yardsticks: the engine's own time (inside its handler, from the first token to the last, by its trace), and a
direct gRPC call (what a client without a gateway would wait). What a gateway adds is its time less the yardstick's median.
Streamed chats count until the end of the stream; `first` is until the first event.
"""

import argparse
import json
import socket
import statistics
import sys
import time
from typing import NamedTuple

import grpc
import stand
from smg_grpc_proto.generated import vllm_engine_pb2 as pb
from smg_grpc_proto.generated import vllm_engine_pb2_grpc as rpc


class Times(NamedTuple):
    """Seconds of one request."""

    first: float
    total: float


class HttpClient:
    """One kept-alive connection; a blocking socket, so that little of what is measured is the client."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, body: bytes, *, stream: bool) -> Times:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        request = head + b"Authorization: Bearer -\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        began = time.perf_counter()
        self.socket.sendall(request)
        seen, first = b"", 0.0
        while not _complete(seen, stream=stream):
            piece = self.socket.recv(65536)
            if not piece:
                raise SystemExit(f"the gateway closed the connection after {seen[-300:]!r}")
            seen += piece
            if not first and (b"data: " in seen or not stream):
                first = time.perf_counter() - began
        if b" 200 " not in seen[:16]:
            raise SystemExit(f"the gateway answered {seen[:500]!r}")
        return Times(first, time.perf_counter() - began)


def _complete(seen: bytes, *, stream: bool) -> bool:
    head, end, body = seen.partition(b"\r\n\r\n")
    if not end:
        return False
    if b"chunked" in head.lower():
        return body.endswith(b"0\r\n\r\n")
    if stream and b" 200 " in head[:16]:
        return b"data: [DONE]" in body
    lengths = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(lengths) and len(body) >= int(lengths[0])


class GrpcClient:
    """The engine without a gateway."""

    def __init__(self, port: int, tokens: int) -> None:
        self.stub = rpc.VllmEngineStub(grpc.insecure_channel(f"127.0.0.1:{port}"))
        self.tokens = tokens

    def ask(self) -> Times:
        sampling = pb.SamplingParams(max_tokens=self.tokens, seed=0)
        tokenized = pb.TokenizedInput(input_ids=list(range(100, 130)))
        began = time.perf_counter()
        first = 0.0
        for _ in self.stub.Generate(pb.GenerateRequest(tokenized=tokenized, sampling_params=sampling, stream=True)):
            first = first or time.perf_counter() - began
        return Times(first, time.perf_counter() - began)


def measure(bench: stand.Stand, args: argparse.Namespace, *, stream: bool) -> dict[str, list[Times]]:
    """Rounds of one request to each, after a tenth as many to warm up."""
    clients = {name: HttpClient(gateway.port) for name, gateway in bench.gateways.items()}
    direct = GrpcClient(bench.engine_port, args.tokens)
    body = stand.chat(args.tokens, stream=stream, text="Which way does the river run?")
    times: dict[str, list[Times]] = {"direct": [], **{name: [] for name in clients}}
    for turn in range(args.requests + args.requests // 10):
        taken = {"direct": direct.ask(), **{name: client.ask(body, stream=stream) for name, client in clients.items()}}
        if turn >= args.requests // 10:
            for name, each in taken.items():
                times[name].append(each)
    return times


def _p(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000


def report(kind: str, times: dict[str, list[Times]], engine: float) -> dict[str, dict[str, float]]:
    """Print and return milliseconds by gateway; `engine` is the median of the engine's own time in seconds."""
    direct = statistics.median(each.total for each in times["direct"])
    figures = {}
    for name, taken in times.items():
        totals, firsts = [each.total for each in taken], [each.first for each in taken]
        row = {"p50": _p(totals, 0.5), "p99": _p(totals, 0.99), "first_p50": _p(firsts, 0.5)}
        row["over_engine_p50"] = row["p50"] - engine * 1000
        row["over_engine_p99"] = row["p99"] - engine * 1000
        row["over_direct_p50"] = row["p50"] - direct * 1000
        figures[name] = row
        print(
            f"{kind:6} {name:8} p50 {row['p50']:.3f} p99 {row['p99']:.3f} first {row['first_p50']:.3f} ms;  added to the "
            f"engine's own time: p50 {row['over_engine_p50']:.3f} p99 {row['over_engine_p99']:.3f} ms;  to a direct gRPC "
            f"call: p50 {row['over_direct_p50']:.3f} ms",
            flush=True,
        )
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    stand.add_gateway_options(parser)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    print(stand.machine(), flush=True)
    figures = {}
    with stand.Stand(stand.gateways(args), trace=True) as bench:
        for kind, stream in (("whole", False), ("stream", True)):
            before = len(bench.traced())
            times = measure(bench, args, stream=stream)
            own = statistics.median(took for _, _, took in bench.traced()[before:])
            print(f"{kind:6} engine   p50 {own * 1000:.3f} ms inside its handler")
            figures[kind] = report(kind, times, own)
    if args.json:
        with open(args.json, "w") as out:  # noqa: PTH123 - the one line of it
            json.dump(figures, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
