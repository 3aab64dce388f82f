"""Checks of a configuration beyond single settings: unknown policies, dialects, parser families and roles, and
invalid URLs.

`check` is called by the command line before anything starts, and by `models.loading` when a gateway starts, so that one with a
setting that could never work does not begin. Below: the tables of policies, dialects and parser families. Opens nothing.
"""

import json
from collections.abc import Iterator, Mapping

from smg_core.auth.keys import StaticKeys, keys_in_lines
from smg_core.auth.roles import Roles
from smg_core.auth.settings import AuthConfig
from smg_core.config.config import Config
from smg_core.config.ledger import ledger_problems
from smg_core.config.limits import limit_problems, queue_problems
from smg_core.config.placement import placement_problems
from smg_core.discovery.names import dns_name, server_address
from smg_core.discovery.pods import model_reader
from smg_core.discovery.settings import DiscoveryConfig
from smg_core.engines.http.address import HttpAddress, proxy_for
from smg_core.engines.kinds.kind import AUTO, EnginePlace
from smg_core.engines.kinds.table import UnknownDialect, check_place, kind
from smg_core.history.settings import EXTRAS, HistoryConfig
from smg_core.http.proxies.settings import ProxiesConfig
from smg_core.http.settings import MediaConfig
from smg_core.json_types import Json
from smg_core.routing import UnknownPolicy, policy, policy_for
from smg_core.server.tls.settings import TlsConfig
from smg_core.settings import ConfigError, nearest
from smg_parsers import UnknownModelFamily
from smg_parsers.families.models import family

__all__ = ["check", "named_parsers", "processor_kwargs"]

OWN_PARSERS = ("auto", "none")
_ANY_HOST = HttpAddress.parse("https://host")
_LONGEST_NAME = 64  # it becomes the name of a folder, with three characters for one


def check(config: Config, permissions: Mapping[str, str]) -> None:
    """Raise ConfigError with every problem, each beginning with its setting's path. `permissions` are all that roles may have."""
    problems = [*_policies(config), *_dialects(config), *_parsers(config), *_urls(config), *_engine_proxy(config)]
    problems += _media(config.media)
    problems += [*_history(config.history), *_auth(config.auth, permissions)]
    problems += [*_clients(config.tls), *_proxies(config.proxies), *_discovery(config.discovery)]
    problems += limit_problems(config.limits, config.server.processes)
    problems += queue_problems(config.queue)
    problems += ledger_problems(config.ledger, config.history, config.server.processes)
    problems += placement_problems(config.routing.placement)
    problems += [*_mesh(config), *_vector_stores(config)]
    if problems:
        raise ConfigError(*problems)


def _mesh(config: Config) -> Iterator[str]:
    """What a member of a mesh cannot be."""
    if config.mesh.kind != "off" and config.mesh.dead_s <= config.mesh.suspect_s:
        yield "mesh.dead_s: it is longer than mesh.suspect_s"


def _vector_stores(config: Config) -> Iterator[str]:
    """What is wrong where vector stores are asked for that there cannot be with this history."""
    stores, history = config.vector_stores, config.history
    asked = "folder" if stores.folder is not None else "model" if stores.model else ""
    why = stores.why_not(history.url or "memory:", sealed=bool(history.keys))
    if asked and why:
        yield f"vector_stores.{asked}: {why}"
    elif stores.folder is not None and (history.url or "").startswith("postgresql:"):
        yield "vector_stores.folder: beside a history in PostgreSQL the indexes are in that, and in no folder"


