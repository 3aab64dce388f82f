"""`smg-gateway record` and `replay`: what clients ask of a server, kept in a file, and asked again of another (edge).

Decides which flags the commands have, and what their exit status says: of `replay` 1 where an answer is different. Above: flags.
Below: cassettes.
"""

import argparse
import asyncio
import os
import secrets
import socket
import sys
from pathlib import Path

from smg_core.commands.admin import bearer_of
from smg_core.commands.asked_server import server_url_of
from smg_core.settings import ConfigError, number_flag, port_of
from smg_simulator.cassettes.cassette import CassetteExchange, read_cassette
from smg_simulator.cassettes.difference import ReplayedExchange, replay_lines

__all__ = ["record_flags", "replay_flags"]

_KEY = "SMG_API_KEY"
INTERRUPTED = 130
_COUNT = number_flag(int, 1, 1_000_000)
_SECONDS = number_flag(float, 0.001, 86400)


def record_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway record`."""
    parser.set_defaults(run=_record)
    parser.add_argument("url", metavar="URL", help="the server that is asked, such as http://localhost:8000")
    parser.add_argument("out", metavar="FILE", type=Path, help="the cassette, which must not be there yet")
    text = "where clients ask instead (default: %(default)s)"
    parser.add_argument("--listen", default="127.0.0.1:8001", metavar="HOST:PORT", help=text)
    text = "keep other words in the place of prompts, and answers without theirs; lengths and beginnings stay alike"
    parser.add_argument("--redact-prompts", action="store_true", help=text)
    text = "most MiB of the cassette (default: %(default)s)"
    parser.add_argument("--most", type=number_flag(int, 1, 1 << 20), default=1024, metavar="MIB", help=text)


def replay_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway replay`."""
    parser.set_defaults(run=_replay)
    parser.add_argument("file", metavar="FILE", type=Path, help="the cassette")
    parser.add_argument("url", metavar="URL", help="the server that is asked now")
    parser.add_argument("--model", default="", help="the model to ask in place of the recorded ones")
    for flag, kind, default, text in (
        ("--faster", number_flag(float, 0.001, 1_000_000), 1.0, "in a time so many times shorter"),
        ("--most", number_flag(int, 1, 20_000), 1000, "requests under way at most"),
        ("--requests", _COUNT, 100_000, "the first so many requests of the cassette"),
        ("--timeout", _SECONDS, 300.0, "seconds without anything new after which an answer has failed"),
    ):
        parser.add_argument(flag, type=kind, default=default, help=f"{text} (default: %(default)s)")


def _tell(text: str) -> None:
    print(f"smg-gateway: {text}", file=sys.stderr, flush=True)


def _record(args: argparse.Namespace) -> int:
    url, port = server_url_of(args.url, "record"), port_of(args.listen, "--listen")
    host = args.listen.rpartition(":")[0].strip("[]")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        _tell(f"cannot listen on {args.listen}: {error.strerror or error}")
        return 1
    with listener:
        try:
            return asyncio.run(_recorded(args, url, listener))
        except OSError as error:
            _tell(f"{args.out}: {error.strerror or error}")
            return 1


async def _recorded(args: argparse.Namespace, url: str, listener: socket.socket) -> int:
    """Record until the signal to end."""
    from smg_simulator.cassettes.recording import CassetteRecorder, RecorderServer

    secret = secrets.token_bytes(32) if args.redact_prompts else None
    recorder = CassetteRecorder(url, args.out, most=args.most << 20, secret=secret, tell=_tell)
    server = RecorderServer(recorder)
    place = "{}:{}".format(*listener.getsockname()[:2])
    async with recorder.opened():
        _tell(f"recording http://{place} -> {url} into {args.out}; Ctrl-C ends it")
        await server.serve(sockets=[listener])
    _tell(f"{recorder.kept} exchanges are in {args.out}")
    return 0 if server.started else 1


def _replay(args: argparse.Namespace) -> int:
    from smg_simulator.cassettes.replaying import replayed

    url, headers = server_url_of(args.url, "replay"), bearer_of(os.environ.get(_KEY, ""), _KEY)
    exchanges = _read(args.file, args.requests)
    pairs: dict[int, ReplayedExchange] = {}

    def come(number: int, pair: ReplayedExchange) -> None:
        pairs[number] = pair
        done = len(pairs)
        if done * 5 // len(exchanges) > (done - 1) * 5 // len(exchanges):
            print(f"{done} of {len(exchanges)} requests", file=sys.stderr, flush=True)

    asking = replayed(
        exchanges,
        url,
        headers=headers,
        model=args.model,
        faster=args.faster,
        most=args.most,
        timeout=args.timeout,
        come=come,
    )
    interrupted = False
    try:
        asyncio.run(asking)
    except KeyboardInterrupt:
        interrupted = True
        _tell(f"interrupted: {len(pairs)} of {len(exchanges)} requests had come to their end")
    lines, different = replay_lines([pairs[number] for number in sorted(pairs)])
    print("\n".join(lines))
    return INTERRUPTED if interrupted else 1 if different else 0


def _read(file: Path, most: int) -> list[CassetteExchange]:
    """The first exchanges of a cassette. Raises ConfigError."""
    try:
        with file.open(encoding="utf-8") as lines:
            found = [each for each, _ in zip(read_cassette(lines), range(most), strict=False)]
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    if not found:
        raise ConfigError(f"{file}: there is no exchange in it")
    return found
