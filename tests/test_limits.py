"""Every limit can be set: a number in the source is a setting, or it stands here with the reason why it is none.

What bounds a cache, a queue, a buffer, a walk or a wait is a field of a section, with unit, default, bounds and effect. A new
constant of any package fails here until it is one, or until its row says what kind of number it is. The libraries below the core
(`smg_parsers`, `smg_multimodal`, `smg_mcp`) have no settings of their own: what a gateway can set of them are arguments and
records, which the core fills in from its sections. `smg_simulator`, for tests and demonstrations, limits no gateway.
"""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source import generated, parsed

pytestmark = pytest.mark.rules

SRC = Path(__file__).parent.parent / "src"
CORE = "smg_core."
LIBRARIES = ("smg_parsers", "smg_multimodal", "smg_mcp", "smg_egress", "smg_config_files")

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
HEARING = "how sound is measured to find speech in it; what clients may set of that is in their sessions"
READING = (
    "how much of a model's text is held back or looked at until it is clear what it is; part of how a format is read, so that "
    "all readers of one text give the same pieces"
)
SCHEMA = (
    "how far into a schema or an expression is looked; what is deeper is any JSON value or free text, or is refused"
)
MODEL = "a fact of a model's own processor, by which its engine counts too"
CHECK = "how thorough a check of parsers in tests is; no gateway runs it"
GUEST = "what one call of a component may have or say; its entry sets the time, the memory and the stack that come before it"
TYPED = "far above what an operator means with a flag of a command: what is beyond it is a slip, or no number"
BACKSTOP = "far above what files that are in use have; the settings of the section media come before it"

# Rooms whose numbers are no limits of a gateway.
ROOMS = {
    "testing": "what tests are given; every number is an argument",
}

TOKEN_LENGTH = (
    "characters of a token, about, where nothing but a text is known; it decides where a request goes and nothing else"
)
HASHED = "how a hash is made; another number would do as well"

