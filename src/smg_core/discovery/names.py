"""Names in DNS that stand for workers: how they are written in the settings, and which workers their records mean.

    grpc://engines.example:50051                    each address of the name (A, AAAA), with that port
    grpc+srv://_engine._tcp.example                 each target of the name's SRV records, with the port of its record
    grpc://engines.example:50051?role=prefill       all of them with a role; also model=NAME, dialect=NAME, label.NAME=VALUE

Pure. Above: dns, which asks for the records; config.check. Below: base.
"""

import ipaddress
import re
from collections.abc import Sequence
from typing import Any, get_args
from urllib.parse import parse_qsl, urlsplit

import attrs

from smg_core.discovery.base import Wanted
from smg_core.engines.connections.target import Tls
from smg_core.workers.worker import WorkerRole, WorkerSpec

__all__ = [
    "DnsName",
    "Host",
    "Records",
    "Service",
    "dns_name",
    "interval",
    "server_address",
    "usable_records",
    "workers_of_records",
]

_PORTS = 65535
_SRV = "+srv"
_SCHEMES = ("grpc", "grpcs", "http", "https")
_ROLES = frozenset(get_args(WorkerRole))
_OPTIONS = frozenset({"role", "model", "dialect"})
_LABEL = "label."
_NO_SERVICE = "."
_TARGET = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")


@attrs.frozen
class DnsName:
    """A name as the settings have it. `port` is 0 where SRV records say it (`srv`); `text` is how it was written."""

    text: str
    scheme: str
    host: str
    port: int = 0
    path: str = ""
    srv: bool = False
    role: WorkerRole | None = None
    model: str | None = None
    dialect: str = "auto"
    labels: tuple[tuple[str, str], ...] = ()


@attrs.frozen
class Host:
    """An A or AAAA record."""

    address: str


@attrs.frozen
class Service:
    """An SRV record. `target` has no dot at its end; "." alone says that there is no such service (RFC 2782)."""

    target: str
    port: int
    priority: int = 0
    weight: int = 0


@attrs.frozen
class Records:
    """The records of a name, and for how many seconds they hold."""

    records: tuple[Host | Service, ...]
    ttl: float


def dns_name(text: str) -> DnsName:
    """What an entry of `discovery.dns` means. Raises ValueError that says what is wrong with it."""
    parts = urlsplit(text)
    scheme, srv = parts.scheme.removesuffix(_SRV), parts.scheme.endswith(_SRV)
    if scheme not in _SCHEMES:
        known = ", ".join(f"{each}://" for each in (*_SCHEMES, *(f"{each}{_SRV}" for each in _SCHEMES)))
        raise ValueError(f"{text!r} begins with none of {known}")
    host, port = parts.hostname or "", parts.port or 0
    if "@" in parts.netloc or not host or _is_address(host):
        raise ValueError(f"{text!r} has no name to look up")
    if bool(port) == srv:
        raise ValueError(
            f"{text!r}: "
            + ("SRV records say the port" if srv else f"the port is missing, as in {scheme}://{host}:50051")
        )
    if parts.fragment or (parts.path not in ("", "/") and scheme.startswith("grpc")):
        raise ValueError(f"{text!r}: nothing but ?role=, model=, dialect= and label.NAME= may follow the name")
    if scheme == "https" and not srv:
        raise ValueError(f"{text!r}: a certificate for https is for a name; use https{_SRV}://, or list the server")
    return DnsName(text, scheme, host, port, parts.path.rstrip("/"), srv, **_options(text, parts.query))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _options(text: str, query: str) -> dict[str, Any]:
    given = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    options = dict(given)
    labels = {name.removeprefix(_LABEL): options.pop(name) for name in [*options] if name.startswith(_LABEL)}
    found = len(options) + len(labels)
    if found < len(given) or not options.keys() <= _OPTIONS or not all((*options.values(), *labels)):
        raise ValueError(f"{text!r}: expected role=, model=, dialect= or label.NAME=, each once, after the ?")
    if options.get("role", "regular") not in _ROLES:
        raise ValueError(f"{text!r}: role is one of {', '.join(sorted(_ROLES))}")
    return {**options, "labels": tuple(sorted(labels.items()))}


def usable_records(records: Sequence[Host | Service]) -> tuple[tuple[Host | Service, ...], tuple[str, ...]]:
    """The records that name an engine, and what is wrong with those that cannot. A record that says that there is no such service
    is neither."""
    named = [each for each in records if isinstance(each, Host) or each.target != _NO_SERVICE]
    faults = {each: fault for each in named if isinstance(each, Service) and (fault := _fault(each))}
    return tuple(each for each in named if each not in faults), tuple(faults.values())


def _fault(service: Service) -> str:
    """Why no engine can be reached by this record; "" if one can."""
    if _TARGET.fullmatch(service.target) is None:
        return f"the target {service.target!r} is no name of a host"
    return "" if service.port else f"the record of {service.target!r} has port 0"


def workers_of_records(name: DnsName, records: Sequence[Host | Service], tls: Tls | None = None) -> tuple[Wanted, ...]:
    """The workers that the records of `name` mean, sorted by address, each once. Of SRV records those of the lowest priority
    number count; their weights are the workers', where all have one. `tls`: certificates of the settings, for engines that
    speak TLS and are reached by their address."""
    services = [each for each in records if isinstance(each, Service)]
    best = min((each.priority for each in services), default=0)
    services = [each for each in services if each.priority == best]
    weighted = all(each.weight for each in services)
    secured = attrs.evolve(tls or Tls(), server_name=name.host) if name.scheme == "grpcs" else None
    found = {
        _url(name, each.address, name.port): _spec(name, _url(name, each.address, name.port), tls=secured)
        for each in records
        if isinstance(each, Host)
    }
    for each in services:
        url = _url(name, each.target, each.port)
        found[url] = _spec(name, url, weight=float(each.weight) if weighted else 1.0)
    return tuple(Wanted(found[url]) for url in sorted(found))


def _url(name: DnsName, host: str, port: int) -> str:
    return f"{name.scheme}://[{host}]:{port}{name.path}" if ":" in host else f"{name.scheme}://{host}:{port}{name.path}"


def _spec(name: DnsName, url: str, *, weight: float = 1.0, tls: Tls | None = None) -> WorkerSpec:
    return WorkerSpec(
        url, role=name.role, model=name.model, dialect=name.dialect, weight=weight, tls=tls, labels=name.labels
    )


def server_address(text: str) -> tuple[str, int]:
    """Address and port of an entry of `discovery.dns_servers`. Raises ValueError."""
    host, mark, port = text.rpartition(":")
    if not mark or _is_address(text):
        host, port = text, "53"
    host = host.removeprefix("[").removesuffix("]")
    if not _is_address(host) or not port.isdecimal() or not 0 < int(port) <= _PORTS:
        raise ValueError(f"{text!r} is no address of a server, with its port after a colon where that is not 53")
    return host, int(port)


def interval(ttl: float, least: float, most: float) -> float:
    """Seconds until records are asked for again that hold for `ttl` seconds."""
    return max(least, min(ttl, most))
