"""Every setting of the gateway, typed once: flags, environment, file and the documentation page all come from here.

A section is a frozen record; a setting is a field with its text, default and bounds. `describe` lists them, and the command
line, the `SMG_*` variables, the file's keys and `docs/configuration.md` are generated from that list, so none of them can
disagree. Precedence: flag, then environment, then file, then default.

Decides: what a setting is called, what it may be, which source wins, what is wrong with a value and where it stood. Below: the
standard library, attrs and `settings`. Above: `cli` hands in the text of flags and file; `server` takes the `Config`.
Does not know: argparse, the process's environment, the file system. YAML is imported when a YAML text is read, not before.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Literal

import attrs

from smg_core.settings import (
    ConfigError,
    Setting,
    Value,
    complaint,
    from_file,
    from_override,
    from_text,
    nearest,
    option,
    shape_of,
)

__all__ = [
    "Config",
    "ConfigError",
    "LimitsConfig",
    "MediaConfig",
    "ModelConfig",
    "ObservabilityConfig",
    "Resolved",
    "RoutingConfig",
    "ServerConfig",
    "Setting",
    "StructuredConfig",
    "TokenizerConfig",
    "Value",
    "WorkersConfig",
    "describe",
    "load_config",
    "render",
    "resolve",
]

ENVIRONMENT_PREFIX = "SMG_"
NOT_SETTINGS = frozenset({"SMG_CONFIG"})  # names the file; the command line reads it
MIB = 1 << 20


# ------------------------------------------------------------------------------------------------------- the sections


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
    keep_alive_s: float = option(75.0, "Seconds an idle connection is kept.", at_least=0, at_most=86400)
    header_bytes: int = option(65536, "Largest head of a request, in bytes.", at_least=1024, at_most=MIB)
    drain_s: float = option(
        30.0, "Seconds that streams in flight may take to finish after SIGTERM.", at_least=0, at_most=86400
    )
    parse_routes: bool = option(
        False, "Answer /parse/function_call and /parse/reasoning, which read a text as a model's output."
    )
    access_log: bool = option(False, "Log one line a request.", flag="--access-log")
    cors_origins: tuple[str, ...] = option((), 'Origins that browsers may call from; "*" allows every origin.')


@attrs.frozen
class WorkersConfig:
    """The engines: where they are, how they are spoken to, how they are watched."""

    urls: tuple[str, ...] = option(
        (), "Engine to send requests to (grpc://host:port or grpcs://host:port); may be repeated.", flag="--worker"
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
    connect_timeout_s: float = option(5.0, "Seconds to wait for a connection.", at_least=0.01, at_most=600)
    request_timeout_s: float = option(600.0, "Seconds one request may take at an engine.", at_least=0.1, at_most=86400)
    health_interval_s: float = option(
        5.0, "Seconds between two health checks of an engine.", at_least=0.1, at_most=3600
    )
    loads_interval_s: float = option(
        1.0, "Seconds between two questions after an engine's load.", at_least=0.05, at_most=3600
    )


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
        512 * MIB,
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
        64 * MIB, "Most pixels of one picture, or of all frames of one clip.", at_least=1, at_most=1 << 32
    )
    max_items: int = option(
        16, "Most items of one request; a model's own limit may be lower.", at_least=1, at_most=1024
    )
    timeout_s: float = option(10.0, "Seconds that fetching one item may take.", at_least=0.1, at_most=600)
    fetches: int = option(32, "Items fetched at once, over all requests.", at_least=1, at_most=1024)
    threads: int = option(2, "Items decoded and processed at once, over all models.", at_least=1, at_most=256)
    cache_bytes: int = option(
        512 * MIB,
        "Memory for items seen before, files and tensors together, in bytes; 0 keeps none.",
        at_least=0,
        at_most=1 << 40,
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
    context_length: int | None = option(
        None, "Tokens of prompt and output together, instead of what the engine says.", at_least=1, at_most=1 << 31
    )


@attrs.frozen
class StructuredConfig:
    """Answers that are to be of a format: JSON, or JSON of a schema."""

    on_violation: Literal["report", "error"] = option(
        "report",
        "What becomes of an answer that is not of the format: the text as it is, with x-smg-format-violation in the head of an "
        "answer that leaves whole; or an error (422).",
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
        "Answer a request's explain header with what was done for it; shows prompts, so keep it for trusted clients.",
    )


@attrs.frozen
class Config:
    """All sections. Building one by hand checks the same bounds as loading one."""

    server: ServerConfig = attrs.field(factory=ServerConfig)
    workers: WorkersConfig = attrs.field(factory=WorkersConfig)
    tokenizer: TokenizerConfig = attrs.field(factory=TokenizerConfig)
    routing: RoutingConfig = attrs.field(factory=RoutingConfig)
    limits: LimitsConfig = attrs.field(factory=LimitsConfig)
    media: MediaConfig = attrs.field(factory=MediaConfig)
    model: ModelConfig = attrs.field(factory=ModelConfig)
    structured: StructuredConfig = attrs.field(factory=StructuredConfig)
    observability: ObservabilityConfig = attrs.field(factory=ObservabilityConfig)

    def __attrs_post_init__(self) -> None:
        problems = tuple(_inconsistencies(self))
        if problems:
            raise ConfigError(*problems)

    def get(self, path: str) -> Value:
        """The value at a path such as "server.port"; KeyError for a path that is none."""
        if path not in _BY_PATH:
            raise KeyError(path)
        section, name = path.split(".")
        value: Value = getattr(getattr(self, section), name)
        return value


def _inconsistencies(config: Config) -> Iterator[str]:
    """What no single setting can know."""
    if (config.workers.tls_cert is None) != (config.workers.tls_key is None):
        yield "workers.tls_cert and workers.tls_key: one is given without the other"


# ------------------------------------------------------------------------------------------------ reading the records


def _settings() -> Iterator[Setting]:
    for section in attrs.fields(Config):
        for field in attrs.fields(section.type) if section.type else ():
            shape, metadata = shape_of(field), field.metadata
            yield Setting(
                path=f"{section.name}.{field.name}",
                flag=metadata["flag"] or f"--{section.name}-{field.name}".replace("_", "-"),
                env=f"{ENVIRONMENT_PREFIX}{section.name}_{field.name}".upper(),
                kind=shape.kind,
                default=field.default,
                text=metadata["text"],
                optional=shape.optional,
                repeated=shape.repeated,
                choices=shape.choices,
                at_least=shape.at_least,
                at_most=shape.at_most,
                secret=metadata["secret"],
            )


_SETTINGS: tuple[Setting, ...] = tuple(_settings())
_BY_PATH = {setting.path: setting for setting in _SETTINGS}
_BY_ENV = {setting.env: setting for setting in _SETTINGS}
_SECTIONS = tuple(field.name for field in attrs.fields(Config))


def describe() -> tuple[Setting, ...]:
    """Every setting, section by section, in the order of the records above."""
    return _SETTINGS


# ------------------------------------------------------------------------------------------------------- the sources


@attrs.frozen
class _Found:
    """A value, and the words that name the place it came from."""

    value: object
    source: str


def _read_environment(environ: Mapping[str, str], problems: list[str]) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for name, text in sorted(environ.items()):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in NOT_SETTINGS or _is_service_link(name, text):
            continue
        setting = _BY_ENV.get(name)
        if setting is None:
            problems.append(f"environment: {name}: no such setting{nearest(name, tuple(_BY_ENV))}")
        else:
            found[setting.path] = _Found(from_text(setting, text), f"environment: {name}")
    return found


_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT)|_PORT_\d+_(TCP|UDP|SCTP)")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def _is_service_link(name: str, text: str) -> bool:
    """Kubernetes puts variables of every service beside a pod into it, so a service called "smg-server" sets
    SMG_SERVER_PORT to "tcp://10.0.0.1:80"; those are nobody's settings."""
    return bool(_SERVICE_LINK.search(name)) or (name.endswith("_PORT") and bool(_SERVICE_ADDRESS.match(text)))


