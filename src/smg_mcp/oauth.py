"""Tokens for servers by OAuth 2.1: client credentials, and authorization codes with a refresh token that is kept (edge).

Above: `connection`. Below: the mcp package's providers, `settings`. A person gives the authorization once, at a terminal
(`smg-gateway mcp login`); afterwards the kept refresh token is used, and where it has expired the server is refused.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, ValidationError

from smg_mcp.errors import McpConfigError
from smg_mcp.settings import McpServer

__all__ = ["Authorize", "TokenFile", "provider_for"]

Authorize = Callable[[str], Awaitable[tuple[str, str]]]
"""Shows a person the URL where they authorize this program, and gives the code and the state that came back."""


class TokenFile:
    """Tokens and the client's registration in one file that only its owner reads; in memory where there is no path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._kept: dict[str, Any] | None = None
        self._writing = asyncio.Lock()

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens, if there are any."""
        found = (await self._load()).get("tokens")
        return None if found is None else OAuthToken.model_validate(found)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep new tokens. A refresh token is kept where the new tokens have none."""
        kept = await self._load()
        new = tokens.model_dump(mode="json", exclude_none=True)
        before = kept.get("tokens") or {}
        if "refresh_token" not in new and "refresh_token" in before:
            new["refresh_token"] = before["refresh_token"]
        await self._save({**kept, "tokens": new})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client's registration, if there is one."""
        found = (await self._load()).get("client")
        return None if found is None else OAuthClientInformationFull.model_validate(found)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep the client's registration."""
        client = client_info.model_dump(mode="json", exclude_none=True)
        await self._save({**await self._load(), "client": client})

    async def _load(self) -> dict[str, Any]:
        if self._kept is None:
            self._kept = {} if self._path is None else await asyncio.to_thread(_read, self._path)
        return self._kept

    async def _save(self, value: dict[str, Any]) -> None:
        self._kept = value
        if self._path is not None:
            async with self._writing:
                await asyncio.to_thread(_write, self._path, value)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
        OAuthToken.model_validate(found["tokens"]) if "tokens" in found else None
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, ValidationError) as error:
        raise McpConfigError(f"the file of tokens {path} cannot be used") from error
    return dict(found)


def _write(path: Path, value: dict[str, Any]) -> None:
    """Written beside the file and put in its place, so that a reader finds the old or the new one; mode 0600 from the start."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(value, file)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def provider_for(server: McpServer, authorize: Authorize | None = None) -> httpx2.Auth | None:
    """What gives this server's requests their token; None where it needs none. Without `authorize` nobody is asked: a server
    whose authorization is missing or has expired is refused."""
    oauth = server.oauth
    if oauth is None or server.url is None:
        return None
    storage = TokenFile(Path(oauth.store).expanduser() if oauth.store else None)
    if oauth.grant == "client_credentials":
        return ClientCredentialsOAuthProvider(
            server.url,
            storage,
            client_id=oauth.client_id or "",
            client_secret=oauth.client_secret or "",
            scope=oauth.scope,
            issuer=oauth.issuer,
        )
    answers: asyncio.Queue[tuple[str, str]] = asyncio.Queue(1)

    async def show(url: str) -> None:
        if authorize is None:
            raise OAuthFlowError(f"nobody has authorized this program for the server {server.name}")
        answers.put_nowait(await authorize(url))

    async def answer() -> AuthorizationCodeResult:
        code, state = await answers.get()
        return AuthorizationCodeResult(code=code, state=state)

    metadata = OAuthClientMetadata(
        client_name="smg",
        redirect_uris=[AnyUrl(oauth.redirect_uri)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=oauth.scope,
    )
    return OAuthClientProvider(server.url, metadata, storage, show, answer)
