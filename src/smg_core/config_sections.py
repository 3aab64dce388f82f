"""The sections of the configuration: one frozen record each, a setting a field with its text, default and bounds.

`config` puts them together, reads them from flags, environment and file, and writes the page about them. Below: `settings`.
"""

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from smg_core.settings import ConfigError, option

__all__ = [
    "LimitsConfig",
    "MediaConfig",
    "MediaFormat",
    "ModelConfig",
    "ObservabilityConfig",
    "RoutingConfig",
    "ServerConfig",
    "StructuredConfig",
    "TimeoutsConfig",
    "TokenizerConfig",
    "WorkersConfig",
]

MIB = 1 << 20


@attrs.frozen
class ServerConfig:
    """The HTTP side: where it listens and how long it waits for a client."""

    host: str = option("127.0.0.1", "Address to listen on.", flag="--host")
    port: int = option(8000, "Port to listen on; 0 takes a free one.", at_least=0, at_most=65535, flag="--port")
    processes: int = option(
        1, "Processes that share the port; 0 takes one a core.", at_least=0, at_most=1024, flag="--processes"
    )
    backlog: int = option(2048, "Connections the kernel may hold before they are accepted.", at_least=1, at_most=65535)
    header_timeout_s: float = option(
        10.0, "Seconds a client may take to send a request's head.", at_least=0.1, at_most=3600
    )
    body_timeout_s: float = option(
        60.0, "Seconds a client may take to send a request's body.", at_least=0.1, at_most=3600
    )
    body_bytes_per_s: float = option(
        1024.0,
        "Bytes a second that a body must bring on average, once it has taken header_timeout_s; 0 takes any.",
        at_least=0,
        at_most=1e9,
    )
    connections: int = option(
        8192,
        "Connections of a process; more are answered 503. Fewer where the process may not open as many files.",
        at_least=1,
        at_most=1_000_000,
    )
    keep_alive_s: float = option(75.0, "Seconds an idle connection is kept.", at_least=0, at_most=86400)
    header_bytes: int = option(65536, "Largest head of a request, in bytes.", at_least=1024, at_most=MIB)
    wait_for_workers_s: float = option(
        0.0,
        "Seconds to wait at the start for a worker before connections are answered; without one by then the start fails. 0 waits "
        "for none.",
        at_least=0,
        at_most=86400,
        flag="--wait-for-workers",
    )
    reminder_s: float = option(
        30.0, "Seconds between two lines in the log while no worker has joined; 0 logs none.", at_least=0, at_most=86400
    )
    drain_s: float = option(
        30.0, "Seconds that streams in flight may take to finish after SIGTERM.", at_least=0, at_most=86400
    )
    parse_routes: bool = option(
        False, "Answer /parse/function_call and /parse/reasoning, which read a text as a model's output."
    )
    docs: bool = option(True, "Answer /openapi.json and /docs, which describe the API.")
    access_log: bool = option(False, "Log one line a request.", flag="--access-log")
    compat: Literal["off", "vllm", "openai"] = option(
        "off",
        "Take fields of vLLM, SGLang and OpenRouter at the values that change nothing. Other unknown fields: off and openai "
        "refuse them by name, vllm passes them over.",
        flag="--compat",
    )
    compat_warnings: int = option(
        256, "Fields passed over for server.compat that are warned of, each once.", at_least=0, at_most=65536
    )
    allowed_hosts: tuple[str, ...] = option(
        (),
        'Hosts that requests may name, a name or .suffix; "*" allows all. Without any: all, or on the loopback that alone.',
    )
    any_content_type: bool = option(
        False,
        "Read bodies as JSON whatever their content type says; a page in a browser can then send them from anywhere.",
    )
    cors_origins: tuple[str, ...] = option((), 'Origins that browsers may call from; "*" allows every origin.')