def _read_file(text: str, name: str, problems: list[str]) -> dict[str, _Found]:
    try:
        parsed = _parse(text, PurePath(name).suffix.lower())
    except ValueError as error:
        problems.append(f"{name}: {error}")
        return {}
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        problems.append(f"{name}: expected sections ({', '.join(_SECTIONS)})")
        return {}
    found: dict[str, _Found] = {}
    for section, body in parsed.items():
        if section not in _SECTIONS:
            problems.append(f"{name}: {section}: no such section{nearest(str(section), _SECTIONS)}")
        elif body is not None and not isinstance(body, dict):
            problems.append(f"{name}: {section}: expected settings below it")
        else:
            _read_section(section, body or {}, name, found, problems)
    return found


def _read_section(
    section: str, body: Mapping[Any, object], name: str, found: dict[str, _Found], problems: list[str]
) -> None:
    known = tuple(path.split(".")[1] for path in _BY_PATH if path.startswith(section + "."))
    for key, value in body.items():
        setting = _BY_PATH.get(f"{section}.{key}")
        if setting is None:
            problems.append(f"{name}: {section}.{key}: no such setting{nearest(str(key), known)}")
        else:
            found[setting.path] = _Found(from_file(setting, value), f"{name}: {setting.path}")


def _parse(text: str, suffix: str) -> object:
    """JSON, TOML or (any other suffix) YAML. Raises ValueError with the place; a key given twice is an error."""
    if suffix == ".json":
        return json.loads(text, object_pairs_hook=_without_duplicates)
    if suffix == ".toml":
        return tomllib.loads(text)
    try:
        import yaml
    except ImportError:
        raise ValueError("reading YAML needs PyYAML: pip install 'smg-sdk[server]', or write JSON or TOML") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if isinstance(root, yaml.MappingNode):
            sections = [value for _, value in root.value if isinstance(value, yaml.MappingNode)]
            for node in [root, *sections]:
                _refuse_duplicates(node)
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is given twice")
    return result


