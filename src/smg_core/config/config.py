"""Every setting of the gateway, gathered: flags, environment, file and the documentation page all come from here.

A section is a frozen record in the `settings` module of the room that reads it; a setting is a field with its text, default and
bounds. `describe` lists them, and the command line, the `SMG_*` variables, the file's keys and `docs/configuration.md` are
generated from that list, so none of them can disagree. Precedence: flag, then environment, then file, then default.

Decides: how sections are called, which source wins, what is wrong with a value and where it stood. Below: the standard library,
attrs, `settings` and the `settings` of each room. Above: `cli` hands in the text of flags and file; `server` takes the `Config`.
Does not know: argparse, the process's environment, the file system. YAML is imported when a YAML text is read, not before.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import PurePath
from typing import Any

import attrs

from smg_config_files.text import TextRefused, read_json, read_yaml
from smg_core.admin.settings import AdminConfig
from smg_core.apis.realtime.settings import RealtimeConfig
from smg_core.auth.settings import AuthConfig, OidcConfig
from smg_core.channel.settings import ChannelConfig
from smg_core.containers.settings import ContainersConfig
from smg_core.discovery.settings import DiscoveryConfig
from smg_core.engines.settings import EnginesConfig
from smg_core.extras import needs
from smg_core.guardrails.settings import GuardrailsConfig
from smg_core.history.settings import HistoryConfig
from smg_core.http.file_settings import FilesConfig
from smg_core.http.proxies.settings import ProxiesConfig
from smg_core.http.settings import (
    BatchesConfig,
    DocumentsConfig,
    MediaConfig,
    ModelConfig,
    ResponsesConfig,
    ServerConfig,
)
from smg_core.idempotency.settings import IdempotencyConfig
from smg_core.ledger.settings import LedgerConfig
from smg_core.mesh.settings import MeshConfig
from smg_core.middleware.settings import MiddlewareConfig
from smg_core.observability.settings import AuditConfig, MetricsConfig, ObservabilityConfig, TracesConfig
from smg_core.pipeline.settings import DisaggregationConfig, McpConfig, PoolingConfig, StructuredConfig, TimeoutsConfig
from smg_core.queueing.settings import QueueConfig
from smg_core.response_cache.settings import ResponseCacheConfig
from smg_core.routing.settings import RoutingConfig
from smg_core.sealing.settings import SealingConfig
from smg_core.server.tls.settings import TlsConfig
from smg_core.settings import (
    ConfigError,
    Setting,
    Value,
    closest,
    complaint,
    from_file,
    from_override,
    from_text,
    nearest,
    shape_of,
)
from smg_core.tokenizer.settings import TokenizerConfig
from smg_core.vector_stores.settings import VectorStoresConfig
from smg_core.wire.settings import LimitsConfig, MessagesConfig
from smg_core.workers.settings import BreakerConfig, WorkersConfig

__all__ = [
    "Config",
    "Resolved",
    "config_of",
    "describe",
    "describe_arguments",
    "in_python_alone",
    "load_config",
    "masked",
    "parse_file",
    "resolve",
    "to_yaml",
    "without_password",
]

ENVIRONMENT_PREFIX = "SMG_"
MISTYPED = 0.85  # likeness, of 1, from which a variable is taken for a misspelled setting
NOT_SETTINGS = frozenset(
    {"SMG_CONFIG", "SMG_ADMIN", "SMG_ADMIN_KEY", "SMG_API_KEY"}
)  # what the command line itself reads


@attrs.frozen
class Config:
    """All sections. Building one by hand checks the same bounds as loading one."""

    server: ServerConfig = attrs.field(factory=ServerConfig)
    auth: AuthConfig = attrs.field(factory=AuthConfig)
    tls: TlsConfig = attrs.field(factory=TlsConfig)
    proxies: ProxiesConfig = attrs.field(factory=ProxiesConfig)
    oidc: OidcConfig = attrs.field(factory=OidcConfig)
    admin: AdminConfig = attrs.field(factory=AdminConfig)
    channel: ChannelConfig = attrs.field(factory=ChannelConfig)
    workers: WorkersConfig = attrs.field(factory=WorkersConfig)
    breaker: BreakerConfig = attrs.field(factory=BreakerConfig)
    discovery: DiscoveryConfig = attrs.field(factory=DiscoveryConfig)
    engines: EnginesConfig = attrs.field(factory=EnginesConfig)
    timeouts: TimeoutsConfig = attrs.field(factory=TimeoutsConfig)
    tokenizer: TokenizerConfig = attrs.field(factory=TokenizerConfig)
    routing: RoutingConfig = attrs.field(factory=RoutingConfig)
    disaggregation: DisaggregationConfig = attrs.field(factory=DisaggregationConfig)
    pooling: PoolingConfig = attrs.field(factory=PoolingConfig)
    limits: LimitsConfig = attrs.field(factory=LimitsConfig)
    queue: QueueConfig = attrs.field(factory=QueueConfig)
    mesh: MeshConfig = attrs.field(factory=MeshConfig)
    guardrails: GuardrailsConfig = attrs.field(factory=GuardrailsConfig)
    ledger: LedgerConfig = attrs.field(factory=LedgerConfig)
    media: MediaConfig = attrs.field(factory=MediaConfig)
    documents: DocumentsConfig = attrs.field(factory=DocumentsConfig)
    model: ModelConfig = attrs.field(factory=ModelConfig)
    history: HistoryConfig = attrs.field(factory=HistoryConfig)
    idempotency: IdempotencyConfig = attrs.field(factory=IdempotencyConfig)
    response_cache: ResponseCacheConfig = attrs.field(factory=ResponseCacheConfig)
    structured: StructuredConfig = attrs.field(factory=StructuredConfig)
    sealing: SealingConfig = attrs.field(factory=SealingConfig)
    messages: MessagesConfig = attrs.field(factory=MessagesConfig)
    responses: ResponsesConfig = attrs.field(factory=ResponsesConfig)
    realtime: RealtimeConfig = attrs.field(factory=RealtimeConfig)
    batches: BatchesConfig = attrs.field(factory=BatchesConfig)
    files: FilesConfig = attrs.field(factory=FilesConfig)
    containers: ContainersConfig = attrs.field(factory=ContainersConfig)
    vector_stores: VectorStoresConfig = attrs.field(factory=VectorStoresConfig)
    mcp: McpConfig = attrs.field(factory=McpConfig)
    middleware: MiddlewareConfig = attrs.field(factory=MiddlewareConfig)
    observability: ObservabilityConfig = attrs.field(factory=ObservabilityConfig)
    metrics: MetricsConfig = attrs.field(factory=MetricsConfig)
    audit: AuditConfig = attrs.field(factory=AuditConfig)
    traces: TracesConfig = attrs.field(factory=TracesConfig)

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
    if (config.tls.cert is None) != (config.tls.key is None):
        yield "tls.cert and tls.key: one is given without the other"
    for entry in config.model.aliases:
        alias, _, model = entry.partition("=")
        if not alias or not model:
            yield f"model.aliases: {entry}: expected NAME=MODEL"
    for entry in config.model.tenant_aliases:
        tenant, _, rest = entry.partition(":")
        alias, _, model = rest.partition("=")
        if not (tenant and alias and model):
            yield f"model.tenant_aliases: {entry}: expected TENANT:NAME=MODEL"
    for check in (
        config.timeouts.of_models,
        config.workers.of_adapters,
        config.routing.of_splits,
        config.routing.of_fallbacks,
        config.routing.of_shadows,
        config.pooling.check,
    ):
        try:
            check()
        except ConfigError as error:
            yield str(error)


# ------------------------------------------------------------------------------------------------ reading the records


def _fields(*, settings: bool) -> Iterator[Setting]:
    """The fields of all sections that are settings, or those that are arguments in Python alone."""
    for section in attrs.fields(Config):
        for field in attrs.fields(section.type) if section.type else ():
            shape, metadata = shape_of(field), field.metadata
            if metadata["set"] is not settings:
                continue
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


_SETTINGS: tuple[Setting, ...] = tuple(_fields(settings=True))
_BY_PATH = {setting.path: setting for setting in _SETTINGS}
_BY_ENV = {setting.env: setting for setting in _SETTINGS}
_SECTIONS = tuple(field.name for field in attrs.fields(Config))


def describe() -> tuple[Setting, ...]:
    """Every setting, section by section, in the order of `Config`."""
    return _SETTINGS


def describe_arguments() -> tuple[Setting, ...]:
    """Every field of a section that is no setting: an argument of its record for who builds a `Config` in Python."""
    return tuple(_fields(settings=False))


def in_python_alone(name: str) -> str | None:
    """The sentence for a `name` that is the path, flag or variable of a field of Python alone; None for another name."""
    path = _named_arguments().get(name)
    if path is None:
        return None
    section, field = path.split(".")
    record = type(getattr(Config(), section)).__name__
    return f"no setting; in Python it is an argument, smg_core.config.{record}({field}=...)"


@cache
def _named_arguments() -> Mapping[str, str]:
    """The paths of fields that only Python sets, by path, by flag and by variable."""
    return {name: each.path for each in describe_arguments() for name in (each.path, each.flag, each.env)}


# ------------------------------------------------------------------------------------------------------- the sources


@attrs.frozen
class _Found:
    """A value, and the words that name the place it came from."""

    value: object
    source: str


def _read_environment(environ: Mapping[str, str], problems: list[str], warnings: list[str]) -> dict[str, _Found]:
    """What the variables set. One that is no setting is a problem where it is nearly one, else somebody else's: programs and
    images have variables with our prefix too."""
    found: dict[str, _Found] = {}
    for name, text in sorted(environ.items()):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in NOT_SETTINGS or _is_service_link(name, text):
            continue
        setting = _BY_ENV.get(name)
        if setting is None:
            meant = _mistyped(name)
            if argument := in_python_alone(name):
                problems.append(f"environment: {name}: {argument}")
            elif meant:
                problems.append(f"environment: {name}: no such setting; did you mean {meant}?")
            else:
                warnings.append(f"environment: {name}: no such setting; it is ignored")
        else:
            found[setting.path] = _Found(from_text(setting, text), f"environment: {name}")
    return found


def _mistyped(name: str) -> str | None:
    """The variable of the same section that `name` is nearly spelled like."""
    section = next(
        (section for section in _SECTIONS if name.startswith(f"{ENVIRONMENT_PREFIX}{section.upper()}_")), None
    )
    known = [env for env, setting in _BY_ENV.items() if setting.section == section]
    return closest(name, known, likeness=MISTYPED)


_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT)|_PORT_\d+_(TCP|UDP|SCTP)")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def _is_service_link(name: str, text: str) -> bool:
    """Kubernetes puts variables of every service beside a pod into it, so a service called "smg-server" sets
    SMG_SERVER_PORT to "tcp://10.0.0.1:80"; those are nobody's settings."""
    return bool(_SERVICE_LINK.search(name)) or (name.endswith("_PORT") and bool(_SERVICE_ADDRESS.match(text)))


