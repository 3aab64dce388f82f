"""The plan of the house, as a table that is checked: which rooms there are, who may import whom, and who may wait.

`LEVELS` says how high a room is: it imports lower ones only. `NEIGHBOURS` lists the few rooms that know another of their own
level. `EDGES` lists the modules that may wait, open sockets and read clocks, with who may import each beside its own room's
edges and `WIRING`. Everything else decides, and is checked for it. A room's settings are records in its module `settings`, which
know nothing of the room and are gathered by `config`, whatever the room's level. The last part plants faults into a small house
to show that each rule fails, and with which sentence.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import attrs
import pytest
from tests.source import parsed

SRC = Path(__file__).parent.parent / "src"

LEVELS: dict[str, int] = {
    # 0: the vocabulary every room shares, and the libraries below the core
    **dict.fromkeys(("errors", "request", "events", "clock", "hooks", "sse", "tokens", "cards", "json_types"), 0),
    **dict.fromkeys(("line_ends", "regular_files"), 0),
    **dict.fromkeys(("grants", "tool_names", "speech", "outside_words"), 0),
    "settings": 0,  # what a setting is, so that every room has its own
    **dict.fromkeys(("smg_parsers", "smg_mcp", "smg_multimodal", "smg_egress"), 0),
    **dict.fromkeys(("protocols", "tokenizer", "engines", "workers", "history", "auth", "limits", "observability"), 1),
    "middleware": 1,
    "sealing": 1,
    "client_setup": 1,
    "conform": 2,
    **dict.fromkeys(("routing", "discovery", "wasm"), 2),
    **dict.fromkeys(("pipeline", "mesh", "simulator"), 3),
    "config": 4,
    "server": 5,
    **dict.fromkeys(
        (
            "admin_client",
            "audit_command",
            "plugin_command",
            "top",
            "cli",
            "fleet_command",
            "simulator_commands",
            "__main__",
            "demo",
            "testing",
            "pytest_plugin",
            "smg_core",
        ),
        6,
    ),
}
VOCABULARY = frozenset(
    {"errors", "grants", "request", "events", "clock", "hooks", "sse", "tokens", "json_types", "tool_names"}
    | {"outside_words", "speech"}
)

# Rooms on one level that may know each other: (who, whom).
NEIGHBOURS: frozenset[tuple[str, str]] = frozenset(
    {
        ("errors", "outside_words"),  # an error as text has no words of others that a log may not have
        ("workers", "engines"),  # a worker is an engine that is watched
        ("smg_multimodal", "smg_egress"),  # one law for every URL that others choose
        ("smg_mcp", "smg_egress"),
        ("__main__", "cli"),
        ("cli", "admin_client"),
        ("cli", "audit_command"),
        ("cli", "plugin_command"),
        ("cli", "top"),
        ("top", "admin_client"),
        ("cli", "simulator_commands"),
        ("simulator_commands", "fleet_command"),
        ("cli", "demo"),
        ("testing", "smg_core"),
        ("pytest_plugin", "testing"),
    }
)

# Modules that may wait, open sockets and read clocks, and who may import each beside edges of its own room and WIRING.
EDGES: dict[str, frozenset[str]] = {
    "auth.issuer": frozenset(),
    "auth.oidc": frozenset({"server.identity"}),
    "discovery.cluster": frozenset(),
    "discovery.dns": frozenset(),
    "discovery.file": frozenset(),
    "discovery.kubernetes": frozenset(),
    "discovery.resolver": frozenset(),
    "discovery.running": frozenset({"server.discovering"}),
    "discovery.waiting": frozenset({"server.discovering"}),
    "engines.h2.transport": frozenset(),
    "engines.grpc_transport": frozenset(),
    "engines.client": frozenset(),
    "engines.certificates": frozenset(),
    "engines.credentials": frozenset(),
    "engines.http.client": frozenset(),
    "engines.http.gathering": frozenset(),
    "engines.http.opening": frozenset(),
    "engines.http.transport": frozenset(),
    "engines.openai.engine": frozenset(),
    "engines.openai.pooled": frozenset(),
    "server.speech_routes": frozenset(),
    "middleware.active": frozenset(),
    "middleware.asgi": frozenset({"server.wrapping"}),
    "middleware.asking": frozenset({"server.plugin_code", "server.wrapping"}),
    "middleware.chain": frozenset(
        {"server.plugged", "server.plugging", "server.plugin_code", "server.plugins", "server.wrapping"}
    ),
    "middleware.own_task": frozenset(),
    "middleware.plan": frozenset({"server.plugins"}),
    "middleware.said": frozenset({"server.background_plugins", "server.exchange", "server.plugged"}),
    "middleware.python": frozenset({"server.plugin_code"}),
    "middleware.storing": frozenset({"server.plugin_storage"}),
    "regular_files": frozenset({"discovery.file", "server.plugin_file", "wasm.loading"}),
    "server.plugin_storage": frozenset(),
    "server.plugged": frozenset(),
    "server.plugin_code": frozenset(),
    "server.plugin_file": frozenset(),
    "server.plugins": frozenset(),
    "server.plugging": frozenset(),
    "server.wrapping": frozenset(),
    "wasm.loading": frozenset({"plugin_command", "server.plugin_code"}),
    "wasm.plugin": frozenset({"plugin_command"}),
    "wasm.running": frozenset({"plugin_command", "server.plugin_code", "server.plugins"}),
    "wasm.threads": frozenset(),
    "wasm.calls": frozenset(),
    "tokenizer.loader": frozenset(),
    "tokenizer.prover": frozenset(),
    "workers.monitor": frozenset({"server.roster"}),
    "history.group_commit": frozenset(),
    "history.guard": frozenset({"server.keeping"}),
    "history.memory": frozenset(),
    "history.opening": frozenset({"server.keeping"}),
    "history.postgres": frozenset(),
    "history.redis": frozenset(),
    "history.sql": frozenset(),
    "observability.audit_file": frozenset({"server.admin.auditing"}),
    "observability.line_writer": frozenset({"server.observing"}),
    "observability.logs": frozenset({"server.log_level", "server.observing", "server.serve"}),
    "observability.tracing.exporting": frozenset({"server.tracing"}),
    "engines.kv_subscriber": frozenset({"server.kv_listening", "server.reaching"}),
    "pipeline.answer": frozenset(
        {"server.answering", "server.background_plugins", "server.background_run", "server.inference"}
    ),
    "pipeline.driver": frozenset({"server.background_run", "server.inference", "server.shadowing"}),
    "pipeline.encoding": frozenset(),
    "pipeline.chat_calls": frozenset(),
    "pipeline.engine_call": frozenset(),
    "pipeline.executor": frozenset({"server.long_work", "server.onboarding"}),
    "pipeline.aside": frozenset({"server.shadowing"}),
    "pipeline.hedging": frozenset(),
    "pipeline.pairing": frozenset(),
    "pipeline.parted": frozenset({"server.answering"}),
    "pipeline.performers": frozenset(),
    "pipeline.pool_gathering": frozenset(),
    "pipeline.pool_encoding": frozenset(),
    "pipeline.next_token": frozenset(),
    "pipeline.pooling": frozenset({"server.pooling", "server.explain"}),
    "pipeline.preparing": frozenset(),
    "pipeline.passing_media": frozenset({"server.document_reading", "server.loading"}),
    "pipeline.reading_documents": frozenset(),
    "pipeline.selecting": frozenset(),
    "pipeline.shown": frozenset({"server.answering", "server.background_plugins"}),
    "pipeline.streaming": frozenset(),
    "pipeline.tool_calls": frozenset({"server.hosted_tools"}),
    "simulator.embedding": frozenset(),
    "simulator.encode_worker": frozenset({"simulator_commands"}),
    "simulator.kv_publisher": frozenset(),
    "simulator.remote": frozenset({"simulator_commands"}),
    "simulator.http_server": frozenset(),
    "simulator.kv_exchange": frozenset(),
    "simulator.listeners": frozenset(),
    "simulator.restarts": frozenset(),
    "simulator.server": frozenset({"simulator_commands"}),
    "simulator.running": frozenset({"simulator_commands"}),
    "simulator.timer": frozenset(),
    "simulator.__main__": frozenset(),
    "simulator.shared_memory": frozenset(),
    "simulator.small_services": frozenset(),
    "server.gateway": frozenset({"smg_core"}),
    "server.following": frozenset(),
    "server.pooling": frozenset(),
    "server.pooling_routes": frozenset(),
    "server.gemini": frozenset(),
    "server.hosted_tools": frozenset(),
    "server.generating": frozenset(),
    "server.runtime": frozenset(),
    "server.probed": frozenset(),
    "server.shadowing": frozenset(),
    "server.roster": frozenset(),
    "server.leading": frozenset(),
    "server.hanging_up": frozenset(),
    "server.chain_of_models": frozenset(),
    "server.adapter_changes": frozenset(),
    "server.cache_losses": frozenset(),
    "server.control": frozenset(),
    "server.decided": frozenset(),
    "server.config_source": frozenset({"cli"}),
    "server.log_level": frozenset(),
    "server.admin.answers": frozenset(),
    "server.admin.control": frozenset(),
    "server.admin.models": frozenset(),
    "server.admin.roster": frozenset(),
    "server.accepting": frozenset(),
    "server.tls.contexts": frozenset(),
    "server.admin.app": frozenset(),
    "server.admin.auditing": frozenset(),
    "server.admin.decisions": frozenset(),
    "server.admin.discovery": frozenset(),
    "server.admin.health": frozenset(),
    "server.admin.keys": frozenset(),
    "server.admin.listening": frozenset(),
    "server.admin.running": frozenset(),
    "server.admin.workers": frozenset(),
    "server.announcing": frozenset({"demo"}),
    "server.answering": frozenset(),
    "server.app": frozenset(),
    "server.background": frozenset(),
    "server.background_create": frozenset(),
    "server.background_plugins": frozenset(),
    "server.background_run": frozenset(),
    "server.background_store": frozenset(),
    "server.certificates": frozenset(),
    "server.chain_times": frozenset(),
    "server.channel.local": frozenset(),
    "server.cpus": frozenset(),
    "server.channel.member": frozenset(),
    "server.channel.relaying": frozenset(),
    "server.channel.settling": frozenset(),
    "server.conversation_locks": frozenset(),
    "server.batch_calls": frozenset(),
    "server.batch_next": frozenset(),
    "server.batch_queue": frozenset(),
    "server.batch_routes": frozenset(),
    "server.batch_run": frozenset(),
    "server.batch_store": frozenset(),
    "server.batch_turns": frozenset(),
    "server.fetching": frozenset(),
    "server.files": frozenset(),
    "server.public_routes": frozenset(),
    "server.kept_files": frozenset(),
    "server.message_batches": frozenset(),
    "server.openai_batches": frozenset(),
    "server.spooling": frozenset(),
    "server.conversations": frozenset(),
    "server.counting": frozenset(),
    "server.deployment": frozenset(),
    "server.describing": frozenset(),
    "server.document_reading": frozenset(),
    "server.passed_media": frozenset({"server.document_reading"}),
    "server.discovering": frozenset(),
    "server.documents": frozenset(),
    "server.exchange": frozenset(),
    "server.inflating": frozenset(),
    "server.stream_errors": frozenset(),
    "server.endpoint": frozenset(),
    "server.explain": frozenset(),
    "server.http_protocol": frozenset(),
    "server.http_server": frozenset(),
    "server.identity": frozenset(),
    "server.inference": frozenset(),
    "server.inprocess": frozenset(),
    "server.media": frozenset(),
    "server.metrics.meter": frozenset(),
    "server.metrics.sampling": frozenset(),
    "server.metrics.serving": frozenset(),
    "server.observing": frozenset(),
    "server.second_listener": frozenset(),
    "server.news": frozenset(),
    "server.notifying": frozenset(),
    "server.interactions": frozenset(),
    "server.interactions_memory": frozenset(),
    "server.default_store": frozenset({"server.keeping"}),
    "server.keeping": frozenset(),
    "server.sent_keeping": frozenset({"server.keeping"}),
    "server.kv_listening": frozenset(),
    "server.launched": frozenset({"server.gateway"}),
    "server.listeners": frozenset(),
    "server.loading": frozenset(),
    "server.long_work": frozenset(),
    "server.loop_watch": frozenset(),
    "server.onboarding": frozenset(),
    "server.parsing": frozenset(),
    "server.reaching": frozenset(),
    "server.remembering": frozenset(),
    "server.remembering_routes": frozenset(),
    "server.response_tokens": frozenset(),
    "server.request_traces": frozenset(),
    "server.responses_socket": frozenset(),
    "server.socket_memory": frozenset(),
    "server.socket_protocol": frozenset(),
    "server.tracing": frozenset(),
    "server.virtual_keys": frozenset(),
    "server.websocket": frozenset(),
    "server.stored": frozenset(),
    "server.stored_answers": frozenset(),
    "server.stored_lists": frozenset(),
    "server.stored_responses": frozenset(),
    "server.process_lock": frozenset(),
    "server.scratch": frozenset(),
    "server.served_elsewhere": frozenset(),
    "server.sealing_keys": frozenset(),
    "server.simulated": frozenset(),
    "server.memory": frozenset(),
    "server.serve": frozenset(),
    "server.status": frozenset(),
    "server.supervisor": frozenset(),
    "server.tokenizing": frozenset(),
    "conform.asking": frozenset({"cli"}),
    "testing": frozenset({"pytest_plugin"}),
    "pytest_plugin": frozenset(),
    "cli": frozenset({"__main__"}),
    "fleet_command": frozenset(),
    "simulator_commands": frozenset({"cli"}),
    "admin_client": frozenset({"cli", "top.command"}),
    "top.command": frozenset({"cli"}),
    "audit_command": frozenset({"cli"}),
    "plugin_command": frozenset({"cli"}),
    "server.admin.plugins": frozenset(),
    "demo": frozenset({"cli"}),
    "__main__": frozenset(),
    "server.sharing": frozenset(),
    "server.tool_searching": frozenset(),
    "server.model_media": frozenset(),
    "smg_egress.resolving": frozenset({"smg_multimodal.guarded", "smg_mcp.wire"}),
    "smg_mcp.command": frozenset({"cli"}),
    "smg_mcp.connection": frozenset(),
    "smg_mcp.oauth": frozenset(),
    "smg_mcp.origin": frozenset(),
    "smg_mcp.plain_http": frozenset(),
    "smg_mcp.pool": frozenset(),
    "smg_mcp.request_tools": frozenset({"smg_mcp", "server.hosted_tools"}),
    "smg_mcp.session": frozenset(),
    "smg_mcp.stdio": frozenset(),
    "smg_mcp.streams": frozenset(),
    "smg_mcp.tools": frozenset({"smg_mcp", "server.hosted_tools"}),
    "smg_mcp.wire": frozenset(),
    "smg_multimodal.decoders": frozenset({"server.media", "server.model_media"}),
    "smg_multimodal.documents": frozenset({"server.documents"}),
    "smg_multimodal.guarded": frozenset({"auth.issuer"}),
    "smg_multimodal.fetch": frozenset(
        {"server.documents", "server.media", "server.model_media", "server.passed_media"}
    ),
    "smg_multimodal.places": frozenset(),
    "smg_multimodal.shm": frozenset({"server.sharing"}),
    "smg_multimodal.worker_process": frozenset(),
    "smg_multimodal.workers": frozenset(),
}
WIRING = frozenset({"server.gateway", "server.runtime", "server.loading", "server.reaching", "server.simulated"})
WIRING |= {"server.discovering", "server.launched"}
WIRING |= {"cli", "demo", "simulator_commands", "testing"}

# Tables whose rows load what they name when it is first asked for, and what loads a large library only where it is needed.
LAZY_TABLES = frozenset({"engines.dialects", "engines.http.dialects", "history.opening", "history.sql_version"})
LAZY_TABLES |= {
    "routing.named",
    "server.document_reading",
    "server.identity",
    "server.plugin_code",
    "server.plugins",
    "server.tracing",
}

# Where everything is caught because nothing is above, or because users' code is called: module to how often. Elsewhere a broad
# `except` must raise again, as itself (to clean up) or as one of our errors (where a foreign library raises plain Exception).
LAST_LINES = {"middleware.own_task": 1, "middleware.python": 1, "server.app": 1, "routing.policies": 2}
# Where an engine's output is read: a fault of ours must end that answer, and not the connection or the engine's good name.
LAST_LINES |= {
    "engines.client": 1,
    "engines.openai.engine": 2,
    "engines.http.transport": 1,
    "engines.grpc_transport": 1,
}
LAST_LINES |= {"engines.h2.connection": 2, "pipeline.attempt": 1, "pipeline.pool_gathering": 1}

# A decision that needs one of these is an edge. clock.py is where time and randomness come from.
IMPURE = frozenset(
    {"asyncio", "anyio", "concurrent", "multiprocessing", "queue", "sched", "sniffio", "threading", "trio"}
)
IMPURE |= {"fcntl", "os", "secrets", "shutil", "signal", "subprocess", "tempfile", "time"}
IMPURE |= {"http", "select", "selectors", "socket", "socketserver", "ssl", "urllib"}
IMPURE |= {"grpc", "httpcore", "httpcore2", "httpx", "httpx2", "uvicorn", "uvloop", "wasmtime", "websockets"}
PURE_PARTS = frozenset({"urllib.parse", "http.HTTPStatus"})
ALLOWED_IMPURE: dict[str, frozenset[str]] = {
    "clock": frozenset({"os", "secrets", "time"}),
    "wasm.shapes": frozenset({"wasmtime"}),  # the names of its types
    "wasm.plans": frozenset({"wasmtime"}),
    "smg_multimodal.kernel": frozenset({"wasmtime"}),  # arithmetic on bytes that are handed in, with nothing imported
    "smg_parsers.__main__": frozenset({"os"}),  # the command line: its output's reader may have left
    "smg_parsers.parser": frozenset({"secrets"}),  # the default of an argument: the library is useful alone
}

# The packages that are useful alone, and what they may import beside themselves and the standard library (None: anything).
ALONE: dict[str, frozenset[str] | None] = {
    "smg_parsers": frozenset(),
    "smg_mcp": None,
    "smg_multimodal": None,
    "smg_egress": frozenset(),
}
LOADED_BY_PYTEST = frozenset({"smg_parsers.pytest_plugin"})

EMPTY_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "handler", "misc"})
LONGEST_FUNCTION = 60
MOST_IMPORTS = 16
LONGEST_MODULE = 600
GENERATED = "_pb"


# ----------------------------------------------------------------------------------------------------- reading the house


@attrs.frozen
class Import:
    """One import of a module: `target` as written, where, and whether it runs when the module is loaded."""

    target: str
    line: int
    for_types: bool = False
    in_function: bool = False


@attrs.define(slots=False, eq=False)
class Module:
    """One source file. `name` is dotted from the package ("routing.simple"; "smg_mcp.config" outside the core)."""

    name: str
    path: Path
    package: str

    @cached_property
    def tree(self) -> ast.Module:
        return parsed(self.path)

    @property
    def room(self) -> str:
        return self.name.split(".")[0]

    @cached_property
    def imports(self) -> list[Import]:
        return list(_imports(self.tree, self.dotted, is_package=self.path.name == "__init__.py"))

    @property
    def dotted(self) -> str:
        """The module's name as Python imports it."""
        if self.package != "smg_core" or self.name == "smg_core":
            return self.name
        return f"smg_core.{self.name}"