def _refuse_duplicates(mapping: Any) -> None:
    """`mapping` is a PyYAML node, whose value is a list of (key, value) nodes."""
    seen: set[str] = set()
    for node, _ in mapping.value:
        key = str(node.value)
        if key in seen:
            raise ValueError(f"line {node.start_mark.line + 1}: {key} is given twice")
        seen.add(key)


# ------------------------------------------------------------------------------------------------------------ all of it


@attrs.frozen
class Resolved:
    """A configuration, and for every path the words that name where its value came from ("default" if nowhere)."""

    config: Config
    sources: Mapping[str, str]


def resolve(
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    file_text: str | None = None,
    file_name: str = "config.yaml",
) -> Resolved:
    """Merge the sources; every problem of all of them is in the one `ConfigError`.

    `overrides` maps paths ("server.port") to values, as flags give them (strings are read as the environment's are);
    `environ` is the whole environment; `file_text` the text of the file called `file_name`, whose suffix says its format.
    """
    problems: list[str] = []
    found = _read_file(file_text, file_name, problems) if file_text is not None else {}
    found |= _read_environment(environ or {}, problems)
    for path, value in (overrides or {}).items():
        setting = _BY_PATH.get(path)
        if setting is None:
            problems.append(f"flag: {path}: no such setting{nearest(path, tuple(_BY_PATH))}")
        else:
            found[path] = _Found(from_override(setting, value), f"flag: {setting.flag}")
    sections: dict[str, dict[str, object]] = {name: {} for name in _SECTIONS}
    for path, each in found.items():
        wrong = complaint(_BY_PATH[path], each.value)
        if wrong:
            problems.append(f"{each.source}: {wrong}")
        section, name = path.split(".")
        sections[section][name] = each.value
    if problems:
        raise ConfigError(*problems)
    config = Config(**{field.name: field.type(**sections[field.name]) for field in attrs.fields(Config) if field.type})
    return Resolved(config, {path: found[path].source if path in found else "default" for path in _BY_PATH})


def load_config(
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    file_text: str | None = None,
    file_name: str = "config.yaml",
) -> Config:
    """`resolve(...)`, for who does not ask where a value came from. Raises ConfigError."""
    return resolve(overrides, environ, file_text, file_name).config


_USERINFO = re.compile(r"://[^/@\s]*@")
# What YAML takes for a line break, or takes nowhere, though JSON leaves it as it is.
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def _scalar(value: Value) -> str:
    """A value as YAML, which is JSON but for a few characters and for a dot that every float must have."""
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return text if "." in text else text.replace("e", ".0e")
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", _USERINFO.sub("://***@", text))


def render(config: Config, sources: Mapping[str, str] | None = None) -> str:
    """The configuration as a YAML file that loads to the same values, except that secrets and passwords in URLs are
    masked. With `sources`, each line says where its value came from."""
    lines: list[str] = []
    for setting in _SETTINGS:
        section, name = setting.path.split(".")
        if f"{section}:" not in lines:
            lines.append(f"{section}:")
        value = config.get(setting.path)
        line = f"  {name}: {_scalar('***' if setting.secret and value else value)}"
        lines.append(f"{line}  # {sources[setting.path]}" if sources else line)
    return "\n".join(lines) + "\n"
