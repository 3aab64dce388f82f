"""The settings that can change in a running gateway, and the moment from which they count.

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
    **{f"auth.{name}": NOW for name in ("keys", "keys_file")},
    "mesh.keys": NOW,
    **{
        f"workers.{name}": NOW
        for name in (
            *("urls", "prefill_urls", "decode_urls", "encode_urls", "probe_timeout_s", "health_interval_s"),
            *("slow_start_s", "drain_s"),
        )
    },
    **{f"workers.{name}": REQUESTS for name in ("migrations", "most_in_flight", "most_waiting_tokens")},
    **{f"realtime.{name}": SESSIONS for name in ("session_s", "speech_model", "turn_detector", "udp_ports")},
    "breaker.failures": NOW,
    **{f"timeouts.{name}": REQUESTS for name in ("first_token_s", "token_s", "request_s", "stream_s", "models")},
    **{f"routing.{name}": POLICIES for name in ("policy", "policies")},
    **{
        f"routing.{name}": REQUESTS
        for name in ("retries", "hedge_after_s", "hedge_percentile", "placement", "objectives")
    },
    "pooling.prefixes": REQUESTS,
    **{f"response_cache.{name}": REQUESTS for name in ("kept_s", "chance", "bytes", "revision")},
    **{
        f"limits.{name}": REQUESTS
        for name in (
            *("concurrent_requests", "rules", "teams", "cached_weight", "unpriced"),
            *("body_bytes", "media_body_bytes", "n"),
        )
    },
    **{f"queue.{name}": REQUESTS for name in ("enabled", "weights", "wait_s", "requests", "preempt")},
    **{f"model.{name}": REQUESTS for name in ("aliases", "tenant_aliases")},
    "messages.prefill": REQUESTS,
    "mcp.turns": REQUESTS,
    "observability.log_level": NOW,
    "observability.explain": REQUESTS,
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
    "response_cache": "the store was opened with it",
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
            *("timeouts", "routing", "disaggregation", "sealing", "batches", "files", "mcp"),
            *("observability", "discovery", "audit", "traces", "middleware", "vector_stores"),
            *("guardrails", "containers"),
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