def _imports(tree: ast.Module, dotted: str, *, is_package: bool) -> Iterator[Import]:
    def walk(node: ast.AST, for_types: bool, in_function: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            typed = for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
            inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, child.lineno, typed, inside)
            elif isinstance(child, ast.ImportFrom):
                base = _absolute(child, dotted, is_package=is_package)
                for alias in child.names:
                    yield Import(f"{base}.{alias.name}", child.lineno, typed, inside)
            else:
                yield from walk(child, typed, inside)

    yield from walk(tree, for_types=False, in_function=False)


def _absolute(node: ast.ImportFrom, dotted: str, *, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = dotted.split(".")
    base = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*base, *([node.module] if node.module else [])])


class House:
    """All modules under a source folder."""

    def __init__(self, src: Path) -> None:
        self.modules: dict[str, Module] = {}
        for package in sorted(path for path in src.iterdir() if (path / "__init__.py").exists()):
            for path in sorted(package.rglob("*.py")):
                parts = path.relative_to(src).with_suffix("").parts
                if GENERATED in parts:
                    continue
                parts = parts[:-1] if parts[-1] == "__init__" else parts
                name = ".".join(parts[1:] if parts[0] == "smg_core" and len(parts) > 1 else parts)
                self.modules[name] = Module(name, path, parts[0])
        self._by_dotted = {module.dotted: module for module in self.modules.values()}

    def resolve(self, target: str) -> Module | None:
        """The module of the house that an import means: "smg_core.routing.simple.RoundRobin" is routing.simple."""
        parts = target.split(".")
        if parts[0] not in {module.package for module in self.modules.values()}:
            return None
        while parts:
            if ".".join(parts) in self._by_dotted:
                return self._by_dotted[".".join(parts)]
            parts.pop()
        return None

    def pairs(self) -> Iterator[tuple[Module, Import, Module]]:
        """Every import of one module of the house by another."""
        for module in self.modules.values():
            for each in module.imports:
                target = self.resolve(each.target)
                if target is not None and target is not module:
                    yield module, each, target


