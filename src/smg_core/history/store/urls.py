"""The parameters of a store's URL, behind its question mark: one that is unknown is refused, not left out.

Pure. Above: `sql.engines`, `redis.store`. Below: `settings`.
"""

from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from smg_core.settings import ConfigError, nearest

__all__ = ["check_parameters", "check_redis_url"]

_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_WRITING = ("rw", "rwc", "memory")  # modes of an SQLite file that is written to

_PARAMETERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "sqlite": {**dict.fromkeys(("uri", "cache", "vfs", "nolock", "psow"), ()), "mode": _WRITING},
    "postgresql": {
        **dict.fromkeys(("host", "port", "passfile", "service", "servicefile", "krbsrvname"), ()),
        "ssl": _SSL_MODES,
        "gsslib": ("gssapi", "sspi"),
        "target_session_attrs": ("any", "primary", "read-write"),
    },
    "redis": dict.fromkeys(
        (
            *("db", "username", "password", "protocol", "client_name", "timeout", "max_connections"),
            *("socket_timeout", "socket_connect_timeout", "socket_keepalive", "health_check_interval"),
            *("retry_on_timeout", "ssl_cert_reqs", "ssl_ca_certs", "ssl_ca_path", "ssl_ca_data", "ssl_certfile"),
            *("ssl_keyfile", "ssl_password", "ssl_check_hostname", "ssl_min_version"),
        ),
        (),
    ),
}
"""For each store the parameters of its driver that may be given, with the values that one may have; () for any."""


def check_parameters(store: str, given: Mapping[str, object]) -> None:
    """Check the parameters of the URL of a kind of store. Raises ConfigError."""
    if store not in _PARAMETERS:  # its driver says what is wrong
        return
    allowed = _PARAMETERS[store]
    for name, value in given.items():
        if name not in allowed:
            meant = " (did you mean ssl?)" if name == "sslmode" and "ssl" in allowed else nearest(name, [*allowed])
            raise ConfigError(f"history.url: {store} has no parameter {name!r}{meant}")
        if allowed[name] and value not in allowed[name]:
            raise ConfigError(f"history.url: {name} is one of {', '.join(allowed[name])}")


def check_redis_url(url: str) -> None:
    """Check the URL of a Redis. Raises ConfigError."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"history.url: {error}") from None
    check_parameters("redis", {name: values[-1] for name, values in parse_qs(parts.query).items()})
    path = parts.path.strip("/")
    if parts.scheme != "unix" and path and not path.isdecimal():
        raise ConfigError("history.url: behind the host of a Redis is the number of its database")
