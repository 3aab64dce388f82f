"""The settings of the HTTP side, the served model, and media in requests.

Records of settings: `config` gathers them, with those of the other rooms. Below: `settings`.
"""

from collections.abc import Iterable
from typing import Literal

import attrs

from smg_core.settings import MIB, bound, option

__all__ = [
    "BatchesConfig",
    "DocumentsConfig",
    "MediaConfig",
    "MediaFormat",
    "ModelConfig",
    "ResponsesConfig",
    "ServerConfig",
]


@attrs.frozen
class ServerConfig:
    """The HTTP side: where it listens and how long it waits for a client."""

    host: str = option("127.0.0.1", "Address to listen on.", flag="--host")
    port: int = option(8000, "Port to listen on; 0 takes a free one.", at_least=0, at_most=65535, flag="--port")
    processes: int = option(
        1,
        "Processes that share the port; 0 takes one for each CPU that this process may use.",
        at_least=0,
        at_most=1024,
        flag="--processes",
    )
    supervised: bool = option(
        False,
        "Let a supervisor start a single process too, as it does several, so that SIGHUP replaces it by one with new settings; "
        "without one, SIGHUP changes what can change live.",
    )
    backlog: int = bound(2048, "Connections the kernel may hold before they are accepted.", at_least=1, at_most=65535)
    header_timeout_s: float = bound(
        10.0, "Seconds a client may take to send a request's head.", at_least=0.1, at_most=3600
    )
    body_timeout_s: float = option(
        60.0, "Seconds a client may take to send a request's body.", at_least=0.1, at_most=3600
    )
    body_bytes_per_s: float = bound(
        1024.0,
        "Bytes a second that a body must bring on average, once it has taken server.header_timeout_s; 0 takes any.",
        at_least=0,
        at_most=1e9,
    )
    connections: int = option(
        8192,
        "Connections of clients that a process has at once; more are answered 503. Fewer where the process may not open "
        "as many files.",
        at_least=1,
        at_most=1_000_000,
    )
    connections_warning: float = bound(
        0.8, "Share of server.connections at which the log warns.", at_least=0, at_most=1
    )
    spare_files: int = bound(
        256,
        "Open files of a process that are kept for engines, its log and itself; the rest of those that it may open are "
        "for connections of clients.",
        at_least=16,
        at_most=1 << 20,
    )
    refused_s: float = bound(
        1.0,
        "Seconds that a connection over server.connections may take for a request that gets 503.",
        at_least=0,
        at_most=60,
    )
    discard_bytes: int = bound(
        256 * MIB,
        "Bytes of a refused request's body that are read and thrown away, so that its client sees the answer.",
        at_least=0,
        at_most=1 << 40,
    )
    stranger_bytes: int = bound(
        65536,
        "Bytes of a request's body that are read and thrown away where the request is refused for want of a good key or a"
        " permission; then its connection is closed.",
        at_least=0,
        at_most=1 << 40,
    )
    keep_alive_s: float = option(75.0, "Seconds an idle connection is kept.", at_least=0, at_most=86400)
    trim_bytes: int = bound(
        16 * MIB,
        "Bytes by which the memory of a process may grow before what is free of it is returned to the system; 0 leaves that to "
        "the C library.",
        at_least=0,
        at_most=1 << 40,
    )
    header_bytes: int = bound(
        65536,
        "Largest head of a request, in bytes; its trailer, and the line of a chunk, have the same bound.",
        at_least=1024,
        at_most=MIB,
    )
    header_lines: int = bound(
        1000, "Most header lines of a request, those of a trailer too.", at_least=32, at_most=100_000
    )
    wait_for_workers_s: float = option(
        0.0,
        "Seconds to wait at the start for a worker before connections are answered; without one by then the start fails. 0 waits "
        "for none; `async with` and `await` of a gateway in Python wait 60 seconds then.",
        at_least=0,
        at_most=86400,
        flag="--wait-for-workers",
    )
    first_wait_s: float = bound(
        5.0,
        "Seconds that one of several processes waits for a worker before it takes connections, and that the first request"
        " waits in an application that starts the gateway with it; counts where server.wait_for_workers_s is 0.",
        at_least=0,
        at_most=3600,
    )
    restart_s: float = bound(
        1.0, "Seconds before a process that died is replaced by another.", at_least=0, at_most=3600
    )
    reminder_s: float = bound(
        30.0, "Seconds between two lines in the log while no worker has joined; 0 logs none.", at_least=0, at_most=86400
    )
    drain_s: float = option(
        30.0, "Seconds that streams in flight may take to finish after SIGTERM.", at_least=0, at_most=86400
    )
    notice_s: float = option(
        0.0, "Seconds after SIGTERM in which only open connections are answered.", at_least=0, at_most=86400
    )
    retire_s: float = bound(
        3600.0, "Seconds for streams of a process that another has taken over from.", at_least=0, at_most=604800
    )
    replace_s: float = bound(
        120.0,
        "Seconds that a process that is to take over from another may take to come up; then the other stays.",
        at_least=1,
        at_most=86400,
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
    compat_warnings: int = bound(
        256,
        "Most different fields, passed over for server.compat, that the log warns of, each once.",
        at_least=0,
        at_most=65536,
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
class ModelConfig:
    """The name of the model, and the reading of its output."""

    name: str | None = option(None, "Name to serve the model under, instead of the engine's.", flag="--model-name")
    served_names: tuple[str, ...] = option((), "Further names the model answers to; may be repeated.")
    aliases: tuple[str, ...] = option(
        (),
        "Names that stand for a model, as NAME=MODEL; a NAME that ends with * stands for all that begin so (claude-*=qwen3). "
        "Names of served models come first, then whole names, then the longest beginning; may be repeated.",
    )
    tenant_aliases: tuple[str, ...] = option(
        (),
        "Names that stand for a model in the requests of one tenant, as TENANT:NAME=MODEL, before those of model.aliases;"
        " may be repeated.",
    )
    parser: str = option(
        "auto",
        'Family whose reasoning and tool calls the output is read as; "auto" goes by name and template, "none" leaves text.',
        flag="--parser",
    )
    parsers: tuple[str, ...] = option((), "Family for one model, as NAME=FAMILY, before model.parser; may be repeated.")
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

    def served_as(self, name: str, tenant: str = "") -> str:
        """The model that `name` stands for in a request of `tenant`; `name` itself where it is no alias. Called for names that no
        served model has."""
        own = (rest for of, _, rest in (each.partition(":") for each in self.tenant_aliases) if of == tenant)
        return (tenant and _aliased(name, own)) or _aliased(name, self.aliases) or name

    def expected(self, own: str | None, adapters: Iterable[str]) -> frozenset[str]:
        """The names for the model of a worker, or for its `adapters`, as far as the settings have them: `own` is the worker's.
        Empty where its engine says the name."""
        called = own or self.name
        return frozenset([called, *self.served_names, *adapters]) if called else frozenset()


def _aliased(name: str, aliases: Iterable[str]) -> str:
    """The model of the alias that fits `name` best, "" without one."""
    best, found = -1, ""
    for entry in aliases:
        alias, _, model = entry.partition("=")
        if alias == name:
            return model
        if alias.endswith("*") and name.startswith(alias[:-1]) and len(alias) > best:
            best, found = len(alias), model
    return found


MediaFormat = Literal["jpeg", "png", "webp", "gif", "bmp", "tiff", "avif", "heic", "jpeg2000"]
"""Formats of pictures that smg_multimodal knows; a test compares the two, since that package is loaded when it is needed."""


@attrs.frozen
class MediaConfig:
    """Pictures, clips and recordings in requests: from where they may be fetched, and what they may take."""

    note_earlier: bool = option(False, "Put a note in place of media of earlier turns that cannot be used.")
    allow_hosts: tuple[str, ...] = option(
        (), "Hosts that media may be fetched from, a name or .suffix; without any, every public host; may be repeated."
    )
    allow_private: tuple[str, ...] = option(
        (), "Hosts, a name or .suffix, that may lie in private networks or on this machine; may be repeated."
    )
    allow_http: bool = bound(False, "Fetch by plain http too, not by https alone.")
    allow_files: str | None = option(None, "Folder below which file: URLs may read; without it they are refused.")
    port: int | None = bound(
        None, "Port that media may be fetched from, besides 80 and 443.", at_least=1, at_most=65535
    )
    tls_ca: str | None = bound(
        None, "File of certificates (PEM) that hosts of media are checked against, in place of the system's."
    )
    max_bytes: int = option(
        32 * MIB, "Largest file of one medium, in bytes, fetched or sent inline.", at_least=1024, at_most=1 << 31
    )
    max_request_bytes: int = bound(
        128 * MIB, "Most bytes of all media of one request together.", at_least=1024, at_most=1 << 33
    )
    max_pixels: int = bound(
        64 * MIB,
        "Most pixels of one picture, of one frame of a clip, or of all frames of one animated picture.",
        at_least=1,
        at_most=1 << 32,
    )
    max_frames: int = bound(
        36_000,
        "Most frames of one clip, those counted that no model looks at: ten minutes at 60 a second.",
        at_least=1,
        at_most=1 << 31,
    )
    max_seconds: float = bound(
        600.0, "Longest recording, in seconds; a model's own bound may be lower.", at_least=0.1, at_most=1e6
    )
    formats: tuple[MediaFormat, ...] = option(
        ("jpeg", "png", "webp", "gif"), "Formats of pictures that are taken; may be repeated."
    )
    max_scans: int = bound(64, "Most scans of one progressive JPEG.", at_least=1, at_most=100_000)
    max_items: int = option(
        16, "Most media of one request; a model's own limit may be lower.", at_least=1, at_most=1024
    )
    timeout_s: float = bound(10.0, "Seconds that fetching one medium may take.", at_least=0.1, at_most=600)
    fetches: int = bound(32, "Media fetched at once, over all requests.", at_least=1, at_most=1024)
    threads: int | None = bound(
        None,
        "Items decoded and processed at once, over all models, by each process; without it four for every three cores, so that "
        "the three quarters that a tenant may have are all cores.",
        at_least=1,
        at_most=256,
    )
    processes: int = bound(
        2,
        "Clips, recordings and pictures that may take long, decoded at once beside those of media.threads, each in a "
        "process that can be stopped.",
        at_least=1,
        at_most=256,
    )
    decode_timeout_s: float = bound(
        10.0, "Seconds that decoding one picture in a process of media.processes may take.", at_least=0.1, at_most=600
    )
    clip_timeout_s: float = bound(
        30.0,
        "Seconds that decoding one clip or recording in a process of media.processes may take.",
        at_least=0.1,
        at_most=3600,
    )
    decode_bytes: int = bound(
        1024 * MIB,
        "Memory for media that are being decoded, over all requests, in bytes.",
        at_least=MIB,
        at_most=1 << 40,
    )
    tensor_bytes: int = bound(
        2048 * MIB,
        "Memory for tensors of requests that are under way, copies counted, in bytes.",
        at_least=MIB,
        at_most=1 << 40,
    )
    wait_s: float = bound(
        10.0,
        "Seconds that media wait for others to be decoded or sent before the request gets 503.",
        at_least=0.1,
        at_most=600,
    )
    cache_bytes: int = option(
        512 * MIB,
        "Memory for items seen before, files and tensors together, in bytes; 0 keeps none. Tensors are kept once for all "
        "processes, files by each.",
        at_least=0,
        at_most=1 << 40,
    )
    resize: Literal["auto", "pil", "torch"] = bound(
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
    shared_memory_bytes: int = bound(
        1024 * MIB, "Most bytes of tensors in shared memory at once, of each process.", at_least=1024, at_most=1 << 40
    )


@attrs.frozen
class DocumentsConfig:
    """PDF documents in requests, which are read where pypdf is installed. Addresses are fetched by the rules of media."""

    pdf: Literal["auto", "off"] = bound(
        "auto", "Read PDF documents where pypdf is installed (smg-sdk[pdf]), or refuse them always."
    )
    max_bytes: int = bound(
        32 * MIB, "Largest document, in bytes, fetched or sent inline.", at_least=1024, at_most=1 << 31
    )
    max_request_bytes: int = bound(
        64 * MIB, "Most bytes of all documents of one request together.", at_least=1024, at_most=1 << 33
    )
    max_items: int = bound(32, "Most documents in the messages of one request.", at_least=1, at_most=1024)
    max_pages: int = bound(600, "Most pages of one document.", at_least=1, at_most=1 << 20)
    max_characters: int = bound(2_000_000, "Most characters of text in one document.", at_least=1, at_most=1 << 31)
    max_pictures: int = bound(
        16, "Most pictures of documents that a request shows its model; 0: none.", at_least=0, at_most=1024
    )
    memory_bytes: int = bound(
        256 * MIB,
        "Memory that reading one document should take at most, in bytes; over twice that it is refused.",
        at_least=MIB,
        at_most=1 << 40,
    )
    timeout_s: float = bound(30.0, "Seconds that reading one document may take.", at_least=0.1, at_most=3600)
    processes: int = bound(2, "Documents read at once, each in a process that can be stopped.", at_least=1, at_most=256)
    wait_s: float = bound(
        10.0,
        "Seconds that a document waits for others to be read before the request gets 503.",
        at_least=0.1,
        at_most=600,
    )
    kept_characters: int = bound(
        16 * MIB,
        "What is kept of documents that were read, in characters and bytes of pictures, against reading them again; 0: nothing.",
        at_least=0,
        at_most=1 << 40,
    )


@attrs.frozen
class ResponsesConfig:
    """The Responses API: its conversations and its responses in the background."""

    lock_s: float = bound(
        30.0,
        "Seconds after which a conversation is free again if the process that made a response in it has died; until then "
        "the lock is renewed.",
        at_least=1,
        at_most=86400,
    )
    socket_s: float = bound(
        3600.0,
        "Seconds after which a WebSocket takes nothing new and is closed, once what is under way is complete.",
        at_least=0.01,
        at_most=86400,
    )
    socket_lanes: int = bound(
        16, "Most responses made at once on one WebSocket, each on a lane of its own.", at_least=1, at_most=1024
    )
    socket_frame_bytes: int = bound(
        32 * MIB, "Largest frame that a WebSocket takes, in bytes.", at_least=1024, at_most=1 << 31
    )
    socket_ping_s: float = bound(
        20.0,
        "Seconds between two pings on a WebSocket, and for which a client may leave one unanswered; another server has its own.",
        at_least=1,
        at_most=3600,
    )
    socket_responses: int = bound(
        64,
        "Responses that are not stored and can be continued on their WebSocket: the newest of each connection.",
        at_least=1,
        at_most=100_000,
    )
    socket_kept_bytes: int = bound(
        16 * MIB,
        "Memory for the responses of responses.socket_responses, in bytes, of each connection; each response counts with "
        "all that came before it.",
        at_least=1024,
        at_most=1 << 40,
    )
    background: int = bound(
        64, "Responses in the background that a process makes at once; more wait.", at_least=1, at_most=100_000
    )
    background_tenant: int = bound(
        64, "Responses in the background that a process makes at once for one tenant.", at_least=1, at_most=100_000
    )
    queue: int = bound(
        1000,
        "Responses in the background that may wait, over all processes; a further one gets 503.",
        at_least=1,
        at_most=100_000,
    )
    queue_tenant: int = bound(
        250,
        "Responses in the background of one tenant that may wait, over all processes; a further one gets 429.",
        at_least=1,
        at_most=100_000,
    )
    pending_s: float = bound(
        86400.0,
        "Seconds that a response in the background may wait for its turn, for its engines, or for a process that takes over; "
        "then it fails.",
        at_least=1,
        at_most=30 * 86400,
    )
    lease_s: float = bound(
        30.0,
        "Seconds after which a response in the background is run again elsewhere if its process has died.",
        at_least=0.2,
        at_most=3600,
    )
    runs: int = bound(
        10,
        "Times that a response in the background is begun, over all processes, before it fails. A run that found no engine does "
        "not count.",
        at_least=1,
        at_most=1000,
    )
    poll_s: float = bound(
        1.0,
        "Seconds between two looks at the history for what other processes have done: new events, cancellations, work.",
        at_least=0.01,
        at_most=60,
    )
    batch_s: float = bound(
        0.05,
        "Seconds that events of a response in the background are gathered before they are kept, and sent.",
        at_least=0,
        at_most=10,
    )
    log_bytes: int = bound(
        64 * MIB,
        "Most bytes of events that are kept of one response in the background; over it the response fails.",
        at_least=1024,
        at_most=1 << 34,
    )


@attrs.frozen
class BatchesConfig:
    """Files, and batches of requests: `/v1/files`, `/v1/batches` and `/v1/messages/batches`. They are kept in the history."""

    file_bytes: int = bound(512 * MIB, "Largest file that is uploaded, in bytes.", at_least=1024, at_most=1 << 40)
    body_bytes: int = bound(
        256 * MIB, "Largest body of a request for a batch of Messages, in bytes.", at_least=1024, at_most=1 << 40
    )
    files: int = bound(
        1000,
        "Files that a tenant may have; a further upload gets 400. Those that batches make count, and are not refused.",
        at_least=1,
        at_most=1_000_000,
    )
    file_s: float = bound(
        30 * 86400.0, "Seconds that a file is kept that has no time of its own.", at_least=60, at_most=36_500 * 86400
    )
    uploads: int = bound(
        16,
        "Bodies of files and of batches of Messages that a process takes in at once, each through a temporary file; a further "
        "one gets 503. The SDK of OpenAI sends five at once.",
        at_least=1,
        at_most=1024,
    )
    folder: str | None = bound(
        None, "Folder of the temporary files that bodies lie in while they come; without it, the system's."
    )
    form_fields: int = bound(16, "Most fields of the form that a file is uploaded with.", at_least=3, at_most=1024)
    form_field_bytes: int = bound(
        1024,
        "Most bytes of a field of the form that a file is uploaded with, other than the file.",
        at_least=64,
        at_most=MIB,
    )
    requests: int = bound(100_000, "Most requests of one batch.", at_least=1, at_most=10_000_000)
    custom_id_characters: int = bound(
        512,
        "Most characters of a request's custom_id in a batch of OpenAI's; Messages has 64.",
        at_least=1,
        at_most=MIB,
    )
    errors: int = bound(
        100, "Most faults of an input file that are listed when a batch fails for them.", at_least=1, at_most=100_000
    )
    open: int = bound(
        100, "Batches of a tenant that may be under way or wait; a further one gets 429.", at_least=1, at_most=100_000
    )
    enqueued_tokens: int | None = bound(
        None, "Most tokens (3.5 bytes each) in a tenant's batches that wait; more get 429.", at_least=1, at_most=1 << 50
    )
    at_once: int = bound(
        16, "Batches that a process works on at once, over all tenants; more wait.", at_least=1, at_most=10_000
    )
    at_once_tenant: int = bound(
        4, "Batches of one tenant that a process works on at once; more wait.", at_least=1, at_most=10_000
    )
    queue: int = bound(
        1000,
        "Batches that may wait, over all tenants and processes; a further one gets 503.",
        at_least=1,
        at_most=100_000,
    )
    in_flight: int = option(
        32, "Requests of batches that a process has under way at once.", at_least=1, at_most=100_000
    )
    in_flight_tenant: int = bound(
        16, "Requests of batches of one tenant that a process has under way at once.", at_least=1, at_most=100_000
    )
    yield_to: int = bound(
        32,
        "Requests of clients under way in a process from which on it begins no request of a batch.",
        at_least=1,
        at_most=1_000_000,
    )
    window_s: float = bound(
        86400.0,
        "Seconds after which the requests of a batch that have not begun expire.",
        at_least=1,
        at_most=30 * 86400,
    )
    kept_s: float = option(
        30 * 86400.0,
        "Seconds that a batch and its results are kept after its window.",
        at_least=60,
        at_most=36_500 * 86400,
    )
    lease_s: float = bound(
        30.0,
        "Seconds after which another process goes on with a batch whose process has died.",
        at_least=0.2,
        at_most=3600,
    )
    poll_s: float = bound(
        1.0,
        "Seconds between two looks at the history for what other processes have done: batches to work on, cancellations.",
        at_least=0.01,
        at_most=60,
    )
    gather_s: float = bound(
        0.05, "Seconds that results of batches are gathered before they are kept in one write.", at_least=0, at_most=10
    )
    retry_s: float = bound(
        1.0,
        "Seconds before a request of a batch is tried again that found no room or no engine.",
        at_least=0.01,
        at_most=3600,
    )
    absence_s: float = bound(
        60.0,
        "Seconds that a request of a batch waits for a model that nobody serves; then its result is the error.",
        at_least=0,
        at_most=86400,
    )
