"""The settings of identity, and of what callers may do.

Records of settings: `config` gathers them, with those of the other rooms. Below: `settings`.
"""

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["AuthConfig", "OidcConfig"]


@attrs.frozen
class AuthConfig:
    """The callers that may use the gateway. Without any of these credentials everybody who reaches it may; with one, nobody
    without."""

    keys: tuple[str, ...] = option(
        (),
        "API key, or sha256: and the hash of one, with words behind it: KEY tenant=T principal=P role=R model=M name=N "
        "expires=2027-01-31; may be repeated, as role=, model= and tool= may.",
        secret=True,
    )
    keys_file: str | None = option(
        None,
        "File with keys as auth.keys takes them, one in a line; or a list of objects in .yaml or .json "
        "(docs/identity.md).",
    )
    virtual_keys: bool = option(
        False,
        "Take virtual keys too: the history keeps them, and they are made and revoked while the gateway runs. Several processes "
        "need a history that they share.",
    )
    key_fresh_s: float = bound(
        0.5,
        "Seconds for which a process remembers a virtual key; after that long, all know that one was revoked.",
        at_least=0,
        at_most=1.0,
    )
    keys_remembered: int = bound(
        10_000, "Virtual keys that a process remembers, those in use last.", at_least=1, at_most=1 << 22
    )
    roles: tuple[str, ...] = option(
        (),
        'Role, as "NAME=PERMISSION PERMISSION model:NAME tool:SERVER.TOOL deadline:MS": what its callers may do '
        "(docs/identity.md lists the permissions); may be repeated.",
    )
    credential_characters: int = bound(
        16384, "Longest credential that is looked at; a longer one is refused.", at_least=64, at_most=1 << 20
    )
    failures: int = bound(
        20,
        "Wrong credentials with one beginning that an address may send within auth.failures_window_s; more get 429.",
        at_least=1,
        at_most=1_000_000,
    )
    failures_address: int = bound(
        100,
        "Wrong credentials of any kind that an address may send within auth.failures_window_s; more get 429.",
        at_least=1,
        at_most=1_000_000,
    )
    failures_window_s: float = bound(
        60.0, "Seconds for which wrong credentials are counted.", at_least=1, at_most=86400
    )
    failures_remembered: int = bound(
        8192,
        "Addresses, and beginnings of credentials, whose wrong credentials are counted.",
        at_least=16,
        at_most=1 << 22,
    )


@attrs.frozen
class OidcConfig:
    """Callers by tokens (JWT) of an OpenID Connect issuer. Needs the extra `auth`."""

    issuer: str | None = option(
        None,
        "Issuer whose tokens are taken, as their claim iss has it: https://login.example.com/realm. Switches OIDC on.",
    )
    audiences: tuple[str, ...] = option(
        (),
        "What a token's claim aud must name one of; may be repeated. Required: other services have tokens of this issuer too.",
    )
    jwks_uri: str | None = option(
        None, "Address of the issuer's keys; without it, the one that its description (.well-known) names."
    )
    tenant_claim: str | None = option(
        None,
        "Claim that names the tenant: a claim's name, or a JSON Pointer into claims (/realm_access/tenant). This or oidc.tenant.",
    )
    tenant: str | None = option(None, "Tenant of all tokens, instead of oidc.tenant_claim.")
    principal_claim: str = option("sub", "Claim that names the user or client, as oidc.tenant_claim is written.")
    roles_claim: str | None = option(
        None,
        "Claim with a list, or a string of words, of which oidc.roles makes roles; as oidc.tenant_claim is written.",
    )
    roles: tuple[str, ...] = option(
        (),
        "VALUE=ROLE: who has this value in oidc.roles_claim has this role; may be repeated. Other values mean nothing.",
    )
    default_roles: tuple[str, ...] = option(
        (),
        "Roles of tokens to which oidc.roles gives none; may be repeated. Without oidc.roles_claim: user; with it, such "
        "tokens may do nothing.",
    )
    leeway_s: float = bound(
        30.0, "Seconds by which the clocks of issuer and gateway may differ.", at_least=0, at_most=600
    )
    tokens: int = bound(
        10_000, "Verified tokens that a process remembers until they expire.", at_least=1, at_most=10_000_000
    )
    private_hosts: tuple[str, ...] = option(
        (),
        "Host of the issuer or of its keys that may have private addresses and be asked without encryption, such as an issuer in "
        "the same cluster: a name, or .suffix; may be repeated.",
    )
    ca_file: str | None = option(
        None, "File with the certificates that the issuer's is verified by, instead of the system's."
    )
    fresh_s: float = bound(600.0, "Seconds after which the issuer's keys are fetched again.", at_least=1, at_most=86400)
    keep_s: float = bound(
        86400.0,
        "Seconds for which the issuer's keys are used while newer ones are fetched in vain; after that tokens are refused"
        " with 503.",
        at_least=1,
        at_most=30 * 86400.0,
    )
    pause_s: float = bound(
        10.0,
        "Least seconds between two fetches of the issuer's keys, however many tokens no known key has signed.",
        at_least=0.1,
        at_most=3600,
    )
    connect_s: float = bound(3.0, "Seconds for a connection to the issuer.", at_least=0.1, at_most=60)
    fetch_s: float = bound(10.0, "Seconds in which the issuer's documents must be there.", at_least=0.1, at_most=120)
    document_bytes: int = bound(
        256 * 1024, "Longest document of the issuer that is read, in bytes.", at_least=1024, at_most=16 * MIB
    )
    keys: int = bound(100, "Most keys that an issuer may have.", at_least=1, at_most=1000)
