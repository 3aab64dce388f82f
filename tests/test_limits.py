"""Every limit can be set: a number in the source is a setting, or it stands here with the reason why it is none.

What bounds a cache, a queue, a buffer, a walk or a wait is a field of a section, with unit, default, bounds and effect. A new
constant of `smg_core` fails here until it is one, or until its row says what kind of number it is.
"""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parent.parent / "src" / "smg_core"

# Kinds of numbers that are no settings.
FORMAT = "a fact of a format or a protocol, which the other side holds to as well"
COST = "a size or a cost by which bounds and threads are reckoned, or a table of a few KiB"
PACE = (
    "how much is done in one go before others have their turn; nothing is refused for it, but it may be left unchecked"
)
SHOWN = "how much of a foreign text a message, a log line or a page repeats"
SIGN = "a mark that the code itself gives a meaning: an index, a kind, a tag"
TOLD = "what a program is told of how it ended, or a person is advised to type"
SET = "the default of an argument, which the gateway takes from its settings"
ASKED = "the default of an argument of a public function; who calls it says what it is to be"

# Rooms whose numbers are no limits of a gateway.
ROOMS = {
    "simulator": "an engine without a model, for tests and demonstrations; SimulatorConfig has what can be set of it",
    "testing": "what tests are given; every number is an argument",
}