# -------------------------------------------------------------------------------------------------------------- the rules


def unknown_rooms(house: House) -> list[str]:
    rooms = {module.room for module in house.modules.values()}
    return [f"{room} is a room without a level; give it one in LEVELS" for room in sorted(rooms - set(LEVELS))]


def wrong_directions(house: House) -> list[str]:
    found = []
    for module, each, target in house.pairs():
        here, there = module.room, target.room
        if here == there or (here == "smg_core" and there == "server"):
            continue
        if _may_import(here, there) or (here == "config" and _are_settings(target)):
            continue
        kind = " for its types" if each.for_types else ""
        found.append(f"{module.name}:{each.line} imports {target.name}{kind}: {here} may not import {there}")
    return found


def _may_import(here: str, there: str) -> bool:
    if (here, there) in NEIGHBOURS or (here in VOCABULARY and there in VOCABULARY):
        return True
    return LEVELS.get(there, 99) < LEVELS.get(here, 99)


def _are_settings(module: Module) -> bool:
    """Whether these are the records that a room is set by."""
    return module.package == "smg_core" and module.name.endswith(".settings")


def settings_that_know_more(house: House) -> list[str]:
    return [
        f"{module.name}:{each.line} imports {target.name}; a room's settings know what a setting is and nothing else"
        for module, each, target in house.pairs()
        if _are_settings(module) and target.name != "settings"
    ]