CONSTANTS: dict[str, str] = {
    "outside_words.exceptions._LONGEST": SHOWN,
    "up.plan._MOST_ENGINES": "far above the engines of one machine: what is beyond it is a slip of a file",
    "up.command.FILE_BYTES": "far above a file of engines: what is beyond it is another file",
    **dict.fromkeys(("up.child.LAST_LINES", "up.child.LONGEST_LINE", "commands.asked_server._LONGEST_QUOTE"), SHOWN),
    "up.child.STILL_WRITING_S": "how long the last lines of a program that has ended may take to come",
    **dict.fromkeys((f"up.supervisor.{name}" for name in ("STARTING_S", "WATCH_S", "PROBE_S")), PACE),
    **dict.fromkeys(
        (f"up.supervisor.{name}" for name in ("PAUSE_S", "LONGEST_PAUSE_S", "GATEWAY_START_S", "GATEWAY_EXTRA_S")),
        "how patient up is with a program that ends; an engine's own times are in its file",
    ),
    **dict.fromkeys((f"commands.diagnosis.{name}" for name in ("SKEW_S", "BAD_SKEW_S")), TOLD),
    "commands.diagnosing.AT_ONCE": TOLD,
    **dict.fromkeys((f"commands.diagnosing_stores.{name}" for name in ("_ROOM", "_FULL", "_NEARLY")), TOLD),
    **dict.fromkeys((f"auth.issuer.{name}" for name in ("_OK", "_HTTPS")), FORMAT),
    "auth.tokens._PARTS": FORMAT,
    "auth.names.LONGEST_NAME": "a name, not a text: of a tenant or a principal, which the history's tables hold too",
    "disk_room._SPARE": "far above what the history writes to delete a file, and little of any disk",
    "config.check._LONGEST_NAME": "three bytes for a character: a folder of 255 bytes holds its name",
    "idempotency.kept.LONGEST_KEY": "what clients send is a UUID; a key of the history's tables holds it",
    "idempotency.answering._LEASE_S": "a bound of waiting for a process that has died; one that lives renews it",
    "idempotency.answering._LOOK_S": "how soon a waiting request sees what another process has kept, and how often it asks",
    "idempotency.recording.LARGE": "what is digested or encoded within a millisecond",
    "idempotency.answering._WRITTEN": "the size of a write, of an answer that is kept whole",
    "batches.queue._BYTES_A_TOKEN": "what a prompt is reckoned as before it is read",
    **dict.fromkeys(
        ("commands.usage._BAR", "commands.usage._PAGE"), "what a screen shows, and what is asked for at a time"
    ),
    **dict.fromkeys(("ledger.accounts.HOUR_S", "ledger.queries._MICRO"), "a unit"),
    "ledger.accounts._MOST": "beyond any request: a sum has 64 bits in every store",
    "ledger.keeping._AT_ONCE": "accounts of one batch, which is written within some milliseconds",
    **dict.fromkeys(("ledger.keeping._SECRET_BYTES", "ledger.keeping._HASH_BYTES"), HASHED),
    "ledger.keeping._LONGEST_NAME": "a name as the history's tables hold it; a longer one is hashed, and counted as itself",
    "ledger.keeping._SWEEP_S": PACE,
    **dict.fromkeys(
        ("ledger.postgres.WRITER_KEPT_S", "ledger.sqlite.WRITER_KEPT_S"),
        "longer than a process tries to write a batch again",
    ),
    "ledger.postgres._LOCK": SIGN,
    "ledger.postgres._CONNECTIONS": "one that writes and one that reads",
    **dict.fromkeys((f"ledger.queries.{name}" for name in ("_DATE_DIGITS", "_DIGITS", "_LAST_S")), FORMAT),
    **dict.fromkeys(
        (f"ledger.queries.{name}" for name in ("_DEFAULT_S", "_MOST_ROWS", "_MOST_STEPS", "_ROWS")),
        "what a page of accounts is where its request says nothing, and at most; the next page has the rest",
    ),
    **dict.fromkeys(
        (f"placement.rules.{name}" for name in ("LEAST_BY", "MOST_BY", "MOST_SPILL")),
        "far beyond what an operator means: a rule with more is a slip",
    ),
    "placement.rules.SPILL": "what a rule says that names none: spill= is for others",
    "placement.placing.KEPT": COST,
    "placement.placing.LONGEST_QUOTE": SHOWN,
    "fleet.adapter_loading.FAILED_S": PACE,
    "fleet.adapter_loading.JUST_S": PACE,
    "fleet.adapter_loading.LEAST_KEPT": COST,
    "routing.simple.PARTS_KEPT": COST,
    "routing.simple.UNUSED_S": PACE,
    **dict.fromkeys(("workers.records.LEAST", "workers.records.MOST"), COST),
    "fleet.adapter_loading.SPREAD": "how uneven requests for an adapter may be; as much as a preference of placement lets be",
    **dict.fromkeys(("workers.pools.EVERY_S", "workers.pools.KEPT"), "two minutes over which the rate of a pool goes"),
    "limits.low_budgets._MOST": "budgets of which is known that they were told; beyond that one may be told again",
    "batches.served_elsewhere._MOST": "more processes than share a store; of one that is not read, no batch is left to it",
    **dict.fromkeys(
        ("history.sql.postgres._OLDEST", "history.redis.server._OLDEST"), "the first version that has what is used"
    ),
    "sealing.cache_salts._BYTES": FORMAT,
    **dict.fromkeys(("middleware.checks._MESSAGE", "middleware.asgi_messages._LONGEST_QUOTE"), SHOWN),
    **dict.fromkeys((f"mesh.carriers.{name}._LARGEST" for name in ("gossip", "local", "valkey")), FORMAT),
    "mesh.carriers.gossip._LONGEST_NAME": FORMAT,
    "mesh.carriers.gossip._REJOIN_S": PACE,
    **dict.fromkeys((f"mesh.carriers.local.{name}" for name in ("_PATH_BYTES",)), FORMAT),
    **dict.fromkeys(("mesh.carriers.local._AT_ONCE", "mesh.carriers.valkey._READ"), PACE),
    **dict.fromkeys(
        (f"mesh.carriers.valkey.{name}" for name in ("_BLOCK_MS", "_CONNECT_S", "_PAUSE_S", "_GATHER_S", "_KEEP_PART")),
        "a try of the server of the mesh; the next one comes soon, and meanwhile mesh.dead_s counts",
    ),
    "mesh.carriers.valkey._KEPT": "messages in the server for who reads late; who misses more asks for it",
    **dict.fromkeys((f"mesh.mesh_keys.{name}" for name in ("_ID_BYTES", "_KEY_BYTES", "_MARK_BYTES")), FORMAT),
    "mesh.member._WAITING": "a message that is dropped is asked for again; mesh.bytes_s bounds what is sent",
    "mesh.state.counts._MOST": "far above what a member can charge; what says more is no count",
    "mesh.state.format._LONGEST_FORMATS": FORMAT,
    "mesh.state.node._LINES": PACE,
    "mesh.state.node._MOST_EPOCH_AHEAD": "a start further in the future is no clock that was wrong; it is counted",
    "mesh.state.node._RISES_BY": HASHED,
    **dict.fromkeys((f"mesh.state.replica.{name}" for name in ("_ENTRY_BYTES", "_HEAD_BYTES", "_WIRE_BYTES")), COST),
    "mesh.state.replica._LOG_SPARE": PACE,
    "mesh.state.replica._ROUNDED_S": PACE,
    "mesh.state.replica._OF_ONE": "one member may have a quarter of mesh.entries and mesh.kept_bytes",
    "mesh.state.roster_set._MOST_TAGS": "adds of one worker that are told apart; older ones were taken back long ago",
    "mesh.state.stamps._COUNT_BITS": FORMAT,
    "mesh.state.stamps._MOST": FORMAT,
    "meshed.counters.NEXT_ROUND_US": "the wait that a client is told of while the other gateways have not heard yet",
    **dict.fromkeys(
        (f"meshed.counters.{name}" for name in ("_MOST_A_PERIOD", "_CALM_S", "_CALM_EACH_S", "_MOST_CALM")), PACE
    ),
    "meshed.counters._LATE_US": "longer than a window that is over is known; what is older is of a clock that is wrong",
    "mesh.heartbeats._JUST_AFTER_S": PACE,
    "meshed.counters._CALM_PART": "what is left unsaid is a sixteenth of what may be taken before all have heard",
    **dict.fromkeys(("gateway.mesh._AGAIN_S", "mesh.carriers.local._LOOKS_EACH", "meshed.siblings._PACE_S"), PACE),
    **dict.fromkeys((f"meshed.shared_counters.{name}" for name in ("_PLACES_AGAIN_S", "_MOST_A_PERIOD")), PACE),
    **dict.fromkeys((f"meshed.shared_rows.{name}" for name in ("_CELL", "_HEAD", "_NEARBY", "_WIDTH")), FORMAT),
    "meshed.shared_counters._MOST_AHEAD_US": "so that a number fits into its place in memory",
    "meshed.shared_counters._MOST_USED": "so that a number fits into its place in memory",
    "meshed.shared_rows._SILENT_US": "longer than another process takes to speak for its gateway",
    **dict.fromkeys(
        (
            f"meshed.{name}"
            for name in ("counters._PLACES_AGAIN_S", "counters._PLACES_LAST_S", "loads._AGAIN_S", "loads._LASTS_S")
        ),
        "how often a thing is said again that has not changed, and for how long it counts where nobody says it",
    ),
    **dict.fromkeys(
        (f"meshed.{name}" for name in ("settings_seen._AGAIN_S", "settings_seen._LASTS_S", "workers._AGAIN_S")),
        "how often a thing is said again that has not changed, and for how long it counts where nobody says it",
    ),
    "meshed.loads._MOST": "far above what a worker can have in flight",
    "meshed.loads._PACE_S": PACE,
    "meshed.revoked._LASTS_S": "a key is remembered for auth.key_fresh_s, which is at most a second",
    "meshed.revoked._MOST_A_PERIOD": PACE,
    "meshed.revoked._MOST": "keys revoked within an hour; what is older is in the store",
    "meshed.workers._LASTS_S": "far longer than a gateway is away and still remembered (mesh.remember_s)",
    "meshed.workers._MOST": "workers of which the mesh is told; workers.most comes before it",
    "middleware.asgi_messages._LONGEST_REASON": FORMAT,
    **dict.fromkeys((f"middleware.request_types.{name}" for name in ("_OBJECT", "_ID")), COST),
    "middleware.request_types._DEEPEST": "more levels than any bound of JSON may be set to: what leads back to itself has them",
    **dict.fromkeys(("middleware.request_checks._WORDS", "middleware.request_types._LONGEST_QUOTE"), SHOWN),
    **dict.fromkeys(("middleware.request_checks._LIGHT", "middleware.request_checks._NODE"), COST),
    "wire.scalars.MODEL_CHARACTERS": FORMAT,
    "commands.plugin._TIMES": TOLD,
    "pipeline.answer.transformed_answer._EVENT": COST,
    **dict.fromkeys(
        (f"middleware.entries.{name}" for name in ("_COMPUTING_MS", "_WAITING_MS")),
        "the defaults of what an entry sets",
    ),
    **dict.fromkeys(("wasm.loading._LOADING_S", "wasm.plugin._LATE"), GUEST),
    **dict.fromkeys((f"wasm.cells.{name}" for name in ("CELL", "_STRING")), FORMAT),
    "wasm.plugin._SHORT": COST,
    **dict.fromkeys(("wasm.calls.STEPS", "wasm.calls.STEPS_S"), COST),
    **dict.fromkeys(
        (f"wasm.places.{name}" for name in ("_AFTER_LONG", "_AFTER_KEEPING", "_DOUBLED", "_KEEPING_S")), COST
    ),
    "wasm.instances._KEPT_FOR_OTHERS": "a share of the instances of a plugin, whose number its entry has",
    "wasm.plugin._MINUTE": SIGN,
    **dict.fromkeys(
        (f"wasm.running.{name}" for name in ("_CORE_INSTANCES", "_TABLES", "_TABLE_ELEMENTS", "_MEMORIES", "_ENDLESS")),
        GUEST,
    ),
    **dict.fromkeys(
        (
            "wasm.guest_report._LINES_OF_CALL",
            "wasm.guest_report._COUNTERS",
            "wasm.guest_report._NAME",
            "wasm.running._MOST_LINES",
            "wasm.running._MOST_TEXT",
        ),
        GUEST,
    ),
    "plugins.registry._COUNTERS": GUEST,
    "plugins.registry._MOST_COUNTED": GUEST,
    "wasm.guest_report._MOST_COUNTED": GUEST,
    "wasm.guest_report._LINE": SHOWN,
    **dict.fromkeys(
        (
            f"wasm.running.{name}"
            for name in (
                "_TICKS",
                "_QUIET_S",
                "_STEP",
                "_OWN_STACK_MORE",
                "_SUSPECT_S",
                "_WATCHED",
                "_LINES_IN_STEP",
                "_AT_ONCE",
            )
        ),
        COST,
    ),
    "wasm.bounds._OF_A_HEADER": FORMAT,
    "wasm.bounds._WORDS": GUEST,
    **dict.fromkeys(
        (
            f"wasm.joining.{name}"
            for name in (
                *("_CUSTOM", "_CORE_MODULE", "_CORE_INSTANCE", "_COMPONENT", "_INSTANCE", "_ALIAS", "_TYPE", "_CANON"),
                *(
                    "_IMPORT",
                    "_EXPORT",
                    "_SORT_CORE",
                    "_SORT_FUNCTION",
                    "_SORT_TYPE",
                    "_SORT_COMPONENT",
                    "_SORT_INSTANCE",
                ),
                *("_CORE_FUNCTION", "_CORE_MEMORY", "_CORE_INSTANCE_SORT", "_OF_INSTANCE", "_OF_CORE_INSTANCE"),
                *("_OF_OUTER", "_TAKE", "_ANSWERED", "_FIRST_LOWERED", "_MEMORY", "_GUEST", "_ADAPTER"),
            )
        ),
        FORMAT,
    ),
    "auth.attempts._HOST_BYTES": FORMAT,
    "auth.attempts._PREFIX": SIGN,
    "auth.keys.LEAST_CHARACTERS": "how short a key could be guessed; a longer one costs nothing",
    "auth.virtual_keys._ID_DIGITS": FORMAT,
    "cards.MOST_ROWS": SHOWN,
    **dict.fromkeys(
        [f"apis.mcp.asked_back.{name}" for name in ("_AT_ONCE", "_MESSAGES", "_STOPS", "_TOKENS")],
        "far above what servers of tools ask back; limits of the tenant come before it",
    ),
    "engines.openai.imaging._LONGEST": READING,
    "engines.openai.imaging._MOST_STATES": FORMAT,
    "apis.pooling.rerank._DOCUMENT_TOKENS": FORMAT,
    "apis.pooling.vectors._FLOAT16": FORMAT,
    **dict.fromkeys(
        (
            "image_terms._EDGE",
            "apis.images.wire._FIELDS",
            "apis.images.wire._FIELD_BYTES",
            "apis.images.wire._GIVEN",
            "apis.images.wire._GIVEN_BYTES",
            "apis.images.wire._MASK_BYTES",
            "apis.images.wire._MOST",
            "apis.images.wire._PARTIAL",
            "apis.images.wire._PROMPT",
            "apis.images.wire._SIZES_END",
            "apis.responses.wire.pictures._MOST",
            "apis.messages.content._FILE_ID",
            "pipeline.tools.built_in._PROMPT",
            "serving.accounting.MICRO",
            "gateway.tool_costs._MICRO",
            "apis.transcriptions.wire._FIELDS",
            "apis.transcriptions.wire._FIELD_BYTES",
            "apis.transcriptions.wire._HOTTEST",
        ),
        FORMAT,
    ),
    **dict.fromkeys(
        (
            "pipeline.pooled.inputs.CHARACTERS",
            "apis.pooling.rerank.HELD_BYTES",
            "apis.pooling.vectors.BASE64_BYTES",
            "apis.pooling.vectors.FLOAT_BYTES",
            "apis.pooling.cohere_embed._BIT_BYTES",
        ),
        COST,
    ),
    **dict.fromkeys(("discovery.cluster.OK", "discovery.cluster.UNAUTHORIZED", "discovery.watching.GONE"), FORMAT),
    **dict.fromkeys(("discovery.names._PORTS", "discovery.pods._PORTS", "discovery.watching._NAME_CHARACTERS"), FORMAT),
    "discovery.running.NAMED": SHOWN,
    "discovery.running.TURN": PACE,
    "discovery.running.WHOLE_LOOK": PACE,
    **dict.fromkeys(("pipeline.calls.routing_context._CHARACTERS", "routing.base._CHARACTERS"), TOKEN_LENGTH),
    "routing.expected_cache._CHARACTERS": TOKEN_LENGTH,
    **dict.fromkeys(
        (f"pipeline.calls.routing_context.{name}" for name in ("_ENDS", "_LONGEST_KEY", "_SAMPLE", "_SAMPLES")), HASHED
    ),
    "routing.rendezvous._NUMBERS": HASHED,
    **dict.fromkeys(("routing.block_keys._GOLDEN", "routing.block_keys._MASK", "routing.bucket._GOLDEN"), HASHED),
    **dict.fromkeys((f"routing.block_keys.{name}" for name in ("_KEY_BYTES", "_MEMO_BYTES")), COST),
    "routing.prefix_index._ENTRY": COST,
    "routing.model_choice._BYTES": HASHED,
    **dict.fromkeys((f"workers.breaker_table.{name}" for name in ("_KEY_BYTES", "_HEAD", "_FREE", "_USED")), FORMAT),
    **dict.fromkeys((f"workers.polls.{name}" for name in ("_SIGN_BYTES", "HEALTH_BYTES", "LOADS_BYTES")), FORMAT),
    "workers.monitor._LATE": PACE,
    "routing.hedging.LEAST_KNOWN": "how many times a percentile needs to say anything; documented with the setting",
    **dict.fromkeys(
        (f"routing.decisions.{name}_BYTES" for name in ("_CANDIDATE", "_CHARACTER", "_DECISION", "_TOKEN")), COST
    ),
    "routing.prefix_index._DROPPED": PACE,
    "routing.prefix_index._DEAD": PACE,
    **dict.fromkeys(
        (f"routing.expected_cache.{name}_SHARE" for name in ("_MEMO", "_RECENT")),
        "which part of routing.index_bytes is for the keys of texts, and for what was sent a moment ago",
    ),
    "routing.expected_cache._NOTES_SHARE": "which part of routing.sent_bytes waits in memory to be written",
    "routing.expected_cache._COARSE": "how finely it is known what was sent a moment ago",
    **dict.fromkeys(("routing.expected_cache._MASK", "routing.kv_index._MASK"), HASHED),
    **dict.fromkeys(
        ("routing.kv_index.BLOCK_BYTES", "routing.expected_cache._NOTE_BYTES", "fleet.routing_journal._INDEX_BYTES"),
        COST,
    ),
    **dict.fromkeys((f"routing.kv_index.{name}" for name in ("_SHARD", "_PARTS", "_SETS")), COST),
    **dict.fromkeys(
        ("routing.kv_index._TIDY", "routing.kv_index._TIDY_AT_MATCH", "fleet.routing_journal._SLICE"), PACE
    ),
    **dict.fromkeys(
        (f"routing.kv_index.{name}" for name in ("_KEY_SHIFT", "_END_SHIFT", "_END_MASK", "_TIERS_MASK")), FORMAT
    ),
    **dict.fromkeys(("routing.sent_journal._CHECK", "fleet.routing_journal._KEY_BYTES"), FORMAT),
    "routing.block_keys._FEW": "up to how many tokens Python's own numbers are quicker than numpy's",
    "routing.bucket._BINS": "lengths up to 2**21 tokens, in steps that no prompt would notice",
    "routing.bucket._BINS_PER_DOUBLING": "lengths up to 2**21 tokens, in steps that no prompt would notice",
    **dict.fromkeys(
        ("routing.bucket._FORGET", "routing.work._SMOOTH"),
        "over how many prompts a mean is taken: some hundred, some fifty",
    ),
    "routing.work._FULL": "what is divided by is not to be nothing",
    "routing.standing._FULL": "what is divided by is not to be nothing",
    "routing.standing._PART_OF_ONE_REQUEST": "of how many requests a mean tells; it decides where a request goes, nothing else",
    "routing.standing._FEWEST_REQUESTS": "a share of a request, below which a crowd is chance: what is divided by is not nothing",
    "routing.standing._LEFT": "a share of a mean, below which what is left in it of its beginning is forgotten",
    "routing.standing._HALF_CALM": "how busy a fleet is where copies for later count half; decides where a request goes",
    "routing.agreed._OWNERS_A_SHARE": "workers for a block beyond its share of the requests; decides where a request goes",
    **dict.fromkeys(
        ("routing.agreed._LATEST", "routing.agreed._FIRST_REQUESTS"), "of how many requests shares are told, and kept"
    ),
    "routing.rendezvous._SETS": "sets of workers whose hashes are kept; those of routing.remembered_workers at most",
    "routing.agreed._PART_OF_ONE_REQUEST": "of how many requests a mean tells; it decides where a request goes, nothing else",
    "routing.agreed._SURE_FROM": "prompts that are known by half share as much as prompts do; decides where a request goes",
    "routing.agreed._WORTH_AGREEING": "a share of a prompt below which nobody is asked whose it is",
    "routing.standing._LOOKS": "how often in routing.balance_s the workers' loads are looked at for their mean",
    "cards.LONGEST_VALUE": SHOWN,
    "cli.WRONG_USAGE": TOLD,
    "trials.MOST_TOKENS": "part of the fixed requests that a server is looked at with",
    "config.config.MISTYPED": "how alike two names are of which one is taken for the other misspelt",
    "pipeline.calls.document_reading._PLACED_HERE": PACE,
    "errors._FRAMES": SHOWN,
    "engines.grpc.h2.connection._DEFAULT_WINDOW": FORMAT,
    **dict.fromkeys((f"engines.grpc.h2.frames.{name}" for name in ("MAX_FRAME", "MAX_WINDOW")), FORMAT),
    **dict.fromkeys(
        (f"engines.grpc.h2.frames.{name}" for name in ("END_STREAM", "ACK", "END_HEADERS", "PADDED", "PRIORITY_FLAG")),
        FORMAT,
    ),
    "engines.grpc.h2.headers._MAX_BLOCKS": COST,
    "engines.grpc.h2.keepalive._FREE_PINGS": FORMAT,
    "engines.grpc.h2.keepalive._PATIENCE": FORMAT,
    "engines.grpc.h2.sender._PUMP_BYTES": PACE,
    "engines.grpc.h2.sender._DEFAULT_WINDOW": FORMAT,
    "engines.grpc.h2.transport._READ_BYTES": PACE,
    "engines.connections.secrets.SHORTEST": SHOWN,
    "engines.token_ids.client._PER_BATCH": COST,
    "engines.token_ids.client._PER_EVENT": COST,
    "engines.kv_events.PART": PACE,
    "routing.decisions.LONGEST_WHY": SHOWN,
    "engines.kv_zmq.subscriber._AT_ONCE": PACE,
    **dict.fromkeys(
        (f"engines.kv_zmq.subscriber.{name}" for name in ("_FRAMES", "_NUMBER_BYTES", "_HIGHEST_PORT")), FORMAT
    ),
    **dict.fromkeys(
        (f"engines.kv_zmq.messages.{name}" for name in ("END_OF_REPLAY", "_MASK", "_HALF", "_MOST_TOKEN")), FORMAT
    ),
    "engines.kv_zmq.messages._LONGEST_BLOCK": FORMAT,
    "engines.kv_zmq.messages._LONGEST_NAME": SHOWN,
    "engines.codecs.neutral.kv_events._SIGN": FORMAT,
    "engines.codecs.shared_upkeep._MAX_TEXT": SHOWN,
    "engines.token_ids.slices.SLICE": PACE,
    "engines.token_ids.slices._ALTERNATIVE": COST,
    "engines.token_ids.slices._SCORED": COST,
    "engines.codecs.decoding._LENGTH_DELIMITED": FORMAT,
    "engines.codecs.decoding._REQUEST_ID": FORMAT,
    "engines.codecs.decoding._MADE_AT_ONCE": PACE,
    "engines.codecs.mlx.calls.INPUT_IDS": FORMAT,
    "engines.codecs.mlx.calls.TOKENIZED": FORMAT,
    "engines.codecs.neutral.calls.INPUT_IDS": FORMAT,
    "engines.codecs.neutral.codec._MEDIA": FORMAT,
    "engines.codecs.neutral.codec._TOKENS_TAG": FORMAT,
    "engines.codecs.neutral.media._DATA": FORMAT,
    "engines.codecs.neutral.media._TENSORS": FORMAT,
    "sse._LF": FORMAT,
    "engines.http.address._FRAME_HEAD": FORMAT,
    "engines.http.client._PIECE": PACE,
    "engines.codecs.llamacpp.http_codec._SEEDS": FORMAT,
    "engines.http.client._WRITTEN": PACE,
    "engines.http.address._SETTINGS": FORMAT,
    "engines.openai.answers._MAX_NAMES": SHOWN,
    "engines.openai.answers._MAX_TEXT": SHOWN,
    "engines.openai.events._PIECE_COST": COST,
    "engines.vendors.anthropic.body._BREAKPOINTS": FORMAT,
    "engines.vendors.anthropic.body._HIGHEST_TEMPERATURE": FORMAT,
    "engines.vendors.anthropic.body._LEAST_BUDGET": FORMAT,
    "engines.vendors.anthropic.body._NAME_LENGTH": FORMAT,
    "engines.vendors.anthropic.facts._USUAL_OUTPUT": FORMAT,
    "engines.vendors.anthropic.turns._ID_LENGTH": FORMAT,
    "engines.vendors.chat.body._ID_LENGTH": FORMAT,
    "engines.vendors.gemini.body._CHOICES": FORMAT,
    "engines.vendors.gemini.body._NAME_LENGTH": FORMAT,
    "engines.vendors.gemini.body._STOPS": FORMAT,
    "engines.vendors.engine._WELL_S": "how often a provider is asked whether it is well; a call that fails says it sooner",
    "engines.vendors.engine._LIST_BYTES": "a list of many hundred models with all that can be said of each is half a MiB",
    "engines.vendors.engine._LIST_S": "nobody waits for it but the list of models here, and that for a second",
    "engines.vendors.listing.MOST_LISTED": "ten times as many as the provider of most models lists",
    "engines.vendors.listing._LONGEST_NAME": FORMAT,
    "engines.vendors.listing._MILLION": FORMAT,
    "engines.vendors.listing._MOST_TOKENS": FORMAT,
    "engines.vendors.refusals._LONGEST_QUOTE": SHOWN,
    "engines.vendors.responses.body._NAME_LENGTH": FORMAT,
    "engines.vendors.responses.items._ID_LENGTH": FORMAT,
    "engines.vendors.wire_names._DIGEST": HASHED,
    "engines.codecs.shared_calls._MAX_TEXT": SHOWN,
    "engines.codecs.sglang.calls.INPUT_IDS": FORMAT,
    "engines.codecs.sglang.calls.TOKENIZED": FORMAT,
    "engines.codecs.sglang.calls._KEPT_FREE": FORMAT,
    "engines.codecs.sglang.codec._MM_INPUTS": FORMAT,
    "engines.codecs.sglang.codec._PORT_BITS": FORMAT,
    "engines.codecs.sglang.codec._ROOM_BITS": FORMAT,
    "engines.codecs.trtllm.codec._MULTIMODAL": FORMAT,
    "engines.codecs.trtllm.media._IMAGE_DATA": FORMAT,
    **dict.fromkeys(
        (f"engines.codecs.sglang.media.{name}" for name in ("_DATA", "_IMAGE_DATA", "_PIXEL_VALUES", "_TENSORS")),
        FORMAT,
    ),
    "engines.status._MAX_TEXT": SHOWN,
    **dict.fromkeys(
        (f"engines.codecs.tokenspeed.calls.{name}" for name in ("INPUT_IDS", "TOKENIZED", "_MM_INPUTS")),
        FORMAT,
    ),
    **dict.fromkeys(
        (f"engines.codecs.tokenspeed.codec.{name}" for name in ("_MM_INPUTS", "_PORT_BITS", "_ROOM_BITS")),
        FORMAT,
    ),
    **dict.fromkeys(
        (f"engines.codecs.tokenspeed.media.{name}" for name in ("_ENCODER_INPUT", "_INLINE", "_ITEMS", "_TENSORS")),
        FORMAT,
    ),
    "engines.codecs.trtllm.calls.INPUT_IDS": FORMAT,
    "engines.codecs.trtllm.calls.TOKENIZED": FORMAT,
    "engines.codecs.tensors._KEY": FORMAT,
    "engines.codecs.tensors._LENGTH_DELIMITED": FORMAT,
    "engines.codecs.tensors._VALUE": FORMAT,
    "engines.codecs.protobuf._LENGTH_DELIMITED": FORMAT,
    "engines.codecs.protobuf._SMALLEST_FLOAT32": FORMAT,
    "engines.codecs.protobuf._LARGEST_FLOAT32": FORMAT,
    "engines.codecs.protobuf._UINT32_END": FORMAT,
    "engines.codecs.protobuf._UINT64_MASK": FORMAT,
    "engines.codecs.vllm.calls.INPUT_IDS": FORMAT,
    "engines.codecs.vllm.calls.TOKENIZED": FORMAT,
    "engines.codecs.vllm.codec._EXTRA_MM_INPUTS": FORMAT,
    "engines.codecs.vllm.codec._MM_INPUTS": FORMAT,
    "engines.codecs.vllm.media._INLINE": FORMAT,
    "engines.codecs.vllm.media._PIXEL_VALUES": FORMAT,
    "engines.codecs.vllm.media._TENSORS": FORMAT,
    "history.store.base.LEASE_KEPT_S": PACE,
    "history.guard._LARGE": PACE,
    "history.memory.room.ENTRY_BYTES": COST,
    "history.redis.store._HOLDING": PACE,
    "history.redis.store._PAGE": PACE,
    "history.redis.store._TRIES": PACE,
    "history.rules.LONGEST_NAME": FORMAT,
    "wire.item_ids.LONGEST_ID": FORMAT,
    "wire.named_elsewhere._DEEPEST": "twice the levels at which any API has a name of a thing in a tool",
    "history.sealing._KEY": FORMAT,
    "history.sealing._LONGEST_NAME": FORMAT,
    "history.sealing._NONCE": FORMAT,
    "history.sql.store._EXPORTED": PACE,
    "history.sql.store._HOLDING": PACE,
    **dict.fromkeys((f"history.sqlite.store.{name}" for name in ("_EXPORTED", "_HOLDING")), PACE),
    "history.sql.sqlite_file._TRIES": "how often the write-ahead log is asked for; a database without it works all the same",
    "history.sql.migrate._LOCK": SIGN,
    "history.sql.tables.LONGEST_NAME": FORMAT,
    "observability.failures.LONGEST_DETAIL": SHOWN,
    **dict.fromkeys((f"outside_words.filtering.{name}" for name in ("LONGEST", "MOST_DIGITS", "MOST_NUMBERS")), SHOWN),
    "outside_words.filtering._LONGEST_BETWEEN": SHOWN,
    "observability.metrics.table._SWITCHED": FORMAT,
    "observability.wordless._MOST": SHOWN,
    "workers.probe_times._PARTS": PACE,
    **dict.fromkeys((f"observability.audit_chain.{name}" for name in ("LONGEST_LINE", "_END_BYTES")), FORMAT),
    "observability.audit_file._HEAD_BYTES": FORMAT,
    "observability.line_writer._AT_ONCE": FORMAT,
    "observability.audit_file._TAIL": FORMAT,
    "admin.auditing.LONGEST_TEXT": SHOWN,
    **dict.fromkeys((f"observability.metrics.dashboard.{name}" for name in ("_ACROSS", "_HEIGHT", "_WIDTH")), SHOWN),
    "observability.metrics.exposition._PIECE": PACE,
    **dict.fromkeys(
        (f"observability.metrics.series.{name}" for name in ("_ENTRY", "_EXEMPLAR", "_HALF", "_HASH", "_HEAD", "_KEY")),
        FORMAT,
    ),
    "observability.metrics.series._CELLS_EACH": COST,
    "observability.access_lines.LONGEST_WORD": SHOWN,
    "observability.access_lines.TEMPLATES": COST,
    "observability.metrics.recording._FEW": COST,
    **dict.fromkeys((f"observability.trace_context.{name}" for name in ("_MEMBERS", "_SAMPLED")), FORMAT),
    **dict.fromkeys((f"observability.tracing.content.{name}" for name in ("_LEAST", "_LONGEST_ID")), SHOWN),
    **dict.fromkeys((f"observability.tracing.exporting.{name}" for name in ("_LEFT_S", "_NAMED")), PACE),
    **dict.fromkeys((f"observability.tracing.encoding.{name}" for name in ("_LARGEST", "_WHOLE")), FORMAT),
    "observability.tracing.encoding._SHORT": COST,
    **dict.fromkeys((f"observability.tracing.encoding.{name}" for name in ("_MOST_KEPT", "_LONGEST_KEPT")), COST),
    "observability.tracing.spans._IDS": PACE,
    **dict.fromkeys(
        (f"workers.candidate.{name}_WEIGHT" for name in ("LEAST", "MOST")),
        "loads are divided by weights: the sums and quotients of all policies stay numbers within them",
    ),
    "observability.tracing.sampling._HALF": FORMAT,
    "observability.tracing.spans.LONGEST_TEXT": SHOWN,
    "observability.tracing.spans._FAILED": FORMAT,
    "gateway.gateway.READY_S": ASKED,
    "serving.tracing._SPANS": COST,
    "pipeline.calls.executor._SETTLED_S": PACE,
    "pipeline.prompt.custom_tools._MOST_GRAMMARS": COST,
    "tokens.MOST_TOKENS_REPORTED": FORMAT,
    "pipeline.prompt.formats._LIGHT_SCHEMA": PACE,
    "pipeline.prompt.formats._MOST_STEPS": PACE,
    "pipeline.prompt.formats._QUICKLY_CHECKED": PACE,
    "pipeline.output.choice._REASONING": SIGN,
    "pipeline.output.processor._RECENT": COST,
    "workers.breaker._SLICES": COST,
    "pipeline.output.choice.TEXT": SIGN,
    "wire.answer_size._LOGPROB_BYTES": COST,
    "wire.answer_size._TOKEN_BYTES": COST,
    "pipeline.pairs.pairing._BOOTSTRAP_PORT": FORMAT,
    "pipeline.prompt.prepare._ID_COST": COST,
    "pipeline.prompt.inline_cost._JSON_COST": COST,
    "pipeline.prompt.inline_cost._PART_COST": COST,
    "pipeline.prompt.prepare._SMALL_BODY": PACE,
    "pipeline.calls.chat_calls._WRITTEN_INLINE": PACE,
    "pipeline.calls.preparing._UNSEALED_INLINE": PACE,
    "pipeline.calls.preparing._SURELY": FORMAT,
    "apis.completions.decode._DEFAULT_MAX_TOKENS": FORMAT,
    "apis.sglang.decode._WHOLE_VOCABULARY": FORMAT,
    "wire.sampling._SMALLEST_TOP_P": FORMAT,
    "apis.chat.encode._OBFUSCATION_BLOCK": FORMAT,
    "wire.compat._LONGEST": SHOWN,
    "apis.messages.compaction._OVER_TOKENS": FORMAT,
    "apis.messages.edits._KEPT_THINKING": FORMAT,
    "apis.messages.edits._KEPT_TOOL_USES": FORMAT,
    "apis.messages.edits._OVER_TOKENS": FORMAT,
    "apis.conversations.types._LISTED": FORMAT,
    "apis.conversations.types._MOST_ITEMS": FORMAT,
    "apis.conversations.types._MOST_LISTED": FORMAT,
    "wire.decoding.OWN_LEVELS": FORMAT,
    "wire.errors._LONGEST_MESSAGE": SHOWN,
    "wire.errors._LONGEST_PARAM": SHOWN,
    "wire.errors._LONGEST_RETRY": FORMAT,
    "apis.gemini.models._LARGEST_PAGE": FORMAT,
    "apis.gemini.models._USUAL_PAGE": FORMAT,
    "wire.json_bounds._PIECE": PACE,
    "wire.json_bounds._QUOTES": FORMAT,
    "wire.json_lines._STEP": PACE,
    "apis.google.proto_json._LONGEST_NUMBER": FORMAT,
    "wire.logprobs._LEAST_LOGPROB": FORMAT,
    "apis.messages.decode._LEAST_BUDGET": FORMAT,
    "apis.messages.content._NAMED": SHOWN,
    "wire.model_list._LONGEST_PAGE": FORMAT,
    "wire.model_list._PAGE": FORMAT,
    "apis.parse.wire._SLICE_CHARACTERS": PACE,
    **dict.fromkeys((f"apis.realtime.secrets.{name}" for name in ("_LEAST", "_LONGEST_SETTINGS", "_MOST")), FORMAT),
    "apis.realtime.keeping._PAGE": PACE,
    "apis.realtime.peers._BEFORE": "far more than a server says before it answers session.update",
    "apis.realtime.relay._ENDED": FORMAT,
    "apis.realtime.relay._LOST": FORMAT,
    "apis.realtime.relay._RESPONSES": "far above what a server makes at once in a session",
    "apis.realtime.in_order._LATER": "25 seconds of sound, which is longer than a response waits",
    "apis.realtime.peers._TRIES": PACE,
    "apis.realtime.session_tools._KNOWN": "eight times what servers may offer at once",
    "apis.realtime.merged._KNOWN": "far more calls than the model remembers of a session",
    "apis.realtime.calls._BODY_BYTES": "far more than an offer and the settings of a session have",
    "apis.realtime.calls._LAST_S": PACE,
    "apis.realtime.carrier._EVENT_BYTES": COST,
    "apis.realtime.carrier._HEARD": "five seconds of sound, which nobody would answer later",
    "apis.realtime.carrier._LISTENERS": "more than listen to one call",
    "apis.realtime.carrier._NORMAL": FORMAT,
    "apis.realtime.carrier._PLAYED_BYTES": "longer than anybody listens to one answer",
    "apis.realtime.carrier._SLOW": FORMAT,
    **dict.fromkeys((f"apis.realtime.elsewhere.{name}" for name in ("_GONE", "_HEAD_BYTES", "_NORMAL")), FORMAT),
    **dict.fromkeys((f"apis.realtime.rtc.{name}" for name in ("_FRAME_S", "_RATE")), FORMAT),
    **dict.fromkeys(
        (
            f"apis.realtime.rtc.{name}"
            for name in ("_AT_ONCE", "_LATE_S", "_TYPE_WITHIN", "_SILENT_FRAMES", "_SILENT_S")
        ),
        PACE,
    ),
    "apis.realtime.wire.offer._FIELDS": FORMAT,
    "apis.realtime.wire.offer._FIELD_BYTES": "far more than the settings of a session have",
    "apis.realtime.wire.offer._LONGEST": "more than twice what browsers send",
    "apis.realtime.wire.offer._SECTIONS": FORMAT,
    **dict.fromkeys((f"apis.realtime.wire.playing.{name}" for name in ("FRAME_SOUND_BYTES", "_BYTES_A_MS")), FORMAT),
    "apis.realtime.wire.playing._MUTED": "as many responses as a session has at once",
    "apis.realtime.speaker._PIECE": PACE,
    **dict.fromkeys((f"apis.realtime.wire.g711.{name}" for name in ("_CUTOFF", "_TAPS", "_UP")), FORMAT),
    "apis.realtime.wire.g711._SLICE": COST,
    "apis.realtime.wire.spoken._UP": FORMAT,
    "apis.realtime.wire.effective.PHONE_RATE": FORMAT,
    **dict.fromkeys((f"apis.realtime.wire.silero.{name}" for name in ("_AT_MODEL", "_BYTES", "_WINDOW_MS")), MODEL),
    **dict.fromkeys((f"apis.realtime.wire.silero.{name}" for name in ("_FALLS", "_OF_THREE")), HEARING),
    "apis.realtime.wire.silero._AT_ONCE": PACE,
    "apis.realtime.wire.relayed._LONGEST_EVENT_ID": FORMAT,
    "apis.realtime.wire.relayed._PUT_BEHIND": COST,
    **dict.fromkeys(
        (f"engines.realtime.connection.{name}" for name in ("_CLOSE_S", "_FRAMES_WAITING", "_PING_S", "_WRITE_BYTES")),
        PACE,
    ),
    "engines.realtime.engine._WELL_S": PACE,
    "engines.realtime.live_items._CALLS": "far more than a session leaves without an answer",
    "engines.realtime.live_items._LONGEST_ID": FORMAT,
    "engines.realtime.live_items._MOST_BYTES": "a server takes no larger message",
    **dict.fromkeys(
        (f"engines.realtime.live_settings.{name}" for name in ("SOUND_RATE", "_MIDDLE", "_USUAL_SPEED")), FORMAT
    ),
    "engines.realtime.live_settings._MOST_TOOLS": "far more than such a server takes",
    "engines.realtime.live_socket._READ_INLINE": COST,
    "engines.realtime.live_wire._BYTES_A_MS": FORMAT,
    "engines.realtime.live_translation._HELD_BYTES": FORMAT,
    "apis.realtime.wire.effective.SAMPLE_RATE": FORMAT,
    **dict.fromkeys((f"apis.realtime.wire.hearing.{name}" for name in ("_BYTES_A_MS", "_LEAST", "_RATE")), FORMAT),
    **dict.fromkeys((f"apis.realtime.wire.sentences.{name}" for name in ("_LEAST", "_MOST")), PACE),
    "apis.realtime.wire.spoken._BYTES_A_SECOND": FORMAT,
    **dict.fromkeys((f"apis.realtime.wire.vad.{name}" for name in ("FRAME_BYTES", "_FULL_SCALE")), FORMAT),
    **dict.fromkeys(
        (f"apis.realtime.wire.vad.{name}" for name in ("FRAME_MS", "_OF_FOUR", "_QUIET", "_SILENCE", "_WINDOW")),
        HEARING,
    ),
    "apis.realtime.wire.events._LONGEST_EVENT_ID": FORMAT,
    "apis.realtime.wire.items.LONGEST_ID": FORMAT,
    "apis.realtime.wire.items._MOST_OF_PHONE": "an item of so much is sixfold in memory; the settings of sessions come behind it",
    "apis.responses.wire.builder._BLOCK": FORMAT,
    "tool_names._DIGEST": FORMAT,
    "tool_names._LONGEST": FORMAT,
    "apis.responses.wire.frames._LONGEST_LANE": FORMAT,
    **dict.fromkeys((f"sealing.sealer.{name}" for name in ("_HEAD", "_KEY_ID", "_MARK", "_SIV_KEY")), FORMAT),
    "wire.fields._LONGEST_NUMBER": FORMAT,
    "containers.code._KEPT_FILES": "files of one call of code that a client of Messages is given; others stay in the container",
    "containers.code._RESPONSES": "responses whose containers are known; an older one that goes on has a new container",
    **dict.fromkeys(
        (f"containers.{name}._DEPTH" for name in ("contents", "interpreter.program")),
        "folders within folders; deeper ones have names that no system call takes",
    ),
    "containers.contents._LISTED": "twice the files that a container may have; what has more is being removed",
    "containers.contents._LONGEST": FORMAT,
    "containers.contents._PASSES": PACE,
    "containers.interpreter.building._BUILD_S": PACE,
    **dict.fromkeys((f"containers.interpreter.{name}._STACK" for name in ("building", "program")), GUEST),
    "containers.interpreter.guest._CELLS": COST,
    "containers.interpreter.guest._MOST_ERROR": SHOWN,
    **dict.fromkeys(
        (
            f"containers.interpreter.{name}"
            for name in (
                *("program._BACKLOG", "program._LOOKS", "program._NICE", "program._OPEN_FILES", "program._WATCH_S"),
                *("running._GRACE_S", "running._START_S", "running._TRIES"),
            )
        ),
        PACE,
    ),
    **dict.fromkeys((f"containers.interpreter.{name}._MOST_FRAME" for name in ("program", "running")), GUEST),
    "containers.interpreter.running._LONGEST_PATH": FORMAT,
    "containers.kept._FILES": "half of the files that a container may have, so that code can make some too",
    "containers.kept._SWEEP_S": PACE,
    "containers.openai._READ": PACE,
    **dict.fromkeys((f"containers.types.{name}" for name in ("_MOST", "_MOST_FILES", "_USUAL")), FORMAT),
    "pipeline.tools.built_in._CODE": "characters of code that a model writes; more is no program that it can still see",
    "batches.message_types._OVERHEAD": COST,
    "batches.message_types._READ": PACE,
    "wire.multipart._LONGEST_TYPE": FORMAT,
    **dict.fromkeys((f"wire.multipart.{name}" for name in ("_HEADERS", "_HEADER_BYTES")), FORMAT),
    "batches.queue._TRIES": PACE,
    "batches.run._CONFLICT": FORMAT,
    "batches.run._NOT_THERE": FORMAT,
    "batches.run._WRITTEN": PACE,
    "batches.store._TRIES": PACE,
    "files.folder._LISTED": PACE,
    "files.folder._PIECE": PACE,
    "files.folder._SYNCED": PACE,
    "files.gemini._LONGEST_KEY": "a credential that is longer goes into no address",
    "files.gemini._LONGEST_TYPE": FORMAT,
    "files.gemini_types._LONGEST_TYPE": FORMAT,
    "files.upload_types._LONGEST_TYPE": FORMAT,
    "pipeline.calls.file_reading._PLACED_HERE": COST,
    "files.gemini_types._LISTED": FORMAT,
    "files.gemini_types._LONGEST_NUMBER": FORMAT,
    "files.gemini_types._MOST_LISTED": FORMAT,
    "files.kept._CENTURY": "the record that all writes of a tenant's files have in common is kept as long as any of them",
    "files.kept._LISTED": PACE,
    "files.kept._READ": PACE,
    "files.kept._TRIES": PACE,
    "files.kinds.BEGINNING": FORMAT,
    "files.kinds._LONGEST": FORMAT,
    "files.logs._PIECE": PACE,
    "files.logs._PIECES": PACE,
    "files.logs._WRITTEN": PACE,
    "files.messages._LISTED": FORMAT,
    "files.messages._MOST_LISTED": FORMAT,
    "files.place._CENTURY": "the name of a history's folder is kept as long as the history",
    "files.place._HEAD": FORMAT,
    "files.place._LONGEST": FORMAT,
    "files.receiving._FORM_BYTES": FORMAT,
    "files.spool._AT_ONCE": PACE,
    "files.types._LONGEST": FORMAT,
    "files.types._LONGEST_NAME": FORMAT,
    "files.types._MOST_LISTED": FORMAT,
    "files.types._SHORTEST": FORMAT,
    "files.upload_types._MOST_PARTS": "the most that files.parts can be set to",
    "batches.message_types._LISTED": FORMAT,
    "batches.message_types._MOST_LISTED": FORMAT,
    "batches.openai._LISTED": FORMAT,
    "batches.openai._MOST_LISTED": FORMAT,
    "fleet.roster.LOOKS_S": PACE,
    "admin.control.LOOKS_S": PACE,
    "background.service._TRIES": PACE,
    "background.store._FIELDS": COST,
    "background.store._PAGE": PACE,
    "background.stream._PAGE": PACE,
    "stored.expiry._PARTS": PACE,
    "stored.locks._RENEWED": PACE,
    "pipeline.calls.executor.INLINE": PACE,
    "machine.loop_watch.MOST_FRAMES": SHOWN,
    "apis.responses.records._TOKEN": COST,
    "apis.interactions.records._TOKEN": COST,
    "apis.responses.memory._PAGE": PACE,
    "workers.worker_file.HIGHEST_PORT": FORMAT,
    "workers.candidate.MOST_RANK": FORMAT,
    "workers.worker_file.MOST_ADAPTER_ID": FORMAT,
    "gateway.limits._OF_A_WORKER": FORMAT,
    "workers.rates._SECOND_US": FORMAT,
    "workers.worker_file.MOST_OF_A_LIMIT": "more a minute than any provider allows; as much as a rule of limits may say",
    "workers.registry.NAMED": SHOWN,
    "serving.socket_session._LEFT": FORMAT,
    "limits.counters.NEVER": SIGN,
    **dict.fromkeys(
        (
            f"limits.demand.{name}"
            for name in ("_AGAIN", "_ANSWERS", "_BYTES_A_TOKEN", "_FIRST_OUTPUT", "_SHARE", "_WEIGHT")
        ),
        "how a reservation is estimated, which the answer's usage puts right",
    ),
    "limits.memory._LOOKED_AT": PACE,
    "limits.calendar.QUARTER_S": FORMAT,
    **dict.fromkeys((f"limits.store_script.{name}" for name in ("_EXACT", "_DAY_MS")), FORMAT),
    "limits.store_script._WINDOW_ENDS": SIGN,
    **dict.fromkeys((f"limits.store.{name}" for name in ("_TOGETHER", "_HEARTBEAT_S", "_ALIVE_S")), PACE),
    **dict.fromkeys((f"limits.store.{name}" for name in ("_LOSSES", "_PAUSE_S", "_CONNECT_S")), PACE),
    "limits.store._WAITING": "hours of what a busy gateway puts right; what is dropped is counted, and the log says so",
    "limits.store._SEEN": COST,
    "serving.limiting._PLANS": COST,
    "limits.shared._HEAD": FORMAT,
    "limits.shared._NEARBY": PACE,
    "admin.limits._DIGITS": TYPED,
    "gateway.limits._NUMBER": FORMAT,
    "gateway.limits._OF_A_COUNTER": COST,
    "limits.words._ROUNDED": FORMAT,
    "serving.limiting._AT_ONCE": PACE,
    "serving.limiting._LOOK_S": PACE,
    "serving.limiting._STEP": PACE,
    "serving.limiting._LONGEST_WAIT_S": FORMAT,
    "limits.rules.MICRO": FORMAT,
    "limits.rules._MOST": "far above what one means with a limit: what is beyond it is a slip",
    "limits.prices._DEAREST": TYPED,
    "limits.prices_file._MOST_BYTES": "far above any table of prices",
    "serving.socket_session._TOO_LARGE": FORMAT,
    "http.websocket.SWITCHED": FORMAT,
    "server.socket_frames._PIECE": PACE,
    **dict.fromkeys(
        (f"server.socket_frames.{name}" for name in ("CONTINUATION", "TEXT", "BINARY", "CLOSE", "PING", "PONG")),
        FORMAT,
    ),
    **dict.fromkeys(
        (f"server.socket_frames.{name}" for name in ("_CONTROL", "_FINAL", "_RESERVED", "_MASKED")), FORMAT
    ),
    **dict.fromkeys((f"server.socket_frames.{name}" for name in ("_LONGEST_CONTROL", "_MASK_BYTES")), FORMAT),
    **dict.fromkeys((f"server.socket_frames.{name}" for name in ("PROTOCOL_ERROR", "NOT_UTF8", "TOO_LARGE")), FORMAT),
    **dict.fromkeys(
        (f"server.socket_protocol.{name}" for name in ("TOO_SLOW", "NO_ROOM")),
        FORMAT,
    ),
    "server.socket_protocol.STEPS_AT_ONCE": PACE,
    "server.socket_protocol.HANDSHAKE_BYTES": "far more than a client names; the bytes of a head are bounded by a setting",
    "http.queries.MOST_FIELDS": "more fields than any API has; the bytes of a head are bounded by a setting",
    "http.websocket._REFUSED": FORMAT,
    **dict.fromkeys((f"http.websocket.{name}" for name in ("_ABNORMAL", "_NO_CODE")), FORMAT),
    "server.tls_accept.AT_ONCE": PACE,
    "server.tls_accept.HANDSHAKE": FORMAT,
    "server.tls_accept.PAUSE_SECONDS": PACE,
    **dict.fromkeys((f"server.proxy_header.{name}" for name in ("FIXED", "LOCAL", "LONGEST_LINE", "PROXIED")), FORMAT),
    "http.forwarded.ELEMENT": COST,
    "commands.admin.HTTP_ERRORS": FORMAT,
    "commands.setup._SWITCHING": FORMAT,
    "commands.setup._MOST_BYTES": "far above what a program's own settings have; what is beyond it is another file",
    **dict.fromkeys((f"commands.setup_programs.{name}" for name in ("_LONG", "_MOST_OUTPUT", "_ANSWER")), TOLD),
    **dict.fromkeys((f"commands.settings_help.{name}" for name in ("_LEFT", "_WIDEST")), SHOWN),
    "commands.tables._MOST_COLUMNS": SHOWN,
    **dict.fromkeys((f"commands.admin.{name}" for name in ("_LAST_DATE", "_MOST", "_YEAR_S")), TYPED),
    "top.command.MOST_ROWS": TYPED,
    "top.command.LONGEST_INTERVAL": ASKED,
    "top.command.WIDTH": SHOWN,
    "admin.key_types._CENTURY": "longer than any overlap, so that a number that is none is refused",
    "admin.health.SILENT_MS": "how old a word of a process is before it is called silent; nothing is refused for it",
    "app.app.LONGEST_QUOTE": SHOWN,
    "operation.hardening.OTHERS": FORMAT,
    "http.bodies._LARGE": COST,
    "http.inflating._GZIP": FORMAT,
    "http.inflating._INFLATED": PACE,
    "tools.hosted._DECODED_HERE": PACE,
    "tools.hops._MOST": "gateways that are each other's MCP servers; a loop of them ends there",
    "tools.offered._LONGEST_QUOTE": SHOWN,
    "tools.own_tools._SESSIONS": "sessions of which the last container is known, of a hundred bytes each",
    "tools.own_tools._RESULTS": "results of one search of files, as the route of vector stores has them",
    "tools.own_tools._STORES": "vector stores that one search names; each is searched by itself",
    "apis.mcp.calls._ENDED": "ended sessions that a process remembers, of 32 bytes each",
    "apis.mcp.wire._LONGEST_QUOTE": SHOWN,
    **dict.fromkeys(
        (
            *("apis.mcp.wire.CANCELLED", "apis.mcp.wire.PARSE_ERROR", "apis.mcp.wire.INVALID_REQUEST"),
            *("apis.mcp.wire.METHOD_NOT_FOUND", "apis.mcp.wire.INVALID_PARAMS", "apis.mcp.wire.INTERNAL"),
            *("apis.mcp.wire._HEADERS_DIFFER", "apis.mcp.wire._UNSUPPORTED_VERSION", "apis.mcp.wire._NOT_FOUND"),
        ),
        FORMAT,
    ),
    "models.model_media._COPIED_HERE": PACE,
    "models.model_media._LONGEST_ADDRESS": PACE,
    "pipeline.prompt.media._LONGEST_ADDRESS": PACE,
    "engines.grpc.h2.stream._FIRST": PACE,
    "engines.grpc.h2.waiting._FEW": "the share of few streams kept for questions; the setting question_calls comes after it",
    "engines.codecs.tensors._COPIED_AT_ONCE": PACE,
    "tokenizer.loader._LONGEST_NAME": FORMAT,
    "http.exchange._BLANKS": "far more blanks than a client writes before a body; the bound of the body comes after it",
    "http.exchange._WRITTEN": PACE,
    "apis.status.front_page.NAMED": SHOWN,
    "apis.status.provider_lists._AT_ONCE": "lists that are read at once, each of some hundred KiB",
    "apis.status.provider_lists._FAILED_S": "providers count questions too, and a fault may be over by then",
    "apis.status.provider_lists._FIRST_S": "whoever asks for the list of models waits so long at most",
    "apis.status.provider_lists._KEPT_S": "providers change their lists some times in a week",
    "server.http_protocol.LONGEST_PATH": SHOWN,
    "identity.identity._LONGEST_QUOTE": SHOWN,
    "identity.virtual_keys._CENTURY": "how long a key is kept that never expires",
    "identity.virtual_keys._ID_BYTES": FORMAT,
    "identity.virtual_keys._SECRET_BYTES": FORMAT,
    "identity.virtual_keys._TRIES": PACE,
    "server.http_protocol.PROBES": PACE,
    "server.http_protocol.PIECE": PACE,
    "server.http_protocol.PIECES_AT_ONCE": PACE,
    "apis.tokenize.routes._DECODED_INLINE": PACE,
    "server.http_protocol.PROBE_PAUSE": PACE,
    "serving.inference.DECODED_INLINE": PACE,
    "serving.answering.LONGEST_VIOLATION": SHOWN,
    "serving.answering._LONGEST_LOSSES": SHOWN,
    "app.app_call.BUFFERED": PACE,
    "gateway.launched.LAST_LINES": SHOWN,
    "gateway.launched.LINE": SHOWN,
    "models.media_service._FILES_SHARE": COST,
    "models.media_service._MAPPED": "each takes a descriptor; what is not kept is mapped again in 50 us",
    "machine.memory._MAPPED_BYTES": COST,
    "machine.memory._NEVER": "larger than the number of collections of any process",
    "pipeline.tools.search._LONGEST_DESCRIPTION": SHOWN,
    "machine.memory._M_ARENA_MAX": FORMAT,
    "machine.memory._M_MMAP_THRESHOLD": FORMAT,
    "models.model_media._COPIES": COST,
    "models.model_media._COPIES_JOINED": COST,
    "apis.parse.routes.PARSE_COST": COST,
    "http.routes._GROUPED_BY": SIGN,
    "http.routes._RECENT_LENGTH": "paths that name a model are shorter; any other is looked for each time",
    "operation.process_table.NAME_BYTES": HASHED,
    "operation.process_table.ROWS_PER_WORKER": COST,
    "machine.scratch.SWEPT_AT_ONCE": PACE,
    "models.sealing_keys.LEAST_CHARACTERS": FORMAT,
    "models.sealing_keys._RANDOM_BYTES": FORMAT,
    "channel.frames.LENGTH_BYTES": FORMAT,
    "channel.frames.OVERHEAD_BYTES": FORMAT,
    "channel.member.READ_BYTES": PACE,
    "channel.relaying.READ_BYTES": PACE,
    "processes.supervisor.CANNOT_START": TOLD,
    "processes.leader_election.LEADING": "the number of a slot, and no bound",
    "processes.supervisor.LONGEST_WAIT": PACE,
    "server.http_server.SWEEP_TICKS": PACE,
    "server.http_server.TICK_SECONDS": PACE,
    "machine.memory.TRIM_S": PACE,
    "machine.memory.LONGEST_TRIM_S": PACE,
    "sse._MAX_EVENT_BYTES": SET,
    "tokenizer.cache._ENTRY_BYTES": COST,
    "tokenizer.control._RARE": PACE,
    "tokenizer.control._SAMPLE": PACE,
    "tokenizer.huggingface._BATCH": PACE,
    "tokenizer.loader.PROVE_ELSEWHERE": PACE,
    "tokenizer.prefix_tree._NODE_BYTES": COST,
    "tokenizer.stand_ins.MOST_STARTS": "characters that begin a model's control tokens; others are protected otherwise",
    "tokenizer.stand_ins._LONGEST_LITERAL": "of the operator's template, read once when it is loaded",
    "tokenizer.stand_ins._MOST_LEFTOVERS": "of the operator's template, read once when it is loaded",
    "tokenizer.stand_ins._MOST_ROUNDS": "passes over a text of a bounded request, which it only makes shorter",
    "tokenizer.stream.BYTE_BASE": FORMAT,
    "tokenizer.tiktoken._KIMI_RESERVED": FORMAT,
    "tokenizer.tiktoken._LONGEST_RUN": FORMAT,
    "tokenizer.vocabulary._COMPOSED": FORMAT,
}
CONSTANTS |= {
    **dict.fromkeys(
        (
            *(f"credentials.{name}._MOST_BYTES" for name in ("aws.chain", "entra.chain", "google.chain")),
            *(f"credentials.renewal.{name}" for name in ("asking._MOST_BYTES", "keys._MOST", "programs.MOST_BYTES")),
        ),
        "what is longer is no key, no token and no file of them",
    ),
    **dict.fromkeys(
        (
            *(f"credentials.renewal.granted.{name}" for name in ("AWAITED_S", "RENEWED_S")),
            *(
                f"credentials.renewal.token_answers.{name}"
                for name in ("AWAITED_TOKEN_S", "RENEWED_TOKEN_S", "_USUAL_S")
            ),
        ),
        "tokens last for an hour or more; of one that ends sooner it is a part of its time",
    ),
    **dict.fromkeys(
        ("credentials.aws.chain._FILES_S", "credentials.aws.chain._SSO_S", "credentials.google.chain._LIBRARY_S"),
        "how soon a credential is looked at again that does not say when it ends",
    ),
    "credentials.aws.signer._LARGE": PACE,
    "credentials.aws.signer._LEAST_S": "AWS takes what is up to five minutes off",
    "credentials.google.assertion.ASSERTION_S": FORMAT,
    "credentials.google.chain._DEEPEST": "no chain of accounts that people make is longer; it ends a circle",
    "engines.http.dialing._MOST_HEAD": "an answer that opens a tunnel has a line and a few headers",
    "engines.vendors.chat.format._NAME_LENGTH": FORMAT,
    "credentials.renewal.keys.COMMAND_S": "what an entry says as every_s comes before it",
    "credentials.renewal.keys.FILE_S": "what an entry says as every_s comes before it",
    "credentials.renewal.renewed.PAUSE_S": "how often a source that fails is asked; requests are refused meanwhile",
    **dict.fromkeys(
        (
            f"engines.vendors.bedrock.converse_{name}"
            for name in (
                *("body._BREAKPOINTS", "body._HIGHEST_TEMPERATURE", "body._LEAST_BUDGET", "body._NAME_LENGTH"),
                *("turns._ID_LENGTH", "turns._NAME_LENGTH"),
            )
        ),
        FORMAT,
    ),
    **dict.fromkeys(
        (
            f"engines.vendors.bedrock.event_stream.{name}"
            for name in (
                "MOST_HEADERS",
                "MOST_PAYLOAD",
                "_AROUND",
                "_BYTES",
                "_FALSE",
                "_TEXT",
                "_TRUE",
                "_REPEATED",
                "_UUID",
                "_UUID_SIZE",
            )
        ),
        FORMAT,
    ),
}
CONSTANTS |= {
    "objectives.learning._FORGETS": "how fast a worker's times are learned anew; it bounds nothing",
    "objectives.learning._DOUBT": "how fast a worker's times are learned at first; it bounds nothing",
    "objectives.learning._MOST_DOUBT": "how fast a worker's times are learned; it bounds nothing",
    "objectives.learning._KNOWN": "after how many answers a prediction is used",
    "objectives.learning._SMOOTH": "over how many answers the usual error is taken",
    "objectives.learning._ODD": "how much one answer may teach",
    "objectives.objectives._MOST_MS": TYPED,
    "objectives.objectives._NEAR": "which workers a request may go to that is late anyway; it refuses nobody",
    "response_cache.packing.PIECE": "how long the pieces are in which a kept text is told again",
    "response_cache.packing._VERSION": FORMAT,
    "response_cache.answer_memory._OVERHEAD": COST,
    "response_cache.answer_store._LOSSES": "how a store that is lost is left in peace for a while; engines answer meanwhile",
    "response_cache.answer_store._PAUSE_S": "how a store that is lost is left in peace for a while; engines answer meanwhile",
    "response_cache.answer_store._SCANNED": "a tenant that is erased is looked for in slices; the server serves others meanwhile",
    "response_cache.answer_store._ERASE_S": "who erases a tenant is told that it was not where a slice takes longer",
    "response_cache.caching._SWEPT": "what is erased is not found any more; its memory is given back in slices",
    "response_cache.keys._TENANT_BYTES": "as many as make two tenants with the same mark impossible",
    "response_cache.answer_store._CONNECT_S": "response_cache.store_timeout_s, which is shorter, comes before it",
    "response_cache.answer_store._CONNECTIONS": "who finds none free waits for response_cache.store_timeout_s",
    "response_cache.flight._AT_ONCE": PACE,
    "response_cache.caching._INLINE": PACE,
    "response_cache.caching._INLINE_EVENTS": PACE,
    "response_cache.caching._MARKS": COST,
    "queueing.reading.PEOPLE_S": "for how long one person's request makes others leave a worker free",
    "queueing.reading._SHORT": "a prompt that an engine reads in some 16 ms makes nobody wait",
    "queueing.reading._AHEAD": "how uneven workers may be for one to be kept free; it refuses nobody",
    "queueing.reading._AHEAD_PART": "how uneven workers may be for one to be kept free; it refuses nobody",
    "queueing.reading._BEHIND": "about a step of an engine: who waits for more needs the worker that is kept free",
    "queueing.bands.MOST_WEIGHT": TYPED,
    "queueing.capacity._KV_SHARE": "how full a model is thought to be; it decides who waits, and refuses nobody",
    "queueing.capacity._QUEUED": "how full a model is thought to be; it decides who waits, and refuses nobody",
    "queueing.capacity._STEP": "how full a model is thought to be; it decides who waits, and refuses nobody",
    "queueing.fair_order._BEHIND_S": "how far sessions of one tenant go apart; it decides who is first, and refuses nobody",
    "queueing.fair_order._SPARE": PACE,
    "queueing.model_queue._KNOWN_S": "over how long a rate is measured by which waits are told",
    "queueing.model_queue._LOOKED_AT": PACE,
    "queueing.model_queue._QUICK": "which part of queue.wait_s the first bands have; documented with the setting",
    "queueing.model_queue._RATE_S": "over how long a rate is measured by which waits are told",
    "queueing.model_queue._SPARE": PACE,
    "queueing.waiting._CACHED_WEIGHT": COST,
    "queueing.waiting._LATE_S": "how full a model is thought to be; it decides who waits, and refuses nobody",
    "queueing.waiting._LONGEST_PROMPT": COST,
    "queueing.waiting._LONGEST_RETRY_S": "the longest wait that libraries of clients obey",
    "queueing.waiting._MEMORY_TICKS": PACE,
    "queueing.waiting._MOST_MS": TYPED,
    "queueing.waiting._OUTPUT_WEIGHT": COST,
    "queueing.waiting._SAMPLED_TICKS": PACE,
    "queueing.waiting._TICK_S": PACE,
}
CONSTANTS |= {
    "retrieval.chunking._EARLY": "how far before its bound a chunk may end, where a sentence does",
    "retrieval.chunking._LOOKED_AT": COST,
    "retrieval.fusion.DEPTH": PACE,
    "retrieval.fusion._OFFSET": "the number of reciprocal rank fusion, as its authors have it",
    "retrieval.index._TAKEN_OUT": PACE,
    "retrieval.index._VERSION": SIGN,
    "retrieval.index._WAIT_S": "far above what a process takes to write some chunks, which another waits for",
    "retrieval.index_search._BUDGET": "how many chunks are weighed by the more frequent words of a query; the rarest always is",
    "retrieval.index_search._COUNTED": COST,
    "retrieval.filter_language._DEEPEST": "far above the filters that clients write; a filter is a part of one request",
    "retrieval.filter_language._LONGEST": "far above the filters that clients write; a filter is a part of one request",
    "retrieval.filter_language._LONGEST_KEY": FORMAT,
    "retrieval.filter_language._LONGEST_VALUE": FORMAT,
    "retrieval.index._TIMES": "what a text takes of the disk with its index of words and the log of the database, at most",
    "retrieval.index_files._OPEN": COST,
    "retrieval.postgres_connections._CONNECTIONS": COST,
    "retrieval.postgres_connections._LOCK": SIGN,
    "retrieval.postgres_connections._VERSION": SIGN,
    "retrieval.postgres_indexes._BUDGET": "as in the other index: chunks that the more frequent words of a query are weighed in",
    "retrieval.postgres_indexes._COUNTED": COST,
    "retrieval.postgres_indexes._KNOWN": COST,
    "retrieval.postgres_indexes._NUMBER_BYTES": FORMAT,
    "retrieval.postgres_indexes._READ": PACE,
    "retrieval.postgres_indexes._TAKEN_OUT": PACE,
    "retrieval.postgres_indexes._WEIGHED": "what ranking a word that nearly every chunk has may cost; docs/files.md has it",
    "retrieval.nearest.SLAB": PACE,
    "retrieval.nearest._BLOCK": PACE,
    "retrieval.nearest._ONE": FORMAT,
    "retrieval.vector_memory._READ": PACE,
    "retrieval.words._LONGEST_WORD": "a longer word is looked for by its beginning, and is no word of a language",
    "retrieval.words._MOST_WORDS": "far above the words that queries have; further ones are not looked for",
    "vector_stores.adding._WRITTEN": PACE,
    "vector_stores.embedding._NUMBER_BYTES": FORMAT,
    "vector_stores.file_handlers._CANCELLED": PACE,
    "vector_stores.indexing._AT_ONCE": PACE,
    "vector_stores.indexing._PIECE": PACE,
    "vector_stores.kept._CENTURY": "the record that all stores of a tenant have in common is kept as long as any of them",
    "vector_stores.kept._IDLE_S": "how exactly it is noted when a store was used; its expiry is counted in days",
    "vector_stores.kept._LISTED": PACE,
    "vector_stores.kept._TRIES": PACE,
    "vector_stores.queue._LOOKED_AT": PACE,
    "vector_stores.records._AFTER_EXPIRY": "how long it can be read that a store has expired",
    "vector_stores.records._CENTURY": "stores without an expiry stay until they are deleted; vector_stores.stores bounds them",
    "vector_stores.records._DAY": FORMAT,
    "vector_stores.searcher._MOST_STORES": "far above the stores that a tool names; further ones are refused",
    "vector_stores.searcher._QUERY_S": "how long a client waits for the vector of its query before words are looked for alone",
    **dict.fromkeys(
        (
            f"vector_stores.types.{name}"
            for name in (
                *("_LISTED", "_LONGEST_DESCRIPTION", "_LONGEST_KEY", "_LONGEST_NAME", "_LONGEST_QUERY"),
                *("_LONGEST_VALUE", "_MOST_ATTRIBUTES", "_MOST_FILES", "_MOST_LISTED", "_MOST_QUERIES"),
                "_USUAL_RESULTS",
            )
        ),
        FORMAT,
    ),
    "vector_stores.work._LOOK_S": PACE,
    "vector_stores.work._THREADS": COST,
    "retrieval.filters._DEEPEST": "far above the filters that clients write; a filter is a part of one request",
    "retrieval.filters._LONGEST_KEY": FORMAT,
    "retrieval.filters._LONGEST_VALUE": FORMAT,
    "retrieval.filters._MOST": "far above the filters that clients write; a filter is a part of one request",
    "retrieval.filters._MOST_VALUES": "far above the filters that clients write; a filter is a part of one request",
    "retrieval.searching.MOST_RESULTS": FORMAT,
}
CONSTANTS |= {
    "apis.messages.built_in._CHARACTERS": COST,
    "pipeline.answer.citing.LONGEST": "far above a mark of eight sources; what is longer is text, which goes on",
    "pipeline.answer.citing._DIGITS": "far above the sources of one response",
    "pipeline.tools.built_in._ADDRESS": FORMAT,
    "pipeline.tools.built_in._QUERY": FORMAT,
    "sources._QUOTED": FORMAT,
    "tools.built_ins._MOST_RESULTS": FORMAT,
    "tools.built_ins._RESULTS": "results that are taken of a server of tools; for a service the operator says how many",
    "tools.domains._IN_QUERY": "domains that a query names; what is found is held to all",
    "tools.file_search._RESULTS": FORMAT,
    "tools.web_results._AGE": SHOWN,
    "tools.web_results._AROUND": SHOWN,
    "tools.web_results._DEPTH": "how far into the answer of a server of tools is looked for its results",
    "tools.web_results._EXCERPTS": SHOWN,
    "tools.web_results._TEXT": SHOWN,
    "tools.web_results._TITLE": SHOWN,
    "web_terms._DOMAINS": FORMAT,
    "web_terms._LONGEST": FORMAT,
    "web_terms._MOST_REPEATED": SHOWN,
}

