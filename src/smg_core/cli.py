"""The command line: `smg-gateway serve`, `config`, `setup` and the others, those of smg_simulator among them (edge).

Decides which flags a command has (one for each setting of `config`, generated), which file and environment are read,
what is printed when a setting is wrong, and the exit status (0 done, 1 failed, 2 wrong usage, 130 interrupted). What a
command does is in other modules, which are imported when it is run. Does not know what any setting means. Above:
nothing. Below: config, settings.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from smg_core.config.config import Config, Resolved, describe, in_python_alone, to_yaml
from smg_core.extras import MissingPackage, missing, with_install_line
from smg_core.settings import ConfigError, closest, nearest
from smg_core.simulator_package import require_simulator
from smg_core.version import SDK_VERSION

if TYPE_CHECKING:
    from smg_core.operation.config_source import ConfigSource

__all__ = ["main"]

WRONG_USAGE = 2
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
DOCTOR_USAGE = "smg-gateway doctor [--json] [--timeout SECONDS] [--config FILE] [settings as below]"
AUDIT_USAGE = "smg-gateway audit [--config FILE] [settings as below]"
FILES = (
    "sealing.keys_file",
    "tls.cert",
    "tls.client_ca",
    "tls.client_crl",
    "tls.key",
    "tokenizer.chat_template",
    "workers.tls_ca",
    "workers.tls_cert",
    "workers.tls_key",
    "workers.file",
)
ADMIN_COMMANDS = {
    "health": "print how a gateway and its processes are",
    "keys": "make, rotate, revoke and list virtual keys",
    "limits": "say which limits apply to a key and a model, and how full they are",
    "mesh": "print the other gateways of a mesh, as this one sees them",
    "workers": "add, change, drain and remove workers; engines' loads, caches and profiles",
    "models": "print the models that a gateway serves",
    "settings": "print the settings that a gateway uses",
    "reload": "have a gateway read its settings again",
    "drain": "have a gateway take no new requests",
    "undrain": "have it take requests again",
    "log-level": "print or change the level of a gateway's log",
}
"""The commands that ask the admin door, and the help of each."""
FOLDERS = ("containers.interpreter", "tokenizer.path")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command with `arguments` (default: the process's). Returns the exit status."""
    try:
        args = _parse(list(sys.argv[1:] if arguments is None else arguments))
        status: int = args.run(args)
    except ConfigError as error:
        for problem in error.problems:
            print(f"smg-gateway: {problem}", file=sys.stderr)
        return WRONG_USAGE
    except ModuleNotFoundError as error:
        sentence = with_install_line("this command", error)
        if not isinstance(sentence, MissingPackage):
            raise
        print(f"smg-gateway: {sentence}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # the reader of our output has closed it; without this, Python would fail when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return status


# --------------------------------------------------------------------------------------------------------- the commands


def _serve(args: argparse.Namespace) -> int:
    source = _source(args)
    config = _to_serve(args)
    from smg_core.processes.serve import serve

    return serve(config, source, lambda: _to_serve(args))


def _to_serve(args: argparse.Namespace) -> Config:
    """The settings to serve by. Raises ConfigError where they could not work."""
    config = _resolve(args).config
    workers, discovery = config.workers, config.discovery
    named = workers.urls or workers.file or (workers.prefill_urls and workers.decode_urls)
    if not (named or discovery.dns or discovery.kubernetes):
        raise ConfigError(
            "no engine to send requests to: give --worker grpc://host:port, --workers-file, --discover-dns or "
            "--discover-kubernetes, or start a simulated one with `smg-gateway simulate`"
        )
    _check_paths(config)
    return config


def _config(args: argparse.Namespace) -> int:
    resolved = _resolve(args)
    print(to_yaml(resolved.config, resolved.sources if args.sources else None), end="")
    return 0


def _audit(args: argparse.Namespace) -> int:
    from smg_core.operation.deployment import audit_deployment

    findings = audit_deployment(_resolve(args).config)
    for finding in findings:
        print(f"{'FAIL' if finding.faults else 'pass'}  {finding.check.name}: {finding.check.holds}")
        for fault in finding.faults:
            print(f"      {fault}")
    return 1 if any(finding.faults for finding in findings) else 0


def _doctor(args: argparse.Namespace) -> int:
    from smg_core.commands.doctor import doctor

    config = _resolve(args).config
    problems: tuple[str, ...] = ()
    try:
        _check_paths(config)
    except ConfigError as error:
        problems = error.problems
    return doctor(config, problems, timeout=args.timeout, as_json=args.json)


def _mcp(args: argparse.Namespace) -> int:
    try:
        from smg_mcp import command
        from smg_mcp.records.errors import McpError
    except ModuleNotFoundError as error:
        raise ConfigError(missing("mcp", error, "mcp")) from None
    try:
        if args.what == "ls":
            return command.list_servers(args.file, args.server, args.tenant, as_json=args.json)
        if args.what == "login":
            return command.log_in(args.file, args.server)
        return command.call_tool(
            args.file, args.tool, args.arguments, args.tenant, approved=args.approve, as_json=args.json
        )
    except McpError as error:
        print(f"smg-gateway: {error}", file=sys.stderr)
        return 1


# ----------------------------------------------------------------------------------------------------------- the settings


def _resolve(args: argparse.Namespace) -> Resolved:
    """The configuration from a command's flags, the environment, and the file that `--config` or SMG_CONFIG names."""
    resolved = _source(args).read()
    for warning in resolved.warnings:
        print(f"smg-gateway: {warning}", file=sys.stderr)
    return resolved


def _source(args: argparse.Namespace) -> "ConfigSource":
    """Where a command's settings come from."""
    from smg_core.operation.config_source import ConfigSource

    given = vars(args)
    overrides = {setting.path: given[setting.path] for setting in describe() if setting.path in given}
    return ConfigSource(overrides, dict(os.environ), given.get("file") or os.environ.get("SMG_CONFIG"))


def _check_paths(config: Config) -> None:
    """Raise ConfigError when a setting names a file or folder that does not exist, before the first engine joins."""
    problems = [
        f"{path}: there is no {what} {place}{_of_a_hub(str(place)) if path == 'tokenizer.path' else ''}"
        for paths, what, there in ((FILES, "file", Path.is_file), (FOLDERS, "folder", Path.is_dir))
        for path in paths
        if (place := config.get(path)) and not there(Path(str(place)).expanduser())
    ]
    if problems:
        raise ConfigError(*problems)


def _of_a_hub(place: str) -> str:
    """What is taken in place of the name of a model in a hub, for the end of a sentence; nothing for another name."""
    if not _HUB_ID.fullmatch(place):
        return ""
    return (
        f"; names of a hub are not looked up: give the folder that `hf download {place}` prints, or leave the flag out for an "
        "engine that sends its own over gRPC, as vLLM and SGLang do"
    )


# -------------------------------------------------------------------------------------------------------------- the flags


class _Parser(argparse.ArgumentParser):
    """A parser that raises ConfigError in place of exiting."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (see `{self.prog} --help`)")


class _Version(argparse.Action):
    """Prints the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"smg-gateway {SDK_VERSION}")
        parser.exit()


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = _Parser(prog="smg-gateway", description="A gateway in front of inference engines.", allow_abbrev=False)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the program's version and exit")
    commands = parser.add_subparsers(
        title="commands",
        required=True,
        metavar="COMMAND",
    )
    command = partial(_command, commands, arguments)
    simulated = partial(_simulator_command, commands, arguments)
    usage = "smg-gateway serve --worker URL [--worker URL ...] [--config FILE] [settings as below]"
    command("serve", "run a gateway", _serve_flags, usage=usage, add_help=False)
    simulated("simulate", "run an engine without a model")
    simulated("simulate-fleet", "compare routing policies over a trace, without engines")
    simulated("faults", "let a simulated engine go wrong")
    simulated("demo", "see one answer come, without GPU or model")
    usage = "smg-gateway config [--sources] [--config FILE] [settings as below]"
    command("config", "print the configuration that results", _config_flags, usage=usage, add_help=False)
    command("setup", "tell a program, such as Claude Code or Codex, to use a gateway", _setup_flags)
    simulated("conform", "check that a server's answers are what clients of its APIs rely on")
    command("mcp", "see and try the MCP servers of a configuration", _mcp_flags)
    text = "say of each security default whether a configuration keeps it"
    command("audit", text, _audit_flags, usage=AUDIT_USAGE, add_help=False)
    command("audit-log", "check files of the audit log", _audit_log_flags)
    command("plugin", "begin, build and check a plugin", _plugin_flags)
    command("interpreter", "build the Python in which models run code", _interpreter_flags)
    for name, text in ADMIN_COMMANDS.items():
        command(name, text, partial(_admin_flags, name))
    command("usage", "print who used how much, and what it cost", _usage_flags)
    command("top", "show what a gateway does, as it does it", _top_flags)
    command("up", "run engines and a gateway on this machine, by one file", _up_flags)
    text = "say what is wrong with a deployment, and what to do"
    command("doctor", text, _doctor_flags, usage=DOCTOR_USAGE, add_help=False)
    simulated("record", "keep what clients ask of a server and what it answers, without keys")
    simulated("replay", "ask a server what was recorded, and print what is different")
    simulated("bench", "measure a server: first token, gaps, goodput; with a report")
    _check_command(arguments, tuple(commands.choices))
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse(unknown[0], _innermost(commands.choices[arguments[0]], arguments[1:]))
    return args