def impurities(house: House) -> list[str]:
    found = []
    for module in house.modules.values():
        if module.name in EDGES:
            continue
        allowed = ALLOWED_IMPURE.get(module.name, frozenset())
        for each in module.imports:
            top = each.target.split(".")[0]
            if top in IMPURE - allowed and each.target not in PURE_PARTS and not _below(each.target, PURE_PARTS):
                found.append(f"{module.name} is not an edge and imports {each.target.split('.')[0]} (line {each.line})")
        found += [f"{module.name} is not an edge and {what}" for what in _waits(module.tree)]
    return found


def _below(target: str, names: frozenset[str]) -> bool:
    return any(target.startswith(name + ".") for name in names)


def _waits(tree: ast.Module) -> Iterator[str]:
    """Coroutines that are more than a Protocol's declaration; readings of the wall clock, of the file system, and of the
    shared random source (a `random.Random` that is handed in is fine)."""
    declared = {
        method
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)
        for method in node.body
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef) and node not in declared:
            yield f"defines the coroutine {node.name} (line {node.lineno})"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"datetime.now", "datetime.datetime.now", "open"}:
            yield f"calls {ast.unparse(node.func)} (line {node.lineno})"
        elif isinstance(node, ast.ImportFrom) and node.module == "random" and node.names[0].name != "Random":
            yield f"imports random.{node.names[0].name} (line {node.lineno})"
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "random" and node.attr != "Random":
            yield f"uses random.{node.attr} (line {node.lineno})"


