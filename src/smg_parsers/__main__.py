"""The command line: which parser reads a model's output, what it makes of a file, and whether parsers keep the law.

    python -m smg_parsers explain [MODEL] [--template FILE]
    python -m smg_parsers parse (--model MODEL | --family F) [--template FILE] FILE [--tools FILE] [--in-reasoning]
    python -m smg_parsers lab [FAMILY …] [--model MODEL] [--template FILE] [--transcript FILE] [--tools FILE] [--page FILE]
                              [--no-linearity]

Files are UTF-8 and are read as they are: no line ending is changed. `-` is standard input.

Decides: what is printed, and exit statuses: 0 well, 1 the law was broken, 2 anything else, told in one line.
Above: nothing. Below: the rest of the package.
Does not know: anything about formats.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from smg_parsers.families import models
from smg_parsers.families.family import Family
from smg_parsers.lab import lab, transcripts
from smg_parsers.parser import Parser
from smg_parsers.pieces.base import ParserError, Piece

BROKEN, WRONG = 1, 2
_LINE: Final = 400
"""Longest message of an error, in characters."""


class _Options(argparse.ArgumentParser):
    """Tells what is wrong in one line, without the usage around it."""

    def error(self, message: str) -> NoReturn:
        """See `argparse.ArgumentParser.error`."""
        raise ValueError(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    try:
        options = _options().parse_args(argv)
        command: Callable[[argparse.Namespace], int] = options.command
        status = command(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output has closed it. Standard output is replaced, or the interpreter would report the failed flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError, ImportError, RecursionError, ParserError) as error:
        sentence = " ".join(str(error).split())
        print(f"smg_parsers: {sentence if len(sentence) <= _LINE else sentence[:_LINE] + '…'}", file=sys.stderr)
        return WRONG
    return status


def _options() -> argparse.ArgumentParser:
    options = _Options(prog="python -m smg_parsers", description="Read what language models write.", allow_abbrev=False)
    commands = options.add_subparsers(required=True, metavar="COMMAND")
    explain = commands.add_parser("explain", help="which parser reads this model's output, and why")
    explain.add_argument("name", nargs="?", metavar="MODEL", help="the same as --model")
    _add_model(explain)
    explain.set_defaults(command=_explain)
    parse = commands.add_parser("parse", help="read a file, `-` for standard input, and print one piece a line as JSON")
    parse.add_argument("file")
    parse.add_argument("--family", help="a family by name, instead of a model")
    _add_model(parse)
    parse.add_argument("--tools", type=Path, help="a JSON file with the request's tools")
    parse.add_argument("--in-reasoning", action="store_true", default=None, help="the output begins inside reasoning")
    parse.set_defaults(command=_parse)
    checked = commands.add_parser("lab", help="hold parsers to the law")
    checked.add_argument("families", nargs="*", metavar="FAMILY")
    _add_model(checked)
    checked.add_argument("--transcript", action="append", default=[], metavar="FILE", help="a file with model output")
    checked.add_argument("--tools", type=Path, help="a JSON file with the tools that the transcripts call")
    checked.add_argument("--page", type=Path, help="write an HTML page here")
    checked.add_argument(
        "--no-linearity", action="store_true", help="leave out the counted check, which is the slow one"
    )
    checked.set_defaults(command=_lab)
    return options


def _add_model(options: argparse.ArgumentParser) -> None:
    options.add_argument("--model", help="a model's id or path, which finds the family")
    options.add_argument("--template", type=Path, help="a file with the model's chat template, which outranks its name")


def _explain(options: argparse.Namespace) -> int:
    if options.name is not None and options.model is not None:
        raise ValueError(f"one model, please: {options.name!r} or {options.model!r}")
    model = options.model if options.name is None else options.name
    if model is None and options.template is None:
        raise ValueError("name a model, or give a file with --template")
    print(models.explain(model or "", _template(options)))
    return 0


def _parse(options: argparse.Namespace) -> int:
    parser = Parser(_row(options), tools=_tools(options.tools), in_reasoning=options.in_reasoning)
    for piece in parser.parse(_read(options.file)):
        print(_as_json(piece))
    return 0


def _row(options: argparse.Namespace) -> Family:
    """The family that was named, or the family of the model and its template."""
    if options.family is not None and options.model is not None:
        raise ValueError("--family or --model, not both")
    template = _template(options)
    if options.family is not None:
        return models.family_for_template(models.family(options.family), template)
    if options.model is None and template is None:
        raise ValueError("name a family with --family, or a model with --model, or give its --template")
    return models.explain(options.model or "", template).family


def _template(options: argparse.Namespace) -> str | None:
    return _read(str(options.template)) if options.template else None


def _read(name: str) -> str:
    """A file's text with its own line endings."""
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not UTF-8: byte 0x{data[error.start]:02x} at {error.start}") from error


def _tools(path: Path | None) -> Sequence[Mapping[str, object]] | None:
    if path is None:
        return None
    try:
        tools: Sequence[Mapping[str, object]] | None = json.loads(_read(str(path)))  # the parser checks what is in it
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if tools is None:
        raise ValueError(f"{path}: tools must be a list, not None")
    return tools


def _as_json(piece: Piece) -> str:
    fields = {name: getattr(piece, name) for name in piece.__slots__}
    # A terminal that is not UTF-8 gets escapes: the same JSON.
    escaped = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    return json.dumps({"piece": type(piece).__name__, **fields}, ensure_ascii=escaped)


def _lab(options: argparse.Namespace) -> int:
    texts = [_read(name) for name in options.transcript]
    tools = _tools(options.tools) or transcripts.TOOLS
    reports, steps = [], []
    for row in _rows(options):
        make = _maker(row, tools)
        reports.append(
            lab.examine(row.name, make, texts or transcripts.of(row), family=row, linear=not options.no_linearity)
        )
        print(reports[-1])
        if options.page:
            steps += [(row.name, lab.steps(make, text)) for text in texts or [transcripts.sample_transcript(row)]]
    if options.page:
        lab.write_page(reports, options.page, steps)
    return 0 if all(report.passed for report in reports) else BROKEN


def _rows(options: argparse.Namespace) -> list[Family]:
    rows = [models.family(name) for name in options.families]
    if options.model is not None or options.template is not None:
        rows.append(models.explain(options.model or "", _template(options)).family)
    return rows or [models.family(name) for name in models.names()]


def _maker(row: Family, tools: Sequence[Mapping[str, object]]) -> Callable[[], Parser]:
    return lambda: Parser(row, tools=tools, in_reasoning=False, call_id=lambda: "call")


if __name__ == "__main__":
    sys.exit(main())
