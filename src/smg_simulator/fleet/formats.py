"""Reads recorded traces in the formats that are in use, from lines of text.

- Mooncake (JSON lines): `timestamp` in milliseconds, `input_length`, `output_length`, `hash_ids`, one number for each block of
  512 tokens of the prompt, the last of which may be part full.
- Azure LLM inference traces (CSV): `TIMESTAMP` as a date, `ContextTokens`, `GeneratedTokens`. Nothing is known to be shared.
- BurstGPT (CSV): `Timestamp` in seconds, `Request tokens`, `Response tokens`, in later versions `Session ID`. Rows without
  a response failed, and are left out. Nothing is known to be shared.

Pure. Above: the command line. Below: trace.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice

import msgspec

from smg_simulator.fleet.trace import FleetRequest, FleetTrace

__all__ = ["read_trace"]

_MOONCAKE_BLOCK = 512
_ASSUMED_BLOCK = 16


class _Mooncake(msgspec.Struct):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]


def read_trace(name: str, lines: Iterable[str], most: int) -> FleetTrace:
    """The first `most` requests of a trace, whose format is told by its first line. They are put in the order of their times,
    which begin at 0. Raises ValueError, which names the line, for what is no such trace."""
    rows = iter(lines)
    first = next(rows, "")
    if first.lstrip().startswith("{"):
        block, found = _MOONCAKE_BLOCK, _mooncake(_with(first, rows))
    else:
        block, found = _ASSUMED_BLOCK, _table(_with(first, rows))
    requests = sorted(islice(found, most), key=lambda each: each.at)
    if not requests:
        raise ValueError("the trace has no request")
    begin = requests[0].at
    trace = FleetTrace(name, block, [msgspec.structs.replace(each, at=each.at - begin) for each in requests])
    trace.check()
    return trace


def _with(first: str, rows: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rows


def _mooncake(lines: Iterator[str]) -> Iterator[FleetRequest]:
    decoder = msgspec.json.Decoder(_Mooncake)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = decoder.decode(line)
        except msgspec.DecodeError as error:
            raise ValueError(f"line {number}: {error}") from None
        blocks = row.hash_ids[: row.input_length // _MOONCAKE_BLOCK]
        yield FleetRequest(row.timestamp / 1000, max(1, row.input_length), max(1, row.output_length), blocks)


def _table(lines: Iterator[str]) -> Iterator[FleetRequest]:
    rows = csv.DictReader(lines)
    try:
        yield from _rows(rows)
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num + 1}: {error}") from None


def _rows(rows: "csv.DictReader[str]") -> Iterator[FleetRequest]:
    names = frozenset(rows.fieldnames or ())
    read = next((made for columns, made in _TABLES if columns <= names), None)
    if read is None:
        raise ValueError("line 1: neither a trace of Mooncake (JSON lines) nor the columns of Azure or BurstGPT")
    for number, row in enumerate(rows, start=2):
        try:
            request = read(row)
        except (ValueError, TypeError) as error:
            raise ValueError(f"line {number}: {error}") from None
        if request is not None:
            yield request


def _azure(row: Mapping[str, str]) -> FleetRequest | None:
    at = datetime.fromisoformat(row["TIMESTAMP"]).timestamp()
    return _request(at, row["ContextTokens"], row["GeneratedTokens"])


def _burst_gpt(row: Mapping[str, str]) -> FleetRequest | None:
    made = _request(float(row["Timestamp"]), row["Request tokens"], row["Response tokens"])
    session = row.get("Session ID")
    return made if made is None or not session else msgspec.structs.replace(made, session=session)


def _request(at: float, prompt: str, answer: str) -> FleetRequest | None:
    """A request that shares nothing; None for one without an answer."""
    return FleetRequest(at, max(1, int(float(prompt))), int(float(answer))) if float(answer) >= 1 else None


_TABLES: list[tuple[frozenset[str], Callable[[Mapping[str, str]], FleetRequest | None]]] = [
    (frozenset({"TIMESTAMP", "ContextTokens", "GeneratedTokens"}), _azure),
    (frozenset({"Timestamp", "Request tokens", "Response tokens"}), _burst_gpt),
]
