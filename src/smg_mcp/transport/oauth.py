"""Tokens for servers by OAuth 2.1: client credentials, and authorization codes with a refresh token that is kept (edge).

Above: `connection`; `wire` hands over its requests. Below: the mcp package's providers, `records.settings`. A person gives the
authorization once, at a terminal (`smg-gateway mcp login`); afterwards the kept refresh token is used, and where that is refused
the server is. Several sessions and processes share the file that keeps the tokens, also where the authorization server takes each
refresh token once.
"""

import asyncio
import contextlib
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.utils import extract_field_from_www_auth, issuers_match
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, ValidationError

from smg_mcp.records.errors import McpConfigError, McpRefused
from smg_mcp.records.settings import McpServer, OAuthSettings

__all__ = ["Authorize", "ServerTokens", "TokenFile", "tokens_for"]

Authorize = Callable[[str], Awaitable[tuple[str, str] | tuple[str, str, str | None]]]
"""Shows a person the URL where they authorize this program, and gives the code, the state and the issuer (`iss`; None where there
was none) that came back. An authorization server that says it names itself there (RFC 9207) is refused without the issuer."""

_Show = Callable[[str], Awaitable[None]]
_Answer = Callable[[], Awaitable[AuthorizationCodeResult]]
SendOne = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
"""Sends one request by the rules of the transport."""

log = logging.getLogger("smg.mcp")

_NO_GRANT = "no token for the server could be had"
"""All that a client is told. Why has addresses inside, and goes to the log."""


class TokenFile:
    """Tokens and the client's registration in one file that only its owner reads; in memory where there is no path.

    It is the package's TokenStorage. Others write the file too, so it is read whenever it is asked. `wall` gives seconds since
    the epoch; a lock that another has is asked for again every `pause_s`."""

    def __init__(self, path: Path | None, wall: Callable[[], float], pause_s: float) -> None:
        self._path, self._wall, self._pause_s = path, wall, pause_s
        self._in_memory: dict[str, Any] = {}
        self._expires_at: float | None = None
        self._held = False

    @property
    def expired(self) -> bool:
        """Whether the tokens that were last read or written are known to have expired."""
        return self._expires_at is not None and self._wall() >= self._expires_at

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens, if there are any."""
        found = (await self._load()).get("tokens")
        self._expires_at = None if found is None or found.get("expires_at") is None else float(found["expires_at"])
        return None if found is None else OAuthToken.model_validate(found)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep new tokens in place of the old ones, with the time when they expire."""
        new = tokens.model_dump(mode="json", exclude_none=True)
        self._expires_at = None
        if tokens.expires_in is not None:
            self._expires_at = new["expires_at"] = self._wall() + tokens.expires_in
        async with self.locked():
            await self._save({**await self._load(), "tokens": new})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client's registration, if there is one."""
        found = (await self._load()).get("client")
        return None if found is None else OAuthClientInformationFull.model_validate(found)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep the client's registration."""
        client = client_info.model_dump(mode="json", exclude_none=True)
        async with self.locked():
            await self._save({**await self._load(), "client": client})

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Nobody else, of this process or of another, writes the file while the block runs. Others wait, so nothing in the block
        may wait for a person. Who holds the lock may enter again."""
        if self._path is None or self._held:
            yield
            return
        with contextlib.ExitStack() as opened:
            handle = _opened_lock(self._path)
            opened.callback(os.close, handle)
            while not _try_lock(
                self._path, handle
            ):  # a thread that waits could be the one that the lock's holder needs
                await asyncio.sleep(self._pause_s)
            self._held = True
            try:
                yield
            finally:
                self._held = False
                _unlock(handle)

    async def _load(self) -> dict[str, Any]:
        return self._in_memory if self._path is None else await asyncio.to_thread(_read, self._path)

    async def _save(self, value: dict[str, Any]) -> None:
        if self._path is None:
            self._in_memory = value
        else:
            await asyncio.to_thread(_write, self._path, value)


def _read(path: Path) -> dict[str, Any]:
    """What the file has, every part of it of its kind; nothing where there is no file."""
    try:
        found: dict[str, Any] = {**json.loads(path.read_text())}
        if found.get("tokens") is not None:
            OAuthToken.model_validate(found["tokens"])
            float(found["tokens"].get("expires_at") or 0)
        if found.get("client") is not None:
            OAuthClientInformationFull.model_validate(found["client"])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, ValidationError) as error:
        raise McpConfigError(f"the file of tokens {path} cannot be used") from error
    return found


def _write(path: Path, value: dict[str, Any]) -> None:
    """Written beside the file and put in its place, so that a reader finds the old or the new one; mode 0600 from the start."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(value, file)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise McpConfigError(f"the file of tokens {path} cannot be written ({error.strerror})") from error