CONSTANTS: dict[str, str] = {
    "cards.MOST_ROWS": SHOWN,
    "cards.LONGEST_VALUE": SHOWN,
    "cli.WRONG_USAGE": TOLD,
    "config.MISTYPED": "how alike two names are of which one is taken for the other misspelt",
    "demo.LATER_PORT": TOLD,
    "engines.h2.connection._DEFAULT_WINDOW": FORMAT,
    **dict.fromkeys(
        (
            f"engines.h2.frames.{name}"
            for name in (
                *("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY"),
                *("WINDOW_UPDATE", "CONTINUATION", "MAX_FRAME", "MAX_WINDOW"),
                *("END_STREAM", "ACK", "END_HEADERS", "PADDED", "PRIORITY_FLAG"),
            )
        ),
        FORMAT,
    ),
    "engines.h2.headers._MAX_BLOCKS": COST,
    "engines.h2.keepalive._FREE_PINGS": FORMAT,
    "engines.h2.keepalive._PATIENCE": FORMAT,
    "engines.h2.sender._PUMP_BYTES": PACE,
    "engines.h2.sender._DEFAULT_WINDOW": FORMAT,
    "engines.h2.transport._READ_BYTES": PACE,
    "engines.slices.SLICE": PACE,
    "engines.neutral.calls.INPUT_IDS": FORMAT,
    "engines.neutral.codec._MEDIA": FORMAT,
    "engines.neutral.codec._TOKENS_TAG": FORMAT,
    "engines.neutral.media._DATA": FORMAT,
    "engines.neutral.media._TENSORS": FORMAT,
    "engines.openai.address._FRAME_HEAD": FORMAT,
    "engines.openai.address._SETTINGS": FORMAT,
    "engines.openai.answers._MAX_NAMES": SHOWN,
    "engines.openai.answers._MAX_TEXT": SHOWN,
    "engines.openai.events._PIECE_COST": COST,
    "engines.status._MAX_TEXT": SHOWN,
    "engines.tensors._LENGTH_DELIMITED": FORMAT,
    "engines.wire._LENGTH_DELIMITED": FORMAT,
    "engines.wire._SMALLEST_FLOAT32": FORMAT,
    "engines.wire._LARGEST_FLOAT32": FORMAT,
    "engines.wire._UINT32_END": FORMAT,
    "engines.vllm.calls.INPUT_IDS": FORMAT,
    "engines.vllm.calls.TOKENIZED": FORMAT,
    "engines.vllm.codec._CHUNK_TAG": FORMAT,
    "engines.vllm.codec._EXTRA_MM_INPUTS": FORMAT,
    "engines.vllm.codec._MADE_AT_ONCE": PACE,
    "engines.vllm.codec._MM_INPUTS": FORMAT,
    "engines.vllm.media._INLINE": FORMAT,
    "engines.vllm.media._KEY": FORMAT,
    "engines.vllm.media._PIXEL_VALUES": FORMAT,
    "engines.vllm.media._TENSORS": FORMAT,
    "engines.vllm.media._VALUE": FORMAT,
    "history.memory_tables._ENTRY_BYTES": COST,
    "observability.failures.LONGEST_DETAIL": SHOWN,
    "observability.logs.LONGEST_WORD": SHOWN,
    "pipeline.executor._SETTLED_S": PACE,
    "pipeline.formats._LIGHT_SCHEMA": PACE,
    "pipeline.formats._MOST_STEPS": PACE,
    "pipeline.formats._QUICKLY_CHECKED": PACE,
    "pipeline.output._REASONING": SIGN,
    "pipeline.output._TEXT": SIGN,
    "pipeline.prepare._LOGPROB_BYTES": COST,
    "pipeline.prepare._TOKEN_BYTES": COST,
    "pipeline.preparing._JSON_COST": COST,
    "pipeline.preparing._PART_COST": COST,
    "pipeline.preparing._SMALL_BODY": PACE,
    "pipeline.preparing._UNSEALED_INLINE": PACE,
    "protocols.chat._SMALLEST_TOP_P": FORMAT,
    "protocols.chat_encode._LEAST_LOGPROB": FORMAT,
    "protocols.chat_encode._OBFUSCATION_BLOCK": FORMAT,
    "protocols.compat._LONGEST": SHOWN,
    "protocols.errors._LONGEST_RETRY": FORMAT,
    "protocols.json_bounds._PIECE": PACE,
    "protocols.parse._SLICE_CHARACTERS": PACE,
    **dict.fromkeys((f"sealing.sealer.{name}" for name in ("_HEAD", "_KEY_ID", "_MARK", "_SIV_KEY")), FORMAT),
    "server.announcing.NAMED": SHOWN,
    "server.app.SHOWN": SHOWN,
    "server.bodies._LARGE": COST,
    "server.exchange._GZIP": FORMAT,
    "server.exchange._INFLATED": PACE,
    "server.exchange._WRITTEN": PACE,
    "server.front_page.NAMED": SHOWN,
    "server.http_protocol.LONGEST_PATH": SHOWN,
    "server.http_protocol.PROBES": PACE,
    "server.http_protocol.PROBE_PAUSE": PACE,
    "server.inference.DECODED_INLINE": PACE,
    "server.inference.LONGEST_VIOLATION": SHOWN,
    "server.inprocess.BUFFERED": PACE,
    "server.launched.LAST_LINES": SHOWN,
    "server.launched.LINE": SHOWN,
    "server.media._FILES_SHARE": COST,
    "server.memory._MAPPED_BYTES": COST,
    "server.memory._M_ARENA_MAX": FORMAT,
    "server.memory._M_MMAP_THRESHOLD": FORMAT,
    "server.model_media._COPIES": COST,
    "server.model_media._COPIES_JOINED": COST,
    "server.parsing.PARSE_COST": COST,
    "server.routes._GROUPED_BY": SIGN,
    "server.scratch.SWEPT_AT_ONCE": PACE,
    "server.sealing_keys.LEAST_CHARACTERS": FORMAT,
    "server.sealing_keys._RANDOM_BYTES": FORMAT,
    "server.serve.CANNOT_START": TOLD,
    "server.serve.SWEEP_TICKS": PACE,
    "server.serve.TICK_SECONDS": PACE,
    "sse._MAX_EVENT_BYTES": SET,
    "tokenizer.cache._ENTRY_BYTES": COST,
    "tokenizer.huggingface._BATCH": PACE,
    "tokenizer.loader.PROVE_ELSEWHERE": PACE,
    "tokenizer.prefix_tree._NODE_BYTES": COST,
    "tokenizer.stream.BYTE_BASE": FORMAT,
    "tokenizer.tiktoken._KIMI_RESERVED": FORMAT,
    "tokenizer.tiktoken._LONGEST_RUN": FORMAT,
    "tokenizer.vocabulary._COMPOSED": FORMAT,
}
DEFAULTS: dict[str, str] = {
    "engines.grpc_transport.__init__.connect_timeout": SET,
    "engines.h2.transport.__init__.connect_timeout": SET,
    "engines.openai.engine.__init__.connect_timeout": SET,
    "history.base.abandoned.limit": ASKED,
    "history.base.events.limit": ASKED,
    "history.base.items.limit": ASKED,
    "history.base.records.limit": ASKED,
    "history.base.sweep.limit": ASKED,
    "history.memory.abandoned.limit": ASKED,
    "history.memory.events.limit": ASKED,
    "history.memory.items.limit": ASKED,
    "history.memory.records.limit": ASKED,
    "history.memory.sweep.limit": ASKED,
    "pipeline.executor.__init__.large": PACE,
    "pipeline.preparing.__init__.render_inline": PACE,
    "protocols.compat.__init__.most_warnings": SET,
    "protocols.decoding.brief.limit": SHOWN,
    "protocols.explain.explanation_header.limit": SET,
    "server.admission.__init__.pending_bytes": SET,
    "server.http_protocol.protocol_class.most_connections": SET,
    "server.http_protocol.protocol_class.write_seconds": SET,
    "server.launched.__init__.grace_s": ASKED,
    "server.launched.__init__.timeout_s": ASKED,
    "server.runtime.ready.timeout": ASKED,
    "tokenizer.cache.__init__.wire_bytes": COST,
    "tokenizer.stream.__init__.hold": "tokens that are held while their text is not valid yet: more than any character has",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of smg_core that is written by hand and holds no settings, by its name without the package."""
    for path in sorted(SRC.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        if "_pb" not in parts and parts[-1] not in ("settings", "__main__"):
            yield ".".join(part for part in parts if part != "__init__"), ast.parse(path.read_text())


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def numbers_of(name: str, tree: ast.Module) -> Iterator[str]:
    """Upper-case names that the module itself gives a number."""
    here = vars(importlib.import_module(f"smg_core.{name}" if name else "smg_core"))
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                names = [each.id for each in ast.walk(target) if isinstance(each, ast.Name)]
                yield from (f"{name}.{each}" for each in names if each.isupper() and is_number(here.get(each)))


def defaults_of(name: str, tree: ast.Module) -> Iterator[str]:
    """Arguments with a number as default that says more than none, one or any."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [*node.args.posonlyargs, *node.args.args]
            pairs = [*zip(reversed(given), reversed(node.args.defaults), strict=False)]
            pairs += [
                (argument, value)
                for argument, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                if value
            ]
            for argument, value in pairs:
                if _says_a_number(value):
                    yield f"{name}.{node.name}.{argument.arg}"


def _says_a_number(value: ast.expr) -> bool:
    numbers = [each for each in ast.walk(value) if isinstance(each, ast.Constant) and is_number(each.value)]
    return bool(numbers) and ast.unparse(value) not in ("0", "0.0", "1", "1.0", "-1")


def explained(found: set[str], table: dict[str, str]) -> list[str]:
    """What is wrong between the numbers of the source and their table."""
    rooms = {each for each in found if each.split(".")[0] in ROOMS}
    missing = [f"{each} is neither a setting nor explained" for each in sorted(found - rooms - set(table))]
    return missing + [f"{each} is explained and not there" for each in sorted(set(table) - found)]


def test_every_constant_is_a_setting_or_explained() -> None:
    found = {each for name, tree in modules() for each in numbers_of(name, tree)}

    assert len(found) > 50
    assert explained(found, CONSTANTS) == []


def test_every_default_of_an_argument_is_a_setting_or_explained() -> None:
    found = {each for name, tree in modules() for each in defaults_of(name, tree)}

    assert explained(found, DEFAULTS) == []


def test_a_number_without_a_row_is_named() -> None:
    tree = ast.parse("def ask(patience: float = 7.5, most: int = 8 * 1024, first: int = 1, name: str = ''): ...")

    assert sorted(defaults_of("room", tree)) == ["room.ask.most", "room.ask.patience"]
    assert explained({"room.ask.most"}, {}) == ["room.ask.most is neither a setting nor explained"]
    assert explained(set(), {"room.GONE": FORMAT}) == ["room.GONE is explained and not there"]