CONSTANTS |= {
    "apis.moderations.wire._FLAGGED": "from when on a class is flagged; told in docs/guardrails.md",
    "guardrails.adapters.asking._MOST_BYTES": "the answer of a service to one text; its guardrail has failed beyond it",
    "guardrails.adapters.rows._CLASSIFIED": "the default of the field chars of an entry, told in docs/guardrails.md",
    "guardrails.adapters.rows._CHARACTERS": "the default of the field chars of an entry, told in docs/guardrails.md",
    "guardrails.answers._ARGUMENTS": "far above what a call of a tool has; the tokens of an answer come before it",
    "guardrails.asking._FAULTS": PACE,
    "guardrails.asking._REST_S": PACE,
    "guardrails.asking._RETRY_S": PACE,
    "guardrails.asking._THREADS": COST,
    "guardrails.guarding._HASHED": COST,
    "guardrails.guarding._PASSES_S": "for how long a text that has passed is not shown again; told in docs/guardrails.md",
    "guardrails.guarding._REMEMBERED": COST,
    "guardrails.held._LONGEST": "how many times guardrails.held_chars may be held back for one mask; told in docs/guardrails.md",
    "guardrails.prompts._AT_ONCE": PACE,
    "guardrails.prompts._IDS_INLINE": COST,
    "guardrails.records._LONGEST_LABEL": SHOWN,
}