@attrs.frozen
class WorkersConfig:
    """The engines: where they are, how they are spoken to, how they are watched."""

    urls: tuple[str, ...] = option(
        (),
        "Engine to send requests to, grpc(s)://host:port or unix:///path; or a server that speaks OpenAI's API, "
        "http(s)://host:port; may be repeated.",
        flag="--worker",
    )
    transport: Literal["h2", "grpcio"] = option(
        "h2", "How gRPC is carried: the built-in HTTP/2 connection, or the grpcio library."
    )
    dialect: str = option(
        "auto",
        "Contract the engines speak: vllm, neutral, or one that an installed package adds; auto asks each engine when it joins.",
    )
    tls_ca: str | None = option(None, "File of certificates (PEM) that engines are checked against.")
    tls_cert: str | None = option(None, "File of the certificate (PEM) shown to engines.")
    tls_key: str | None = option(None, "File of that certificate's private key (PEM).")
    probe_timeout_s: float = option(
        2.0, "Seconds that an engine may take to answer a health check.", at_least=0.05, at_most=600
    )
    probe_failures: int = option(
        1, "Health checks in a row that an engine may fail before it gets no more requests.", at_least=1, at_most=100
    )
    probe_successes: int = option(
        1,
        "Health checks in a row that an engine that was lost must pass before it gets requests again.",
        at_least=1,
        at_most=100,
    )
    health_interval_s: float = option(
        5.0, "Seconds between two health checks of an engine.", at_least=0.1, at_most=3600
    )
    loads_interval_s: float = option(
        1.0, "Seconds between two questions after an engine's load.", at_least=0.05, at_most=3600
    )


@attrs.frozen
class TimeoutsConfig:
    """How long each part of a request may take, and what a request may ask for instead; see [Time-outs](timeouts.md)."""

    connect_s: float = option(
        5.0, "Seconds to get a connection to an engine; then another engine is tried.", at_least=0.01, at_most=600
    )
    first_token_s: float = option(
        120.0,
        "Seconds from asking an engine to its first token, queue and prefill; then another engine is tried.",
        at_least=0.05,
        at_most=86400,
    )
    token_s: float = option(
        60.0,
        "Seconds between two tokens; then another engine is tried, or a stream that has begun ends.",
        at_least=0.05,
        at_most=86400,
    )
    request_s: float | None = option(
        600.0,
        "Seconds that a request whose answer leaves whole may take, over all engines that are tried; null for any.",
        at_least=0.05,
        at_most=604800,
    )
    stream_s: float | None = option(
        None, "The same for a request whose answer is streamed; without it, any.", at_least=0.05, at_most=604800
    )
    write_s: float = option(
        60.0, "Seconds a client may take nothing of an answer that waits for it.", at_least=0.1, at_most=86400
    )
    models: tuple[str, ...] = option(
        (),
        "A time-out of one model, before the settings above, as NAME=TIMEOUT:SECONDS (llama=first_token:300); without SECONDS "
        "there is none (llama=request:); may be repeated.",
    )
    least_s: float = option(
        0.05, "Least seconds that a request's header may set for any time-out.", at_least=0.001, at_most=3600
    )
    connect_most_s: float = option(60.0, "Most seconds for x-smg-connect-timeout.", at_least=0, at_most=604800)
    first_token_most_s: float = option(
        3600.0, "Most seconds for x-smg-first-token-timeout.", at_least=0, at_most=604800
    )
    token_most_s: float = option(3600.0, "Most seconds for x-smg-token-timeout.", at_least=0, at_most=604800)
    request_most_s: float = option(86400.0, "Most seconds for x-smg-request-timeout.", at_least=0, at_most=604800)
    write_most_s: float = option(600.0, "Most seconds for x-smg-write-timeout.", at_least=0, at_most=604800)

    def of_models(self) -> Mapping[str, "TimeoutsConfig"]:
        """These time-outs for each model of `models`. Raises ConfigError for what is no time-out of a model."""
        found: dict[str, TimeoutsConfig] = {}
        for entry in self.models:
            model, _, bound = entry.rpartition("=")
            timeout, _, text = bound.partition(":")
            if not model or timeout not in _OF_MODELS:
                known = f"NAME=TIMEOUT:SECONDS, TIMEOUT one of {', '.join(_OF_MODELS)}"
                raise ConfigError(f"timeouts.models: {entry}: expected {known}")
            try:
                seconds: Any = float(text) if text else None
                found[model] = attrs.evolve(found.get(model, self), **{f"{timeout}_s": seconds})
            except ValueError as error:
                raise ConfigError(f"timeouts.models: {entry}: {error}") from None
        return found


