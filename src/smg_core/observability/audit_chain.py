"""The lines of the audit log and the chain that they form: how a line is written, and whether lines are as they were written.

A line is a JSON object. `seq` counts the lines of a chain from 1, `chain` names the chain, `prev` is the hash of the line before
(64 zeros for the first), and `hash`, always the last member, is the SHA-256 of all bytes of the line before `,"hash":`. So a line
that is changed, taken out, put in or moved breaks the chain, in whatever file of it that is. Lines missing at the end break
nothing: who wants to know of them keeps the head (`seq:hash`) of the last line elsewhere. The hashes are without a key: somebody
who may write the file can also make a new chain, which then has another head.

The first line of a file is an event `chain_started` or `file_started`. What a crash has left of a line stays where it is; the
next line says so by `torn`, the SHA-256 of these bytes. Where the end of a file was missing when the next line was written, that
line follows the head that was remembered, so the chain is broken there for all to see; `lost` says that the whole file was
missing.

Pure. Above: `audit_file`, the command `audit-log`. Below: `line_ends`.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

import attrs
import msgspec

from smg_core.line_ends import as_one_line

__all__ = [
    "LONGEST_LINE",
    "AuditHead",
    "ChainReport",
    "audit_line",
    "check_chain",
    "head_of",
    "parse_head",
    "read_tail",
    "torn_of",
]

LONGEST_LINE = 16384
"""Bytes of a line, its end of line included; no line is written that is longer."""
NO_LINE = "0" * 64
_FIRST_EVENTS = ("chain_started", "file_started")
_END = re.compile(rb',"hash":"([0-9a-f]{64})"}')
_END_BYTES = len(b',"hash":""}') + 64
_HEAD = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{64})")


@attrs.frozen
class AuditHead:
    """The last line of a chain: the chain's name, the line's number and its hash."""

    chain: str
    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


@attrs.frozen
class ChainReport:
    """What lines were found to be. `fault` says what is wrong first and `place` where; "" for a chain that holds. `first` is the
    number of the first line, `head` the last line that fitted."""

    fault: str = ""
    place: str = ""
    first: int = 0
    head: AuditHead | None = None


class _AuditLine(msgspec.Struct):
    """What the chain needs of a line."""

    seq: int
    chain: str
    prev: str
    event: str
    hash: str
    torn: str = ""
    lost: bool = False


_DECODER = msgspec.json.Decoder(_AuditLine)

NOTHING = "has no line"
"""The fault of files that hold nothing at all."""


def audit_line(fields: Mapping[str, object], chain: str, after: AuditHead | None) -> tuple[bytes, AuditHead]:
    """A line, without its end of line, that follows `after` (None: it is the first of the chain), and its head. `fields` are its
    other members, JSON values; `event` is one of them. Raises ValueError for a line that is too long."""
    seq, prev = (1, NO_LINE) if after is None else (after.seq + 1, after.hash)
    body = as_one_line(msgspec.json.encode({"seq": seq, "chain": chain, **fields, "prev": prev}))[:-1]
    digest = sha256(body).hexdigest()
    line = body + b',"hash":"' + digest.encode() + b'"}'
    if len(line) >= LONGEST_LINE:
        raise ValueError(f"a line of the audit log would have {len(line)} bytes; {LONGEST_LINE} is the most")
    return line, AuditHead(chain, seq, digest)


def _read(line: bytes) -> _AuditLine | None:
    """A line that is as it was written; None for any other bytes."""
    found = _END.fullmatch(line, max(0, len(line) - _END_BYTES))
    if found is None or len(line) >= LONGEST_LINE:
        return None
    if sha256(line[: found.start()]).hexdigest().encode() != found[1]:
        return None
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def head_of(line: bytes) -> AuditHead | None:
    """The head that a whole line is; None for bytes that are none."""
    read = _read(line)
    return None if read is None else AuditHead(read.chain, read.seq, read.hash)


def parse_head(text: str) -> tuple[int, str]:
    """The number and the hash of a head that somebody has kept, `seq:hash`. Raises ValueError."""
    found = _HEAD.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no head; one is SEQ:HASH, as audit-log verify prints it")
    return int(found[1]), found[2]


def torn_of(piece: bytes) -> str:
    """What a line says of the bytes before it that are no line."""
    return sha256(piece.removesuffix(b"\n")).hexdigest()


def read_tail(end: bytes) -> tuple[AuditHead | None, bytes]:
    """The last whole line in the end of a file, None if there is none, and the bytes behind it that are no line."""
    lines = end.split(b"\n")
    for at in range(len(lines) - 1, -1, -1):
        if (head := head_of(lines[at])) is not None:
            return head, b"\n".join(lines[at + 1 :])
    return None, end


class _ChainCheck:
    """Goes through the lines of a chain; `report` is what was found so far."""

    def __init__(self, wanted: tuple[int, str] | None) -> None:
        self._wanted = wanted
        self._seen_wanted = wanted is None
        self._torn: list[bytes] = []  # bytes that are no line, since the last one
        self._torn_at = ""
        self.report = ChainReport()

    def take(self, line: bytes, place: str, *, begins_file: bool) -> bool:
        """Whether the chain holds with this line."""
        read = _read(line)
        if read is None:
            if sum(map(len, self._torn)) + len(line) > LONGEST_LINE:
                return self._fail("is no line of an audit log", self._torn_at or place)
            self._torn_at = self._torn_at or place
            self._torn.append(line)
            return True
        if fault := self._fault(read, begins_file=begins_file):
            torn_at, self._torn_at = self._torn_at, ""
            return self._fail(fault, torn_at or place)
        self._torn, self._torn_at = [], ""
        head = AuditHead(read.chain, read.seq, read.hash)
        self.report = attrs.evolve(self.report, head=head, first=self.report.first or read.seq)
        if self._wanted is not None and read.seq == self._wanted[0]:
            self._seen_wanted = True
            if read.hash != self._wanted[1]:
                return self._fail(f"is not the line {read.seq} that was remembered", place)
        return True

    def _fault(self, read: _AuditLine, *, begins_file: bool) -> str:
        """What is wrong with a line that is as it was written, in this place."""
        before = self.report.head
        if self._torn:
            if read.torn != torn_of(b"\n".join(self._torn)):
                return "was changed"
        elif read.torn:
            return "follows an incomplete line that is not there"
        if before is None and read.lost:
            return "was written when the lines before it were gone"
        if before is None:
            return "" if read.event in _FIRST_EVENTS else "is not the first line of a file"
        if read.chain != before.chain:
            return f"is of another chain, {read.chain}"
        if (read.seq, read.prev) != (before.seq + 1, before.hash):
            return f"is line {read.seq} and does not follow line {before.seq}"
        if begins_file and read.event != "file_started":
            return "is not the first line of a file"
        return ""

    def finish(self, place: str) -> None:
        """All lines were taken."""
        if self._torn:
            self._fail("is not whole, and no line behind it says so", self._torn_at)
        elif self.report.head is None:
            self._fail(NOTHING, place)
        elif not self._seen_wanted and self._wanted is not None:
            self._fail(f"has no line {self._wanted[0]}, which was remembered: lines were cut off", place)

    def _fail(self, fault: str, place: str) -> bool:
        self.report = attrs.evolve(self.report, fault=fault, place=place)
        return False


def check_chain(files: Iterable[tuple[str, Iterable[bytes]]], wanted: tuple[int, str] | None = None) -> ChainReport:
    """Whether the lines of these files, in this order, are one chain. Each file is its name and its lines, without ends of lines.
    `wanted` is the number and the hash of a line that must be among them."""
    check, name = _ChainCheck(wanted), ""
    for name, lines in files:
        for number, line in enumerate(lines, 1):
            if not check.take(line, f"{name}:{number}", begins_file=number == 1):
                return check.report
    check.finish(name)
    return check.report