DEFAULTS: dict[str, str] = {
    "retrieval.searching.search.max_results": FORMAT,
    "vector_stores.searcher.search.max_results": FORMAT,
    "vector_stores.work.search.max_results": FORMAT,
    "admin.answers.respond_json.status": FORMAT,
    **dict.fromkeys(
        (f"queueing.capacity.__init__.{name}" for name in ("start", "least", "most")),
        "the limit of an engine that says none; workers.most_in_flight comes before it",
    ),
    "queueing.fair_order.__init__.remembered": COST,
    "objectives.learning.__init__.most": COST,
    "objectives.objectives.__init__.most": COST,
    "queueing.model_queue.__init__.weight_of": "weights are handed in; alone, all weigh the same",
    "queueing.model_queue._has_room.freed": "nothing is freed",
    "admin.roster._show.status": FORMAT,
    **dict.fromkeys(
        (f"engines.handover.{name}.process" for name in ("room_of", "hand_over_of", "encoded_items")),
        "a gateway of one process, the first",
    ),
    "engines.grpc.grpcio.__init__.connect_timeout": SET,
    "engines.grpc.h2.transport.__init__.connect_timeout": SET,
    "engines.http.client.__init__.connect_timeout": SET,
    "engines.kinds.session.__init__.connect_timeout": "a program's own: its engines are no workers of a gateway",
    "engines.kinds.session.__init__.held": "a program's own: outputs that wait for it before its engine is read no more",
    "engines.openai.engine.__init__.connect_timeout": SET,
    "engines.realtime.engine.__init__.connect_timeout": SET,
    "engines.vendors.engine.__init__.connect_timeout": SET,
    **{
        f"history.{store}.{method}.limit": ASKED
        for store in ("store.base", "guard", "deferred", "memory.store", "redis.store", "sql.store", "sqlite.store")
        for method in ("abandoned", "events", "items", "records", "sweep")
    },
    "mesh.state.replica.expire.most": PACE,
    "mesh.state.stamps.__init__.most_ahead_ms": "a clock that is further ahead is wrong; its stamps are counted and not followed",
    "observability.metrics.recording.__init__.batch": SET,
    "pipeline.calls.executor.__init__.large": PACE,
    "pipeline.calls.preparing.__init__.render_inline": PACE,
    "wire.compat.__init__.most_warnings": SET,
    "wire.decoding.brief.limit": SHOWN,
    "wire.explain.explanation_header.limit": SET,
    "serving.admission.__init__.pending_bytes": SET,
    "limits.demand.__init__.most": COST,
    "wire.base.__init__.most": "a seal comes with the end of its block, right behind the piece that waits for it",
    "http.routes.__init__.most_recent": "paths that name a model, of which there are fewer; any other is looked for each time",
    "server.http_protocol.protocol_class.most_connections": SET,
    "server.http_protocol.protocol_class.write_seconds": SET,
    "identity.virtual_keys.list_page.limit": ASKED,
    "gateway.launched.__init__.grace_s": ASKED,
    "gateway.launched.__init__.timeout_s": ASKED,
    "tokenizer.cache.__init__.wire_bytes": COST,
    "tokenizer.stream.__init__.hold": "tokens that are held while their text is not valid yet: more than any character has",
}

