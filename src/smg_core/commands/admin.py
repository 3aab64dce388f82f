"""The client of the admin door: `smg-gateway health`, `keys`, `limits`, `workers`, `drain`, `undrain`, `reload`, `log-level` and
`settings` (edge).

Decides which flags these commands have, which request each makes, and what is printed: JSON, as the door answers, and tables on a
terminal. The credential is never a flag, since everybody on a machine can read those: it comes from SMG_ADMIN_KEY or a file.
Above: cli. Below: tables, settings.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from smg_core.settings import ConfigError, number_flag

if TYPE_CHECKING:
    import httpx

__all__ = ["FLAGS", "AdminClient", "AdminRefused", "admin_client", "admin_flags", "bearer_of"]

HTTP_ERRORS = 400
HERE = "http://localhost"
"""The base of a URL at a Unix socket, whose requests need a host too."""

_ARGUMENTS = {
    "adapter": "the name by which clients ask for it",
    "path": "its folder, on the engines' machines",
    "step": "connect, begin, update, end or disconnect",
}

Request = tuple[str, str, Mapping[str, object] | None]
"""Method, path and body of what a command asks for."""


def _health_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway health`."""
    _common(parser, lambda args: ("GET", "/admin/health", None))


def _mesh_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway mesh`."""
    _common(parser, lambda args: ("GET", "/admin/mesh", None))


def _limits_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway limits` and its own commands."""
    commands = parser.add_subparsers(required=True, metavar="explain")
    text = "print which limits apply to a key and a model, how full they are, and what a request would get"
    explain = commands.add_parser("explain", help=text, allow_abbrev=False)
    explain.add_argument("key", metavar="KEY", help="whose requests, as TENANT or TENANT:PRINCIPAL")
    explain.add_argument("model", metavar="MODEL", help="the model that is asked for")
    explain.add_argument("--user", default="", help="the user that the requests name")
    explain.add_argument("--tokens", type=_COUNT, default=1, help="tokens of the prompt (default: %(default)s)")
    _common(explain, _explain_limits, lambda answer: int(not answer.json()["admitted"]))


def _explain_limits(args: argparse.Namespace) -> Request:
    tenant, _, principal = args.key.partition(":")
    named = {"tenant": tenant, "principal": principal, "user": args.user, "model": args.model, "tokens": args.tokens}
    return "GET", f"/admin/limits?{urlencode(named)}", None


def _keys_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway keys` and its own commands."""
    commands = parser.add_subparsers(required=True, metavar="create | rotate | expire | revoke | list | show")
    create = commands.add_parser("create", help="make a key; it is printed now and never again", allow_abbrev=False)
    create.add_argument("--tenant", required=True, help="whose data its requests share")
    create.add_argument("--principal", default="", help="the user or program within the tenant")
    create.add_argument("--name", default="", help="for people")
    create.add_argument("--role", action="append", default=[], help="what it may do, may be repeated (default: user)")
    create.add_argument("--model", action="append", default=[], help="a model that it may use, may be repeated")
    tool = "a tool of an MCP server that it may use, SERVER.TOOL, may be repeated"
    create.add_argument("--tool", action="append", default=[], help=tool)
    create.add_argument("--expires-at", type=_DATE, help="when it expires, in seconds since 1970")
    _common(create, _create)
    rotate = _of_key(commands, "rotate", "give a key a new secret, which is printed")
    rotate.add_argument(
        "--overlap",
        type=_SECONDS,
        default=0.0,
        help="seconds for which the earlier secret stays good",
    )
    _common(rotate, lambda args: ("POST", f"{_path(args)}/rotate", {"overlap_s": args.overlap}))
    expire = _of_key(commands, "expire", "say when a key expires")
    expire.add_argument("--at", type=_DATE, help="in seconds since 1970; without it, never")
    _common(expire, lambda args: ("POST", f"{_path(args)}/expire", {"expires_at": args.at}))
    revoke = _of_key(commands, "revoke", "end a key, in every process")
    _common(revoke, lambda args: ("POST", f"{_path(args)}/revoke", {}))
    show = _of_key(commands, "show", "print what is known of a key")
    _common(show, lambda args: ("GET", _path(args), None))
    listed = commands.add_parser("list", help="print the keys, newest first", allow_abbrev=False)
    listed.add_argument("--limit", type=_COUNT, default=100, help="how many (default: %(default)s)")
    listed.add_argument("--after", default="", help="those behind this one")
    _common(listed, _list)


