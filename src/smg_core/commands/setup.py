"""`smg-gateway setup`: tells a program, such as Claude Code or Codex, to use a gateway as its model (edge).

Decides what the gateway is asked, and how a file of the program's is changed: beside a copy of what it was, in one step, and
only if all files of the program can be. Above: cli. Below: setup_programs, smg_config_files.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from smg_config_files.changes import ChangeRefused, with_changes
from smg_config_files.text import TextRefused
from smg_core.commands.admin import bearer_of
from smg_core.commands.asked_server import server_url_of, status_refusal
from smg_core.commands.setup_programs import (
    PROGRAMS,
    ListedModel,
    ServedGateway,
    Setup,
    SetupFile,
    choose_model,
    printed,
    served_models,
    shortcomings,
)
from smg_core.settings import ConfigError, number_flag

if TYPE_CHECKING:
    import httpx

__all__ = ["setup_flags"]

_KEY = "SMG_API_KEY"
_SWITCHING = 101
_TIMEOUT = number_flag(float, 0.001, 86400)
_MOST_BYTES = 8 << 20
_COPY = ".before-smg"


class _NoAnswer(Exception):
    """The gateway does not say what has to be known: why, for a person."""


def setup_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway setup`."""
    parser.set_defaults(run=_setup)
    parser.add_argument("program", choices=sorted(PROGRAMS), help="the program that is to use the gateway")
    parser.add_argument(
        "--url", default="http://127.0.0.1:8000", help="where the gateway listens (default: %(default)s)"
    )
    parser.add_argument("--model", help="which of the gateway's models (default: the only one)")
    text = "write it into the program's own files, after a copy of each, in place of printing it"
    parser.add_argument("--write", action="store_true", help=text)
    parser.add_argument(
        "--timeout",
        type=_TIMEOUT,
        default=10,
        help="seconds that the gateway may take (default: %(default)s)",
    )


def _setup(args: argparse.Namespace) -> int:
    try:
        gateway = _asked(args)
    except _NoAnswer as error:
        print(f"smg-gateway: {error}", file=sys.stderr)
        return 1
    program = PROGRAMS[args.program]
    for line in shortcomings(args.program, gateway.model):
        print(f"smg-gateway: {line}", file=sys.stderr)
    setup = program.setup_of(gateway)
    if not args.write:
        print(printed(setup), end="")
        return 0
    try:
        _write(setup, os.environ, Path.home())
    except (ChangeRefused, OSError, UnicodeDecodeError) as error:
        hint = f"nothing is written; `smg-gateway setup {args.program}` prints what it has to say"
        print(f"smg-gateway: {error}; {hint}", file=sys.stderr)
        return 1
    begun = "".join(f"{name}={each} " for name, each in setup.variables.items())
    print(f"start it: {begun}{program.start}")
    return 0


# ------------------------------------------------------------------------------------------------------------- asking


def _asked(args: argparse.Namespace) -> ServedGateway:
    """The gateway as the program is to be told of it. Raises _NoAnswer, and ConfigError for a model that it does not serve."""
    import httpx

    url, headers = server_url_of(args.url, "--url"), bearer_of(os.environ.get(_KEY, ""), _KEY)
    try:
        with httpx.Client(headers=headers, timeout=args.timeout, follow_redirects=True) as client:
            answer = client.get(f"{url}/v1/models").raise_for_status()
            model = _chosen(served_models(msgspec.json.decode(answer.content)), args.model)
            _check(client, url, args.program)
            sockets = args.program != "codex" or _takes_sockets(client, f"{url}/v1/responses")
    except httpx.HTTPStatusError as error:
        why = status_refusal(error.response.status_code, "/v1/models", _KEY)
        raise _NoAnswer(f"{url} does not say which models it serves: {why}") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise _NoAnswer(f"{url} does not say which models it serves: {error}") from None
    return ServedGateway(url, model, sockets, _KEY if headers else "")


def _chosen(served: list[ListedModel], name: str | None) -> ListedModel:
    try:
        return choose_model(served, name)
    except ValueError as error:
        raise ConfigError(f"setup: {error}") from None


def _check(client: "httpx.Client", url: str, name: str) -> None:
    """Raise _NoAnswer where the gateway says that it has no such API. One that describes none may have it."""
    paths, wanted = _json(client, f"{url}/openapi.json").get("paths"), PROGRAMS[name].path
    if isinstance(paths, dict) and not any(str(each).startswith(wanted) for each in paths):
        raise _NoAnswer(f"{name} asks {wanted}, which {url} does not have")


def _json(client: "httpx.Client", url: str) -> dict[str, object]:
    """An object that a URL answers with, an empty one where it answers with none."""
    answer = client.get(url)
    try:
        parsed = msgspec.json.decode(answer.content) if answer.is_success else None
    except msgspec.DecodeError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {}


def _takes_sockets(client: "httpx.Client", url: str) -> bool:
    """Whether a WebSocket can be opened there: some proxies before a gateway pass none on."""
    handshake = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    with client.stream("GET", url, headers=handshake) as answer:
        return answer.status_code == _SWITCHING


# ------------------------------------------------------------------------------------------------------------- writing


def _write(setup: Setup, environ: Mapping[str, str], home: Path) -> None:
    """Change the files of a program. Raises ChangeRefused, which names the file, OSError and UnicodeDecodeError."""
    made = list[tuple[Path, str, str]]()
    for file in setup.files:
        place = _place(file, environ, home)
        before = _text(place)
        try:
            made.append((place, before, with_changes(before, file.form, file.puts)))
        except (ChangeRefused, TextRefused) as error:
            raise ChangeRefused(f"{place}: {error}") from None
    for place, before, after in made:
        if before == after:
            print(f"{place} says it already")
            continue
        copy = _copied(place) if place.exists() else None
        _replace(place, after)
        print(f"wrote {place}" + (f" (as it was: {copy})" if copy else ""))


def _place(file: SetupFile, environ: Mapping[str, str], home: Path) -> Path:
    """Where a file is; what a link points to, so that the link stays."""
    folder = Path(environ[file.variable]).expanduser() if environ.get(file.variable) else home / file.folder
    other = folder / file.other
    return (other if file.other and other.exists() else folder / file.name).resolve()


def _text(place: Path) -> str:
    if not place.exists():
        return ""
    if place.stat().st_size > _MOST_BYTES:
        raise ChangeRefused(f"{place} is larger than any settings are")
    return place.read_bytes().decode("utf-8")


def _copied(place: Path) -> Path:
    """A copy of a file beside it, in a name that no earlier copy has."""
    copy, number = place.with_name(f"{place.name}{_COPY}"), 1
    while copy.exists():
        number += 1
        copy = place.with_name(f"{place.name}{_COPY}-{number}")
    shutil.copy2(place, copy)
    return copy


def _replace(place: Path, text: str) -> None:
    """Write a file in one step, with the rights that it had."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
        if place.exists():
            shutil.copymode(place, name)
        Path(name).replace(place)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