def _opened_lock(path: Path) -> int:
    """Opens what is locked in place of the file of tokens, which is another file after each change. It is never removed: a lock
    on a file that is gone keeps nobody out."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise McpConfigError(f"the file of tokens {path} cannot be written ({error.strerror})") from error


def _try_lock(path: Path, handle: int) -> bool:
    """Whether the lock could be had. On Windows there is none; there, processes must not share a file of tokens."""
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(
                handle, fcntl.LOCK_EX | fcntl.LOCK_NB
            )  # of the handle: sessions of one process exclude each other
        except BlockingIOError:
            return False
        except OSError as error:
            raise McpConfigError(f"the file of tokens {path} cannot be locked ({error.strerror})") from error
    return True


def _unlock(handle: int) -> None:
    """Gives the lock back at once: the handle's end alone does not, where a process that was forked has a copy."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_UN)


class _NotRefreshed(OAuthFlowError):
    """There is no new token without a new authorization. `for_good` says that this refresh token will never do."""

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


class _ByCode(OAuthClientProvider):
    """The package's provider for authorization codes, whose step to a token is the kept refresh token while `refreshing` is set.

    The package itself refreshes before it has asked where the authorization server is, and then sends the refresh token to the
    MCP server; and it takes every token that it has read for good. `given` is the client that the settings name, in place of one
    that is registered on the way."""

    def __init__(self, server_url: str, oauth: OAuthSettings, file: TokenFile, show: _Show, answer: _Answer) -> None:
        redirects = [AnyUrl(oauth.redirect_uri)]
        asked = OAuthClientMetadata(
            client_name="smg",
            redirect_uris=redirects,
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            scope=oauth.scope,
        )
        super().__init__(server_url, asked, file, show, answer)
        self.refreshing = False
        self._given: OAuthClientInformationFull | None = None
        if oauth.client_id is not None:
            self._given = OAuthClientInformationFull(
                client_id=oauth.client_id,
                client_secret=oauth.client_secret,
                redirect_uris=redirects,
                issuer=oauth.issuer,
            )
        self._issuer = oauth.issuer

    async def _initialize(self) -> None:
        await super()._initialize()
        self.context.client_info = self._given or self.context.client_info

    def _select_authorization_server(self, advertised: list[str]) -> str:
        if self._issuer is None:
            return super()._select_authorization_server(advertised)
        for each in advertised:
            if issuers_match(each, self._issuer):
                return each
        raise OAuthFlowError(f"the server names other authorization servers than {self._issuer}")

    def _expected_issuer(self) -> str:
        return self.context.auth_server_url or self._issuer or super()._expected_issuer()

    async def _perform_authorization(self) -> httpx2.Request:
        self._check_issuer()
        self._choose_method()
        return await (self._refresh_token() if self.refreshing else super()._perform_authorization())

    def _check_issuer(self) -> None:
        """Whether it is known where a token is had: of the issuer that the settings name, or that the kept tokens are of."""
        context, metadata = self.context, self.context.oauth_metadata
        if self._issuer is not None and (metadata is None or not issuers_match(str(metadata.issuer), self._issuer)):
            raise OAuthFlowError(f"{self._issuer} did not say where a token is had")
        named = context.auth_server_url is not None
        bound = context.client_info is not None and context.client_info.issuer is not None
        if self.refreshing and metadata is None and (named or bound):
            raise OAuthFlowError("the authorization server did not say where a token is refreshed")

    def _choose_method(self) -> None:
        """How the secret of the settings is sent: as the authorization server says that it takes it, in a header if it can be."""
        metadata = self.context.oauth_metadata
        if self._given is None or self._given.client_secret is None or metadata is None:
            return
        posted = metadata.token_endpoint_auth_methods_supported or []
        only_posted = "client_secret_post" in posted and "client_secret_basic" not in posted
        self._given.token_endpoint_auth_method = "client_secret_post" if only_posted else "client_secret_basic"

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        if not self.refreshing:
            await super()._handle_token_response(response)
        elif not await self._handle_refresh_response(response):
            why = f"the authorization server answered {response.status_code} to the refresh token"
            raise _NotRefreshed(why, for_good=True) if response.status_code in (400, 401) else OAuthFlowError(why)


_Found = Literal["found", "made", "none"]
"""Whether there is another token: one that somebody else had meanwhile, one that was asked for, or none."""

_KINDS = (
    *("invalid_request", "invalid_client", "invalid_grant", "invalid_scope", "invalid_target", "unauthorized_client"),
    *("unsupported_grant_type", "invalid_redirect_uri", "invalid_client_metadata"),
)
"""The errors of RFC 6749, 7591 and 8707 that an operator can do something about."""

