"""Each piece that is useful alone has one import that loads little, one short page, and one example that is shorter."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from tests.source import parsed

ROOT = Path(__file__).parent.parent


@attrs.frozen
class FrontDoor:
    """One piece: its import, the modules of ours and of others that this may load, its page and its example."""

    statement: str
    ours: int
    others: int
    page: str
    example: str

    @property
    def package(self) -> str:
        return self.statement.split()[1]


MOST_WORDS = 1500
MOST_LINES = 40
# As measured, and a few more: what others publish grows by a module now and then.
FRONT_DOORS = {
    "tokenizer": FrontDoor(
        "from smg_core.tokenizer import CachedTokenizer, StopMatcher, load_tokenizer",
        81,
        60,
        "tokenizer.md",
        "own_tokenizer.py",
    ),
    "cache of tokens": FrontDoor(
        "from smg_core.tokenizer import CachedTokenizer, Vocabulary", 27, 36, "tokenizer.md", "own_tokenizer.py"
    ),
    "routing policies": FrontDoor(
        "from smg_core.routing import CacheAware, CandidateRecord, RoutingContext",
        24,
        130,
        "routing-policies.md",
        "routing_policy.py",
    ),
    "a policy that hashes nothing": FrontDoor(
        "from smg_core.routing import CandidateRecord, RoundRobin, RoutingContext",
        14,
        36,
        "routing-policies.md",
        "routing_policy.py",
    ),
    "engine client": FrontDoor(
        "from smg_core.engines import EngineSession, Sampling", 46, 36, "engine-client.md", "engine_client.py"
    ),
    "chat codec": FrontDoor(
        "from smg_core.apis.chat import ChatStreamEncoder, ChatWholeEncoder, Done, Incoming, decode_chat, openai_error",
        59,
        36,
        "chat-codec.md",
        "chat_codec.py",
    ),
    "history": FrontDoor(
        "from smg_core.history import PutRecord, StoredRecord, open_store", 34, 36, "history.md", "history_store.py"
    ),
    "gRPC over HTTP/2": FrontDoor(
        "from smg_core.engines.grpc.h2 import Connection, SmgError", 40, 44, "http2.md", "http2.py"
    ),
    "WASM host": FrontDoor("from smg_core.wasm import About, WasmHost", 40, 74, "wasm.md", "wasm_host.py"),
    "parsers": FrontDoor("from smg_parsers import Parser", 41, 0, "parsers/embedding.md", "parse_output.py"),
    "MCP client": FrontDoor("from smg_mcp import McpTools", 42, 520, "mcp.md", "mcp_tools.py"),
    "MCP records": FrontDoor("from smg_mcp import McpTool, ToolOutcome", 4, 22, "mcp.md", "mcp_tools.py"),
    "vision preprocessors": FrontDoor(
        "from smg_multimodal import Media, ModelFiles, Preparer, for_vllm",
        111,
        106,
        "multimodal/embedding.md",
        "picture.py",
    ),
}
CASES = [pytest.param(door, id=name) for name, door in FRONT_DOORS.items()]
PACKAGES = sorted({door.package for door in FRONT_DOORS.values()})


def loaded_by(statement: str) -> set[str]:
    """The modules that a statement loads in a fresh interpreter, without those of the standard library."""
    code = f"import sys; before = set(sys.modules)\n{statement}\nprint('\\n'.join(set(sys.modules) - before))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name for name in told.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("door", CASES)
def test_an_import_loads_no_more_than_what_it_names_needs(door: FrontDoor) -> None:
    loaded = loaded_by(door.statement)
    ours = {name for name in loaded if name.startswith("smg_")}

    assert len(ours) <= door.ours, sorted(ours)
    assert len(loaded - ours) <= door.others, sorted(loaded - ours)


@pytest.mark.parametrize("door", CASES)
def test_a_page_is_short_and_shows_the_import(door: FrontDoor) -> None:
    text = (ROOT / "docs" / door.page).read_text()

    assert len(text.split()) <= MOST_WORDS
    assert f"from {door.package} import" in text
    assert f"({door.page})" in (ROOT / "docs" / "index.md").read_text()


@pytest.mark.parametrize("door", CASES)
def test_an_example_is_short_and_imports_from_the_front_door(door: FrontDoor) -> None:
    text = (ROOT / "examples" / door.example).read_text()
    imported = re.findall(r"^(?:from|import) (smg_\w+(?:\.\w+)*)", text, re.MULTILINE)

    assert text.count("\n") <= MOST_LINES
    assert door.package in imported


@pytest.mark.parametrize("package", PACKAGES)
def test_the_names_for_types_are_those_that_are_loaded(package: str) -> None:
    """A front door that loads nothing names each thing twice: for type checkers, and in the table for Python."""
    tree = parsed(ROOT / "src" / package.replace(".", "/") / "__init__.py")
    typed = {
        (line.module, alias.name, alias.asname)
        for block in tree.body
        if isinstance(block, ast.If)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    table = {
        (key.value if key.value.startswith("smg_") else f"{package}.{key.value}", name.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
        for name in ast.walk(value)
        if isinstance(name, ast.Constant)
    }

    assert {(module, name) for module, name, _ in typed} == table
    assert [name for _, name, shown in typed if name != shown] == []