_OF_MODELS = ("connect", "first_token", "token", "request", "stream", "write")


@attrs.frozen
class TokenizerConfig:
    """Text to token ids and back."""

    path: str | None = option(
        None, "Folder with the model's tokenizer; without it the engine is asked for its own.", flag="--tokenizer"
    )
    chat_template: str | None = option(None, "File of a chat template (Jinja) to use instead of the model's own.")
    l0_bytes: int = option(
        8 * MIB, "Memory for prompts seen whole, in bytes; 0 switches this cache off.", at_least=0, at_most=1 << 40
    )
    l1_bytes: int = option(
        8 * MIB, "Memory for beginnings of prompts, in bytes; 0 switches this cache off.", at_least=0, at_most=1 << 40
    )
    protect_control: bool = option(True, "Keep control tokens that are spelled out in messages or tools as plain text.")
    fast: bool = option(True, "Use fastokens where it proves equal to the tokenizer when that is loaded.")
    encode_threads: int = option(
        2,
        "Threads that decode, render and encode long requests off the event loop, two at the least; large work (over 256 KiB) "
        "has all but one of them.",
        at_least=1,
        at_most=256,
    )


@attrs.frozen
class RoutingConfig:
    """Which engine gets a request."""

    policy: str = option(
        "round_robin", "Routing policy: a built-in name, or one that an installed package adds.", flag="--policy"
    )
    retries: int = option(
        3, "Other engines to try, before the first byte, when one is lost or full.", at_least=0, at_most=100
    )


@attrs.frozen
class LimitsConfig:
    """What one request, and all of them together, may take."""

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
    pending_body_bytes: int = option(
        128 * MIB,
        "Memory for bodies that are being read or wait to be decoded, of all requests of a process, in bytes. Over it, the body "
        "that has been coming longest gives way with 503; a body alone may always be as large as it may.",
        at_least=1024,
        at_most=1 << 40,
    )
    json_values: int = option(
        100_000,
        "Most JSON values in a request's body, and in the JSON texts inside its strings together; a member of an object is one.",
        at_least=100,
        at_most=1 << 30,
    )
    json_depth: int = option(
        64, "Deepest nesting of a request's JSON, and of JSON texts inside its strings.", at_least=4, at_most=500
    )
    schema_bytes: int = option(
        256 * 1024,
        "Most bytes of a request's schemas together, and of a regular expression, a grammar, a structural tag or choices.",
        at_least=256,
        at_most=1 << 30,
    )
    parse_characters: int = option(
        256 * 1024, "Longest text that /parse/* reads, in characters.", at_least=16, at_most=1 << 30
    )
    n: int = option(128, "Most choices one request may ask for.", at_least=1, at_most=4096)
    stop: int = option(16, "Most stop strings of one request.", at_least=1, at_most=1024)
    stop_characters: int = option(1024, "Most characters of a stop string.", at_least=1, at_most=65536)
    stop_token_ids: int = option(256, "Most stop token ids of one request.", at_least=1, at_most=65536)
    logit_bias: int = option(1024, "Most tokens that a request may bias.", at_least=1, at_most=1 << 20)
    choices: int = option(1024, "Most texts that an answer may be held to be one of.", at_least=1, at_most=1 << 20)
    documents: int = option(1024, "Most documents of one request.", at_least=1, at_most=1 << 20)
    template_arguments: int = option(
        256, "Most variables that a request may give its chat template.", at_least=0, at_most=1 << 20
    )
    metadata: int = option(16, "Most entries of a request's metadata.", at_least=0, at_most=65536)
    metadata_characters: int = option(
        512, "Most characters of a value of a request's metadata.", at_least=1, at_most=MIB
    )
    tools: int = option(256, "Most tools of one request.", at_least=1, at_most=65536)
    logprobs: int = option(20, "Most alternatives a token that logprobs may list.", at_least=0, at_most=1000)
    messages: int = option(10_000, "Most messages of one request.", at_least=1, at_most=1_000_000)
    concurrent_requests: int = option(
        10_000, "Requests a process works on at once; more get 503 with Retry-After.", at_least=1, at_most=1_000_000
    )
    answer_bytes: int = option(
        64 * MIB,
        "Memory that an answer which leaves whole may take: choices x tokens x what a token takes, logprobs included.",
        at_least=4096,
        at_most=1 << 40,
    )
    response_buffer_bytes: int = option(
        MIB,
        "Output kept for a client that reads slowly before its engine is held back, in bytes.",
        at_least=4096,
        at_most=1 << 30,
    )


