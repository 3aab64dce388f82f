"""The bounds of a connection to an engine, and its time-outs.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

from typing import Literal

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["EnginesConfig"]


@attrs.frozen
class EnginesConfig:
    """A connection to an engine: what it may hold, and how long it waits."""

    message_bytes: int = bound(
        64 * MIB,
        "Largest message of an engine, in bytes; a larger one ends its call.",
        at_least=256,
        at_most=(1 << 31) - 1,
    )
    held_bytes: int = bound(
        512 * MIB,
        "Most bytes of messages that are partly here, of all calls on a connection to an engine; over it the connection "
        "is closed.",
        at_least=1024,
        at_most=1 << 40,
    )
    stream_window_bytes: int = bound(
        128 * 1024,
        "Bytes that an engine may send ahead of a client that does not read: thousands of tokens.",
        at_least=1024,
        at_most=(1 << 31) - 1,
    )
    connection_window_bytes: int = bound(
        16 * MIB,
        "Bytes that an engine may send ahead of clients that do not read, in all calls on a connection together.",
        at_least=65535,
        at_most=(1 << 31) - 1,
    )
    header_block_bytes: int = bound(
        16 * 1024, "Largest block of headers of an engine, in bytes.", at_least=1024, at_most=MIB
    )
    metadata_bytes: int = bound(
        8 * 1024, "Most bytes of headers that are sent with a call, as gRPC counts them.", at_least=256, at_most=MIB
    )
    streams: int = bound(
        4096,
        "Most calls at once on a connection to an engine; fewer where the engine takes fewer.",
        at_least=1,
        at_most=1 << 20,
    )
    waiting_calls: int = bound(
        1024,
        "Most calls that wait for room on a connection to an engine; more are tried elsewhere.",
        at_least=0,
        at_most=1 << 20,
    )
    question_calls: int = bound(
        4,
        "Calls at once for which room is kept at an engine that is full of requests: health checks, questions after its load "
        "and what it serves, and aborts. Where it takes few calls on a connection, at most an eighth of them.",
        at_least=0,
        at_most=1024,
    )
    idle_frames: int = bound(
        10_000,
        "Frames of an engine in a row without a message or progress, after which its connection is closed.",
        at_least=1,
        at_most=1 << 31,
    )
    ping_interval_s: float = bound(
        30.0,
        "Seconds of silence, while calls wait, after which an engine is pinged; 0 pings never.",
        at_least=0,
        at_most=86400,
    )
    ping_timeout_s: float = bound(
        10.0,
        "Seconds that an engine may take to answer a ping; then the connection is closed.",
        at_least=0.01,
        at_most=3600,
    )
    connections_tried: int = bound(
        3, "Connections to an engine that are tried for a call that has not left this process.", at_least=1, at_most=100
    )
    refusals: int = bound(
        20, "Times that a call is sent anew which the engine's connection refused unread.", at_least=0, at_most=100
    )
    unread_bytes: int = bound(
        4 * MIB,
        "Most bytes kept for an engine that does not read; over it the connection is closed.",
        at_least=65536,
        at_most=1 << 31,
    )
    close_s: float = bound(
        1.0, "Seconds that the last bytes of a connection to an engine may take to leave.", at_least=0.01, at_most=60
    )
    backoff_s: float = bound(
        1.0, "Most seconds that the grpcio library waits before it connects anew.", at_least=0.1, at_most=600
    )
    question_timeout_s: float = bound(
        5.0, "Seconds that an engine may take to say what it serves or how busy it is.", at_least=0.05, at_most=600
    )
    upkeep_timeout_s: float = bound(
        630.0,
        "Seconds that an engine may take to empty its cache or to write a profile; large traces take minutes.",
        at_least=0.1,
        at_most=86400,
    )
    tokenizer_bytes: int = bound(
        200 * MIB, "Largest archive of a tokenizer that an engine may send, in bytes.", at_least=256, at_most=1 << 31
    )
    tokenizer_timeout_s: float = bound(
        120.0, "Seconds that an engine may take to send its tokenizer.", at_least=0.1, at_most=3600
    )
    kv_events_bytes: int = bound(
        MIB, "Largest message of an engine that publishes its KV events, in bytes.", at_least=1024, at_most=1 << 30
    )
    kv_events_most: int = bound(
        10_000,
        "Most KV events in one message of an engine that publishes them; a message with more is refused.",
        at_least=1,
        at_most=1 << 24,
    )
    kv_events_waiting: int = bound(
        1000,
        "Messages with KV events of an engine that may wait to be read; more are dropped, and asked for again.",
        at_least=1,
        at_most=1 << 20,
    )
    kv_replay_s: float = bound(
        10.0,
        "Seconds that an engine that publishes its KV events may take to send what was missed.",
        at_least=0.05,
        at_most=600,
    )
    http_developer: Literal["auto", "system", "developer"] = bound(
        "auto",
        "How servers of the Chat Completions API are told the role developer: as system, which all know, or as it is; auto: as "
        "it is to OpenAI's own and to those of the dialect openai-strict, as system to all others.",
    )
    http_proxy: str | None = option(
        None,
        "Proxy (http://host:port) through which https:// engines and providers are reached, and the hosts that give tokens for "
        "them; TLS is spoken through it, with the engine itself.",
    )
    http_direct: tuple[str, ...] = option(
        (), "Host that is reached without engines.http_proxy, a name or .suffix for all below it; may be repeated."
    )
    http_connections: int = bound(
        1024, "Most connections to an http:// engine, each with one call; more calls wait.", at_least=1, at_most=1 << 20
    )
    http_idle_connections: int = bound(
        64, "Most connections to an http:// engine that are kept without a call.", at_least=0, at_most=1 << 20
    )
    http_keep_alive_s: float = bound(
        4.0,
        "Seconds that a connection to an http:// engine is kept without a call; should be less than the engine keeps it.",
        at_least=0,
        at_most=86400,
    )
    http_body_bytes: int = bound(
        4 * MIB, "Bytes that are read of an http:// engine's answer that is no stream.", at_least=1000, at_most=1 << 31
    )
    http_inputs: int = bound(
        32, "Inputs of a request for vectors that an http:// engine gets in one call.", at_least=1, at_most=65536
    )
    http_vectors_bytes: int = bound(
        64 * MIB, "Bytes that are read of an http:// engine's vectors.", at_least=1000, at_most=1 << 31
    )
    http_pictures_bytes: int = bound(
        64 * MIB, "Bytes that are read of an http:// engine's pictures.", at_least=1000, at_most=1 << 31
    )
    http_error_bytes: int = bound(
        64 * 1024, "Bytes that are read of an http:// engine's error.", at_least=256, at_most=1 << 31
    )
    http_event_bytes: int = bound(
        8 * MIB, "Largest event in an http:// engine's stream, in bytes.", at_least=256, at_most=1 << 31
    )
    http_held_bytes: int = bound(
        4 * MIB,
        "Most bytes held back of an http:// engine's answer while its tool calls come by turns.",
        at_least=256,
        at_most=1 << 31,
    )
    http_calls: int = bound(
        1024, "Most tool calls of a choice that an http:// engine may make.", at_least=1, at_most=1 << 20
    )
    http_end_s: float = bound(
        1.0, "Seconds that the end of an http:// engine's stream may take after its last event.", at_least=0, at_most=60
    )
    http_repeat_s: float = bound(
        1.0,
        "Seconds in which a kept connection to an http:// engine may turn out to be gone for its request to be sent once more.",
        at_least=0,
        at_most=60,
    )
