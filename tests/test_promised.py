"""Promised, not connected: fields of the vocabulary that nothing reads yet, each with the API that will.

The vocabulary was given once what the coming APIs need. A field that nothing reads must have a row here, and a field that is
read must have none: the table only shrinks. Whoever connects a field deletes its row, and takes it off `AT_LANDING`.
The same holds for the functions and classes of the core that nothing in it uses.
"""

import ast
from pathlib import Path

import pytest
from tests.source import parsed
from tests.vocabulary_reads import RECORDS, Sources

AT_LANDING = 40

PROMISED: dict[str, str] = {
    "responses": """
        ToolCallEnd.repaired ToolCall.item_id Message.phase FunctionTool.deferred CustomTool.deferred
    """,
    "messages": """
        Annotation.quote File.citations FunctionTool.examples
        Origin.betas
    """,
    "generateContent": """
        MediaSource.start_s MediaSource.fps
    """,
    "tokenize": "GenerationRequest.template",
    "providers": "GenerationRequest.extra Origin.bounds",
}
"""By API, in the order in which they are to come; "providers" are HTTP engines that take a field by its wire name."""

BY_HAND: dict[str, str] = {
    "responses": """
        DroppedReasoning.param
        SchemaFormat.description ToolChoice.hosted Message.id Reasoning.id
        ToolCall.kind ToolResult.kind FunctionTool.namespace CustomTool.namespace
        ToolKey.kind ReasoningSettings.keep
    """,
    "messages": """
        Origin.version MediaSource.text Text.cache Image.cache Audio.cache Reasoning.cache Refusal.cache Video.cache
        ToolCall.cache ToolResult.cache FunctionTool.cache CustomTool.cache HostedTool.cache
    """,
    "generateContent": "ToolResult.value MediaSource.end_s",
}
"""Unread too, but their names are so frequent that reads of other fields pass for reads of them: nothing tells when one is
connected but the eye."""

UNUSED: dict[str, str] = {
    "responses": "protocols.responses_grammar.check_stream sse.write_event",
    "quotas": "errors.QuotaExceeded",
    "tools": """
        observability.metrics.dashboard.alert_rules observability.metrics.dashboard.dashboard
        observability.metrics.dashboard.metrics_table observability.metrics.dashboard.smg_names_table
    """,
    "migrations": "history.migrations.versions.v0001_first.upgrade",
    "users": """
        config.load_config pytest_plugin.smg_clock pytest_plugin.smg_simulator
        routing.decisions.replay_decisions simulator.kv_publisher.KvPublisher testing.MemoryObserver testing.counting_ids
    """,
}
"""Public functions and classes that nothing in src uses; "users" are those of the package, who import them; the
"index" of prefixes will follow engines by them; "migrations" are found by alembic, "tools" are called in tools/."""

CORE = Path(__file__).parent.parent / "src" / "smg_core"


def rows(table: dict[str, str]) -> list[str]:
    return [row for rows in table.values() for row in rows.split()]


def unread(sources: Sources) -> set[str]:
    read = sources.fields_read()
    return {
        f"{name}.{field}" for name, record in RECORDS.items() for field in record.fields if (name, field) not in read
    }


@pytest.fixture(scope="module")
def dead() -> set[str]:
    return unread(Sources.read())


def test_every_field_is_read_or_promised_to_an_api(dead):
    assert sorted(dead - set(rows(PROMISED))) == [], "connect the field, delete it, or say which API will read it"


def test_a_field_that_is_read_is_not_promised_any_more(dead):
    assert sorted(set(rows(PROMISED)) - dead) == [], "it is read now: delete its row, and take it off AT_LANDING"


def test_every_row_is_a_field_and_stands_there_once():
    everything = rows(PROMISED) + rows(BY_HAND)
    assert len(set(everything)) == len(everything)
    fields = {f"{name}.{field}" for name, record in RECORDS.items() for field in record.fields}
    assert sorted(set(everything) - fields) == []


def test_the_table_only_shrinks():
    assert len(rows(PROMISED) + rows(BY_HAND)) <= AT_LANDING


def unused(core: Path) -> set[str]:
    """Public functions and classes at the top of the modules in `core` whose name no code in it reads or imports."""
    found, read = {}, set()
    for path in core.rglob("*.py"):
        tree = parsed(path)
        module = ".".join(path.relative_to(core).with_suffix("").parts)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and "_pb" not in path.parts:
                found[f"{module}.{node.name}"] = node.name
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                read.add(node.id)
            elif isinstance(node, ast.Attribute):
                read.add(node.attr)
            elif isinstance(node, ast.ImportFrom) and path.name != "__init__.py":
                read.update(alias.name for alias in node.names)
    return {where for where, name in found.items() if name not in read and not name.startswith("_")}


def test_every_function_and_class_is_used_or_promised():
    assert sorted(unused(CORE)) == sorted(rows(UNUSED)), "use it, delete it, or say who will; what is used has no row"


def test_a_function_that_nothing_uses_is_found(tmp_path):
    (tmp_path / "module.py").write_text("def used(): ...\ndef unused(): ...\nclass Idle: ...\nused()\n")
    assert unused(tmp_path) == {"module.unused", "module.Idle"}


# ------------------------------------------------------------------------------------------- what counts as being read

USES = """
from smg_core.events import Finished, Usage
from smg_core.request import Caller, GenerationRequest, HistoryRef, ToolResult

class Worker:
    priority: int

def by_type(request: GenerationRequest, worker: Worker) -> None:
    print(request.history.store, request.caller.tenant, worker.priority)

def by_name(found) -> None:
    print(found.deadline_s, found.generate())

def by_pattern(event, part) -> None:
    match event:
        case Finished(index, reason, matched, cut=whole):
            pass
        case Usage(rounds=_):
            pass
"""


def test_reads_are_found_by_type_by_name_and_in_patterns(tmp_path):
    (tmp_path / "module.py").write_text(USES)
    sources = Sources.read(tmp_path)
    sources.leads_to |= Sources.read().leads_to
    found = {f"{name}.{field}" for name, field in sources.fields_read()}
    assert {"HistoryRef.store", "Caller.tenant", "GenerationRequest.caller", "GenerationRequest.deadline_s"} <= found
    assert {"Finished.cut", "Finished.matched", "Usage.rounds"} <= found
    assert not {"GenerationRequest.priority", "GenerationRequest.generate", "PoolRequest.caller"} & found


def test_a_module_without_the_record_reads_none_of_its_fields(tmp_path):
    (tmp_path / "module.py").write_text("def by_name(found):\n    print(found.deadline_s)\n")
    assert not {pair for pair in Sources.read(tmp_path).fields_read() if pair[1] == "deadline_s"}
