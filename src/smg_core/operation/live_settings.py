"""Which settings can change while the gateway runs, and from when a change counts.

`LIVE` has a row for each that can; all others need a restart, and `NEEDS_RESTART` says for each section why. Pure. Above:
operation.control, which applies a change, and the page docs/configuration.md, which is made of it. Below: config.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from smg_core.config.config import Config, describe

__all__ = ["LIVE", "NEEDS_RESTART", "differences", "with_values"]

NOW = "at once"
REQUESTS = "for new requests"
SESSIONS = "for new sessions"
POLICIES = "for new requests; policies forget what they knew of workers"
JOINS = "for engines that join from then on"

LIVE: Mapping[str, str] = {
    "auth.keys": NOW,
    "auth.keys_file": NOW,
    "mesh.keys": NOW,
    "workers.urls": NOW,
    "workers.prefill_urls": NOW,
    "workers.decode_urls": NOW,
    "workers.encode_urls": NOW,
    "workers.probe_timeout_s": NOW,
    "workers.probe_failures": JOINS,
    "workers.probe_successes": JOINS,
    "workers.join_interval_s": NOW,
    "workers.health_interval_s": NOW,
    "workers.identity_probes": NOW,
    "workers.loads_interval_s": NOW,
    "workers.migrations": REQUESTS,
    "workers.migrate_constrained": REQUESTS,
    "workers.migrate_sampled": REQUESTS,
    "workers.slow_start_s": NOW,
    "workers.slow_start_least": NOW,
    "workers.most_in_flight": REQUESTS,
    "workers.most_waiting_tokens": REQUESTS,
    "workers.drain_s": NOW,
    **{
        f"realtime.{name}": SESSIONS
        for name in (
            *("session_s", "frame_bytes", "items", "kept_bytes", "responses", "transcriptions", "waiting_bytes"),
            *("speech_model", "secret_s", "turn_detector"),
        )
    },
    **{f"breaker.{name}": NOW for name in ("failures", "share", "window_s", "open_s", "probes", "rest_most_s")},
    **{
        f"timeouts.{name}": REQUESTS
        for name in (
            *("first_token_s", "token_s", "request_s", "stream_s", "models", "least_s", "connect_most_s"),
            *("first_token_most_s", "token_most_s", "request_most_s", "write_most_s"),
        )
    },
    **{
        f"routing.{name}": POLICIES
        for name in (
            *("policy", "policies", "block_tokens", "block_characters", "index_bytes", "answer_tokens"),
            *("kv_pressure_tokens", "tie_tokens", "hashed_tokens", "load_factor", "manual_assign", "sessions"),
            *("session_idle_s", "remembered_workers"),
        )
    },
    **{
        f"routing.{name}": REQUESTS
        for name in (
            *("retries", "retry_s", "retry_most_s", "hedge_after_s", "hedge_percentile", "hedge_tokens"),
            *("hedge_prompt_tokens", "hedge_share", "hedge_reserve", "hedge_recent"),
            *("placement", "shadow_at_once", "shadow_s"),
        )
    },
    **{f"pooling.{name}": REQUESTS for name in ("inputs", "tokens", "prefixes", "calls_at_once", "tokens_at_once")},
    "limits.concurrent_requests": REQUESTS,
    **{
        f"limits.{name}": REQUESTS
        for name in ("rules", "teams", "cached_weight", "unpriced", "standard_headers", "warn_at")
    },
    **{
        f"queue.{name}": REQUESTS
        for name in (
            *("enabled", "weights", "wait_s", "absent_s", "requests", "bytes", "tenant_share", "preempt"),
            "strain_bytes",
        )
    },
    "limits.retry_after_s": REQUESTS,
    **{
        f"limits.{name}": REQUESTS
        for name in (
            *("body_bytes", "media_body_bytes", "json_values", "json_depth", "n", "stop", "stop_characters"),
            *("stop_token_ids", "logit_bias", "choices", "documents", "template_arguments", "metadata"),
            *("metadata_name_characters", "metadata_characters", "tools", "logprobs", "messages"),
            "response_buffer_bytes",
        )
    },
    "model.aliases": REQUESTS,
    "model.tenant_aliases": REQUESTS,
    "messages.prefill": REQUESTS,
    "messages.drop_billing": REQUESTS,
    "messages.edits": REQUESTS,
    **{f"mcp.{name}": REQUESTS for name in ("turns", "calls", "at_once", "loop_s")},
    "observability.log_level": NOW,
    "observability.explain": REQUESTS,
    "observability.explain_characters": REQUESTS,
    "observability.request_id_characters": REQUESTS,
}
"""Path of a setting to when a change of it counts."""

_ONCE = "what it sets is made once, when the gateway starts"

NEEDS_RESTART: Mapping[str, str] = {
    "server": "sockets, processes and connections are made with it",
    "auth": "who may do what is in use by every way of being known",
    "tls": "sockets are made with it; a certificate whose file changes is read again by itself",
    "proxies": "sockets are made with it",
    "oidc": "what is known of the issuer was fetched with it",
    "admin": "sockets are made with it",
    "metrics": "the memory that processes share is made with it",
    "breaker": "the memory that processes share is made with it",
    "workers": "clients of engines, and the memory that processes share, are made with it",
    "engines": "clients of engines are made with it",
    "history": "the store was opened with it",
    "idempotency": "what keeps the answers of this process was made with it",
    "ledger": "the store was opened with it",
    "mesh": "the link to other gateways was made with it",
    "tokenizer": "models were loaded with it",
    "model": "models were loaded with it",
    "media": "models were loaded with it",
    "structured": "models were loaded with it",
    "pooling": "models were loaded with it",
    "messages": "models were loaded with it",
    "limits": "queues, memory or models were made with it",
    **dict.fromkeys(
        (
            *("timeouts", "routing", "disaggregation", "documents", "sealing", "responses", "batches", "files", "mcp"),
            *("observability", "discovery", "channel", "audit", "traces", "middleware", "vector_stores"),
        ),
        _ONCE,
    ),
}
"""Section to the reason why its other settings need a restart."""


def differences(before: Config, after: Config) -> tuple[list[str], list[str]]:
    """The paths of settings that differ: those that can change live, and those that need a restart."""
    found = [each.path for each in describe() if before.get(each.path) != after.get(each.path)]
    return [path for path in found if path in LIVE], [path for path in found if path not in LIVE]


def with_values(config: Config, values: Mapping[str, Any]) -> Config:
    """The configuration with these values, by path; lists may stand for tuples."""
    sections: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        section, name = path.split(".")
        sections.setdefault(section, {})[name] = tuple(value) if isinstance(value, list) else value
    changed = {name: attrs.evolve(getattr(config, name), **fields) for name, fields in sections.items()}
    return attrs.evolve(config, **{name: each for name, each in changed.items() if each != getattr(config, name)})
