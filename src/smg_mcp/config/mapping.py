"""From the text or mapping of a configuration to `McpSettings`, or to an error that names the place.

Decided here: how `${NAME}` is filled in, and which values contradict each other. Above: `tools`. Below: `records.settings`.
Reads no file and no environment: both are handed in.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from smg_mcp.records.errors import McpConfigError
from smg_mcp.records.settings import IN_PROGRAM, McpServer, McpSettings, ProxySettings, SearchSettings

__all__ = ["settings_of"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def settings_of(mapping: Mapping[str, Any], environment: Mapping[str, str]) -> McpSettings:
    """The settings of a parsed file. `${NAME}` in any string is filled in from `environment`; `${NAME:-text}` has a default.

    Raises McpConfigError: for a key that is not known, a value of the wrong type, a variable that is not set, and for servers
    whose values contradict each other."""
    filled = _filled(mapping, environment, "mcp")
    try:
        settings = msgspec.convert(filled, McpSettings)
    except msgspec.ValidationError as error:
        raise McpConfigError(f"mcp: {error}") from error
    names: set[str] = set()
    for server in settings.servers:
        if server.name.lower() in names:
            raise McpConfigError(f"mcp.servers: two servers are named {server.name!r} (capitals make no difference)")
        names.add(server.name.lower())
        _check_server(server)
    _check_proxy(settings.proxy, "mcp.proxy")
    _check_policy(settings)
    return settings


def _filled(value: Any, environment: Mapping[str, str], path: str) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _variable(found, environment, path), value)
    if isinstance(value, Mapping):
        return {key: _filled(each, environment, f"{path}.{key}") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(each, environment, f"{path}[{index}]") for index, each in enumerate(value)]
    return value


def _variable(found: re.Match[str], environment: Mapping[str, str], path: str) -> str:
    name, default = found.groups()
    text = environment.get(name, default)
    if text is None:
        raise McpConfigError(f"{path}: the environment has no variable {name}")
    return text


def _check_server(server: McpServer) -> None:
    place = f"mcp.servers.{server.name}"
    if server.protocol in IN_PROGRAM:
        _check_here(server, place)
    elif server.functions:
        raise McpConfigError(f"{place}.functions: is of use for the protocol python only")
    elif server.web is not None:
        raise McpConfigError(f"{place}.web: is of use for the protocol web only")
    elif server.protocol == "stdio":
        _check_child(server, place)
    else:
        _check_reached(server, place)
    if (
        server.model is not None
        and server.protocol not in IN_PROGRAM
        and "ask" not in (server.elicitation, server.sampling)
    ):
        raise McpConfigError(f"{place}.model: is of use where elicitation or sampling is ask")
    if server.oauth is not None:
        _check_oauth(server, place)
    if (server.builtin_type is None) is not (server.builtin_tool_name is None):
        raise McpConfigError(f"{place}: builtin_type and builtin_tool_name need each other")
    aliases = [tool.alias for tool in server.tools.values() if tool.alias is not None]
    if len(set(aliases)) < len(aliases):
        raise McpConfigError(f"{place}.tools: two tools have the same alias")
    for tool, settings in server.tools.items():
        mapping = settings.arg_mapping
        if len(set(mapping.renames.values())) < len(mapping.renames):
            raise McpConfigError(f"{place}.tools.{tool}.arg_mapping.renames: two arguments get the same name")


def _check_here(server: McpServer, place: str) -> None:
    """Check a server whose tools run in this program."""
    for key in (
        *("command", "args", "envs", "cwd", "url", "token", "oauth", "proxy", "headers", "forward_headers", "roots"),
    ):
        if getattr(server, key):
            raise McpConfigError(f"{place}.{key}: is of no use for the protocol {server.protocol}")
    if server.functions and server.protocol != "python":
        raise McpConfigError(f"{place}.functions: is of use for the protocol python only")
    if server.web is not None and server.protocol != "web":
        raise McpConfigError(f"{place}.web: is of use for the protocol web only")
    if (server.model is not None) is not (server.protocol == "model"):
        what = "needs a model" if server.model is None else "is of no use"
        raise McpConfigError(f"{place}.model: the protocol {server.protocol} {what}")
    if server.protocol == "model" and server.builtin_type is not None:
        raise McpConfigError(f"{place}.builtin_type: the protocol model is image_generation by itself")
    if server.protocol == "model" and any(each.price for each in server.tools.values()):
        raise McpConfigError(f"{place}.tools: a picture costs what the tokens of its model do, in the table of prices")
    if server.web is not None and server.web.search is not None:
        _check_search(server.web.search, f"{place}.web.search")


def _check_search(search: SearchSettings, place: str) -> None:
    if search.service == "searxng" and search.url is None:
        raise McpConfigError(f"{place}.url: searxng is at an address of yours, such as https://search.example/search")
    if search.service != "searxng" and not search.key:
        raise McpConfigError(f"{place}.key: {search.service} needs a key")
    if search.url is not None:
        _check_address(search.url, ("http", "https"), f"{place}.url")


def _check_child(server: McpServer, place: str) -> None:
    if not server.command:
        raise McpConfigError(f"{place}: a server of the protocol stdio needs a command")
    for key in ("url", "token", "oauth", "proxy", "headers", "forward_headers"):
        if getattr(server, key):
            raise McpConfigError(f"{place}.{key}: is of no use for the protocol stdio")


def _check_reached(server: McpServer, place: str) -> None:
    if not server.url:
        raise McpConfigError(f"{place}: a server of the protocol {server.protocol} needs a url")
    for key in ("command", "args", "envs", "cwd"):
        if getattr(server, key):
            raise McpConfigError(f"{place}.{key}: is of use for the protocol stdio only")
    if _check_address(server.url, ("http", "https"), f"{place}.url"):
        raise McpConfigError(
            f"{place}.url: may have no user and no password; a token and headers have places of their own"
        )
    _check_proxy(server.proxy, f"{place}.proxy")


def _check_proxy(proxy: ProxySettings | None, place: str) -> None:
    if proxy is not None:
        for key, address in (("http", proxy.http), ("https", proxy.https)):
            if address is not None:
                _check_address(address, ("http", "https", "socks5", "socks5h"), f"{place}.{key}")


def _check_address(address: str, schemes: tuple[str, ...], place: str) -> bool:
    """Whether a URL has a user or a password. Raises McpConfigError for what is none; it is not repeated, since it may have
    secrets."""
    try:
        parts = urlsplit(address)
        good = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise McpConfigError(f"{place}: is no URL of a host that begins with {' or '.join(schemes)}")
    return "@" in parts.netloc


def _check_oauth(server: McpServer, place: str) -> None:
    oauth = server.oauth
    if oauth is None:
        return
    if server.token is not None:
        raise McpConfigError(f"{place}: token and oauth exclude each other")
    if "authorization" in {name.lower() for name in server.headers}:
        raise McpConfigError(f"{place}: the header Authorization and oauth exclude each other")
    if oauth.client_secret and not (oauth.client_id and oauth.issuer):
        raise McpConfigError(f"{place}.oauth: client_secret needs client_id, and issuer, to which alone it is sent")
    if oauth.grant == "client_credentials" and not (oauth.client_id and oauth.client_secret and oauth.issuer):
        raise McpConfigError(f"{place}.oauth: client_credentials needs client_id, client_secret and issuer")
    if oauth.grant == "authorization_code" and not oauth.store:
        raise McpConfigError(f"{place}.oauth: authorization_code needs store, the file that keeps the refresh token")


def _check_policy(settings: McpSettings) -> None:
    known = {server.name for server in settings.servers}
    for name in settings.policy.servers:
        if name not in known:
            raise McpConfigError(f"mcp.policy.servers: there is no server {name!r}")
    for name in settings.policy.tools:
        server, dot, _ = name.partition(".")
        if not dot or server not in known:
            raise McpConfigError(f"mcp.policy.tools: {name!r} is not the name of a server, a dot and a tool")
