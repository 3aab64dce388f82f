"""The command `smg-gateway plugin`: begin, build and check plugins that are components (edge).

`new` writes a small plugin in C with what it needs; `build` calls clang and the tools of jco; `check` runs a component against
requests and prints what it did and cost. Above: cli. Below: `wasm.loading`, `middleware`.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from smg_core.middleware.base import (
    About,
    AnswerPiece,
    ChangeHead,
    ChangeStored,
    ChangeText,
    End,
    Failure,
    MiddlewareFault,
    Reject,
    RequestBody,
    RequestHead,
    ResponseHead,
    StorageCall,
)
from smg_core.middleware.entries import entry_name, parse_entries
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.middleware.entries import Entry
    from smg_core.wasm.guest_report import GuestReport
    from smg_core.wasm.loading import WasmPlugins
    from smg_core.wasm.plugin import WasmPlugin

__all__ = ["plugin_flags"]

_SDK = files("smg_core.wasm") / "sdk"
_HOOKS = {
    "SMG_SETUP": "setup",
    "SMG_EXCHANGE": "exchange",
    "SMG_REQUEST_HEAD": "request-head",
    "SMG_REQUEST_BODY": "request-body",
    "SMG_RESPONSE_HEAD": "response-head",
    "SMG_PIECES": "pieces",
    "SMG_END": "end",
    "SMG_ERROR": "error",
    "SMG_STORAGE": "storage",
    "SMG_CLOCK": "+clock",
    "SMG_RANDOM": "+random",
}
_TRANSPILER = Path("node_modules") / "@bytecodealliance" / "jco-transpile"
_CLANG = "--target=wasm32-unknown-unknown -Os -nostdlib -ffreestanding -mbulk-memory -Wl,--no-entry -Wl,--stack-first"
_CLANG += " -Wl,-z,stack-size=16384 -Wl,--strip-all"
_TIMES = 200  # exchanges by which the cost of hooks is measured
_ANSWERED = ("request_head", "request_body", "response_head", "response", "piece", "store", "stored", "end")
_REFUSED = ("request_head", "request_body", "error", "end")
_ABOUT = About("req_check", "POST", "/v1/chat/completions", "/v1/chat/completions", "tenant", "principal")
_FIRST_PLUGIN = """\
/* Refuses requests whose body has the word "forbidden", and puts a header on those that it lets pass. */
#define SMG_REQUEST_HEAD
#define SMG_REQUEST_BODY
#include "smg_plugin.h"

smg_head_verdict on_request_head(smg_request_head head) {
  static smg_header seen = {{"x-first-plugin", 14}, {"seen", 4}};
  return (smg_head_verdict){.what = SMG_CHANGE, .change = {.set = {&seen, 1}}};
}

smg_text_verdict on_request_body(smg_text body) {
  const char word[] = "forbidden";
  for (size_t at = 0; at + 9 <= body.size; at++) {
    size_t same = 0;
    while (same < 9 && body.at[at + same] == word[same]) same++;
    if (same == 9) return smg_refuse(403, SMG_TEXT("This word is not said here."));
  }
  return smg_proceed();
}
"""
_RECORDED = {"model": "sim", "messages": [{"role": "user", "content": "Call 555 1234, and say hello."}], "stream": True}
_EVENT = 'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hello 42"}}]}\n\n'


def plugin_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `plugin`, which has the commands `new`, `build` and `check`."""
    whats = parser.add_subparsers(title="commands", required=True, metavar="new | build | check", dest="what")
    text = "write a first plugin in C into a new folder"
    new = whats.add_parser("new", help=text, description=text, allow_abbrev=False)
    new.add_argument("folder", metavar="FOLDER")
    new.set_defaults(run=_new)
    text = "make a component of a plugin: in C it needs clang, lld and node with @bytecodealliance/jco, in JavaScript node with "
    text += "componentize-qjs, which jco brings along"
    build = whats.add_parser("build", help=text, description=text, allow_abbrev=False)
    build.add_argument("file", metavar="FILE.c | FILE.js")
    build.add_argument("--out", metavar="FILE", help="the component (default: beside the source)")
    build.add_argument(
        "--jco", metavar="FOLDER", default=".", help="folder with node_modules in which jco is installed"
    )
    build.add_argument("--wit", metavar="FILE", help="a world of another contract, such as smg:gateway")
    build.set_defaults(run=_build)
    text = "run a component against requests, and print what it did and cost"
    check = whats.add_parser("check", help=text, description=text, allow_abbrev=False)
    check.add_argument("file", metavar="FILE.wasm")
    check.add_argument(
        "--settings",
        metavar="JSON",
        default="{}",
        help='its entry, as in the file of plugins, such as {"config": {"digits": 7}}',
    )
    check.add_argument(
        "--request", metavar="FILE", action="append", default=[], help="a recorded body (default: a small chat)"
    )
    check.set_defaults(run=_check)