LIBRARY_CONSTANTS: dict[str, str] = {
    SIGN: """
        smg_parsers.pieces.base: MORE DONE FAIL SWITCH RESUME SPILL UNDECIDED REREAD UNFENCED
        smg_parsers.values.lenient_json: _LATER _NO
        smg_parsers.families.model_ids: SAME_VERSION EARLIER_VERSION NO_MINOR_VERSION
        smg_parsers.grammars.tool_xml_ends: YES LATER NO
        smg_multimodal.decoding.decode: _ANY
        smg_multimodal.fetching.egress: _LEAST_BARE
        smg_multimodal.pixels.kernel_text: LOOPS
    """,
    READING: """
        smg_config_files.json_changes: _DEEPEST
        smg_config_files.text: _DEEPEST _MOST_NODES
        smg_parsers.pieces.base: BEHIND_LIMIT LOOKAHEAD NAME_LIMIT
        smg_parsers.grammars.fenced: _LIMIT
        smg_parsers.grammars.citations: TAIL_LIMIT
        smg_parsers.values.literals: GROUP_LIMIT TOKEN_LIMIT
        smg_parsers.families.model_ids: ID_LIMIT
        smg_parsers.families.models: _SUFFIX_LIMIT
        smg_parsers.parser: HOLD_LIMIT UNDECIDED_LIMIT _PART_OF_A_MARKER
        smg_parsers.json_text.partial_json: MAX_DEPTH
        smg_parsers.grammars.tool_blocks: HEADER_LIMIT _ID_PARTS
        smg_parsers.grammars.tool_json: _LONGEST_ESCAPE
        smg_parsers.values.call_arguments: STRING_LIMIT
        smg_parsers.grammars.tool_xml_ends: MESSAGE_LIMIT _CLOSING_TAGS _MISSPELLING
        smg_parsers.grammars.tool_xml_tags: ELEMENT_DEPTH TAG_LIMIT _ATTRIBUTE_LIMIT
        smg_parsers.grammars.tool_xml_values: VALUE_LIMIT
    """,
    SCHEMA: """
        smg_parsers.values.coerce: _UNFOLD_LIMIT
        smg_parsers.constraints.arguments: MAX_NESTING MAX_REF_DEPTH MAX_UNION_DEPTH
        smg_parsers.constraints.lark: MOST_CHARACTERS MOST_DEFINITIONS MOST_NESTING MOST_REPEATS MOST_TOKENS _TRANSLATED
        smg_parsers.constraints.patterns: MOST_CHARACTERS MOST_NESTING MOST_REPEATS
        smg_parsers.families.template_patterns: MOST_ALTERNATIVES MOST_CHARACTERS MOST_NESTING
    """,
    CHECK: """
        smg_parsers.lab.lab: CONSERVATION_LIMIT NASTY_LIMIT
        smg_parsers.lab.laws: SLACK TOLERANCE
    """,
    FORMAT: """
        smg_parsers.constraints.patterns: _LAST
        smg_mcp.catalogue.naming: LONGEST_TOOL_NAME
        smg_mcp.transport.wire: _FAULT_CODE
        smg_multimodal.decoding.containers: _TAG
        smg_multimodal.decoding.fast_png: _LAST_FILTER
        smg_multimodal.pixels.filters: PRECISION_BITS
        smg_multimodal.recordings.audio: _UNKNOWN_LENGTH
        smg_multimodal.decoding.formats: _UNTIMED
        smg_multimodal.pixels.kernel: _PAGE
        smg_multimodal.decoding.pdf: _HEAD
        smg_multimodal.pixels.passes: _LOW_BITS _WHOLE_BITS
        smg_multimodal.pixels.resample: BILINEAR BICUBIC LANCZOS
    """,
    PACE: """
        smg_multimodal.pixels.floats: _BLOCK _PRODUCTS
        smg_multimodal.recordings.parakeet: _BLOCK
        smg_multimodal.tiles.nemotron_nano: _ROWS
        smg_multimodal.tiles.step3: _ROWS
        smg_egress.escapes: _ESCAPED_AT_ONCE
        smg_mcp.transport.origin: _HELD_BYTES
        smg_mcp.request_tools: _MADE_HERE
        smg_mcp.catalogue.search: FOUND MOST_FOUND _QUERY_WORDS
        smg_mcp.functions.session: _LONGEST_ERROR
        smg_mcp.web.fetching: _ROBOTS_BYTES
        smg_mcp.web.reading: _HEAD
        smg_mcp.web.services: _AGE
        smg_mcp.sessions.session: _MOST_LISTED
        smg_mcp.transport.stdio: _ELSEWHERE
        smg_multimodal.processes.documents: _HASHED_HERE
        smg_mcp.transport.wire: _ELSEWHERE
        smg_multimodal.prompts.dictation: _MOST_BEFORE
        smg_multimodal.recordings.audio: _BLOCK _COPIED_AT_ONCE _FRAMES
        smg_multimodal.recordings.mel_bands: _AT_ONCE
        smg_multimodal.families.binned_sounds: _BLOCK
        smg_multimodal.families.usm: _FRAMES
        smg_multimodal.families.granite: _BLOCK
        smg_multimodal.preparing.content: _HASH_DIRECTLY _COMPARE_DIRECTLY _BLOCK
        smg_multimodal.decoding.decode: _ROWS _USUAL_SCANS
        smg_multimodal.fetching.egress: _BLOCK _LOOKED_AT
        smg_multimodal.decoding.fast_png: _BAND _PIECE
        smg_multimodal.fetching.fetch: _DECODED_AT_ONCE _DECODED_HERE _STEPS_HERE _WALKED_HERE
        smg_multimodal.pixels.layouts: _FEWEST _FLOAT_BAND
        smg_multimodal.preparing.shared_items: _COPIED
        smg_multimodal.preparing.wire_forms: _ROUNDED
        smg_multimodal.pixels.passes: _SOURCE_BAND _MIDDLE_BAND _OUTPUT_BAND
        smg_multimodal.pixels.resample: _BAND
        smg_multimodal.pixels.transforms: _BLOCK
        smg_multimodal.processes.worker_process: _BAND
    """,
    COST: """
        smg_multimodal.families.kimi_clips: _OVERHEAD
        smg_multimodal.families.minicpm_clips: _OVERHEAD _PER_VIEW
        smg_multimodal.families.molmo_clips: _OVERHEAD
        smg_multimodal.families.nemotron: _OVERHEAD
        smg_mcp.catalogue.naming: _MARK
        smg_mcp.catalogue.search: _LENGTH _NAME_WEIGHT _SATURATION
        smg_parsers.families.model_ids: PATTERNS_KEPT
        smg_multimodal.recordings.audio: _WEIGHTS
        smg_multimodal.decoding.clips: _OVERHEAD _PIXEL_BYTES
        smg_multimodal.preparing.content: _SAMPLES _SAMPLE_BYTES
        smg_multimodal.preparing.shared_items: _ALIGNED _KEPT_FREE _PAGE
        smg_multimodal.decoding.costs: _OVERHEAD _IN_BETWEEN _SHORT_SECONDS _HANDED_FRAMES _MEASURED _HANDED_OVER
        smg_multimodal.decoding.costs: _RECORDED _LEAST_RECORDED _SPECTRA
        smg_multimodal.decoding.decode: _FRAMES_HELD
        smg_multimodal.decoding.formats: _BLOCKS_A_STEP _BYTE_SECONDS _INFLATED _PIECE_SECONDS
        smg_multimodal.pixels.kernel: TABLES SOURCE MIDDLE OUTPUT LINES REGION MEMORY SLACK _MOST_KEPT
        smg_multimodal.decoding.sounds: _OVERHEAD _COPIES _WAVE_COPIES _SECOND_SECONDS _SHORT_SECONDS
        smg_multimodal.clips.frames: _OVERHEAD
        smg_multimodal.clips.video: _OVERHEAD
        smg_multimodal.processes.worker_process: FRAMES_AHEAD _BASE
        smg_multimodal.processes.workers: _MEMORY_SLACK
    """,
    MODEL: """
        smg_multimodal.families.nemotron: _USUAL_FRAMES
        smg_multimodal.families.dictated_sounds: _LONGEST_WORD _LOOSE _SILENT
        smg_multimodal.families.moss_sounds: _LONGEST
        smg_multimodal.prompts.dictation: _MULTILINGUAL _POSITIONS
        smg_multimodal.patches.nemotron: _PICTURE_OVERHEAD
        smg_multimodal.recordings.parakeet: _NARROWEST _PREEMPHASIS _QUIETEST
        smg_multimodal.tiles.nemotron_nano: _USUAL_TILES
        smg_multimodal.tiles.aria: _SIDE _TOKENS
        smg_multimodal.families.dots_sounds: _FRAMES
        smg_multimodal.families.hy4_clips: _THINNEST
        smg_multimodal.tiles.cohere: _FAR
        smg_multimodal.tiles.deepseek: _PER_CELL
        smg_multimodal.families.filmed: _USUAL_FRAMES
        smg_multimodal.tiles.idefics: _LONGEST
        smg_multimodal.patches.inkling: _MOMENTS
        smg_multimodal.patches.kimi_vl: _MOST_ALONG_A_SIDE
        smg_multimodal.tiles.ovis: _COVERED
        smg_multimodal.tiles.phi: _CUBIC _PHI4_LINES
        smg_multimodal.prompts.clip_prompts: MOST_IN_WORDS
        smg_multimodal.patches.qwen: _MAX_ASPECT
        smg_multimodal.clips.sampling: _LONGEST_SECONDS _MOST_FRAMES
        smg_multimodal.tiles.step3: _LONGEST _THIN
        smg_multimodal.tiles.step37: _THIN _TOKEN
        smg_multimodal.families.usm: _MULTIPLE
        smg_multimodal.clips.video: _REFERENCE_SHARE _LEAST_OVER
    """,
    BACKSTOP: """
        smg_multimodal.families.nemotron: _MOST_PATCHES
        smg_multimodal.patches.nemotron: _MOST_PATCHES
        smg_multimodal.decoding.pdf: _INFLATED _INFLATED_BY _INFLATED_MOST
        smg_multimodal.decoding.pdf_parts: FORMS _DEEP _FONTS _TABLES _PICTURES
        smg_multimodal.decoding.pdf_pictures: PICTURE_INFLATED _SMALLEST _PIXELS _PIXELS_TOGETHER _SIDE _BYTES _QUALITY _DEEP
        smg_multimodal.decoding.clips: _LARGER _SMALL
        smg_multimodal.families.binned_sounds: _MOST_BINS
        smg_multimodal.families.dictated_sounds: _MOST_DELAY
        smg_multimodal.families.rows_of_2026: _MOST_QUERIES
        smg_multimodal.families.omni: _MOST
        smg_multimodal.decoding.formats: _MOST_PIECES
        smg_multimodal.configs.key_kinds: MOST_TILES
        smg_multimodal.configs.keys: _MOST_AREA
        smg_multimodal.pixels.resample: _MAX_AREA
        smg_multimodal.decoding.sounds: _OVER
        smg_multimodal.records.walks: MOST_STEPS
        smg_multimodal.patches.lfm2: _OVER
        smg_multimodal.patches.muse: _OVER
        smg_multimodal.families.newer_clips: _OVER
        smg_multimodal.tiles.step3: _MAX_AREA
        smg_multimodal.tiles.step37: _MAX_AREA
        smg_multimodal.processes.worker_process: _GRACE
    """,
}
"""Why numbers of the libraries are no settings: reason, then `module: names`."""
LIBRARY_DEFAULTS: dict[str, str] = {
    CHECK: """
        smg_parsers.lab.lab: examine.random_cuts
        smg_parsers.lab.laws: cuts.random_cuts linearity.length split_invariance.random_cuts
    """,
    SHOWN: "smg_parsers.lab.lab: steps.size",
    SIGN: "smg_multimodal.pixels.kernel_text: _each.numbers",
    FORMAT: """
        smg_multimodal.recordings.audio: wave_of_pcm16.rate
        smg_multimodal.pixels.transforms: bfloat16_normalizer.rescale fused_normalizer.rescale rescale_normalizer.rescale
    """,
    MODEL: """
        smg_multimodal.recordings.audio: resampled.rolloff resampled.zeros windowed.window
        smg_multimodal.patches.paddleocr: _made.patch
        smg_multimodal.pixels.resample: on_canvas.fill
    """,
    SET: """
        smg_multimodal.recordings.audio: read_wave.max_bytes wave_length.max_bytes wave_recording.max_bytes
        smg_multimodal.processes.budget: __init__.waiting
        smg_multimodal.preparing.content: __init__.max_bytes __init__.most
        smg_multimodal.processes.documents: __init__.kept_characters __init__.processes __init__.seconds __init__.wait_seconds
        smg_multimodal.processes.decoders: __init__.threads __init__.processes __init__.memory __init__.tensors __init__.seconds
        smg_multimodal.processes.decoders: __init__.clip_seconds __init__.wait_seconds
        smg_multimodal.prompts.expand: expand.limit
        smg_multimodal.fetching.fetch: __init__.threads
        smg_multimodal.decoding.formats: read_header.max_frames read_header.max_scans
        smg_multimodal.processes.places: __init__.waiting
        smg_multimodal.preparing.prepare: __init__.low_side
        smg_multimodal.preparing.shm: __init__.max_bytes __init__.min_bytes
        smg_multimodal.processes.workers: __init__.clip_seconds __init__.document_seconds __init__.idle __init__.seconds
    """,
}