MediaFormat = Literal["jpeg", "png", "webp", "gif", "bmp", "tiff", "avif", "heic", "jpeg2000"]
"""Formats of pictures that smg_multimodal knows; a test compares the two, since that package is loaded when it is needed."""


@attrs.frozen
class MediaConfig:
    """Pictures, clips and recordings in requests: from where they may be fetched, and what they may take."""

    allow_hosts: tuple[str, ...] = option(
        (), "Hosts that media may be fetched from, a name or .suffix; without any, every public host; may be repeated."
    )
    allow_private: tuple[str, ...] = option(
        (), "Hosts, a name or .suffix, that may lie in private networks or on this machine; may be repeated."
    )
    allow_http: bool = option(False, "Fetch by plain http too, not by https alone.")
    allow_files: str | None = option(None, "Folder that file: URLs may read below; without it they are refused.")
    port: int | None = option(
        None, "Port that media may be fetched from, besides 80 and 443.", at_least=1, at_most=65535
    )
    tls_ca: str | None = option(None, "File of certificates (PEM) that hosts are checked against, for the system's.")
    max_bytes: int = option(
        32 * MIB, "Largest file of one item, in bytes, fetched or sent inline.", at_least=1024, at_most=1 << 31
    )
    max_request_bytes: int = option(
        128 * MIB, "Most bytes of all files of one request together.", at_least=1024, at_most=1 << 33
    )
    max_pixels: int = option(
        64 * MIB,
        "Most pixels of one picture, of one frame of a clip, or of all frames of one animated picture.",
        at_least=1,
        at_most=1 << 32,
    )
    max_frames: int = option(
        36_000,
        "Most frames of one clip, those counted that no model looks at: ten minutes at 60 a second.",
        at_least=1,
        at_most=1 << 31,
    )
    max_seconds: float = option(
        600.0, "Longest recording, in seconds; a model's own bound may be lower.", at_least=0.1, at_most=1e6
    )
    formats: tuple[MediaFormat, ...] = option(
        ("jpeg", "png", "webp", "gif"), "Formats of pictures that are taken; may be repeated."
    )
    max_scans: int = option(64, "Most scans of one progressive JPEG.", at_least=1, at_most=100_000)
    max_items: int = option(
        16, "Most items of one request; a model's own limit may be lower.", at_least=1, at_most=1024
    )
    timeout_s: float = option(10.0, "Seconds that fetching one item may take.", at_least=0.1, at_most=600)
    fetches: int = option(32, "Items fetched at once, over all requests.", at_least=1, at_most=1024)
    threads: int | None = option(
        None,
        "Items decoded and processed at once, over all models, by each process; without it four for every three cores, so that "
        "the three quarters that a tenant may have are all cores.",
        at_least=1,
        at_most=256,
    )
    processes: int = option(
        2,
        "Clips, recordings and pictures that may take long, decoded at once beside those, each in a process that can be stopped.",
        at_least=1,
        at_most=256,
    )
    decode_timeout_s: float = option(
        10.0, "Seconds that decoding one picture in such a process may take.", at_least=0.1, at_most=600
    )
    clip_timeout_s: float = option(
        30.0, "Seconds that decoding one clip or recording in such a process may take.", at_least=0.1, at_most=3600
    )
    decode_bytes: int = option(
        1024 * MIB, "Memory for what is being decoded, over all requests, in bytes.", at_least=MIB, at_most=1 << 40
    )
    tensor_bytes: int = option(
        2048 * MIB,
        "Memory for tensors of requests that are under way, copies counted, in bytes.",
        at_least=MIB,
        at_most=1 << 40,
    )
    wait_s: float = option(
        10.0,
        "Seconds that media wait for others to be decoded or sent before the request gets 503.",
        at_least=0.1,
        at_most=600,
    )
    cache_bytes: int = option(
        512 * MIB,
        "Memory for items seen before, files and tensors together, in bytes; 0 keeps none.",
        at_least=0,
        at_most=1 << 40,
    )
    resize: Literal["auto", "pil", "torch"] = option(
        "auto",
        "Arithmetic of resizing and normalising: Pillow's or torch's; auto takes what the model's engines compute themselves.",
    )
    processor_kwargs: str | None = option(
        None,
        'What engines were told by --mm-processor-kwargs, which they do not say: JSON by the model\'s name, {"NAME": {...}}.',
    )
    shared_memory: Literal["off", "auto"] = option(
        "off", "Hand tensors to engines that see the same /dev/shm through it, instead of within the message."
    )
    shared_memory_bytes: int = option(
        1024 * MIB, "Most bytes of tensors in shared memory at once, of each process.", at_least=1024, at_most=1 << 40
    )


