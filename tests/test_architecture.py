"""The plan of the house, as a table that is checked: which package may import which, and which modules may wait.

`TIERS` has all packages, bottom up; a package imports those of lower tiers only, so no two packages can import each other. A
package is the set of modules that lie directly in one folder, and each module on the top level of `smg_core` is one of its own.
Imports count wherever they stand: in functions, and for types too. A room's settings are records in its module `settings`, which
knows nothing of the room, so that it counts as a package of its own, below all others. A module that may wait, open sockets, read
clocks or files says "(edge)" in its docstring; every other module decides, and is checked for it. The last part plants faults
into a small house to show that each rule fails, and with which sentence.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import attrs
import pytest
from tests.source import generated, parsed

pytestmark = pytest.mark.rules

SRC = Path(__file__).parent.parent / "src"

TIERS: tuple[str, ...] = (
    "extras settings version",
    """
        fleet_moments limit_moments smg_config_files smg_egress smg_engine_contract.engines smg_multimodal.records
        smg_parsers.json_text
    """,
    "smg_multimodal.configs smg_parsers.pieces",
    "smg_multimodal.pixels smg_multimodal.prompts smg_multimodal.recordings smg_parsers.values",
    "smg_multimodal.decoding smg_multimodal.tiles smg_parsers.grammars",
    "smg_multimodal.patches smg_multimodal.processes smg_parsers.constraints smg_parsers.families",
    "smg_multimodal.clips smg_parsers.lab",
    "smg_multimodal.families",
    "smg_multimodal.preparing",
    "pool_sample smg_multimodal.fetching",
    """
        cards clock disk_room lazy_exports origin grants hooks http.proxies json_types line_ends mesh.state outside_words
        regular_files server.tls
        smg_engine_contract smg_mcp.records smg_parsers sources speech tokens tool_names usage_report
    """,
    "imaging",
    "errors request simulator_package smg_mcp.catalogue smg_mcp.config smg_mcp.policy smg_multimodal testing trials",
    """
        auth built_in channel engines.connections events history.store mesh observability observability.metrics
        smg_mcp.transport sse
        image_terms tokenizer web_terms
    """,
    """
        engines engines.http history.memory history.redis history.sql lease limits machine mesh.carriers middleware
        observability.tracing retrieval sealing smg_mcp.functions smg_mcp.sessions wire
    """,
    "history.sqlite",
    """
        apis.google apis.responses.wire credentials.renewal engines.grpc.h2 engines.kv_zmq engines.openai history
        containers.interpreter history.sql.migrations.versions http ledger pipeline.prompt smg_mcp.web smg_simulator.answers wasm
    """,
    """
        apis.realtime.wire credentials.aws credentials.entra credentials.google engines.codecs engines.grpc
        engines.realtime engines.token_ids engines.vendors pipeline.answer pipeline.output smg_mcp
        smg_simulator.engine workers
    """,
    """
        credentials discovery engines.codecs.llamacpp engines.codecs.mlx engines.codecs.neutral engines.codecs.sglang
        engines.codecs.tokenspeed engines.codecs.trtllm engines.codecs.vllm engines.vendors.anthropic
        engines.vendors.gemini engines.vendors.responses objectives pipeline.fit queueing routing smg_simulator.codecs
    """,
    "engines.vendors.bedrock engines.vendors.chat engines.vendors.clouds guardrails placement",
    "engines.kinds guardrails.adapters pipeline.flow smg_simulator.fleet smg_simulator.server",
    "config pipeline.pairs pipeline.tools smg_simulator",
    "identity pipeline.calls plugins pytest_plugin tools",
    "models pipeline.pooled response_cache",
    "fleet pipeline",
    "meshed",
    "serving",
    "inner_requests",
    """
        apis.chat apis.gemini apis.images apis.mcp apis.messages apis.parse apis.pooling apis.speech
        apis.transcriptions apis.usage stored
    """,
    "apis.completions apis.conversations apis.moderations apis.sglang apis.status apis.tokenize background files",
    "batches containers vector_stores",
    "idempotency",
    "apis.interactions apis.responses app operation",
    "apis.realtime",
    "admin.metrics apis",
    "admin gateway smg_simulator.bench smg_simulator.conform",
    "server smg_core smg_simulator.cassettes",
    "commands processes",
    "smg_simulator.commands top up",
    "cli",
    "__main__",
)
"""Every package, bottom up; those of one tier do not know each other."""
TIER = {package: tier for tier, row in enumerate(TIERS) for package in row.split()}

# Tables whose rows load what they name when it is first asked for, and what loads a large library only where it is needed.
LAZY_TABLES = frozenset(
    {
        *(
            "apis",
            "apis.mcp.routes",
            "apis.realtime.wire.silero",
            "apis.status.routes",
            "apis.usage.asking",
            "app.app",
            "batches.work",
            "containers.work",
            "credentials.opening",
            "engines.kinds.grpc",
            "engines.kinds.http",
            "engines.kinds.providers",
            "engines.realtime.forms",
            "files.place",
            "files.work",
            "guardrails.adapters.rows",
            "history.opening",
            "history.sql.version",
            "ledger.opening",
            "retrieval.index_search",
            "retrieval.indexes",
            "retrieval.postgres_indexes",
            "routing.named",
            "vector_stores.opening",
            "vector_stores.work",
            "workers.worker_file",
        ),
        *(
            "identity.identity",
            "models.document_loading",
            "operation.discovery",
            "pipeline.tools.search",
            "plugins.code",
            "plugins.registry",
        ),
        *(
            "config.ledger",
            "config.limits",
            "config.placement",
            "gateway.adapters",
            "gateway.gateway",
            "gateway.guardrails",
            "gateway.ledger",
            "gateway.limits",
            "gateway.mesh",
            "gateway.objectives",
            "gateway.placement",
            "gateway.queueing",
            "gateway.response_cache",
            "gateway.simulated",
            "mesh.carriers.rows",
            "models.loading",
            "serving.tracing",
            "smg_mcp.tools",
            "tools.opening",
        ),
        "smg_simulator.commands.flags",
    }
)

# Where everything is caught because nothing is above, or because users' code is called: module to how often. Elsewhere a broad
# `except` must raise again, as itself (to clean up) or as one of our errors (where a foreign library raises plain Exception).
LAST_LINES = {"middleware.own_task": 1, "app.app": 1, "routing.policies": 2}
LAST_LINES |= {"smg_mcp.functions.session": 3, "outside_words.exceptions": 1, "containers.interpreter.guest": 3}
# Where an engine's output is read: a fault of ours must end that answer, and not the connection or the engine's good name.
LAST_LINES |= {
    "engines.token_ids.client": 1,
    "engines.openai.call": 2,
    "engines.token_ids.http_transport": 1,
    "engines.grpc.grpcio": 1,
}
LAST_LINES |= {"engines.grpc.h2.connection": 2, "pipeline.answer.attempt": 1, "pipeline.pooled.gathering": 1}

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
    "wasm.plans": frozenset({"wasmtime"}),  # the names of its types
    # arithmetic on bytes that are handed in, with nothing imported
    "smg_multimodal.pixels.kernel": frozenset({"wasmtime"}),
    "smg_parsers.__main__": frozenset({"os"}),  # the command line: its output's reader may have left
    "smg_parsers.pieces.call_ids": frozenset({"secrets"}),  # the default of an argument: the library is useful alone
}

# The packages that are useful alone, and what they may import beside themselves and the standard library (None: anything).
ALONE: dict[str, frozenset[str] | None] = {
    "smg_parsers": frozenset(),
    "smg_mcp": None,
    "smg_multimodal": None,
    "smg_config_files": frozenset({"yaml"}),
    "smg_egress": frozenset(),
    "smg_engine_contract": frozenset({"google"}),
}
# What of ours they may import: one law for every URL that others choose, and one for every file that a person wrote.
BELOW = {
    "smg_mcp": frozenset({"smg_config_files", "smg_egress"}),
    "smg_multimodal": frozenset({"smg_egress"}),
}
# Packages beside the core that it finds where they are installed, and runs without.
FOUND = frozenset({"smg_simulator"})
LOADED_BY_PYTEST = frozenset({"smg_parsers.pytest_plugin"})

EMPTY_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "handler", "misc"})
LONGEST_FUNCTION = 60
MOST_MODULES = 25
LONGEST_MODULE = 600
LONG_TABLES = {"errors": 700}
"""Modules that may be longer, since they are one table to look things up in: `errors` has all errors, with their words."""


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
    """One source file. `name` is dotted from the package ("routing.simple"; "smg_mcp.config.mapping" outside the core)."""

    name: str
    path: Path
    package: str

    @cached_property
    def tree(self) -> ast.Module:
        return parsed(self.path)

    @property
    def is_front_door(self) -> bool:
        """Whether this is the `__init__` of a package."""
        return self.path.name == "__init__.py"

    @property
    def is_settings(self) -> bool:
        """Whether these are the records that a room is set by."""
        return self.package == "smg_core" and self.name.endswith(".settings")

    @property
    def home(self) -> str:
        """The package that it counts to: the folder that it lies in, or itself."""
        if self.is_front_door or self.is_settings:
            return self.name
        return self.name.rpartition(".")[0] or self.name

    @property
    def is_edge(self) -> bool:
        """Whether it may wait, as its docstring says."""
        return "(edge" in (ast.get_docstring(self.tree) or "")

    @cached_property
    def defines(self) -> frozenset[str]:
        """The names that its own statements define."""
        return frozenset(_defined(self.tree.body))

    @cached_property
    def lends(self) -> dict[str, str]:
        """The names of a front door that loads them when they are used, and the modules that define them."""
        if not self.is_front_door or all(each.target != "smg_core.lazy_exports.lazy_exports" for each in self.imports):
            return {}
        return {each.target.rpartition(".")[2]: each.target for each in self.imports if each.for_types}

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


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.For):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for each in targets for name in ast.walk(each) if isinstance(name, ast.Name))
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For):
            inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            yield from _defined([*inner, *(line for each in getattr(node, "handlers", []) for line in each.body)])


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
                if generated(path.relative_to(src)):
                    continue
                parts = path.relative_to(src).with_suffix("").parts
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
        """Every import of one module of the house by another. A name from a front door that loads it then is one of the module
        that defines it."""
        for module in self.modules.values():
            for each in module.imports:
                target = self.resolve(each.target)
                if target is not None and each.target != target.dotted:
                    lent = target.lends.get(each.target.rpartition(".")[2])
                    target = target if lent is None else self.resolve(lent)
                if target is not None and target is not module:
                    yield module, each, target


# -------------------------------------------------------------------------------------------------------------- the rules


def unknown_packages(house: House) -> list[str]:
    homes = {module.home for module in house.modules.values() if not module.is_settings}
    return [f"{home} is a package without a tier; give it one in TIERS" for home in sorted(homes - set(TIER))]


def wrong_directions(house: House) -> list[str]:
    found = []
    for module, each, target in house.pairs():
        here, there = module.home, target.home
        if here == there or target.is_settings or module.is_settings or TIER.get(there, 99) < TIER.get(here, 99):
            continue
        if module.is_front_door and each.for_types and there.startswith(here + "."):
            continue  # it names what lies in its folder, and loads none of it
        how = " for its types" if each.for_types else " in a function" if each.in_function else ""
        found.append(f"{module.name}:{each.line} imports {target.name}{how}: {here} may not import {there}")
    return found


def settings_that_know_more(house: House) -> list[str]:
    return [
        f"{module.name}:{each.line} imports {target.name}; a room's settings know what a setting is and nothing else"
        for module, each, target in house.pairs()
        if module.is_settings and target.name != "settings"
    ]


def borrowed_names(house: House) -> list[str]:
    """Names that are imported from a module which only imports them too: what a module depends on would not show."""
    return [
        f"{module.name}:{each.line} imports {each.target.rpartition('.')[2]} from {target.name}, which does not define it"
        for module, each, target in house.pairs()
        if each.target != target.dotted
        and not target.is_front_door
        and each.target.rpartition(".")[2] not in target.defines
    ]


def impurities(house: House) -> list[str]:
    found = []
    for module in house.modules.values():
        if module.is_edge:
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
    """Edges that a module imports which decides: it could wait through them."""
    return [
        f"{target.name} is an edge; {module.name} may not import it (line {each.line})"
        for module, each, target in house.pairs()
        if target.is_edge
        and not target.is_front_door
        and not module.is_edge
        and not module.is_front_door
        and not (each.in_function and module.name in LAZY_TABLES)
    ]


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
            if top in BELOW.get(module.package, ()):
                continue
            if top.startswith("smg_") or (allowed is not None and top not in allowed):
                found.append(f"{module.name}:{each.line} imports {top}; {module.package} is useful without it")
    return found


def what_the_core_runs_without(house: House) -> list[str]:
    """Imports of a package that the core finds where it is installed, which would make it one that it needs."""
    return [
        f"{module.name}:{each.line} imports {target.name} when it is loaded; the core runs without {target.package}"
        for module, each, target in house.pairs()
        if module.package == "smg_core" and target.package in FOUND and not each.in_function and not each.for_types
    ]


def hidden_imports(house: House) -> list[str]:
    """Imports of our own modules inside functions, which is how a cycle hides."""
    entrances = {
        "cli",
        "__main__",
        "smg_core",
        "pytest_plugin",
        "commands",
        "top",
        "up",
    }  # they load what a command needs
    entrances |= {"smg_simulator", "smg_simulator.commands"}
    return [
        f"{module.name}:{each.line} imports {target.name} inside a function"
        for module, each, target in house.pairs()
        if each.in_function
        and not {module.home, module.name.split(".")[0]} & entrances
        and module.name not in LAZY_TABLES
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


def crowded_folders(house: House) -> list[str]:
    counts: dict[str, int] = {}
    for module in house.modules.values():
        folder = module.name if module.is_front_door else module.name.rpartition(".")[0]
        counts[folder] = counts.get(folder, 0) + 1
    return [
        f"{folder} has {count} modules; {MOST_MODULES} is the most, make packages of it"
        for folder, count in sorted(counts.items())
        if folder and count > MOST_MODULES
    ]


def shapes_of_modules(house: House) -> list[str]:
    found = []
    for module in house.modules.values():
        if module.name.split(".")[-1] in EMPTY_NAMES:
            found.append(f"{module.name} has a name that says nothing of what is in it")
        if not ast.get_docstring(module.tree):
            found.append(f"{module.name} does not say in a docstring what it is for")
        lines = len(module.path.read_text().splitlines())
        most = LONG_TABLES.get(module.name, LONGEST_MODULE)
        if lines > most:
            found.append(f"{module.name} has {lines} lines; {most} is the most")
    return found


RULES = [
    unknown_packages,
    wrong_directions,
    settings_that_know_more,
    borrowed_names,
    impurities,
    misplaced_edges,
    cycles,
    dependents_of_the_core,
    what_the_core_runs_without,
    hidden_imports,
    broad_excepts,
    long_functions,
    crowded_folders,
    shapes_of_modules,
]


@pytest.fixture(scope="module")
def our_house() -> House:
    return House(SRC)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_the_rule(our_house: House, rule) -> None:
    breaches = rule(our_house)

    assert not breaches, "\n" + "\n".join(breaches)


def test_every_package_of_the_table_is_there(our_house: House) -> None:
    assert sorted(set(TIER) - {module.home for module in our_house.modules.values()}) == []


# ------------------------------------------------------------------------------------------------- the rules can be broken


SKELETON = {
    "smg_core/__init__.py": "",
    "smg_core/errors.py": "class X: ...\n",
    "smg_core/routing/__init__.py": "",
    "smg_core/routing/simple.py": "from smg_core.errors import X\n",
    "smg_core/auth/__init__.py": "",
    "smg_core/auth/bucket.py": "import heapq\n",
    "smg_core/tokenizer/__init__.py": "",
    "smg_core/tokenizer/loader.py": "import asyncio\nasync def load() -> None: ...\n",
    "smg_core/server/__init__.py": "",
    "smg_core/server/gateway.py": "import asyncio\nfrom smg_core.tokenizer import loader\n",
    "smg_parsers/__init__.py": "",
    "smg_parsers/values/coerce.py": "import re\n",
    "smg_simulator/__init__.py": "",
}


WAITS = ("smg_core/tokenizer/loader.py", "smg_core/server/gateway.py")


def build(root: Path, **changes: str) -> House:
    for name, text in {**SKELETON, **changes}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        mark = " (edge)" if name in WAITS else ""
        path.write_text(f'"""Says what it is for{mark}."""\n{text}')
    return House(root)


def test_a_sound_house_breaks_no_rule(tmp_path: Path) -> None:
    house = build(tmp_path)

    assert [breach for rule in RULES for breach in rule(house)] == []


FAULTS = [
    (
        "smg_core/routing/simple.py",
        "from smg_core.server.gateway import Gateway\n",
        "routing may not import server",
    ),
    (
        "smg_core/routing/simple.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from smg_core.server import gateway\n",
        "imports server.gateway for its types: routing may not import server",
    ),
    (
        "smg_core/auth/bucket.py",
        "from smg_core.tokenizer import base\n",
        "auth may not import tokenizer",
    ),
    (
        "smg_core/auth/bucket.py",
        "from ..routing import simple\n",
        "auth may not import routing",
    ),
    ("smg_core/auth/bucket.py", "import asyncio\n", "auth.bucket is not an edge and imports asyncio"),
    ("smg_core/auth/bucket.py", "from time import monotonic\n", "auth.bucket is not an edge and imports time"),
    ("smg_core/auth/bucket.py", "def f():\n    import os.path\n", "auth.bucket is not an edge and imports os"),
    ("smg_core/auth/bucket.py", "async def wait(): ...\n", "is not an edge and defines the coroutine wait"),
    ("smg_core/auth/bucket.py", "import random\nx = random.random()\n", "is not an edge and uses random.random"),
    ("smg_core/auth/bucket.py", "from random import choice\n", "is not an edge and imports random.choice"),
    ("smg_core/auth/bucket.py", "x = open('y')\n", "is not an edge and calls open"),
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
    ("smg_parsers/values/coerce.py", "import attrs\n", "smg_parsers.values.coerce:2 imports attrs"),
    (
        "smg_parsers/values/coerce.py",
        "from smg_core.errors import X\n",
        "imports smg_core; smg_parsers is useful without it",
    ),
    (
        "smg_core/auth/bucket.py",
        "def f():\n    from smg_core.errors import X\n",
        "auth.bucket:3 imports errors inside a function",
    ),
    (
        "smg_core/server/app.py",
        "import smg_simulator\n",
        "server.app:2 imports smg_simulator when it is loaded; the core runs without smg_simulator",
    ),
    (
        "smg_core/auth/bucket.py",
        "try:\n    pass\nexcept Exception:\n    pass\n",
        "auth.bucket:4 catches everything",
    ),
    ("smg_core/auth/bucket.py", "try:\n    pass\nexcept (OSError, BaseException):\n    pass\n", "catches everything"),
    ("smg_core/auth/bucket.py", "try:\n    pass\nexcept:\n    pass\n", "catches everything"),
    ("smg_core/auth/bucket.py", "def f():\n" + "    x = 1\n" * 60, "auth.bucket.f has 61 lines"),
    ("smg_core/auth/bucket.py", "x = 1\n" * 600, "auth.bucket has 601 lines"),
    (
        "smg_core/auth/settings.py",
        "from smg_core.auth import bucket\n",
        "auth.settings:2 imports auth.bucket; a room's settings know what a setting is and nothing else",
    ),
    ("smg_core/config.py", "from smg_core.server import gateway\n", "config may not import server"),
    ("smg_core/auth/utils.py", "", "auth.utils has a name that says nothing"),
    ("smg_core/attic/__init__.py", "", "attic is a package without a tier"),
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
        tmp_path, **{"smg_core/auth/bucket.py": "try:\n    pass\nexcept BaseException:\n    x = 1\n    raise\n"}
    )

    assert broad_excepts(house) == []


def test_a_protocol_may_declare_coroutines(tmp_path: Path) -> None:
    house = build(
        tmp_path,
        **{
            "smg_core/auth/base.py": "from typing import Protocol\nclass Store(Protocol):\n    async def get(self): ...\n"
        },
    )

    assert impurities(house) == []


def test_the_configuration_gathers_the_settings_of_higher_rooms(tmp_path: Path) -> None:
    house = build(
        tmp_path,
        **{
            "smg_core/settings.py": "def option(): ...\n",
            "smg_core/server/settings.py": "from smg_core.settings import option\nclass ServerConfig: ...\n",
            "smg_core/config.py": "from smg_core.server.settings import ServerConfig\n",
        },
    )

    assert [breach for rule in RULES for breach in rule(house)] == []


LENDS = """
from typing import TYPE_CHECKING
from smg_core.lazy_exports import lazy_exports
if TYPE_CHECKING:
    from smg_core.tokenizer.loader import load as load
