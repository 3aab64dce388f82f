"""The help of commands that take settings: the flags that people use, those of a section, or all (edge).

Decides which flags are shown first, and in which words: there are hundreds, and each is in docs/configuration.md. Reads how
wide the terminal is. Above: cli. Below: config, the names of routing policies.
"""

import argparse
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from smg_core.config.config import describe
from smg_core.routing.named import POLICIES
from smg_core.settings import ConfigError, Setting, nearest

__all__ = ["add_help"]

_LEFT = 30
_WIDEST = 110

_USED: Sequence[tuple[str, tuple[tuple[str, str], ...]]] = (
    (
        "engines",
        (
            ("workers.urls", "an engine, again for each: grpc://HOST:PORT (vLLM, SGLang), http://HOST:PORT (any other)"),
            ("workers.file", "a file of engines, each with its own name, role, model and key"),
            ("discovery.kubernetes", "take pods for engines; --selector says which"),
            ("workers.prefill_urls", "an engine that reads prompts for those of --decode"),
            ("workers.decode_urls", "an engine that writes what another has read"),
            ("server.wait_for_workers_s", "seconds in which the first engine has to come"),
        ),
    ),
    (
        "models",
        (
            ("tokenizer.path", "folder with tokenizer.json; without it, the engine's own, which vLLM and SGLang send over gRPC"),
            ("model.name", "serve the model under this name"),
            ("model.parser", "how reasoning and tool calls are written (qwen3, llama3, ...), or none"),
            ("routing.policy", f"which engine gets a request: {', '.join(POLICIES)}; or package.module:Class"),
            ("mcp.config", "the MCP servers whose tools run in the gateway"),
        ),
    ),
    (
        "listening",
        (
            ("server.host", "address; 0.0.0.0 for other machines"),
            ("server.port", "port; 0 takes a free one"),
            ("server.processes", "processes that share it; 0: one for each CPU"),
            ("auth.keys_file", "the API keys that requests need, one a line"),
            ("tls.cert", "speak TLS with this certificate; its key is --tls-key"),
        ),
    ),
    (
        "watching and keeping",
        (
            ("admin.port", "a door for operators: workers, keys, limits, `smg-gateway top`"),
            ("metrics.port", "a port with metrics for Prometheus"),
            ("server.access_log", "log a line a request"),
            ("observability.log_level", "debug, info, warning or error"),
            ("history.url", "where responses are kept: memory:, sqlite:///FILE, postgresql://, redis://"),
        ),
    ),
)  # fmt: skip
"""The flags that people use, by what they are for, each with a few words."""


def add_help(parser: argparse.ArgumentParser) -> None:
    """Add `--help`, with or without the name of a section, and `--help-all`, in place of argparse's."""
    parser.add_argument("-h", "--help", action=_Help, nargs="?", metavar="SECTION", default=argparse.SUPPRESS)
    parser.add_argument("--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS)


class _Help(argparse.Action):
    """Prints the flags that people use, or those of a section."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        print("\n".join(_used(parser) if values is None else _section(str(values))))
        parser.exit()


class _HelpAll(argparse.Action):
    """Prints all flags."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"usage: {parser.usage}\n")
        print("\n\n".join("\n".join(_section(name)) for name in _sections()))
        parser.exit()


def _sections() -> list[str]:
    return [name for name, _ in groupby(describe(), key=attrgetter("section"))]


def _used(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The help in short."""
    settings = {each.path: each for each in describe()}
    yield f"usage: {parser.usage}"
    for title, rows in _USED:
        yield f"\n{title}:"
        for path, text in rows:
            yield from _row(settings[path], f"{text}{_default(settings[path])}")
    more = (
        "--config FILE has settings as YAML, JSON or TOML (or SMG_CONFIG); each is also a variable, such as SMG_SERVER_PORT. "
        f"--help SECTION shows all flags of one of: {', '.join(_sections())}; --help-all those of all."
    )
    yield from ("", *textwrap.wrap(more, _width()))


def _section(name: str) -> Iterator[str]:
    """All flags of a section. Raises ConfigError for one that is none."""
    names = _sections()
    if name not in names:
        raise ConfigError(f"--help {name}: no such section{nearest(name, names)}; there are {', '.join(names)}")
    yield f"{name}:"
    for setting in describe():
        if setting.section == name:
            yield from _row(setting, f"{setting.text}{_default(setting)}")


def _default(setting: Setting) -> str:
    hidden = setting.default is None or setting.default is False or setting.default in {(), ""}
    value = ", ".join(map(str, setting.default)) if isinstance(setting.default, tuple) else setting.default
    return "" if hidden else f" (default: {value})"


def _row(setting: Setting, text: str) -> Iterator[str]:
    flag = setting.flag
    if setting.kind != "boolean":
        flag += " " + ("|".join(setting.choices) if setting.choices and len(setting.choices) < 4 else _word(setting))
    lines = textwrap.wrap(text, _width() - _LEFT)
    if len(flag) > _LEFT - 4:
        yield f"  {flag}"
    else:
        yield f"  {flag}".ljust(_LEFT) + lines.pop(0)
    yield from (" " * _LEFT + line for line in lines)


def _word(setting: Setting) -> str:
    """What stands for a value."""
    word = setting.path.rpartition(".")[2].rpartition("_")[2].upper()
    one = f"{word.removesuffix('IES')}Y" if word.endswith("IES") else word.removesuffix("S")
    return {"integer": "N", "number": "N"}.get(setting.kind, one if setting.repeated else word)


def _width() -> int:
    return max(_LEFT + 40, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
