"""`smg-gateway mcp ls | call | login`: see and try the servers of a configuration (edge).

Above: the command line. Below: `tools`. Prints to stdout; what goes wrong is raised as our errors.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import msgspec
from mcp.client.auth import OAuthFlowError

from smg_mcp.records.base import ServerInventory, ToolOutcome, ToolProgress
from smg_mcp.records.errors import McpBadArguments, McpConfigError, McpError, McpRefused
from smg_mcp.tools import McpTools

__all__ = ["call_tool", "list_servers", "log_in"]


def list_servers(config: str, server: str | None, tenant: str, *, as_json: bool) -> int:
    """Print what the servers offer. 1 where one could not be asked, which is printed too."""
    return asyncio.run(_list(config, server, tenant, as_json))


def call_tool(config: str, name: str, arguments: str, tenant: str, *, approved: bool, as_json: bool) -> int:
    """Call a tool and print its result. 1 where the tool failed."""
    try:
        given = json.loads(arguments)
    except ValueError as error:
        raise McpBadArguments(f"the arguments are no JSON: {error}") from error
    return asyncio.run(_call(config, name, given, tenant, approved, as_json))


def log_in(config: str, server: str) -> int:
    """Take a person to a server's authorization page, and keep the tokens that come back."""
    return asyncio.run(_log_in(config, server))


async def _list(config: str, server: str | None, tenant: str, as_json: bool) -> int:
    failed = False
    async with McpTools.from_config(config) as tools:
        request = tools.for_request(tenant=tenant, servers=None if server is None else [server])
        for name in request.servers:
            try:
                inventory = await request.inventory(name)
            except McpError as error:
                failed = True
                print(f"{name}: {error}", file=sys.stderr)
            else:
                print(json.dumps(attrs.asdict(inventory), default=list) if as_json else _rendered(inventory))
    return 1 if failed else 0


def _rendered(inventory: ServerInventory) -> str:
    title = f" ({inventory.title})" if inventory.title else ""
    lines = [f"{inventory.server}{title}, protocol {inventory.protocol}"]
    for tool in inventory.tools:
        hints = attrs.asdict(tool.hints)
        listed = ", ".join(name.replace("_", " ") for name, value in hints.items() if value)
        first = tool.description.strip().partition("\n")[0]
        lines.append(f"  {tool.qualified}  {first}" + (f"  [{listed}]" if listed else ""))
        if tool.name != tool.tool:
            lines.append(f"    offered as {tool.name}")
    lines += [f"  resource  {each.get('uri')}" for each in inventory.resources]
    lines += [f"  resource  {each.get('uriTemplate')}" for each in inventory.templates]
    lines += [f"  prompt  {each.get('name')}" for each in inventory.prompts]
    lines += [f"  left out  {name}: {reason}" for name, reason in inventory.left_out.items()]
    lines += [f"  unconstrained  {name}: {reason}" for name, reason in inventory.unconstrained.items()]
    return "\n".join(lines)


async def _call(
    config: str, name: str, arguments: Mapping[str, Any], tenant: str, approved: bool, as_json: bool
) -> int:
    async with McpTools.from_config(config) as tools:
        outcome = await tools.call(name, arguments, tenant=tenant, approved=approved, progress=_show_progress)
    print(json.dumps(attrs.asdict(outcome)) if as_json else _result(outcome))
    return 1 if outcome.is_error else 0


def _show_progress(progress: ToolProgress) -> None:
    total = "" if progress.total is None else f" of {progress.total:g}"
    print(f"{progress.progress:g}{total} {progress.message or ''}".rstrip(), file=sys.stderr)


def _result(outcome: ToolOutcome) -> str:
    others = [part for part in outcome.content if getattr(part, "text", None) is None]
    return "\n".join([outcome.text, *(str(part) for part in others)]).strip("\n")


async def _log_in(config: str, server: str) -> int:
    tools = McpTools.from_config(config)
    found = next((each for each in tools.settings.servers if each.name == server), None)
    if found is None or found.oauth is None or found.oauth.grant != "authorization_code":
        raise McpConfigError(f"mcp.servers: no server {server!r} with the grant authorization_code")
    redirect = urlsplit(found.oauth.redirect_uri)
    came: asyncio.Future[tuple[str, str, str | None]] = asyncio.get_running_loop().create_future()
    states: list[str] = []
    refusals: list[str] = []

    def come(values: dict[str, list[str]]) -> None:
        state = values.get("state", [""])[0]
        if state not in states:  # of another page that was opened: it cannot end the wait
            return
        if "code" in values:
            came.set_result((values["code"][0], state, values["iss"][0] if "iss" in values else None))
        elif "error" in values:  # RFC 6749 4.1.2.1
            refusals.append(ascii(values["error"][0][:100]))
            came.set_exception(OAuthFlowError("the authorization was not given"))

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n")).decode("latin-1").split(" ")
            asked = urlsplit(head[1] if len(head) > 1 else "/")
            if asked.path == redirect.path and not came.done():
                come(parse_qs(asked.query))
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nYou may close this page."
            )
            await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            writer.close()

    async def authorize(url: str) -> tuple[str, str, str | None]:
        states.extend(parse_qs(urlsplit(url).query).get("state", []))
        print(f"Open this page to authorize smg for {server}:\n{url}", flush=True)
        return await came

    patient = msgspec.structs.replace(tools.settings.pool, connect_timeout=tools.settings.pool.login_timeout)
    settings = msgspec.structs.replace(tools.settings, pool=patient)
    listener = await asyncio.start_server(take, redirect.hostname, redirect.port)
    async with listener, McpTools(settings, authorize=authorize) as session:
        try:
            inventory = await session.list(server)
        except McpRefused as error:
            if refusals:
                raise McpRefused(f"{server}: the authorization server answered {refusals[0]}", 401) from error
            raise
    print(f"{server}: authorized, {len(inventory.tools)} tools")
    return 0
