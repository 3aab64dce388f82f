"""The places of the engines, and the ways to speak to them and to watch them.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

from collections.abc import Mapping
from typing import Literal

import attrs

from smg_core.settings import ConfigError, bound, option

__all__ = ["BreakerConfig", "WorkersConfig"]


@attrs.frozen
class WorkersConfig:
    """The engines: where they are, how they are spoken to, how they are watched."""

    urls: tuple[str, ...] = option(
        (),
        "Engine to send requests to, grpc(s)://host:port or unix:///path; or a server that speaks OpenAI's API, "
        "http(s)://host:port; may be repeated.",
        flag="--worker",
    )
    prefill_urls: tuple[str, ...] = option(
        (),
        "Engine that reads prompts for engines that write the answers, grpc(s)://host:port or unix:///path; may be repeated.",
        flag="--prefill",
    )
    decode_urls: tuple[str, ...] = option(
        (), "Engine that writes the answers to prompts that another one has read; may be repeated.", flag="--decode"
    )
    encode_urls: tuple[str, ...] = option(
        (),
        "Engine that encodes pictures and clips for engines that read prompts; may be repeated.",
        flag="--encode",
    )
    file: str | None = option(
        None,
        "File (YAML or JSON) of further engines, a list in which each may have its own name, role, dialect, model, API key, "
        "headers and certificates.",
        flag="--workers-file",
    )
    most: int = bound(4096, "Most workers at once.", at_least=1, at_most=1 << 20)
    most_adapters: int = bound(
        1024, "Most LoRA adapters of one engine that clients may ask for.", at_least=1, at_most=1 << 20
    )
    adapters: tuple[str, ...] = option(
        (),
        "LoRA adapter that engines load when a request asks for it, as NAME=MODEL:FOLDER, the folder being on the engines' "
        "machines; may be repeated.",
    )
    loaded_adapters: int = option(
        8,
        "Most adapters of workers.adapters that one engine holds; the one that was asked for the longest ago is unloaded first.",
        at_least=1,
        at_most=1 << 20,
    )
    adapter_load_s: float = bound(
        60.0,
        "Seconds that a request waits for its adapter to be loaded; then it is refused, and the load goes on.",
        at_least=0.05,
        at_most=3600,
    )
    wake_s: float = option(
        120.0,
        "Seconds that a request waits for a worker whose engine sleeps to be woken; then it is refused, and the waking goes on.",
        at_least=0.05,
        at_most=3600,
    )
    transport: Literal["h2", "grpcio"] = option(
        "h2", "How gRPC is carried: the built-in HTTP/2 connection, or the grpcio library."
    )
    dialect: str = option(
        "auto",
        "Contract of the engines: vllm, neutral, mlx, sglang, trtllm, tokenspeed, or a package's; auto asks each engine. Of "
        "http:// engines: vllm-http, vllm-tokens-http, sglang-http and llamacpp-http take token ids; openai (or auto) is any "
        "server of Chat Completions, openai-strict one that refuses fields which are not OpenAI's own.",
    )
    tls_ca: str | None = option(
        None, "File of certificates (PEM) that engines are checked against that bring none of their own."
    )
    tls_cert: str | None = option(None, "File of the certificate (PEM) shown to engines.")
    tls_key: str | None = option(None, "File of the private key (PEM) of workers.tls_cert.")
    probe_timeout_s: float = option(
        2.0,
        "Seconds that an engine may take to answer a health check, or to say after one what it serves.",
        at_least=0.05,
        at_most=600,
    )
    probe_failures: int = bound(
        1, "Health checks in a row that an engine may fail before it gets no more requests.", at_least=1, at_most=100
    )
    probe_successes: int = bound(
        1,
        "Health checks in a row that an engine that was lost must pass before it gets requests again.",
        at_least=1,
        at_most=100,
    )
    join_interval_s: float = bound(
        0.5,
        "Seconds between two tries to reach an engine that has not joined, or that was lost.",
        at_least=0.01,
        at_most=3600,
    )
    joining_s: float = bound(
        300.0,
        "Seconds that an engine may take to load its model. A request for an unknown model gets 503 for so long after an engine "
        "was added that has not joined, since it may serve that model, then 404; while no engine is ready, always 503.",
        at_least=0,
        at_most=86_400,
    )
    migrations: int = option(
        3,
        "How often an answer that has begun may go on with another engine, when its own is lost; 0 for never.",
        at_least=0,
        at_most=100,
    )
    migrate_constrained: Literal["end", "mark"] = bound(
        "end",
        "Structured output whose engine is lost when it has begun to reach the client: end with the error, or mark: go on "
        "without the constraint, and say so.",
    )
    migrate_sampled: Literal["end", "mark"] = bound(
        "mark",
        "An answer with a seed or a presence penalty whose engine is lost when it has begun to reach the client: end with the "
        "error, or mark: go on with other tokens than that engine would have given, and say so.",
    )
    health_interval_s: float = option(
        5.0, "Seconds between two health checks of an engine.", at_least=0.1, at_most=3600
    )
    identity_probes: int = bound(
        12,
        "Health checks over one connection after which an engine is asked again what it serves; over a new connection it "
        "is asked with the first. 1: with each health check.",
        at_least=1,
        at_most=1_000_000,
    )
    loads_interval_s: float = bound(
        1.0, "Seconds between two questions after an engine's load.", at_least=0.05, at_most=3600
    )
    slow_start_s: float = option(
        0.0,
        "Seconds over which the share of an engine rises that has joined or come back while others serve; 0: it has all of it "
        "at once.",
        at_least=0,
        at_most=86_400,
    )
    slow_start_least: float = bound(
        0.1,
        "Share of its requests, of 1, that an engine begins with in workers.slow_start_s.",
        at_least=0.001,
        at_most=1,
    )
    most_in_flight: int = option(
        0,
        "Most requests at one engine, counted over all processes; one that has as many gets no further one. 0: no bound.",
        at_least=0,
        at_most=1 << 30,
    )
    most_waiting_tokens: int = option(
        0,
        "Most prompt tokens that wait at one engine for their first output; one that has as many gets no further request. 0: no "
        "bound.",
        at_least=0,
        at_most=1 << 40,
    )
    drain_s: float = option(
        600.0,
        "Seconds that an engine which leaves may take to finish its requests before it is removed all the same.",
        at_least=0,
        at_most=86_400,
    )

    def of_adapters(self) -> Mapping[str, tuple[str, str]]:
        """The model and the folder of each adapter that engines load on demand. Raises ConfigError for what is no such row."""
        found: dict[str, tuple[str, str]] = {}
        for entry in self.adapters:
            name, _, rest = entry.partition("=")
            model, _, folder = rest.rpartition(":")
            if not (name and model and folder) or name in found or name == model:
                raise ConfigError(f"workers.adapters: {entry}: expected NAME=MODEL:FOLDER, each name once")
            found[name] = model, folder
        return found


@attrs.frozen
class BreakerConfig:
    """The rules by which a worker with failed calls gets no requests for a while."""

    failures: int = option(
        5,
        "Calls of a worker that fail within breaker.window_s before it gets no more requests; 0 for no breaker.",
        at_least=0,
        at_most=1_000_000,
    )
    share: float = bound(
        0.5,
        "Share of a worker's calls within breaker.window_s that have to fail, beside the number of breaker.failures, "
        "before it gets no more requests.",
        at_least=0,
        at_most=1,
    )
    window_s: float = bound(
        10.0, "Seconds that a call of a worker counts for its breaker; the window slides.", at_least=0.1, at_most=3600
    )
    open_s: float = bound(
        3.0,
        "Seconds that a worker whose breaker has opened gets nothing before it is tried with a few requests.",
        at_least=0.05,
        at_most=3600,
    )
    probes: int = bound(
        3,
        "Requests that a worker is tried with, after breaker.open_s, in as many seconds again; when so many went well, it"
        " gets all requests again.",
        at_least=1,
        at_most=1000,
    )
    shared: int = bound(
        1024,
        "Most workers and ranks with a breaker that is not closed of which all processes know; each process knows its own.",
        at_least=0,
        at_most=1 << 20,
    )
    rest_most_s: float = bound(
        30.0,
        "Most seconds that a worker is left alone that is full and says when to come again.",
        at_least=0,
        at_most=3600,
    )
