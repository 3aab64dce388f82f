"""The security of a deployment, as a table of checks over its settings.

Each row says what holds by default, why, and when a configuration breaks it. `smg-gateway audit` prints the rows with what they
find, and docs/hardening.md is written from the same table. Pure: modes of files, and whether everybody is let in, are handed in.
Above: cli, tools/config_docs.py. Below: config.
"""

from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_network

import attrs

from smg_core.config.config import Config, describe
from smg_core.http.browsers import is_loopback

__all__ = ["CHECKS", "SECRET_FILES", "Facts", "HardeningCheck", "audit"]

SECRET_FILES = ("tls.key", "auth.keys_file", "sealing.keys_file", "workers.tls_key", "workers.file", "guardrails.file")
"""The settings that name a file with secrets."""
OTHERS = 0o077
"""The permissions that a file gives to others than its owner."""
BOUNDS = ("server.body_timeout_s", "limits.body_bytes", "limits.media_body_bytes")
"""Bounds on what a client may send before it is refused: a larger value than the default is told."""
_ALL = "*"


@attrs.frozen
class Facts:
    """What the settings do not say themselves: whether everybody is let in, and the modes of the files that settings name, by the
    setting's path."""

    is_open: bool
    modes: Mapping[str, int] = attrs.field(factory=dict)


Judge = Callable[[Config, Facts], Iterator[str]]


@attrs.frozen
class HardeningCheck:
    """One row: what holds by default, why it matters, and the function that finds what breaks it, in words."""

    name: str
    holds: str
    why: str
    judge: Judge


@attrs.frozen
class AuditFinding:
    """What one check has found; no faults: it passes."""

    check: HardeningCheck
    faults: tuple[str, ...]


def audit(config: Config, facts: Facts) -> list[AuditFinding]:
    """All checks over a configuration, in the order of the table."""
    return [AuditFinding(check, tuple(check.judge(config, facts))) for check in CHECKS]


def _identity(config: Config, facts: Facts) -> Iterator[str]:
    if not is_loopback(config.server.host) and facts.is_open:
        yield f"server.host is {config.server.host}, and nobody is asked who they are: set auth, oidc or tls.client_names"


def _encrypted(config: Config, facts: Facts) -> Iterator[str]:
    if not is_loopback(config.server.host) and config.tls.cert is None and not config.proxies.trusted:
        yield f"server.host is {config.server.host} without tls.cert, and no proxy before it is named in proxies.trusted"


def _browsers(config: Config, facts: Facts) -> Iterator[str]:
    server = config.server
    if _ALL in server.allowed_hosts:
        yield 'server.allowed_hosts is "*": a page that has its own name point here may send requests'
    if _ALL in server.cors_origins:
        yield 'server.cors_origins is "*": every page may read answers'
    if server.any_content_type:
        yield "server.any_content_type: pages of any origin may send requests"


def _proxies(config: Config, facts: Facts) -> Iterator[str]:
    for entry in config.proxies.trusted:
        if not ip_network(entry).prefixlen:
            yield f"proxies.trusted has {entry}: everybody may claim any address"


def _revocation(config: Config, facts: Facts) -> Iterator[str]:
    if config.tls.client_ca is not None and config.tls.client_crl is None:
        yield "tls.client_crl names no revocation lists: a stolen certificate is good until it expires"


def _key_files(config: Config, facts: Facts) -> Iterator[str]:
    for path, mode in facts.modes.items():
        if mode & OTHERS:
            yield f"{path}: the file has mode {mode & 0o777:04o}; take away what others may do (chmod 600)"


def _plain_keys(config: Config, facts: Facts) -> Iterator[str]:
    for number, entry in enumerate(config.auth.keys, 1):
        if not entry.startswith("sha256:"):
            yield f"auth.keys: key {number} stands there as it is; its hash (sha256:...) is enough"


def _admin(config: Config, facts: Facts) -> Iterator[str]:
    admin = config.admin
    if admin.port is not None and facts.is_open:
        yield "admin.port: every user of this machine may do everything; use admin.socket, or set auth"
    if _ALL in admin.allowed_hosts:
        yield 'admin.allowed_hosts is "*": a page that has its own name point here may send requests'


def _bounds(config: Config, facts: Facts) -> Iterator[str]:
    defaults = {setting.path: setting.default for setting in describe()}
    for path in BOUNDS:
        value, default = config.get(path), defaults[path]
        if isinstance(value, int | float) and isinstance(default, int | float) and value > default:
            yield f"{path} is {value}, over its default of {default}"


def _logs(config: Config, facts: Facts) -> Iterator[str]:
    if config.observability.log_level == "debug":
        yield "observability.log_level is debug, which is for looking for faults"


def _headers(config: Config, facts: Facts) -> Iterator[str]:
    if facts.is_open and config.observability.explain:
        yield "observability.explain: everybody may see workers and tokens of requests"
    if facts.is_open and config.model.parser_header:
        yield "model.parser_header: everybody may choose how an answer is read"


def _media(config: Config, facts: Facts) -> Iterator[str]:
    media = config.media
    if media.allow_private:
        yield f"media.allow_private has {', '.join(media.allow_private)}: requests may name what lies in private networks there"
    if media.allow_http:
        yield "media.allow_http: what is fetched can be changed on its way"
    if media.allow_files is not None:
        yield f"media.allow_files: requests may name files below {media.allow_files}"


CHECKS: tuple[HardeningCheck, ...] = (
    HardeningCheck(
        "listener.identity",
        "Who sends a request is asked wherever other machines reach the listener.",
        "Whoever reaches a gateway without identity uses its engines, and its history.",
        _identity,
    ),
    HardeningCheck(
        "listener.tls",
        "Beyond the loopback TLS is spoken, by the gateway or by a proxy before it.",
        "Keys and prompts can be read on the way.",
        _encrypted,
    ),
    HardeningCheck(
        "listener.browsers",
        "No page in a browser may use the gateway without being named.",
        "A page that somebody on the network opens would act with that person's reach.",
        _browsers,
    ),
    HardeningCheck(
        "listener.proxies",
        "Only named proxies may say whom they speak for.",
        "Addresses are in the log, and failed attempts are limited by them.",
        _proxies,
    ),
    HardeningCheck(
        "tls.revocation",
        "Clients' certificates are checked against revocation lists.",
        "A stolen certificate must be made useless before it expires; without lists, issue them for hours.",
        _revocation,
    ),
    HardeningCheck(
        "keys.files",
        "Files with secrets are for their owner alone.",
        "Every user of the machine could read them.",
        _key_files,
    ),
    HardeningCheck(
        "keys.hashed",
        "API keys in the settings are hashes.",
        "Settings are in repositories, backups and the list of processes.",
        _plain_keys,
    ),
    HardeningCheck(
        "admin.door",
        "The admin door is closed, at a private socket, or asks for credentials.",
        "Who reaches it makes keys.",
        _admin,
    ),
    HardeningCheck(
        "bounds.requests",
        "No bound on what a client may send is over its default.",
        "The defaults are those that the attacks of the security page were played against.",
        _bounds,
    ),
    HardeningCheck(
        "log.content",
        "The log is not at debug.",
        "Debug lines of plugins may have parts of requests; those of other packages are never written.",
        _logs,
    ),
    HardeningCheck(
        "requests.headers",
        "Headers for trusted clients are off, or need a permission.",
        "They tell of workers, and change how an answer is read.",
        _headers,
    ),
    HardeningCheck(
        "media.fetching",
        "Media are fetched from public hosts by https alone.",
        "A request could have the gateway fetch what only the gateway can reach.",
        _media,
    ),
)
