"""The bounds of one request, and of all of them together; and how Messages is read.

Records of settings: `config` gathers them, with those of the other rooms. Below: `settings`.
"""

from typing import Literal

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["MOST_VALUES", "LimitsConfig", "MessagesConfig"]

MOST_VALUES = 1 << 30
"""The most that the bound of JSON values may be set to."""


@attrs.frozen
class LimitsConfig:
    """The bounds of one request, and of all of them together."""

    body_bytes: int = option(
        16 * MIB,
        "Largest body of a request while no served model takes media, in bytes.",
        at_least=1024,
        at_most=1 << 32,
    )
    media_body_bytes: int = option(
        64 * MIB,
        "Largest body of a request while a served model takes media, in bytes.",
        at_least=1024,
        at_most=1 << 32,
    )
    pending_body_bytes: int = bound(
        128 * MIB,
        "Memory for bodies that are being read or wait to be decoded, of all requests of a process, in bytes. Over it, the body "
        "that has been coming longest gives way with 503; a body alone may always be as large as it may.",
        at_least=1024,
        at_most=1 << 40,
    )
    kept_body_bytes: int = bound(
        1 * MIB,
        "Largest body of a request that is kept until it is answered, in bytes, while a worker's engine takes requests "
        "instead of token ids. Such an engine is sent the client's own bytes wherever they need no translation; a larger body "
        "is written anew.",
        at_least=0,
        at_most=1 << 32,
    )
    json_values: int = bound(
        100_000,
        "Most JSON values in a request's body, and in the JSON texts inside its strings together; a member of an object is one.",
        at_least=100,
        at_most=MOST_VALUES,
    )
    json_depth: int = bound(
        64, "Deepest nesting of a request's JSON, and of JSON texts inside its strings.", at_least=4, at_most=500
    )
    schema_bytes: int = bound(
        256 * 1024,
        "Most bytes of a request's schemas together, and of a regular expression, a grammar, a structural tag or choices.",
        at_least=256,
        at_most=1 << 30,
    )
    parse_characters: int = bound(
        256 * 1024, "Longest text that /parse/* reads, in characters.", at_least=16, at_most=1 << 30
    )
    n: int = option(128, "Most choices one request may ask for.", at_least=1, at_most=4096)
    completion_choices: int = bound(
        1024, "Most choices of one Completions request: prompts x n, or x best_of.", at_least=1, at_most=65536
    )
    prompts_at_once: int = bound(
        64, "Most prompts of one Completions request that engines work on at the same time.", at_least=1, at_most=65536
    )
    stop: int = bound(16, "Most stop strings of one request.", at_least=1, at_most=1024)
    stop_characters: int = bound(1024, "Most characters of a stop string.", at_least=1, at_most=65536)
    stop_token_ids: int = bound(256, "Most stop token ids of one request.", at_least=1, at_most=65536)
    logit_bias: int = bound(1024, "Most tokens that a request may bias.", at_least=1, at_most=1 << 20)
    choices: int = bound(1024, "Most texts that an answer may be held to be one of.", at_least=1, at_most=1 << 20)
    documents: int = bound(1024, "Most entries of the field documents of one request.", at_least=1, at_most=1 << 20)
    template_arguments: int = bound(
        256, "Most variables that a request may give its chat template.", at_least=0, at_most=1 << 20
    )
    metadata: int = bound(16, "Most entries of a request's metadata.", at_least=0, at_most=65536)
    metadata_name_characters: int = bound(
        64, "Most characters of a name in a request's metadata.", at_least=1, at_most=65536
    )
    metadata_characters: int = bound(
        512, "Most characters of a value of a request's metadata.", at_least=1, at_most=MIB
    )
    tools: int = bound(256, "Most tools of one request.", at_least=1, at_most=65536)
    logprobs: int = bound(20, "Most alternatives a token that logprobs may list.", at_least=0, at_most=1000)
    messages: int = bound(10_000, "Most messages of one request.", at_least=1, at_most=1_000_000)
    concurrent_requests: int = option(
        10_000, "Requests a process works on at once; more get 503 with Retry-After.", at_least=1, at_most=1_000_000
    )
    retry_after_s: float = bound(
        1.0,
        "Seconds after which a request that got 503, or a 409 that passes, is told to come again.",
        at_least=0,
        at_most=86400,
    )
    answer_bytes: int = bound(
        64 * MIB,
        "Memory that an answer which leaves whole may take: choices x tokens x what a token takes, logprobs included.",
        at_least=4096,
        at_most=1 << 40,
    )
    response_buffer_bytes: int = bound(
        MIB,
        "Output kept for a client that reads slowly before its engine is held back, in bytes.",
        at_least=4096,
        at_most=1 << 30,
    )

    rules: tuple[str, ...] = option(
        (),
        "Limits of requests, tokens and money, one a line: AMOUNT requests, tokens, input-tokens, output-tokens or USD, a slash "
        "and second, minute, hour, day, week, month or ever; or AMOUNT at-once; then per=, tenant=, team=, key=, user=, model=, "
        "burst= ([docs](limits.md)).",
    )
    teams: tuple[str, ...] = option(
        (),
        "Teams of tenants for rules, one a line: TENANT:TEAM=KEY,KEY. A key may end with an asterisk. A TEAM such as "
        "search/ranking is in search, whose rules count it too.",
    )
    zone: str = option("UTC", "The time zone in which days, weeks and months of rules begin, such as Europe/Berlin.")
    prices: str | None = option(
        None, "JSON file with prices of tokens, whose rows come before those of the shipped table; for rules in USD."
    )
    unpriced: Literal["refuse", "ignore"] = option(
        "refuse",
        "What becomes of a request under a rule in USD whose model has no price: refuse answers 429, ignore does not count it.",
    )
    warn_at: float = bound(
        0.8,
        "Share of a budget in USD at which the log says once, in each of its windows, that so much is spent; 1: when all is.",
        at_least=0.01,
        at_most=1,
    )
    cached_weight: float = option(
        1.0,
        "How much a token of input that the engine had in its cache counts under rules of tokens; 0: not at all.",
        at_least=0,
        at_most=1,
    )
    standard_headers: bool = bound(
        False, "Say how much is left also in the IETF's RateLimit fields, beside the headers of the API."
    )
    store: str | None = option(
        None,
        "Valkey or Redis in which several gateways count rules together: redis://HOST:PORT/DATABASE, rediss:// or unix://; null: "
        "each gateway counts for itself. Needs the extra smg-sdk[redis].",
        secret=True,
    )
    on_loss: Literal["share", "closed", "open"] = option(
        "share",
        "What becomes of requests while limits.store does not answer: share gives each gateway its part of every limit, closed "
        "answers 503, open admits them.",
    )
    store_timeout_s: float = bound(
        0.05, "Longest time that a request waits for limits.store, in seconds.", at_least=0.001, at_most=60
    )
    reservation_s: float = bound(
        1200.0,
        "Seconds after which what a gateway had reserved in limits.store and does not renew is free again; longer than any "
        "request takes.",
        at_least=1,
        at_most=86400,
    )
    counters: int = bound(
        100_000,
        "Counters of rules that are kept; beyond that, the one that was used longest ago is forgotten.",
        at_least=1000,
        at_most=10_000_000,
    )

    @property
    def largest_body(self) -> int:
        """Bytes of the largest body that is ever decoded. The code that reads the body decides how much is taken now."""
        return max(self.body_bytes, self.media_body_bytes)


@attrs.frozen
class MessagesConfig:
    """The readings of Messages where there is more than one."""

    prefill: Literal["continue", "refuse"] = option(
        "continue",
        "What becomes of a request that ends with a turn of the assistant: continue has the model go on with its text, refuse "
        "answers 400.",
    )
    drop_billing: bool = bound(
        True,
        "Leave out the block of Claude Code's system prompt that says what is to be billed: it is different in every request, "
        "so that no cache of prefixes would ever hit.",
    )
    edits: int = bound(
        8,
        "Most edits of the context that one request may ask for; each may have its prompt made once more.",
        at_least=0,
        at_most=1024,
    )
    budget: Literal["ignore", "refuse"] = bound(
        "ignore",
        "What becomes of a budget for thinking where the model's family has no marker that ends its reasoning: it is ignored, or "
        "the request gets 400. Engines that read their own output are told the budget.",
    )
