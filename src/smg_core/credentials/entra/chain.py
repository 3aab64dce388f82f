"""The sources of tokens of Entra ID: a client's secret, workload identity, managed identity (edge).

The order is that of Azure's own libraries. A client's certificate is left to azure-identity, where it is installed. Above:
opening. Below: asking, keys.
"""

import asyncio
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from urllib.parse import urlencode

import attrs

from smg_core.clock import Clock
from smg_core.credentials.renewal.asking import TokenAsker
from smg_core.credentials.renewal.granted import Granted
from smg_core.credentials.renewal.renewed import Renewed
from smg_core.credentials.renewal.token_answers import token_of_answer, token_until
from smg_core.extras import needs
from smg_core.regular_files import read_regular

__all__ = ["AZURE_SCOPE", "EntraChain"]

AZURE_SCOPE = "https://cognitiveservices.azure.com/.default"
_PUBLIC = "https://login.microsoftonline.com"
_FORM = (("content-type", "application/x-www-form-urlencoded"),)
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_INSTANCE = "http://169.254.169.254/metadata/identity/oauth2/token"
_MOST_BYTES = 64 * 1024
"""Most bytes of a token in a file."""


@attrs.frozen
class EntraChain:
    """Finds tokens for `scope`. `tenant` and `client` with the `secret` of that client are what an operator has named; `managed`
    asks the machine alone, for the identity `client` where there are several. Else the `environment` says which it is."""

    environment: Mapping[str, str]
    asker: TokenAsker
    clock: Clock
    scope: str = AZURE_SCOPE
    tenant: str = ""
    client: str = ""
    secret: Renewed[str] | None = None
    managed: bool = False

    async def fetch(self) -> Granted[str]:
        """A token. Raises ValueError, OSError or SmgError, with no secret in it."""
        environment = self.environment
        if self.managed:
            return await self._of_machine(self.client)
        if self.secret is not None:
            return await self._of_secret(self.tenant, self.client, await self.secret.current())
        tenant, client = environment.get("AZURE_TENANT_ID", ""), environment.get("AZURE_CLIENT_ID", "")
        if tenant and client and (secret := environment.get("AZURE_CLIENT_SECRET")):
            return await self._of_secret(tenant, client, secret)
        if tenant and client and environment.get("AZURE_CLIENT_CERTIFICATE_PATH"):
            return await self._of_library()
        if tenant and client and (file := environment.get("AZURE_FEDERATED_TOKEN_FILE")):
            return await self._of_workload(tenant, client, Path(file))
        return await self._of_machine(client)

    async def _of_secret(self, tenant: str, client: str, secret: str) -> Granted[str]:
        return await self._exchanged(tenant, client, {"client_secret": secret})

    async def _of_workload(self, tenant: str, client: str, file: Path) -> Granted[str]:
        token = (await asyncio.to_thread(read_regular, file, _MOST_BYTES)).decode("ascii", "replace").strip()
        return await self._exchanged(tenant, client, {"client_assertion_type": _ASSERTION, "client_assertion": token})

    async def _exchanged(self, tenant: str, client: str, proof: Mapping[str, str]) -> Granted[str]:
        authority = (self.environment.get("AZURE_AUTHORITY_HOST") or _PUBLIC).rstrip("/")
        authority = authority if "://" in authority else f"https://{authority}"
        fields = {"grant_type": "client_credentials", "client_id": client, "scope": self.scope, **proof}
        url = f"{authority}/{tenant}/oauth2/v2.0/token"
        answer = await self.asker.ask("POST", url, headers=_FORM, body=urlencode(fields).encode())
        return token_of_answer(answer.status, answer.body, self.clock.time())

    async def _of_machine(self, client: str) -> Granted[str]:
        """The token of the identity that the machine has: an App Service, else a virtual machine."""
        resource = self.scope.removesuffix("/.default")
        named = {"client_id": client} if client else {}
        endpoint = self.environment.get("IDENTITY_ENDPOINT", "")
        if endpoint:
            query = urlencode({"api-version": "2019-08-01", "resource": resource, **named})
            headers = (("x-identity-header", self.environment.get("IDENTITY_HEADER", "")),)
            answer = await self.asker.reaching(endpoint).ask("GET", f"{endpoint}?{query}", headers=headers)
        else:
            query = urlencode({"api-version": "2018-02-01", "resource": resource, **named})
            answer = await self.asker.ask("GET", f"{_INSTANCE}?{query}", headers=(("metadata", "true"),))
        return token_of_answer(answer.status, answer.body, self.clock.time())

    async def _of_library(self) -> Granted[str]:
        """A token by azure-identity, where it is installed."""
        try:
            identity, errors = import_module("azure.identity"), import_module("azure.core.exceptions")
        except ImportError:
            raise ValueError(needs("a client's certificate", "azure.identity")) from None

        def asked() -> tuple[str, float]:
            try:
                found = identity.EnvironmentCredential().get_token(self.scope)
            except errors.ClientAuthenticationError as error:
                raise ValueError(f"azure-identity gives no token: {type(error).__name__}") from None
            return found.token, float(found.expires_on)

        token, ends_at = await asyncio.to_thread(asked)
        return token_until(token, self.clock.time(), ends_at)