def _workers_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway workers` and its own commands."""
    commands = parser.add_subparsers(
        required=True,
        metavar="list | show | add | update | drain | undrain | remove | loads | flush-cache | start-profile | stop-profile | "
        "load-adapter | unload-adapter | pause | resume | load-weights | transfer-weights",
    )
    roster_flags(commands)
    loads = _of_workers(commands, "loads", "print the load of engines, as they say it now")
    _common(loads, lambda args: ("GET", f"/admin/workers/loads{_named(args.worker)}", None), _all_done)
    flush = _of_workers(commands, "flush-cache", "empty engines' KV caches")
    flush.add_argument(
        "--wait",
        type=_SECONDS,
        default=0.0,
        help="seconds that engines wait for their requests to end",
    )
    _upkeep(flush, "flush_cache", lambda args: {"wait_s": args.wait})
    start = _of_workers(commands, "start-profile", "have engines take a profile of themselves")
    start.add_argument("--output-dir", default="", help="where they write it, on their own machines")
    start.add_argument("--steps", type=_COUNT, help="how many forward steps (default: until it is stopped)")
    start.add_argument("--activity", action="append", default=[], help="CPU, GPU or MEM, may be repeated")
    _upkeep(start, "start_profile", _profile)
    _upkeep(_of_workers(commands, "stop-profile", "end the profiles"), "stop_profile", lambda args: {})
    load = _of_workers(
        commands, "load-adapter", "have engines load a LoRA adapter, which is then a model", "adapter", "path"
    )
    load.add_argument("--pinned", action="store_true", help="keep it in the accelerator's memory")
    _upkeep(load, "load_adapter", lambda args: {"name": args.adapter, "path": args.path, "pinned": args.pinned})
    unload = _of_workers(commands, "unload-adapter", "have engines let go of a LoRA adapter", "adapter")
    _upkeep(unload, "unload_adapter", lambda args: {"name": args.adapter})
    _weights_flags(commands)


def _weights_flags(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The commands for whoever trains the model that is served."""
    pause = _of_workers(commands, "pause", "have engines stop generating until they are resumed")
    pause.add_argument(
        "--mode",
        choices=("abort", "keep", "wait", "retract"),
        default="abort",
        help="what becomes of requests that run: they end, go on later, or end by themselves first (default: abort)",
    )
    _upkeep(pause, "pause", lambda args: {"mode": args.mode})
    _upkeep(_of_workers(commands, "resume", "have engines generate again"), "resume", lambda args: {})
    sleep = _of_workers(commands, "sleep", "have engines give their memory free; they get no requests until they wake")
    _upkeep(sleep, "sleep", lambda args: {})
    _upkeep(
        _of_workers(commands, "wake-up", "have engines that sleep wake, and send them requests"),
        "wake_up",
        lambda args: {},
    )
    load = _of_workers(commands, "load-weights", "have engines load the weights of a checkpoint, in place", "path")
    load.add_argument("--version", default="", help="a name for these weights")
    _upkeep(load, "load_weights", lambda args: {"path": args.path, "version": args.version})
    transfer = _of_workers(
        commands, "transfer-weights", "have engines do one step of taking weights from a trainer", "step"
    )
    transfer.add_argument("--info", default="{}", help="the engine's own description of the step, in JSON")
    transfer.add_argument("--version", default="", help="a name for these weights")
    _upkeep(transfer, "transfer_weights", _transfer)


def _drain_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway drain`."""
    parser.add_argument("--wait", type=_SECONDS, default=0.0, help="seconds to wait until no request is left")
    _common(parser, lambda args: ("POST", "/admin/drain", {"wait_s": args.wait}), _none_left)


def _undrain_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway undrain`."""
    _common(parser, lambda args: ("POST", "/admin/undrain", {}))


