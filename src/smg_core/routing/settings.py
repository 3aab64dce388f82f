"""The settings of routing and retries.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import re
from collections.abc import Container, Mapping
from typing import Literal

import attrs

from smg_core.settings import MIB, ConfigError, bound, option

__all__ = ["RoutingConfig"]


FallbackReason = Literal["no_worker", "overloaded", "failed", "context"]
"""A reason for which another model may be asked."""

FALLBACK_ON: tuple[FallbackReason, ...] = ("no_worker", "overloaded", "failed", "context")
"""All of them."""


@attrs.frozen
class RoutingConfig:
    """The choice of an engine for each request."""

    policy: str = option(
        "round_robin",
        "Routing policy: a built-in name, package.module:Class, or a name that an installed package adds.",
        flag="--policy",
    )
    policies: tuple[str, ...] = option(
        (),
        "Another policy for one model or role: MODEL=POLICY, MODEL/ROLE=POLICY or */ROLE=POLICY, ROLE being regular, prefill, "
        "decode, encode or embedding (pooled work, least_load without a row); may be repeated.",
        flag="--policy-for",
    )
    splits: tuple[str, ...] = option(
        (),
        "Models that share the requests for one name, as NAME=MODEL:SHARE,MODEL:SHARE; all requests of a conversation or user "
        "that names itself get the same one; may be repeated.",
    )
    split_header: str = option("", "Header of requests that may name the model of a split, whatever the shares.")
    fallbacks: tuple[str, ...] = option(
        (),
        "Models to ask, one after the other, when one cannot answer, as MODEL=OTHER,OTHER; may be repeated.",
    )
    fallback_on: tuple[FallbackReason, ...] = option(
        FALLBACK_ON,
        "When the models of routing.fallbacks are asked, before the first byte: no_worker (none is ready), overloaded, "
        "failed (its engines failed, after all retries), context (the prompt is too long).",
    )
    shadows: tuple[str, ...] = option(
        (),
        "Models that get a share of the requests for another one too, as NAME=MODEL:SHARE with a share up to 1; their answers "
        "are measured and thrown away; may be repeated.",
    )
    placement: tuple[str, ...] = option(
        (),
        "Rules of which workers requests go to, by the workers' labels: require, prefer, weigh or isolate, then labels, then for "
        "whose requests, as in require zone=eu for tenant=acme; may be repeated.",
    )
    objectives: Literal["off", "late", "shed", "say"] = option(
        "off",
        "What becomes of a request whose objectives (x-slo-ttft-ms, x-slo-tpot-ms) no worker can meet, by prediction: late "
        "serves it all the same, shed refuses it, say serves it and tells its client; off: nothing is predicted "
        "([docs](objectives.md)).",
    )
    shadow_at_once: int = bound(
        16,
        "Most copies of requests for routing.shadows under way in each process; further ones are not made.",
        at_least=0,
        at_most=1 << 20,
    )
    shadow_s: float = bound(
        120.0, "Seconds after which a copy of a request for routing.shadows is given up.", at_least=0.05, at_most=86_400
    )
    retries: int = option(
        3, "Other engines to try, before the first byte, when one is lost or full.", at_least=0, at_most=100
    )
    retry_s: float = bound(
        0.05,
        "Seconds before the second retry of a request, doubled for each further one; each waits half to all of it. The "
        "first waits none.",
        at_least=0,
        at_most=600,
    )
    retry_most_s: float = bound(1.0, "Most seconds before a retry of a request.", at_least=0, at_most=600)
    block_tokens: int = bound(
        64, "Tokens of a block, the unit in which prompts are compared that were sent before.", at_least=1, at_most=4096
    )
    block_characters: int = bound(
        256,
        "Characters of a block, for engines that get text; taken to be as many tokens as a block has.",
        at_least=1,
        at_most=65536,
    )
    prefix_tokens: int = bound(
        65_536, "Tokens of a prompt, from its start, by which it is compared with others.", at_least=64, at_most=1 << 22
    )
    index_bytes: int = bound(
        64 * MIB,
        "Most bytes of a prefix index, one for each model and role with cache_aware; beyond it the prefixes used longest ago are "
        "forgotten.",
        at_least=0,
        at_most=1 << 40,
    )
    kv_events: bool = bound(
        True, "Listen to what engines tell of their KV caches, where a policy uses it (cache_aware)."
    )
    kv_index_bytes: int = bound(
        256 * MIB,
        "Most bytes of what the engines of a model and role tell of their KV caches; the rest is known by what was sent.",
        at_least=0,
        at_most=1 << 40,
    )
    kv_pending_s: float = bound(
        5.0,
        "Seconds, at least, that a prompt which was sent counts as cached before its engine tells of it.",
        at_least=0,
        at_most=3600,
    )
    sent_file: str | None = option(
        None, "File in which cache_aware keeps what was sent where, so that it knows it when the gateway starts again."
    )
    sent_bytes: int = bound(
        64 * MIB, "Most bytes of routing.sent_file and the one before it together.", at_least=4096, at_most=1 << 40
    )
    sent_interval_s: float = bound(
        5.0, "Seconds between two writes of routing.sent_file.", at_least=0.05, at_most=86_400
    )
    host_cost: float = bound(
        0.1,
        "What it costs to fetch a token's KV cache from host memory, as a share of reading the token.",
        at_least=0,
        at_most=1,
    )
    disk_cost: float = bound(
        0.3,
        "What it costs to fetch a token's KV cache from a disk, as a share of reading the token.",
        at_least=0,
        at_most=1,
    )
    external_cost: float = bound(
        0.3,
        "What it costs to fetch a token's KV cache from a store outside of the engine's host, as a share of reading the "
        "token.",
        at_least=0,
        at_most=1,
    )
    answer_tokens: int = bound(
        128,
        "How many waiting prompt tokens one answer under way weighs as much as, for least_load, manual and bucket.",
        at_least=0,
        at_most=1 << 20,
    )
    crowd_tokens: int = bound(
        32,
        "What requests at a worker beyond the mean of all weigh for cache_aware, in waiting prompt tokens: this many for as many "
        "more as chance makes often (the root of the mean), and with the square of them.",
        at_least=0,
        at_most=1 << 20,
    )
    balance_factor: float = bound(
        1.5,
        "What a worker that has had twice the mean number of requests for routing.balance_s seconds weighs for "
        "cache_aware, in mean lengths of a prompt.",
        at_least=0,
        at_most=1000,
    )
    balance_s: float = bound(
        20.0, "Seconds over which cache_aware takes the means of workers' requests.", at_least=0, at_most=86_400
    )
    read_factor: float = bound(
        20.0,
        "How many times more than a waiting prompt token one to be read counts for cache_aware where prompts wait at every "
        "worker; with the square of the share of workers where they do.",
        at_least=0,
        at_most=1000,
    )
    agreed_factor: float = bound(
        2.0,
        "How much of a prompt, as a multiple of it and of the share of requests that come through other gateways, draws it for "
        "cache_aware to the worker that all gateways find for it; 0: nothing.",
        at_least=0,
        at_most=1000,
    )
    kv_pressure_tokens: int = bound(
        256,
        "How many waiting prompt tokens a KV cache that is half full weighs as much as; one that is nine tenths full weighs nine "
        "times as much.",
        at_least=0,
        at_most=1 << 20,
    )
    tie_tokens: int = bound(
        160,
        "Workers whose scores differ by no more than so many tokens are taken in turn.",
        at_least=0,
        at_most=1 << 20,
    )
    hashed_tokens: int = bound(
        256, "Tokens from the start of a prompt by which prefix_hash finds its worker.", at_least=1, at_most=1 << 20
    )
    load_factor: float = bound(
        1.25,
        "How many times the mean load a worker may have before prefix_hash and bucket take another one.",
        at_least=1,
        at_most=1000,
    )
    manual_assign: Literal["min_load", "min_group", "random"] = bound(
        "min_load",
        "Which worker manual gives a new session: the one with the least work, with the fewest sessions, or any.",
    )
    sessions: int = bound(
        100_000,
        "Most sessions that manual keeps; the one used longest ago is forgotten first.",
        at_least=0,
        at_most=1 << 26,
    )
    session_idle_s: float = bound(
        14_400.0, "Seconds without a request after which manual forgets a session.", at_least=0, at_most=1 << 30
    )
    decisions: int = bound(
        1000, "Latest decisions that each process keeps, for whoever asks why; 0: none.", at_least=0, at_most=1 << 20
    )
    decision_bytes: int = bound(
        16 * MIB, "Most bytes of decisions that are kept, with their prompts.", at_least=0, at_most=1 << 40
    )
    remembered_workers: int = bound(
        8192, "Workers of which a policy keeps something, such as when it chose them last.", at_least=1, at_most=1 << 20
    )
    retry_share: float = bound(
        0.2,
        "Retries that each request of a model adds to those that the model may use, as a share of one.",
        at_least=0,
        at_most=100,
    )
    retry_reserve: int = bound(
        100, "Most retries that a model's requests may save up, and what it begins with.", at_least=0, at_most=1_000_000
    )

    hedge_after_s: float = option(
        0.0,
        "Seconds after which a short request that has no whole answer yet is asked of a second engine too; 0: not by a "
        "fixed time. With routing.hedge_percentile the least such time.",
        at_least=0,
        at_most=86_400,
    )
    hedge_percentile: float = option(
        0.0,
        "Percentile of the time of the model's latest short answers after which a second engine is asked; 0: none. Counts once "
        "20 of them are known.",
        at_least=0,
        at_most=100,
    )
    hedge_tokens: int = bound(
        256,
        "Tokens of an answer, at most, that a request may ask for to be short enough for a second engine; one that names "
        "no bound is not short.",
        at_least=1,
        at_most=1 << 20,
    )
    hedge_prompt_tokens: int = bound(
        8192,
        "Tokens of the prompt, at most, that a request may have to be short enough for a second engine.",
        at_least=1,
        at_most=1 << 22,
    )
    hedge_share: float = bound(
        0.05,
        "Second engines that each short request of a model adds to those that the model may ask (routing.hedge_after_s).",
        at_least=0,
        at_most=1,
    )
    hedge_reserve: int = bound(
        10, "Most second engines that a model may save up, and what it begins with.", at_least=0, at_most=1_000_000
    )
    hedge_recent: int = bound(
        256,
        "Latest short answers of a model of whose times routing.hedge_percentile is taken.",
        at_least=20,
        at_most=1 << 20,
    )

    def of_splits(self) -> Mapping[str, Mapping[str, float]]:
        """The shares of the models of each name that is split. Raises ConfigError for what is no split."""
        found: dict[str, dict[str, float]] = {}
        for entry in self.splits:
            name, shares = _row("splits", entry, found, "NAME=MODEL:SHARE,MODEL:SHARE")
            found[name] = {}
            for part in shares:
                model, _, text = part.rpartition(":")
                if not model or model in found[name] or _SHARE.fullmatch(text) is None or not float(text):
                    raise ConfigError(
                        f"routing.splits: {entry}: {part} is no MODEL:SHARE, with a share above 0, of its own"
                    )
                found[name][model] = float(text)
        return found

    def of_shadows(self) -> Mapping[str, tuple[str, float]]:
        """The model that gets copies of the requests for each name that has such, and their share. Raises ConfigError for what is
        no shadow."""
        found: dict[str, tuple[str, float]] = {}
        for entry in self.shadows:
            name, parts = _row("shadows", entry, found, "NAME=MODEL:SHARE")
            model, _, text = parts[0].rpartition(":")
            share = float(text) if _SHARE.fullmatch(text) else 0.0
            if len(parts) > 1 or not model or model == name or not 0 < share <= 1:
                raise ConfigError(
                    f"routing.shadows: {entry}: expected NAME=MODEL:SHARE with another model and a share up to 1"
                )
            found[name] = model, share
        return found

    def of_fallbacks(self) -> Mapping[str, tuple[str, ...]]:
        """The models to ask after each that has such. Raises ConfigError for what is no row of models."""
        found: dict[str, tuple[str, ...]] = {}
        for entry in self.fallbacks:
            name, models = _row("fallbacks", entry, found, "MODEL=OTHER,OTHER")
            if len({name, *models}) <= len(models):
                raise ConfigError(f"routing.fallbacks: {entry}: a model is there twice")
            found[name] = models
        return found


_SHARE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def _row(setting: str, entry: str, known: Container[str], form: str) -> tuple[str, tuple[str, ...]]:
    """The name of an entry, and what it says of it. Raises ConfigError."""
    name, _, rest = entry.partition("=")
    parts = tuple(part.strip() for part in rest.split(","))
    if not name or not all(parts):
        raise ConfigError(f"routing.{setting}: {entry}: expected {form}")
    if name in known:
        raise ConfigError(f"routing.{setting}: {name} is there twice")
    return name, parts