@attrs.frozen
class ModelConfig:
    """What the model is called and how its output is read."""

    name: str | None = option(None, "Name to serve the model under, instead of the engine's.", flag="--model-name")
    served_names: tuple[str, ...] = option((), "Further names the model answers to; may be repeated.")
    parser: str = option(
        "auto",
        'Family whose reasoning and tool calls the output is read as; "auto" goes by name and template, "none" leaves text.',
        flag="--parser",
    )
    parsers: tuple[str, ...] = option(
        (), "Family for one model, as NAME=FAMILY, before the setting above; may be repeated."
    )
    parser_header: bool = option(
        False,
        "Let a request's x-smg-parser header name the family that its answer is read as; without it such a request gets 400.",
    )
    context_length: int | None = option(
        None,
        "Most tokens of prompt and output together; an engine that takes fewer keeps its own bound.",
        at_least=1,
        at_most=1 << 31,
    )


@attrs.frozen
class StructuredConfig:
    """Answers that are to be of a format: JSON, or JSON of a schema."""

    on_violation: Literal["report", "error", "repair"] = option(
        "report",
        "What becomes of an answer that is not of the format: report gives the text as it is, with x-smg-format-violation in the "
        "head of an answer that leaves whole; error answers 422; repair mends what is sure (a cut, a code fence, words behind "
        "the JSON) and reports the rest.",
    )


@attrs.frozen
class ObservabilityConfig:
    """What the gateway tells of itself."""

    log_level: Literal["debug", "info", "warning", "error"] = option(
        "info", "Least severity that is logged.", flag="--log-level"
    )
    log_format: Literal["text", "json"] = option("text", "Log lines for people or for machines.", flag="--log-format")
    request_id_header: str = option("x-request-id", "Header that carries a request's id, in and out.")
    explain: bool = option(
        False,
        "Answer a request's x-smg-explain header with what was done for it: worker, policy, tokens, times. For trusted clients.",
    )