def misplaced_edges(house: House) -> list[str]:
    found = []
    for module, each, target in house.pairs():
        if target.name not in EDGES or module.name in WIRING or module.name in EDGES[target.name]:
            continue
        if module.room == target.room and module.name in EDGES:
            continue
        found.append(f"{target.name} is an edge; {module.name} may not import it (line {each.line})")
    return found


def cycles(house: House) -> list[str]:
    """Modules that import each other when they are loaded; what is imported in functions or for types cannot deadlock."""
    graph: dict[str, set[str]] = {name: set() for name in house.modules}
    for module, each, target in house.pairs():
        # a package's __init__ is run for its modules, so only what it imports itself counts
        if not each.for_types and not each.in_function and not module.dotted.startswith(target.dotted + "."):
            graph[module.name].add(target.name)
    found, done = [], set()

    def visit(name: str, trail: list[str]) -> None:
        if name in trail:
            found.append("import cycle: " + " -> ".join([*trail[trail.index(name) :], name]))
            return
        if name not in done:
            for following in sorted(graph[name]):
                visit(following, [*trail, name])
            done.add(name)

    for name in sorted(graph):
        visit(name, [])
    return found


def dependents_of_the_core(house: House) -> list[str]:
    found = []
    for module in house.modules.values():
        if module.package not in ALONE:
            continue
        allowed = ALONE[module.package]
        if allowed is not None and module.name in LOADED_BY_PYTEST:
            allowed |= {"pytest"}
        for each in module.imports:
            top = each.target.split(".")[0]
            if top == module.package or top in sys.stdlib_module_names:
                continue
            if (module.package, top) in NEIGHBOURS:
                continue
            if top.startswith("smg_") or (allowed is not None and top not in allowed):
                found.append(f"{module.name}:{each.line} imports {top}; {module.package} is useful without it")
    return found