"""


def test_a_name_from_a_front_door_that_loads_it_then_counts_as_one_of_its_module(tmp_path: Path) -> None:
    doors = {"smg_core/lazy_exports.py": "", "smg_core/tokenizer/__init__.py": LENDS}
    house = build(tmp_path, **doors, **{"smg_core/routing/simple.py": "from smg_core.tokenizer import load\n"})

    assert misplaced_edges(house) == ["tokenizer.loader is an edge; routing.simple may not import it (line 2)"]
    assert wrong_directions(house) == []


def test_a_front_door_may_name_for_types_what_lies_in_its_folder_and_load_none_of_it(tmp_path: Path) -> None:
    typed = LENDS.replace("tokenizer.loader", "engines.kinds.opening")
    files = {"smg_core/lazy_exports.py": "", "smg_core/engines/kinds/__init__.py": ""}
    files |= {"smg_core/engines/kinds/opening.py": "", "smg_core/engines/__init__.py": typed}

    assert wrong_directions(build(tmp_path / "typed", **files)) == []
    files["smg_core/engines/__init__.py"] = "from smg_core.engines.kinds.opening import load\n"
    assert [each.partition(": ")[2] for each in wrong_directions(build(tmp_path / "loaded", **files))] == [
        "engines may not import engines.kinds"
    ]


def test_an_edge_may_import_an_edge(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "smg_core/server/app.py").write_text('"""Waits (edge)."""\nfrom smg_core.server import gateway\n')

    assert misplaced_edges(House(tmp_path)) == []


def test_imports_for_types_close_no_cycle(tmp_path: Path) -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from smg_core.routing import load\n"
    house = build(
        tmp_path,
        **{"smg_core/routing/hashing.py": typed, "smg_core/routing/load.py": "from smg_core.routing import hashing\n"},
    )

    assert cycles(house) == []


# ------------------------------------------------------------------------------------------------------- the page about it

LARGEST_PAGE = 10_000
PAGE = (SRC.parent / "ARCHITECTURE.md").read_text()


def drawing() -> str:
    """The way of a request and of a token, as ARCHITECTURE.md draws it."""
    return PAGE.partition("```\n")[2].partition("```")[0]


def test_the_page_is_read_in_one_sitting() -> None:
    assert len(PAGE.encode()) <= LARGEST_PAGE


def test_every_module_of_the_drawing_is_in_the_tree(our_house: House) -> None:
    named = set(re.findall(r"\b(?:server|app|serving|apis|pipeline|engines)\.[a-z0-9_.]+\b", drawing()))

    assert len(named) > 12
    assert sorted(named - set(our_house.modules)) == []


def test_the_packages_of_the_page_are_those_of_the_tree(our_house: House) -> None:
    named = set(re.findall(r"^\| `([a-z_]+)/` \|", PAGE, flags=re.MULTILINE))
    there = {
        module.name.split(".")[0] for module in our_house.modules.values() if module.path.parent != SRC / "smg_core"
    }

    assert named == there