def _read_file(text: str, name: str, problems: list[str]) -> dict[str, _Found]:
    try:
        parsed = parse_file(text, PurePath(name).suffix.lower())
    except ValueError as error:
        problems.append(f"{name}: {error}")
        return {}
    return {} if parsed is None else _read_sections(parsed, name, problems)


def _read_sections(parsed: object, name: str, problems: list[str]) -> dict[str, _Found]:
    """What sections set, of a file or of a program's dictionary that is called `name`."""
    if not isinstance(parsed, Mapping):
        problems.append(f"{name}: expected sections ({', '.join(_SECTIONS)})")
        return {}
    found: dict[str, _Found] = {}
    for section, body in parsed.items():
        if section not in _SECTIONS:
            problems.append(f"{name}: {section}: no such section{nearest(str(section), _SECTIONS)}")
        elif body is not None and not isinstance(body, Mapping):
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
            path = f"{section}.{key}"
            wrong = in_python_alone(path) or f"no such setting{nearest(str(key), known)}"
            problems.append(f"{name}: {path}: {wrong}")
        else:
            found[setting.path] = _Found(from_file(setting, value), f"{name}: {setting.path}")


def parse_file(text: str, suffix: str, *, secret: bool = False) -> object:
    """JSON, TOML or (any other suffix) YAML. Raises ValueError with the place, and with the words there unless the file may hold
    secrets (`secret`). A key given twice is an error."""
    try:
        return _parsed(text, suffix, secret=secret)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _parsed(text: str, suffix: str, *, secret: bool) -> object:
    if suffix == ".toml":
        return tomllib.loads(text)
    try:
        return read_json(text) if suffix == ".json" else read_yaml(text)
    except ImportError:
        raise ValueError(f"{needs('YAML', 'yaml')}, or write JSON or TOML") from None
    except TextRefused as error:
        raise ValueError(error.reason if secret else str(error)) from None