def hidden_imports(house: House) -> list[str]:
    """Imports of our own modules inside functions, which is how a cycle hides."""
    entrances = {
        "cli",
        "__main__",
        "smg_core",
        "pytest_plugin",
        "plugin_command",
        "top",
    }  # may be slow to load, so they load what a command needs
    return [
        f"{module.name}:{each.line} imports {target.name} inside a function"
        for module, each, target in house.pairs()
        if each.in_function and module.room not in entrances and module.name not in WIRING | LAZY_TABLES
    ]


def broad_excepts(house: House) -> list[str]:
    found = []
    for module in house.modules.values():
        broad = [node for node in ast.walk(module.tree) if isinstance(node, ast.ExceptHandler) and _swallows(node)]
        if len(broad) > LAST_LINES.get(module.name, 0):
            found += [f"{module.name}:{node.lineno} catches everything; name what can go wrong" for node in broad]
    return found


def _swallows(handler: ast.ExceptHandler) -> bool:
    caught = {"everything"} if handler.type is None else set(_names(handler.type))
    return bool(caught & {"everything", "Exception", "BaseException"}) and not isinstance(handler.body[-1], ast.Raise)


def _names(node: ast.expr) -> Iterator[str]:
    for each in node.elts if isinstance(node, ast.Tuple) else [node]:
        yield ast.unparse(each)


def long_functions(house: House) -> list[str]:
    found = []
    for module in house.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1 - _docstring_lines(node)
                if lines > LONGEST_FUNCTION:
                    found.append(f"{module.name}.{node.name} has {lines} lines; {LONGEST_FUNCTION} is the most")
    return found


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node, clean=False) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