def _check_command(arguments: Sequence[str], commands: Sequence[str]) -> None:
    """Raise ConfigError unless the first argument is one of `commands`, or a flag."""
    if not arguments:
        raise ConfigError(f"which command? There are {', '.join(commands)} (see `smg-gateway --help`)")
    if not arguments[0].startswith("-") and arguments[0] not in commands:
        raise ConfigError(
            f"{arguments[0]}: no such command{nearest(arguments[0], commands)}; there are {', '.join(commands)}"
        )


def _innermost(command: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The command that `arguments` name under this one, or this one."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            at = next((at for at, each in enumerate(arguments) if each in action.choices), None)
            if at is not None:
                return _innermost(action.choices[arguments[at]], arguments[at + 1 :])
    return command


def _refuse(unknown: str, command: argparse.ArgumentParser) -> NoReturn:
    if not unknown.startswith("-"):
        raise ConfigError(f"{unknown}: `{command.prog}` takes no such argument (see `{command.prog} --help`)")
    if (argument := in_python_alone(unknown.partition("=")[0])) and "--config" in command._option_string_actions:
        raise ConfigError(f"{unknown.partition('=')[0]}: {argument}")
    flags = [flag for action in command._actions for flag in action.option_strings]
    near = _nearest_flag(unknown, flags, command.prog)
    raise ConfigError(f"{unknown.partition('=')[0]}: no such flag of `{command.prog}`{near}")


def _nearest_flag(unknown: str, flags: Sequence[str], command: str) -> str:
    """The end of an error message that suggests one of `flags`: the nearest setting of the same section, else the nearest of all,
    else the help of `command`. Empty for a flag with a single dash."""
    name = unknown.partition("=")[0]
    if not name.startswith("--"):
        return ""
    full = {f"--{setting.path}".replace(".", "-").replace("_", "-"): setting for setting in describe()}
    section = next((each.section for path, each in full.items() if name.startswith(f"--{each.section}-")), None)
    inside = {path: each.flag for path, each in full.items() if each.section == section and each.flag in flags}
    near = closest(name, tuple(inside))
    if near:
        return f"; did you mean {inside[near]}?"
    likely = closest(name.removeprefix("--"), [flag.removeprefix("--") for flag in flags])
    return f"; did you mean --{likely}?" if likely else f" (see `{command} --help`)"


def _command(
    commands: "argparse._SubParsersAction[_Parser]",
    arguments: Sequence[str],
    name: str,
    text: str,
    flags: Callable[[argparse.ArgumentParser], None],
    **more: Any,
) -> None:
    """Add a command, with its flags where it is the one to run: a gateway loads nothing of the others."""
    parser = commands.add_parser(name, help=text, allow_abbrev=False, **more)
    if arguments[:1] == [name]:
        flags(parser)


def _simulator_command(
    commands: "argparse._SubParsersAction[_Parser]", arguments: Sequence[str], name: str, text: str
) -> None:
    """Add a command of the package smg_simulator, with its flags where it is the one to run. Raises ConfigError where that is so
    and the package is not installed."""
    parser = commands.add_parser(name, help=text, allow_abbrev=False)
    if arguments[:1] == [name]:
        require_simulator(name)
        from smg_simulator.commands.flags import FLAGS

        FLAGS[name](parser)


def _serve_flags(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_serve)
    _add_settings(parser)


def _config_flags(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_config)
    parser.add_argument("--sources", action="store_true", help="say of each value where it came from")
    _add_settings(parser)


def _audit_flags(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_audit)
    _add_settings(parser)


def _interpreter_flags(parser: argparse.ArgumentParser) -> None:
    from smg_core.commands.interpreter import interpreter_flags

    interpreter_flags(parser)


def _doctor_flags(parser: argparse.ArgumentParser) -> None:
    from smg_core.commands.doctor import doctor_flags

    parser.set_defaults(run=_doctor)
    doctor_flags(parser)
    _add_settings(parser)


def _plugin_flags(parser: argparse.ArgumentParser) -> None:
    from smg_core.commands.plugin import plugin_flags

    plugin_flags(parser)


def _audit_log_flags(parser: argparse.ArgumentParser) -> None:
    from smg_core.commands.audit import audit_log_flags

    audit_log_flags(parser)


def _admin_flags(name: str, parser: argparse.ArgumentParser) -> None:
    """The flags of a command that asks the admin door."""
    from smg_core.commands.admin import FLAGS

    FLAGS[name](parser)


def _usage_flags(parser: argparse.ArgumentParser) -> None:
    from smg_core.commands.usage import usage_flags

    usage_flags(parser)


def _top_flags(parser: argparse.ArgumentParser) -> None:
    from smg_core.top.command import top_flags

    top_flags(parser)


def _up_flags(parser: argparse.ArgumentParser) -> None:
    from smg_core.up.command import up_flags

    up_flags(parser)


def _setup_flags(parser: argparse.ArgumentParser) -> None:
    from smg_core.commands.setup import setup_flags

    setup_flags(parser)


def _mcp_flags(parser: argparse.ArgumentParser) -> None:
    whats = parser.add_subparsers(title="commands", required=True, metavar="ls | call | login", dest="what")
    listing = whats.add_parser("ls", help="print what the servers offer", allow_abbrev=False)
    listing.add_argument("server", nargs="?", help="this server only")
    calling = whats.add_parser("call", help="call a tool", allow_abbrev=False)
    calling.add_argument("tool", help="server.tool, or the name under which it is offered")
    calling.add_argument("arguments", nargs="?", default="{}", help="the arguments as JSON (default: none)")
    calling.add_argument("--approve", action="store_true", help="approve the call where the policy asks")
    login = whats.add_parser("login", help="authorize this program for a server (OAuth)", allow_abbrev=False)
    login.add_argument("server", help="a server with the grant authorization_code")
    for each in (listing, calling, login):
        each.set_defaults(run=_mcp)
        each.add_argument(
            "--config", dest="file", default="mcp.yaml", help="the file of servers (default: %(default)s)"
        )
    for each in (listing, calling):
        each.add_argument("--tenant", default="", help="whose sessions to use")
        each.add_argument("--json", action="store_true", help="print JSON")


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every setting. Values stay text: `config` reads them, so that its errors are the same as for a file."""
    from smg_core.commands.settings_help import add_help

    add_help(parser)
    parser.add_argument("--config", dest="file", metavar="FILE", help="settings as YAML, JSON or TOML (or SMG_CONFIG)")
    for setting in describe():
        if setting.kind == "boolean":
            parser.add_argument(
                setting.flag, action=argparse.BooleanOptionalAction, dest=setting.path, default=argparse.SUPPRESS
            )
        else:
            parser.add_argument(
                setting.flag,
                action="append" if setting.repeated else "store",
                dest=setting.path,
                default=argparse.SUPPRESS,
            )