_SCOPE = re.compile(r"[!#-\[\]-~]+( [!#-\[\]-~]+)*")  # RFC 6749 3.3

_FAILURES = (OAuthFlowError, McpConfigError, httpx2.InvalidURL, ValueError)
"""What a server's answers, and a file that cannot be used, make of the steps to a token."""


class ServerTokens:
    """The tokens of one server as one session uses them. Requests go out side by side with the token that is there; the steps to
    another one are taken once for all who wait for it.

    `unattended` says that a new authorization cannot be had: it takes a person, and there is none."""

    def __init__(self, name: str, provider: OAuthClientProvider, file: TokenFile, *, unattended: bool) -> None:
        self._name, self._provider, self._file, self._unattended = name, provider, file, unattended
        self._scope = provider.context.client_metadata.scope  # of the settings; the package writes over it
        self._first = asyncio.Lock()
        self._read = False
        self._renewing: asyncio.Task[_Found] | None = None
        self._refreshing = False
        self._useless: str | None = None

    async def sent(self, request: httpx2.Request, send: SendOne) -> httpx2.Response:
        """The answer to a request, which the transport hands over here: with the token, and once more with another one where the
        server does not accept it. Raises McpRefused where no token can be had."""
        await self._read_once()
        if self._file.expired and self._provider.context.oauth_metadata is not None:
            # Where it is not yet known who gives tokens, the server's refusal will say so.
            with contextlib.suppress(McpRefused):
                await self._another(self._token, request, None, send)
        token = self._put_in(request)
        response = await send(request)
        for _ in range(2):  # what another has written meanwhile may be refused too
            found = await self._another(token, request, response, send) if _refuses(response) else "none"
            if found == "none":
                break
            await response.aclose()
            token = self._put_in(request)
            response = await send(request)
            if found == "made":
                break
        return response

    async def aclose(self) -> None:
        """Called when the session closes. A refresh that is under way is waited for: its answer has the only refresh token that
        is good from then on."""
        renewing = self._renewing
        if renewing is None:
            return
        if not self._refreshing:
            renewing.cancel()
        try:
            await asyncio.wait([renewing])
        finally:
            renewing.cancel()

    @property
    def _token(self) -> str | None:
        tokens = self._provider.context.current_tokens
        return None if tokens is None else tokens.access_token

    def _put_in(self, request: httpx2.Request) -> str | None:
        token = self._token
        if token is None:
            request.headers.pop("authorization", None)
        else:
            request.headers["authorization"] = f"Bearer {token}"
        return token

    async def _read_once(self) -> None:
        if self._read:
            return
        async with self._first:
            if not self._read:
                with self._failures():
                    await self._provider._initialize()
                self._read = True

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Makes what goes wrong an error that is safe to show, and a line of the log."""
        try:
            yield
        except _FAILURES as error:
            log.warning("no token for the MCP server %s: %r", self._name, _for_log(error))
            raise McpRefused(_NO_GRANT, 401) from error

    async def _another(
        self, token: str | None, request: httpx2.Request, response: httpx2.Response | None, send: SendOne
    ) -> _Found:
        """Whether there is another token than `token`, which `response` refuses (None: which has expired). Who asks may leave:
        the steps are those of all, and half of them would cost the refresh token."""
        if self._renewing is None:
            if self._token not in (None, token):
                return "found"
            self._renewing = asyncio.ensure_future(self._renewed(token, request, response, send))
            self._renewing.add_done_callback(self._renewing_done)
        return await asyncio.shield(self._renewing)

    def _renewing_done(self, renewing: "asyncio.Task[_Found]") -> None:
        self._renewing = None
        if not renewing.cancelled():
            renewing.exception()  # seen here, in case everybody who waited has gone

    async def _renewed(
        self, token: str | None, request: httpx2.Request, response: httpx2.Response | None, send: SendOne
    ) -> _Found:
        with self._failures():
            why = "more is asked for than was authorized"
            step_up = response is not None and response.status_code == 403
            async with self._file.locked():
                await self._provider._initialize()
                if self._token not in (None, token) and not self._file.expired:
                    return "found"
                try:
                    if not step_up:
                        await self._refresh(request, response, send)
                        return "made"
                except _NotRefreshed as error:
                    why = str(error)
            if not self._unattended:
                await self._take_steps(request, response, send)
                return "made"
            if step_up or response is None:
                return "none"
            raise OAuthFlowError(f"nobody has authorized this program for the server, or no longer: {why}")

    async def _refresh(self, request: httpx2.Request, response: httpx2.Response | None, send: SendOne) -> None:
        """Use the kept refresh token. Raises _NotRefreshed where there is none that is good."""
        provider, context = self._provider, self._provider.context
        tokens = context.current_tokens
        if not isinstance(provider, _ByCode) or tokens is None or not context.can_refresh_token():
            raise _NotRefreshed("there is no refresh token")
        if tokens.refresh_token == self._useless:
            raise _NotRefreshed("the refresh token was refused before")
        provider.refreshing = self._refreshing = True
        try:
            await self._take_steps(request, response, send)
        except _NotRefreshed as error:
            self._useless = tokens.refresh_token if error.for_good else None
            raise
        finally:
            provider.refreshing = self._refreshing = False
            context.current_tokens = context.current_tokens or tokens

    async def _take_steps(self, request: httpx2.Request, response: httpx2.Response | None, send: SendOne) -> None:
        """Have the package take the steps that follow a refusal: ask where the authorization server is, register, get a token."""
        provider, context = self._provider, self._provider.context
        if response is None:
            await provider._handle_token_response(await send(await provider._perform_authorization()))
            return
        context.token_expiry_time = None  # else the package would begin with a refresh
        if self._scope and response.status_code == 401:
            # The package asks for all that the server names. The settings go before it, as what the server itself asks for does.
            named = response.headers.get("www-authenticate", "")
            response.headers["www-authenticate"] = f'Bearer scope="{self._scope}", {named}'.rstrip(", ")
        registered = context.client_info
        # The package is given the refusal as the answer to a request in its place, and stops where it would send it again: it
        # keeps a lock until then, which would have all other requests wait for the server's answer.
        instead = httpx2.Request(request.method, request.url, headers=request.headers)
        flow = provider.async_auth_flow(instead)
        try:
            await anext(flow)
            step = await flow.asend(response)
            while step is not instead:
                if self._refreshing and registered is not None and context.client_info is None:
                    raise _NotRefreshed("the server leads to another authorization server than before")
                step = await flow.asend(await send(step))
        finally:
            await flow.aclose()


def _for_log(error: BaseException) -> str:
    """What the log says of a failure. An authorization server may repeat the secrets that it was sent, or its answer have new
    ones: of such an answer only the status and the kind of error are said."""
    text = str(error)
    if isinstance(error, ValueError):
        return f"an answer cannot be read ({type(error).__name__})"
    if not isinstance(error, OAuthTokenError | OAuthRegistrationError):
        return text[:300]
    head, _, answer = text.partition(": ")
    kinds = [each for each in _KINDS if f'"{each}"' in answer]
    return " ".join([head[:300], *([answer[:3]] if answer[:3].isdigit() else []), *kinds])


def _refuses(response: httpx2.Response) -> bool:
    """Whether another token might be accepted: what the package's flow acts on, too."""
    if response.status_code == 403:
        return extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == 401