# ------------------------------------------------------------------------------------------------------------ all of it


@attrs.frozen
class Resolved:
    """A configuration, and for every path the words for the source of its value ("default" if nowhere). `warnings` are sentences
    for the operator: what was given and is ignored."""

    config: Config
    sources: Mapping[str, str]
    warnings: tuple[str, ...] = ()


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
    warnings: list[str] = []
    found = _read_file(file_text, file_name, problems) if file_text is not None else {}
    found |= _read_environment(environ or {}, problems, warnings)
    for path, value in (overrides or {}).items():
        setting = _BY_PATH.get(path)
        if setting is None:
            unknown = in_python_alone(path) or f"no such setting{nearest(path, tuple(_BY_PATH))}"
            problems.append(f"flag: {path}: {unknown}")
        else:
            found[path] = _Found(from_override(setting, value), f"flag: {setting.flag}")
    return _resolved(found, problems, warnings)


def _resolved(found: Mapping[str, _Found], problems: list[str], warnings: list[str]) -> Resolved:
    """The configuration of the values that were found. Raises ConfigError with all problems, those found before among them."""
    sections: dict[str, dict[str, object]] = {name: {} for name in _SECTIONS}
    for path, each in found.items():
        wrong = complaint(_BY_PATH[path], each.value)
        if wrong:
            problems.append(f"{each.source.removeprefix('flag: ')}: {wrong}")
        section, name = path.split(".")
        sections[section][name] = each.value
    if problems:
        raise ConfigError(*problems)
    config = Config(**{field.name: field.type(**sections[field.name]) for field in attrs.fields(Config) if field.type})
    sources = {path: found[path].source if path in found else "default" for path in _BY_PATH}
    return Resolved(config, sources, tuple(warnings))


