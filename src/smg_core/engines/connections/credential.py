"""An operator's specification of a credential: where a key or token comes from, and never the key itself unless it is given.

Decides which records make sense. Pure: `credentials` reads and asks what they name, and is loaded only where a worker has
one. Above: the file of workers, `EnginePlace`. Below: nothing.

    {env: MISTRAL_API_KEY}                                     a key in the environment
    {file: /run/secrets/mistral}                               a key alone in a file, read again when it changes
    {command: [vault, kv, get, mistral], every_s: 300}         what a command writes, asked again every five minutes
    {kind: aws, profile: production}                           AWS's chain; {kind: aws, env: KEY} a Bedrock API key
    {kind: google, file: /run/secrets/account.json}            a service account, or what Google's libraries would find
    {kind: entra, tenant: T, client: C, file: /run/secret}     Entra ID by a client's secret
    {kind: entra, managed: true}                               Entra ID by the identity of the machine
"""

from typing import Literal

import msgspec

__all__ = ["CREDENTIAL_KINDS", "CredentialKind", "CredentialSpec"]

CredentialKind = Literal["key", "aws", "google", "entra"]
CREDENTIAL_KINDS: tuple[CredentialKind, ...] = ("key", "aws", "google", "entra")
"""How a credential proves who sends a request: a plain key, AWS's signature, a token of Google's or of Entra ID's."""

_SECRET = frozenset({"key", "command"})
_OWN: dict[str, frozenset[str]] = {
    "key": frozenset(),
    "aws": frozenset({"profile", "role", "service"}),
    "google": frozenset({"scope", "project"}),
    "entra": frozenset({"scope", "tenant", "client", "managed"}),
}
"""The fields that only one kind has; all have those of a key."""
_SOURCES = ("key", "env", "file", "command")


class CredentialSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Where a credential comes from.

    Of `key`, `env`, `file` and `command` there is at most one: the key as it is, the variable of the environment, the file with
    the key alone, the command that writes it. What a command writes is asked again after `every_s` seconds, and a file is looked
    at as often; a command may take `timeout_s`. `profile`, `role` (an ARN) and `service` (the name that is signed, "bedrock") are
    AWS's; `scope` is what a token is for; `project` whose quota is used at Google; `tenant` and `client` are Entra's, and
    `managed` asks the machine for its identity there.
    """

    kind: CredentialKind = "key"
    key: str = ""
    env: str = ""
    file: str = ""
    command: tuple[str, ...] = ()
    every_s: float | None = None
    timeout_s: float = 10.0
    profile: str = ""
    role: str = ""
    service: str = ""
    scope: str = ""
    project: str = ""
    tenant: str = ""
    client: str = ""
    managed: bool = False

    def __repr__(self) -> str:
        """The fields without what may be a secret; of a command, which may have one in its arguments, the program."""
        listed = [f"{name}={getattr(self, name)!r}" for name in self._given() if name not in _SECRET]
        if self.key:
            listed.append("key=<hidden>")
        if self.command:
            listed.append(f"command={self.command[0]!r} and {len(self.command) - 1} arguments")
        return f"CredentialSpec({', '.join(listed)})"

    __str__ = __repr__

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Nothing beyond `repr`: libraries that print records would list the fields."""
        return [("", repr(self))]

    def check(self) -> None:
        """Raise ValueError for what makes no sense; the message names fields and no values."""
        sources = [name for name in _SOURCES if getattr(self, name)]
        if len(sources) > 1:
            raise ValueError(f"credential: {' and '.join(sources)} are several sources of one credential; give one")
        foreign = [name for kind, names in _OWN.items() for name in names if kind != self.kind and getattr(self, name)]
        foreign = sorted(set(foreign) - _OWN[self.kind])
        if foreign:
            raise ValueError(f"credential: a credential of kind {self.kind} has no {foreign[0]}")
        if self.kind == "key" and not sources:
            raise ValueError("credential: a key needs one of key, env, file and command")
        if self.kind == "entra" and not self.managed and bool(sources) != bool(self.client and self.tenant):
            raise ValueError(
                "credential: a client of Entra has a tenant, a client, and its secret from env, file or command"
            )
        if self.kind == "entra" and self.managed and sources:
            raise ValueError("credential: a managed identity has no secret")
        if self.every_s is not None and not 1 <= self.every_s <= 86_400:
            raise ValueError("credential: every_s must be 1 to 86400")
        if not 0.1 <= self.timeout_s <= 60:
            raise ValueError("credential: timeout_s must be 0.1 to 60")

    def _given(self) -> list[str]:
        return [
            name
            for name, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True)
            if name == "kind" or getattr(self, name) != default
        ]