def _reload_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway reload`."""
    _common(parser, lambda args: ("POST", "/admin/reload", {}))


def _log_level_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway log-level`."""
    levels = ("debug", "info", "warning", "error")
    parser.add_argument("level", nargs="?", choices=levels, help="the new level (default: print the present one)")
    parser.add_argument(
        "--for",
        dest="seconds",
        type=_SECONDS,
        help="seconds after which that of the settings counts again",
    )
    _common(parser, _log_level)


def _log_level(args: argparse.Namespace) -> Request:
    if args.level is None:
        return "GET", "/admin/log-level", None
    return "PUT", "/admin/log-level", {"level": args.level, "duration_s": args.seconds}


def _models_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway models`."""
    parser.add_argument("--policies", action="store_true", help="print the routing policies in use")
    _common(parser, lambda args: ("GET", "/admin/policies" if args.policies else "/admin/models", None))


def _settings_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway settings`."""
    _common(parser, lambda args: ("GET", "/admin/config", None))


def roster_flags(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The commands that show workers and change their roster."""
    listed = commands.add_parser("list", help="print all workers", allow_abbrev=False)
    _common(listed, lambda args: ("GET", "/admin/workers", None))
    _common(_of_worker(commands, "show", "print a worker"), lambda args: ("GET", _worker(args), None))
    add = commands.add_parser("add", help="add a worker", allow_abbrev=False)
    add.add_argument("url", metavar="URL", help="where its engine is")
    add.add_argument("--name", default="", help="what it is called (default: its URL)")
    add.add_argument("--rank", type=_NUMBER, help="it is this data-parallel rank of its engine")
    _spec_flags(add)
    _common(
        add, lambda args: ("POST", "/admin/workers", {"name": args.name, **_given(args, "url", "rank"), **_spec(args)})
    )
    update = _of_worker(commands, "update", "change a worker; what is not given stays")
    update.add_argument("--url", help="where its engine is")
    _spec_flags(update)
    _common(update, lambda args: ("PATCH", _worker(args), {**_given(args, "url"), **_spec(args)}))
    drain = _of_worker(commands, "drain", "send a worker no new requests")
    drain.add_argument("--move", action="store_true", help="let its requests go on with other workers now")
    drain.add_argument("--wait", type=_SECONDS, default=0.0, help="seconds to wait until it has none left")
    drain.add_argument("--remove", action="store_true", help="remove it when it has none left")
    _common(drain, _drain_worker, _none_left)
    undrain = _of_worker(commands, "undrain", "let a worker that drains have requests again")
    _common(undrain, lambda args: ("POST", f"{_worker(args)}/undrain", {}))
    remove = _of_worker(commands, "remove", "remove a worker at once")
    _common(remove, lambda args: ("DELETE", _worker(args), None))


def _of_worker(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, allow_abbrev=False)
    parser.add_argument("worker", metavar="WORKER", help="its name")
    return parser


def _worker(args: argparse.Namespace) -> str:
    return f"/admin/workers/{quote(args.worker, safe='')}"


def _drain_worker(args: argparse.Namespace) -> Request:
    return "POST", f"{_worker(args)}/drain", {"move": args.move, "wait_s": args.wait, "remove": args.remove}


def _none_left(answer: "httpx.Response") -> int:
    """The exit status: 1 where requests are left."""
    return int(answer.json()["left"] > 0)


def _spec_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of what a worker is."""
    parser.add_argument("--role", choices=("regular", "prefill", "decode", "encode"), help="what it computes")
    parser.add_argument("--dialect", help="the contract of its engine")
    parser.add_argument("--model", help="the name of its model, in place of the one that its engine says")
    parser.add_argument(
        "--weight", type=number_flag(float, 0, _MOST), help="its share of requests, compared with others"
    )
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="a label, may be repeated")
    parser.add_argument("--engine-key-file", metavar="FILE", help="file with the API key of its engine")


def _spec(args: argparse.Namespace) -> dict[str, object]:
    """The fields of a worker that were given."""
    body = _given(args, "role", "dialect", "model", "weight")
    labels = [each.partition("=") for each in args.label]
    if wrong := next((name for name, mark, _ in labels if not mark), None):
        raise ConfigError(f"--label {wrong}: expected NAME=VALUE")
    if labels:
        body["labels"] = {name: value for name, _, value in labels}
    if args.engine_key_file is not None:
        body["api_key"] = _text_of(args.engine_key_file, "--engine-key-file")
    return body


def _given(args: argparse.Namespace, *names: str) -> dict[str, object]:
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _of_workers(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str, *before: str
) -> argparse.ArgumentParser:
    """A command for some workers, whose names stand behind the arguments of the names `before`."""
    parser = commands.add_parser(name, help=text, allow_abbrev=False)
    for each in before:
        parser.add_argument(each, metavar=each.upper(), help=_ARGUMENTS[each])
    parser.add_argument("worker", metavar="WORKER", nargs="*", help="the workers that are asked (default: all)")
    return parser


def _upkeep(
    parser: argparse.ArgumentParser, route: str, more: Callable[[argparse.Namespace], dict[str, object]]
) -> None:
    _common(parser, lambda args: ("POST", f"/admin/workers/{route}", {**_workers(args), **more(args)}), _all_done)


def _workers(args: argparse.Namespace) -> dict[str, object]:
    """The field that names workers; without names it is left out, which means all."""
    return {"workers": args.worker} if args.worker else {}


def _profile(args: argparse.Namespace) -> dict[str, object]:
    return {"output_dir": args.output_dir, "num_steps": args.steps, "activities": args.activity}


def _transfer(args: argparse.Namespace) -> dict[str, object]:
    try:
        info = json.loads(args.info)
    except ValueError as error:
        raise ConfigError(f"--info: {error}") from error
    return {"step": args.step, "info": info, "version": args.version}


def _named(workers: list[str]) -> str:
    return "?" + "&".join(f"worker={quote(each, safe='')}" for each in workers) if workers else ""


def _all_done(answer: "httpx.Response") -> int:
    """The exit status: 1 where some worker did not do it."""
    return int(any(row["status"] >= HTTP_ERRORS for row in answer.json()["workers"]))


def _of_key(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, allow_abbrev=False)
    parser.add_argument("id", metavar="ID", help="the key's id or prefix")
    return parser


def _common(
    parser: argparse.ArgumentParser,
    request: Callable[[argparse.Namespace], Request],
    judge: Callable[["httpx.Response"], int] | None = None,
) -> None:
    """The flags that every command has; `request` makes what it asks for, `judge` the exit status of a good answer (None: 0)."""
    admin_flags(parser)
    parser.add_argument("--json", action="store_true", help="print JSON on a terminal too, as into a pipe")
    parser.set_defaults(run=lambda args: _ask(args, request(args), judge))


def admin_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that say where the door is and who asks."""
    text = "where the admin door is, http(s)://HOST:PORT or unix:PATH (default: SMG_ADMIN)"
    parser.add_argument("--admin", default=os.environ.get("SMG_ADMIN"), metavar="URL", help=text)
    parser.add_argument(
        "--key-file",
        metavar="FILE",
        help="file with the API key of an admin; without it, SMG_ADMIN_KEY has the key itself",
    )
    parser.add_argument("--tls-ca", metavar="FILE", help="certificates (PEM) that the door is checked against")
    parser.add_argument(
        "--timeout",
        type=_TIMEOUT,
        default=30,
        help="seconds that it may take (default: %(default)s)",
    )


def _path(args: argparse.Namespace) -> str:
    return f"/admin/keys/{quote(args.id, safe='')}"


def _create(args: argparse.Namespace) -> Request:
    body: dict[str, object] = {
        "tenant": args.tenant,
        "principal": args.principal,
        "name": args.name,
        "models": args.model,
        "tools": args.tool,
    }
    if args.role:
        body["roles"] = args.role
    if args.expires_at is not None:
        body["expires_at"] = args.expires_at
    return "POST", "/admin/keys", body


def _list(args: argparse.Namespace) -> Request:
    return (
        "GET",
        f"/admin/keys?limit={args.limit}" + (f"&after={quote(args.after, safe='')}" if args.after else ""),
        None,
    )


_YEAR_S = 365 * 86400.0
_LAST_DATE = 253402300799.0  # the end of the year 9999, in seconds since 1970
_MOST = 1_000_000_000
_SECONDS, _TIMEOUT, _DATE = (
    number_flag(float, 0, _YEAR_S),
    number_flag(float, 0.001, _YEAR_S),
    number_flag(float, 0, _LAST_DATE),
)
_COUNT, _NUMBER = number_flag(int, 1, _MOST), number_flag(int, 0, _MOST)


class AdminRefused(Exception):
    """The door cannot be asked, or refuses: why, for a person. `status` is that of its answer, 0 without one."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class AdminClient:
    """An admin door that `client` asks; `place` is where it is, as the operator wrote it."""

    def __init__(self, client: "httpx.Client", place: str) -> None:
        self._client, self._place = client, place

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> "httpx.Response":
        """The answer to a request. Raises AdminRefused."""
        import httpx

        try:
            answer = self._client.request(method, path, json=body)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise AdminRefused(f"the admin door at {self._place} cannot be asked: {error}") from None
        if answer.status_code >= HTTP_ERRORS:
            raise AdminRefused(f"{answer.status_code}: {_message(answer)}", answer.status_code)
        return answer


@contextlib.contextmanager
def admin_client(args: argparse.Namespace) -> Iterator[AdminClient]:
    """A context with the door that the flags name. Raises ConfigError, and AdminRefused for what cannot be one."""
    import ssl

    import httpx

    if not args.admin:
        raise ConfigError("where is the admin door? Give --admin URL or SMG_ADMIN")
    unix = args.admin.removeprefix("unix:") if args.admin.startswith("unix:") else None
    headers, base = _credential(args.key_file), HERE if unix else args.admin.rstrip("/")
    try:
        verify = ssl.create_default_context(cafile=args.tls_ca)
        transport = httpx.HTTPTransport(uds=unix, verify=verify)
        client = httpx.Client(transport=transport, timeout=args.timeout, headers=headers, base_url=base)
    except (httpx.InvalidURL, OSError) as error:
        raise AdminRefused(f"the admin door at {args.admin} cannot be asked: {error}") from None
    with client:
        yield AdminClient(client, args.admin)


def _ask(args: argparse.Namespace, request: Request, judge: Callable[["httpx.Response"], int] | None) -> int:
    """Make the request and print the answer; the exit status."""
    try:
        with admin_client(args) as admin:
            answer = admin.ask(*request)
    except AdminRefused as error:
        print(f"smg-gateway: {error}", file=sys.stderr)
        return 1
    if sys.stdout.isatty() and not args.json:
        from smg_core.commands.tables import as_tables

        print(as_tables(answer.json(), shutil.get_terminal_size().columns))
    else:
        print(answer.text)
    return judge(answer) if judge is not None else 0


def _message(answer: "httpx.Response") -> str:
    """What the door says is wrong."""
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]


def _credential(file: str | None) -> dict[str, str]:
    """The header with the admin's key, if there is one."""
    key, source = os.environ.get("SMG_ADMIN_KEY", ""), "SMG_ADMIN_KEY"
    if file is not None:
        key, source = _text_of(file, "--key-file"), f"--key-file: {file}"
    return bearer_of(key, source)


def bearer_of(key: str, source: str) -> dict[str, str]:
    """The header that has this key, none for an empty one. White space around it, such as the end of a file's line, is left out.
    Raises ConfigError, which names the `source` and never the key, for what no header can have: it would be shown in the error
    of whoever sends it."""
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{source}: a key is one line of printable ASCII")
    return {"authorization": f"Bearer {key}"} if key else {}


def _text_of(file: str, flag: str) -> str:
    """The text of a file that a flag names, without white space around it."""
    try:
        return Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{flag}: {file} cannot be read: {error}") from None


FLAGS: Mapping[str, Callable[[argparse.ArgumentParser], None]] = {
    "drain": _drain_flags,
    "health": _health_flags,
    "keys": _keys_flags,
    "limits": _limits_flags,
    "log-level": _log_level_flags,
    "mesh": _mesh_flags,
    "models": _models_flags,
    "reload": _reload_flags,
    "settings": _settings_flags,
    "undrain": _undrain_flags,
    "workers": _workers_flags,
}
"""What adds the flags of each command to a parser."""