def load_config(
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    file_text: str | None = None,
    file_name: str = "config.yaml",
) -> Config:
    """`resolve(...)`, for who does not ask where a value came from. Raises ConfigError."""
    return resolve(overrides, environ, file_text, file_name).config


def config_of(sections: Mapping[str, object], name: str = "config") -> Config:
    """The configuration that a program writes as a dictionary of sections, with the keys of a file; `name` is what errors call
    it. Raises ConfigError."""
    problems: list[str] = []
    return _resolved(_read_sections(sections, name, problems), problems, []).config


# Up to the last "@", since a password that somebody has not escaped may hold "/" and "@".
_USERINFO = re.compile(r"://[^\s\"]*@")
# What YAML takes for a line break, or takes nowhere, though JSON leaves it as it is.
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def _scalar(value: Value) -> str:
    """A value as YAML, which is JSON but for a few characters and for a dot that every float must have."""
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return text if "." in text else text.replace("e", ".0e")
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", _USERINFO.sub("://***@", text))


def masked(setting: Setting, value: Value) -> Value:
    """A value as it may be shown: a secret is masked, and passwords in URLs are."""
    if setting.secret and value:
        return "***"
    if isinstance(value, tuple):
        return tuple(map(without_password, value))
    return without_password(value) if isinstance(value, str) else value


def without_password(text: str) -> str:
    """A text with the names and passwords in its URLs masked."""
    return _USERINFO.sub("://***@", text)


def to_yaml(config: Config, sources: Mapping[str, str] | None = None) -> str:
    """The configuration as a YAML file of the same values, with secrets and passwords in URLs masked. With `sources`, each line
    says where its value came from."""
    lines: list[str] = []
    for setting in _SETTINGS:
        section, name = setting.path.split(".")
        if f"{section}:" not in lines:
            lines.append(f"{section}:")
        value = config.get(setting.path)
        line = f"  {name}: {_scalar('***' if setting.secret and value else value)}"
        lines.append(f"{line}  # {sources[setting.path]}" if sources else line)
    return "\n".join(lines) + "\n"