def wide_modules(house: House) -> list[str]:
    """Modules that know too many others: what each import means, counted once."""
    known: dict[str, set[str]] = {}
    for module, _, target in house.pairs():
        if module.name == "config" and target.name.endswith(".settings"):
            continue  # it gathers the settings of every room, and knows nothing else of them
        if target.dotted not in ("smg_core", module.dotted):
            known.setdefault(module.name, set()).add(target.name)
    return [
        f"{name} imports {len(targets)} modules of the house; {MOST_IMPORTS} is the most"
        for name, targets in sorted(known.items())
        if len(targets) > MOST_IMPORTS
    ]


def shapes_of_modules(house: House) -> list[str]:
    found = []
    for module in house.modules.values():
        if module.name.split(".")[-1] in EMPTY_NAMES:
            found.append(f"{module.name} has a name that says nothing of what is in it")
        if not ast.get_docstring(module.tree):
            found.append(f"{module.name} does not say in a docstring what it is for")
        lines = len(module.path.read_text().splitlines())
        if lines > LONGEST_MODULE:
            found.append(f"{module.name} has {lines} lines; {LONGEST_MODULE} is the most")
    return found


RULES = [
    unknown_rooms,
    wrong_directions,
    settings_that_know_more,
    impurities,
    misplaced_edges,
    cycles,
    dependents_of_the_core,
    hidden_imports,
    broad_excepts,
    long_functions,
    wide_modules,
    shapes_of_modules,
]


@pytest.fixture(scope="module")
def our_house() -> House:
    return House(SRC)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_the_rule(our_house: House, rule) -> None:
    breaches = rule(our_house)

    assert not breaches, "\n" + "\n".join(breaches)


def test_every_edge_in_the_table_exists(our_house: House) -> None:
    assert set(EDGES) <= set(our_house.modules), sorted(set(EDGES) - set(our_house.modules))


# ------------------------------------------------------------------------------------------------- the rules can be broken


SKELETON = {
    "smg_core/__init__.py": "",
    "smg_core/errors.py": "",
    "smg_core/routing/__init__.py": "",
    "smg_core/routing/simple.py": "from smg_core.errors import X\n",
    "smg_core/limits/__init__.py": "",
    "smg_core/limits/bucket.py": "import heapq\n",
    "smg_core/tokenizer/__init__.py": "",
    "smg_core/tokenizer/loader.py": "import asyncio\nasync def load() -> None: ...\n",
    "smg_core/server/__init__.py": "",
    "smg_core/server/gateway.py": "import asyncio\nfrom smg_core.tokenizer import loader\n",
    "smg_parsers/__init__.py": "",
    "smg_parsers/coerce.py": "import re\n",
}