def tokens_for(
    server: McpServer, authorize: Authorize | None, wall: Callable[[], float], pause_s: float
) -> ServerTokens | None:
    """What gives this server's requests their token; None where it needs none. Called for each connection. Without `authorize`
    nobody is asked: a server whose authorization is missing or has expired is refused. Raises McpConfigError."""
    oauth = server.oauth
    if oauth is None or server.url is None:
        return None
    if oauth.scope is not None and not _SCOPE.fullmatch(oauth.scope):
        raise McpConfigError(
            f"mcp.servers.{server.name}.oauth.scope: is not a list of words of RFC 6749, with a space between"
        )
    file = TokenFile(Path(oauth.store).expanduser() if oauth.store else None, wall, pause_s)
    try:
        if oauth.grant == "authorization_code":
            by_code = _ByCode(server.url, oauth, file, *_person(authorize))
            return ServerTokens(server.name, by_code, file, unattended=authorize is None)
        credentials = ClientCredentialsOAuthProvider(
            server.url,
            file,
            client_id=oauth.client_id or "",
            client_secret=oauth.client_secret or "",
            scope=oauth.scope,
            issuer=oauth.issuer,
        )
        return ServerTokens(server.name, credentials, file, unattended=False)
    except ValueError as error:
        raise McpConfigError(
            f"mcp.servers.{server.name}.oauth: client_id, issuer or redirect_uri cannot be used"
        ) from error


def _person(authorize: Authorize | None) -> tuple[_Show, _Answer]:
    """The two halves of `authorize` as the package asks for them."""
    answers: asyncio.Queue[AuthorizationCodeResult] = asyncio.Queue(1)

    async def show(url: str) -> None:
        if authorize is None:
            raise OAuthFlowError("nobody is there to authorize this program")
        code, state, *issuer = await authorize(url)
        answers.put_nowait(AuthorizationCodeResult(code=code, state=state, iss=issuer[0] if issuer else None))

    return show, answers.get