def _new(args: argparse.Namespace) -> int:
    folder = Path(args.folder)
    try:
        folder.mkdir(parents=True)
        (folder / "first.c").write_text(_FIRST_PLUGIN)
        for name in ("smg_plugin.h", "plugin.wit"):
            (folder / name).write_text((_SDK / name).read_text())
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from None
    print(f"{folder}/first.c is a plugin. Build it with: smg-gateway plugin build {shlex.quote(f'{folder}/first.c')}")
    return 0


def _build(args: argparse.Namespace) -> int:
    source = Path(args.file)
    out = Path(args.out) if args.out else source.with_suffix(".wasm")
    if source.suffix == ".js":
        return _build_js(source, out, Path(args.jco).resolve())
    for program in ("clang", "wasm-ld", "node"):
        if shutil.which(program) is None:
            raise ConfigError(f"{program} is not installed: apt-get install clang lld, and node from nodejs.org")
    try:
        hooks = [] if args.wit else hooks_of(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: is no UTF-8: {error.reason} at byte {error.start}") from None
    jco = Path(args.jco).resolve()
    if not any((each / _TRANSPILER).is_dir() for each in (jco, *jco.parents)):
        raise ConfigError(
            f"jco is not installed in {jco}: npm install @bytecodealliance/jco there, or name it by --jco"
        )
    with tempfile.TemporaryDirectory() as folder:
        core = Path(folder) / "core.wasm"
        _run(["clang", *_CLANG.split(), f"-I{source.parent}", f"-I{_SDK}", "-o", str(core), str(source)])
        wit = args.wit or str(_SDK / "plugin.wit")
        made = ["node", str(_SDK / "componentize.mjs"), str(core), wit, str(out), *hooks]
        _run(made, {"SMG_JCO": str(jco)})
    print(f"{out}: {out.stat().st_size} bytes")
    return 0


def _build_js(source: Path, out: Path, folder: Path) -> int:
    tool = folder / "node_modules" / ".bin" / "componentize-qjs"
    if not tool.exists():
        raise ConfigError(f"there is no {tool}: npm install @bytecodealliance/jco in the folder of --jco")
    try:
        hooks = exports_of(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: is no UTF-8: {error.reason} at byte {error.start}") from None
    with tempfile.TemporaryDirectory() as name:
        wit = Path(name) / "plugin.wit"
        wit.write_text(_world((_SDK / "plugin.wit").read_text(), hooks), encoding="utf-8")
        made = ["--wit", str(wit), "--world", "built", "--js", str(source), "--output", str(out)]
        _run([str(tool), *made, "--stub-wasi", "--sync"])  # without WASI: such a component needs no grant
    print(f"{out}: {out.stat().st_size} bytes")
    return 0


def exports_of(source: str) -> list[str]:
    """The hooks that a plugin in JavaScript exports (`export const requestHead = {...}`), by their names in plugin.wit. Raises
    ConfigError for none."""
    known = {_camel(each): each for each in _HOOKS.values() if not each.startswith("+")}
    named = re.findall(r"^export const (\w+)", source, re.MULTILINE)
    if not any(each in known for each in named):
        raise ConfigError(f"the source exports no hook: write export const with one of {', '.join(known)}")
    return [known[each] for each in named if each in known]


def _camel(name: str) -> str:
    first, *others = name.split("-")
    return first + "".join([each.capitalize() for each in others])


def _world(wit: str, hooks: list[str]) -> str:
    """The package of plugins with a world that exports these hooks."""
    found = re.search(r"package ([^@;]+)@([^;]+);", wit)
    if found is None:
        raise AssertionError("plugin.wit names its package")
    package, version = found.groups()
    lines = "\n".join([f"  export {package}/{each}@{version};" for each in hooks])
    inner = wit.replace(found[0], f"package {package}@{version} {{", 1)
    return f"package built:here;\nworld built {{\n  import {package}/host@{version};\n{lines}\n}}\n{inner}\n}}\n"


def hooks_of(source: str) -> list[str]:
    """The hooks and imports that a plugin in C defines, by their names in plugin.wit. Raises ConfigError for none."""
    named = re.findall(r"^\s*#\s*define\s+(SMG_[A-Z_]+)", source, re.MULTILINE)
    found = [_HOOKS[each] for each in named if each in _HOOKS]
    if not found:
        raise ConfigError(f"the source defines no hook: write #define with one of {', '.join(_HOOKS)}")
    return ["+host", *found]


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run a program. Raises ConfigError with what it says where it fails."""
    known = {**os.environ, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, env=known, check=False)  # noqa: S603  (named here)
    if done.returncode:
        output = (done.stderr or done.stdout).strip()
        raise ConfigError(f"{command[0]} failed:\n{output[-2000:]}")


# -------------------------------------------------------------------------------------------------------------- check


def _check(args: argparse.Namespace) -> int:
    try:
        given = json.loads(args.settings)
    except ValueError as error:
        raise ConfigError(f"--settings: not JSON: {error}") from None
    bodies = [_recorded(each) for each in args.request] or [json.dumps(_RECORDED)]
    settings = {"source": args.file, "name": entry_name(args.file), **(given if isinstance(given, dict) else {})}
    (entry,) = parse_entries([settings], "--settings")
    import asyncio  # loaded by this call alone: other commands need no event loop

    return asyncio.run(_checked(entry, bodies))


def _recorded(file: str) -> str:
    """A body that was recorded. Raises ConfigError for a file that cannot be read, or is no JSON."""
    try:
        text = Path(file).read_text(encoding="utf-8")
        json.loads(text)
    except OSError as error:
        raise ConfigError(f"--request: {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--request: {file} is no JSON: {error}") from None
    return text


async def _checked(entry: "Entry", bodies: list[str]) -> int:
    from smg_core.wasm.loading import WasmPlugins

    heard: list[str] = []

    def hear(name: str, guest_words: "GuestReport") -> None:
        heard.extend(f"    log {level}: {line}" for level, line in guest_words.lines)
        heard.extend(f"    count {counter}: {by:g}" for counter, by in guest_words.counts.items())

    began = time.perf_counter()
    plugins = WasmPlugins(hear, threads=1, most_threads=1, compiled=1, most_bytes=1 << 30)
    try:
        plugin = await _loaded(plugins, entry)
        took = time.perf_counter() - began
        print(f"{entry.source}: world {plugin.compiled.world.name}, sha256 {plugin.compiled.digest}")
        print(
            f"    loaded in {took * 1000:.0f} ms; hooks: {', '.join(sorted(plugin.hooks)) or 'none'}; pieces: {plugin.pieces}"
        )
        print("".join([f"{line}\n" for line in heard]), end="")
        # All bodies are shown before anything is measured: the measured exchanges use up the lines that it may log.
        reports = [await _hook_reports(plugin, body, heard) for body in bodies]
        failed = [await _print_costs(plugin, body, events) for body, events in zip(bodies, reports, strict=True)]
        plugin.close()
    finally:
        plugins.close()
    return 1 if any(failed) else 0


async def _loaded(plugins: "WasmPlugins", entry: "Entry") -> "WasmPlugin":
    """The plugin of an entry. Raises ConfigError, which names the flag where a component wants a configuration and got none."""
    if not entry.is_component and not Path(entry.source).is_file():
        raise ConfigError(
            f"{entry.source} is no file: check is for components (FILE.wasm); a plugin in Python is tried in a test"
        )
    try:
        return await plugins.load(entry)
    except ConfigError as error:
        if entry.config or "refuses its configuration" not in str(error):
            raise
        raise ConfigError(f"{error}; give it one by --settings '{{\"config\": {{...}}}}'") from None


@attrs.frozen
class _HookReport:
    """What a hook did in the exchange that is shown: what the plugin said meanwhile, and the verdict in words."""

    hook: str
    lines: tuple[str, ...]
    verdict: str
    failed: bool = False


async def _hook_reports(plugin: "WasmPlugin", body: str, heard: list[str]) -> list[_HookReport]:
    """Show a request and an answer to it to a plugin, and what becomes of one that is refused. Ends with a hook that fails."""
    found: dict[str, _HookReport] = {}
    for hooks in (_ANSWERED, _REFUSED):
        session = plugin.begin(_ABOUT)
        try:
            for hook, call in _calls(plugin, session, body, hooks):
                heard.clear()
                verdict = _rendered(await call())
                found.setdefault(hook, _HookReport(hook, tuple(heard), verdict))
        except MiddlewareFault as fault:
            found[hook] = _HookReport(hook, tuple(heard), f"FAILED: it {fault.reason}", failed=True)
            break
        finally:
            heard.clear()
            session.close()
        if heard:
            found.setdefault("finish", _HookReport("finish", tuple(heard), "ends the exchange"))
    return list(found.values())


async def _print_costs(plugin: "WasmPlugin", body: str, events: list[_HookReport]) -> bool:
    """Print what was shown of a body, with the cost of each hook, unless one failed. Returns whether one did."""
    failed = any(each.failed for each in events)
    costs: dict[str, float] = {}
    fault = ""
    if not failed:
        try:
            costs = {**await _measured(plugin, body, _REFUSED), **await _measured(plugin, body, _ANSWERED)}
        except MiddlewareFault as error:
            fault = error.reason
    for each in events:
        cost = f"; {costs[each.hook]:.0f} us a call" if each.hook in costs else ""
        print("\n".join([*each.lines, f"  {each.hook}: {each.verdict}{cost}"]))
    if fault:
        print(f"  FAILED: in one of {_TIMES} exchanges like this it {fault}")
    return failed or bool(fault)


async def _measured(plugin: "WasmPlugin", body: str, hooks: tuple[str, ...]) -> dict[str, float]:
    """What a call of each hook costs, in microseconds: each exchange calls it once, as in a gateway. Raises MiddlewareFault."""
    spent: dict[str, float] = dict.fromkeys([hook for hook in hooks if hook in plugin.hooks], 0.0)
    for _ in range(_TIMES):
        session = plugin.begin(_ABOUT)
        try:
            for hook, call in _calls(plugin, session, body, hooks):
                began = time.perf_counter()
                await call()
                spent[hook] += time.perf_counter() - began
        finally:
            session.close()
    return {hook: seconds / _TIMES * 1e6 for hook, seconds in spent.items()}


def _calls(
    plugin: "WasmPlugin", session: Any, body: str, hooks: tuple[str, ...]
) -> list[tuple[str, Callable[[], Awaitable[Any]]]]:
    """The calls of one exchange, in their order, of those `hooks` that the plugin has."""
    head = RequestHead("POST", "/v1/chat/completions", "", (("content-type", "application/json"),))
    piece = AnswerPiece("Hello 42", "text") if plugin.pieces == "text" else AnswerPiece(_EVENT, "wire")
    kept = StorageCall("put-response", "", "resp_1", "tenant", "principal", (("input", body), ("output", "[]")))
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "request_head": lambda: session.on_request_head(head),
        "request_body": lambda: session.on_request_body(RequestBody(body)),
        "response_head": lambda: session.on_response_head(ResponseHead(200, (("content-type", "text/event-stream"),))),
        "response": lambda: session.on_response(ResponseHead(200, ()), _EVENT),
        "piece": lambda: _piece(session.on_piece(piece)),
        "end": lambda: session.on_end(End(200, "ok", 0.1, 10, 0, 5)),
        "error": lambda: session.on_error(Failure(400, "invalid", "A message.")),
        "store": lambda: session.on_store(kept),
        "stored": lambda: session.on_stored(kept),
    }
    return [(hook, calls[hook]) for hook in hooks if hook in plugin.hooks]


async def _piece(answer: Any) -> Any:
    return await answer if isinstance(answer, Awaitable) else answer


def _rendered(verdict: Any) -> str:
    """A verdict in words."""
    if isinstance(verdict, tuple):
        return "; ".join(_rendered(each) for each in verdict)
    if isinstance(verdict, Reject):
        return f"rejects with {verdict.status}: {verdict.message[:80]}"
    if isinstance(verdict, ChangeHead):
        return f"sets {dict(verdict.set)}, adds {dict(verdict.add)}, removes {list(verdict.remove)}"
    if isinstance(verdict, ChangeStored):
        return f"changes {', '.join(name for name, _ in verdict.texts)}"
    if isinstance(verdict, ChangeText):
        return f"changes it to {len(verdict.text)} characters"
    return f"sends {verdict!r}"[:100] if isinstance(verdict, str) else "lets it pass"