def build(root: Path, **changes: str) -> House:
    for name, text in {**SKELETON, **changes}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""Says what it is for."""\n{text}')
    return House(root)


def test_a_sound_house_breaks_no_rule(tmp_path: Path) -> None:
    house = build(tmp_path)

    assert [breach for rule in RULES for breach in rule(house)] == []


FAULTS = [
    (
        "smg_core/routing/simple.py",
        "from smg_core.gateway.gateway import Gateway\n",
        "routing may not import server",
    ),
    (
        "smg_core/routing/simple.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from smg_core.server import gateway\n",
        "imports server.gateway for its types: routing may not import server",
    ),
    (
        "smg_core/limits/bucket.py",
        "from smg_core.tokenizer import base\n",
        "limits may not import tokenizer",
    ),
    (
        "smg_core/limits/bucket.py",
        "from ..routing import simple\n",
        "limits may not import routing",
    ),
    ("smg_core/limits/bucket.py", "import asyncio\n", "limits.bucket is not an edge and imports asyncio"),
    ("smg_core/limits/bucket.py", "from time import monotonic\n", "limits.bucket is not an edge and imports time"),
    ("smg_core/limits/bucket.py", "def f():\n    import os.path\n", "limits.bucket is not an edge and imports os"),
    ("smg_core/limits/bucket.py", "async def wait(): ...\n", "is not an edge and defines the coroutine wait"),
    ("smg_core/limits/bucket.py", "import random\nx = random.random()\n", "is not an edge and uses random.random"),
    ("smg_core/limits/bucket.py", "from random import choice\n", "is not an edge and imports random.choice"),
    ("smg_core/limits/bucket.py", "x = open('y')\n", "is not an edge and calls open"),
    (
        "smg_core/tokenizer/cache.py",
        "from smg_core.tokenizer.loader import load\n",
        "tokenizer.loader is an edge; tokenizer.cache may not import it",
    ),
    ("smg_core/errors.py", "import smg_core.routing.simple\n", "errors may not import routing"),
    (
        "smg_core/routing/load.py",
        "from smg_core.routing import hashing\n",
        "import cycle: routing.hashing -> routing.load -> routing.hashing",
    ),
    ("smg_parsers/coerce.py", "import attrs\n", "smg_parsers.coerce:2 imports attrs"),
    ("smg_parsers/coerce.py", "from smg_core.errors import X\n", "imports smg_core; smg_parsers is useful without it"),
    (
        "smg_core/limits/bucket.py",
        "def f():\n    from smg_core.errors import X\n",
        "limits.bucket:3 imports errors inside a function",
    ),
    (
        "smg_core/limits/bucket.py",
        "try:\n    pass\nexcept Exception:\n    pass\n",
        "limits.bucket:4 catches everything",
    ),
    ("smg_core/limits/bucket.py", "try:\n    pass\nexcept (OSError, BaseException):\n    pass\n", "catches everything"),
    ("smg_core/limits/bucket.py", "try:\n    pass\nexcept:\n    pass\n", "catches everything"),
    ("smg_core/limits/bucket.py", "def f():\n" + "    x = 1\n" * 60, "limits.bucket.f has 61 lines"),
    ("smg_core/limits/bucket.py", "x = 1\n" * 600, "limits.bucket has 601 lines"),
    (
        "smg_core/limits/settings.py",
        "from smg_core.limits import bucket\n",
        "limits.settings:2 imports limits.bucket; a room's settings know what a setting is and nothing else",
    ),
    ("smg_core/config.py", "from smg_core.server import gateway\n", "config may not import server"),
    ("smg_core/limits/utils.py", "", "limits.utils has a name that says nothing"),
    ("smg_core/attic/__init__.py", "", "attic is a room without a level"),
]


@pytest.mark.parametrize(("path", "text", "sentence"), FAULTS, ids=[sentence for _, _, sentence in FAULTS])
def test_a_planted_fault_is_named_in_a_sentence(tmp_path: Path, path: str, text: str, sentence: str) -> None:
    house = build(tmp_path, **{"smg_core/routing/hashing.py": "from smg_core.routing import load\n", path: text})

    assert any(sentence in breach for rule in RULES for breach in rule(house))


def test_a_module_without_docstring_is_named(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "smg_core/errors.py").write_text("x = 1\n")

    assert shapes_of_modules(House(tmp_path)) == ["errors does not say in a docstring what it is for"]


def test_a_broad_except_may_clean_up_and_raise_again(tmp_path: Path) -> None:
    house = build(
        tmp_path, **{"smg_core/limits/bucket.py": "try:\n    pass\nexcept BaseException:\n    x = 1\n    raise\n"}
    )

    assert broad_excepts(house) == []


def test_a_protocol_may_declare_coroutines(tmp_path: Path) -> None:
    house = build(
        tmp_path,
        **{
            "smg_core/limits/base.py": "from typing import Protocol\nclass Store(Protocol):\n    async def get(self): ...\n"
        },
    )

    assert impurities(house) == []


def test_the_configuration_gathers_the_settings_of_higher_rooms(tmp_path: Path) -> None:
    house = build(
        tmp_path,
        **{
            "smg_core/settings.py": "",
            "smg_core/server/settings.py": "from smg_core.settings import option\n",
            "smg_core/config.py": "from smg_core.http.settings import ServerConfig\n",
        },
    )

    assert [breach for rule in RULES for breach in rule(house)] == []


def test_an_edge_may_import_an_edge_of_its_own_room(tmp_path: Path) -> None:
    house = build(tmp_path, **{"smg_core/server/app.py": "from smg_core.server import gateway\n"})

    assert misplaced_edges(house) == []


def test_imports_for_types_close_no_cycle(tmp_path: Path) -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from smg_core.routing import load\n"
    house = build(
        tmp_path,
        **{"smg_core/routing/hashing.py": typed, "smg_core/routing/load.py": "from smg_core.routing import hashing\n"},
    )

    assert cycles(house) == []


# ------------------------------------------------------------------------------------------------------- the page about it

PAGE = (SRC.parent / "ARCHITECTURE.md").read_text()


def drawing() -> str:
    """The way of a request and of a token, as ARCHITECTURE.md draws it."""
    return PAGE.partition("```\n")[2].partition("```")[0]


def test_every_module_of_the_drawing_is_in_the_tree(our_house: House) -> None:
    named = set(re.findall(r"\b(?:server|protocols|pipeline|engines)\.[a-z0-9_.]+\b", drawing()))

    assert len(named) > 12
    assert sorted(named - set(our_house.modules)) == []


def test_the_rooms_of_the_page_are_those_of_the_tree(our_house: House) -> None:
    rows = re.findall(r"^\| (\d) \| (.*?) \|", PAGE, flags=re.MULTILINE)
    named = {room: int(level) for level, rooms in rows for room in re.findall(r"`([a-z_]+)`", rooms)}
    there = {module.room for module in our_house.modules.values()} - {"__main__", "smg_core"}

    assert named == {room: LEVELS[room] for room in there}