def _auth(auth: AuthConfig, permissions: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with roles, and with the keys that stand in the settings; those of a file are read at the start."""
    try:
        StaticKeys(keys_in_lines(auth.keys, "auth.keys"), Roles(auth.roles, permissions), lambda: 0.0)
    except ConfigError as error:
        yield str(error)


def _clients(tls: TlsConfig) -> Iterator[str]:
    """What of clients' certificates is set and cannot be kept."""
    if tls.client_ca is None:
        named = {"client_crl": tls.client_crl, "client_names": tls.client_names, "client": tls.client == "required"}
        yield from (f"tls.{name}: tls.client_ca names no authority" for name, given in named.items() if given)
    elif tls.cert is None:
        yield "tls.client_ca: tls.cert names no certificate, so nobody is asked for one"


def _proxies(proxies: ProxiesConfig) -> Iterator[str]:
    if proxies.believes and not proxies.trusted:
        yield f"{proxies.believes}: proxies.trusted names none of which it is believed"
    try:
        proxies.networks()
    except ConfigError as error:
        yield str(error)


def _discovery(discovery: DiscoveryConfig) -> Iterator[str]:
    readers = (("dns", dns_name, discovery.dns), ("dns_servers", server_address, discovery.dns_servers))
    for name, read, entries in readers:
        for entry in entries:
            try:
                read(entry)
            except ValueError as error:
                yield f"discovery.{name}: {error}"
    try:
        model_reader(discovery.model_from)
    except ValueError as error:
        yield f"discovery.model_from: {error}"
    if discovery.kubernetes and not discovery.selectors():
        yield "discovery.kubernetes: discovery.selector, or one for a role, must say which pods are engines"
    if discovery.kubernetes and discovery.pod_scheme == "https":
        yield "discovery.pod_scheme: pods are reached by their address, for which https has no certificate; use grpcs or http"


def _history(history: HistoryConfig) -> Iterator[str]:
    scheme = (history.url or "memory:").partition(":")[0]
    if scheme not in EXTRAS:
        yield f"history.url: there is no store for {scheme}:{nearest(scheme, [*EXTRAS])}"
    name = history.gateway
    if name is not None and not (0 < len(name) <= _LONGEST_NAME and name.isascii() and name.isprintable()):
        yield f"history.gateway: expected 1 to {_LONGEST_NAME} printable characters of ASCII"


def processor_kwargs(media: MediaConfig) -> Mapping[str, Mapping[str, Json]]:
    """`media.processor_kwargs` decoded: for each model, the keyword arguments that its engines give their processor. Raises
    `ValueError` if it is not a JSON object of objects."""
    found = json.loads(media.processor_kwargs or "{}")
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise ValueError("this is no object of objects")
    return found


def _media(media: MediaConfig) -> Iterator[str]:
    try:
        processor_kwargs(media)
    except ValueError as error:
        yield f'media.processor_kwargs is not of the form {{"MODEL": {{...}}}} ({error})'


def named_parsers(config: Config) -> dict[str, str]:
    """The parser family of each model that has one of its own by `model.parsers`."""
    return dict(each.partition("=")[::2] for each in config.model.parsers)


def _policies(config: Config) -> Iterator[str]:
    rows: list[tuple[str, str]] = [("routing.policy", config.routing.policy)]
    try:
        rows += [("routing.policies", name) for name in policy_for(config.routing.policies).values()]
    except ValueError as error:
        yield f"routing.policies: {error}"
    for path, name in rows:
        try:
            policy(name, config.routing)
        except UnknownPolicy as error:
            yield f"{path}: {error}"


def _dialects(config: Config) -> Iterator[str]:
    if config.workers.dialect == AUTO:
        return
    try:
        kind(config.workers.dialect)
    except UnknownDialect as error:
        yield f"workers.dialect: {error}"


def _parsers(config: Config) -> Iterator[str]:
    wanted = [("model.parser", config.model.parser)]
    for each in config.model.parsers:
        name, mark, family_name = each.partition("=")
        if not (name and mark and family_name):
            yield f"model.parsers: {each!r} is not of the form MODEL=FAMILY"
        else:
            wanted.append(("model.parsers", family_name))
    for path, name in wanted:
        try:
            if name not in OWN_PARSERS:
                family(name)
        except UnknownModelFamily as error:
            yield f"{path}: {error}"


def _engine_proxy(config: Config) -> Iterator[str]:
    try:
        proxy_for(_ANY_HOST, config.engines.http_proxy, ())
    except ValueError:  # whose message has the URL, and a password may be in it
        yield "engines.http_proxy: it is written http://host:port, without a user name and a password"


def _urls(config: Config) -> Iterator[str]:
    for name in ("urls", "prefill_urls", "decode_urls", "encode_urls"):
        for url in getattr(config.workers, name):
            try:
                check_place(EnginePlace(url))
            except ValueError as error:
                yield f"workers.{name}: {error}"