def unfolded(table: dict[str, str]) -> dict[str, str]:
    """A table of the libraries by full name: what is explained, and the reason."""
    rows = ((reason, line.split(":")) for reason, lines in table.items() for line in lines.strip().splitlines())
    return {f"{module.strip()}.{name}": reason for reason, (module, names) in rows for name in names.split()}


def modules(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    """Every module that is written by hand and holds no settings, by its full name."""
    for path in sorted(path for package in packages for path in (SRC / package).rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        if not generated(path) and parts[-1] not in ("settings", "__main__"):
            yield ".".join(part for part in parts if part != "__init__"), parsed(path)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def numbers_of(name: str, tree: ast.Module) -> Iterator[str]:
    """Upper-case names that the module itself gives a number. States that `range` counts off are no numbers."""
    here = vars(importlib.import_module(name))
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and not _is_range(node.value):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                names = [each.id for each in ast.walk(target) if isinstance(each, ast.Name)]
                shown = name.removeprefix(CORE)
                yield from (f"{shown}.{each}" for each in names if each.isupper() and is_number(here.get(each)))


def _is_range(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "range"


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
                    yield f"{name.removeprefix(CORE)}.{node.name}.{argument.arg}"


def _says_a_number(value: ast.expr) -> bool:
    numbers = [each for each in ast.walk(value) if isinstance(each, ast.Constant) and is_number(each.value)]
    return bool(numbers) and ast.unparse(value) not in ("0", "0.0", "1", "1.0", "-1")


def explained(found: set[str], table: dict[str, str]) -> list[str]:
    """What is wrong between the numbers of the source and their table."""
    rooms = {each for each in found if each.split(".")[0] in ROOMS}
    missing = [f"{each} is neither a setting nor explained" for each in sorted(found - rooms - set(table))]
    return missing + [f"{each} is explained and not there" for each in sorted(set(table) - found)]


def test_every_constant_is_a_setting_or_explained() -> None:
    found = {each for name, tree in modules("smg_core") for each in numbers_of(name, tree)}

    assert len(found) > 50
    assert explained(found, CONSTANTS) == []


def test_every_constant_of_a_library_is_explained() -> None:
    found = {each for name, tree in modules(*LIBRARIES) for each in numbers_of(name, tree)}

    assert len(found) > 50
    assert explained(found, unfolded(LIBRARY_CONSTANTS)) == []


def test_every_default_of_an_argument_is_a_setting_or_explained() -> None:
    found = {each for name, tree in modules("smg_core") for each in defaults_of(name, tree)}

    assert explained(found, DEFAULTS) == []


def test_every_default_of_an_argument_of_a_library_is_explained() -> None:
    found = {each for name, tree in modules(*LIBRARIES) for each in defaults_of(name, tree)}

    assert explained(found, unfolded(LIBRARY_DEFAULTS)) == []


def test_a_number_without_a_row_is_named() -> None:
    tree = ast.parse("def ask(patience: float = 7.5, most: int = 8 * 1024, first: int = 1, name: str = ''): ...")

    assert sorted(defaults_of("room", tree)) == ["room.ask.most", "room.ask.patience"]
    assert explained({"room.ask.most"}, {}) == ["room.ask.most is neither a setting nor explained"]
    assert explained(set(), {"room.GONE": FORMAT}) == ["room.GONE is explained and not there"]
