"""The command `smg-gateway audit-log` (edge): looks at files of the audit log.

Decides how files are read and what is printed; whether their lines form a chain is decided in `observability.audit_chain`. Above:
cli. Below: the settings' errors, the chain.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from smg_core.observability.audit_chain import LONGEST_LINE, NOTHING, check_chain, head_of, parse_head
from smg_core.settings import ConfigError

__all__ = ["audit_log_flags"]


def audit_log_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `audit-log`, which has one command, `verify`."""
    whats = parser.add_subparsers(title="commands", required=True, metavar="verify", dest="what")
    text = "say of files of the audit log whether their lines are as they were written"
    verify = whats.add_parser("verify", help=text, description=text, allow_abbrev=False)
    verify.add_argument("files", metavar="FILE", nargs="+", help="the files of one chain, in any order")
    text = "a line that must be there, as an earlier run printed it: finds lines that are missing at the end"
    verify.add_argument("--head", metavar="SEQ:HASH", help=text)
    verify.set_defaults(run=_verify)


def _verify(args: argparse.Namespace) -> int:
    """Print what the files are; 1 where they are no chain. Raises ConfigError."""
    try:
        wanted = parse_head(args.head) if args.head else None
    except ValueError as error:
        raise ConfigError(f"--head: {error}") from None
    try:
        files = sorted(_distinct(args.files), key=_first_seq)
        report = check_chain([(str(each), _lines(each)) for each in files], wanted)
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror or error}") from None
    if report.fault == NOTHING:
        print(f"empty   {report.place}: no line was written, or all were taken away")
        return 1
    if report.fault or report.head is None:
        print(f"BROKEN  {report.place}: {report.fault}")
        if report.head is not None:
            print(f"        line {report.head.seq} and those before it hold; head {report.head}")
        return 1
    print(f"holds   chain {report.head.chain}, lines {report.first} to {report.head.seq}; head {report.head}")
    if report.first > 1:
        print(f"        lines 1 to {report.first - 1} are not in these files")
    return 0


def _distinct(names: Iterable[str]) -> list[Path]:
    """The files of these names, each once. Raises ConfigError for what cannot be read twice, as a pipe."""
    files = {path.resolve(): path for path in map(Path, names)}
    for path in files.values():
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: is no file; write what a pipe gives into one")
    return list(files.values())


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file without their ends; a longer one than there is comes in pieces, which are no lines."""
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            yield line.removesuffix(b"\n")


def _first_seq(path: Path) -> tuple[int, str]:
    """Where a file belongs among those of its chain: by the number of its first line that is one."""
    heads = (head_of(line) for line in _lines(path))
    first = next((head.seq for head in heads if head is not None), 0)
    return first, str(path)
