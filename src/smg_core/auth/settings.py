"""Who may use the gateway, and for what.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import attrs

from smg_core.settings import option

__all__ = ["AuthConfig"]


@attrs.frozen
class AuthConfig:
    """Who may use the gateway. Without any of these credentials everybody who reaches it may; with one, nobody without."""

    keys: tuple[str, ...] = option(
        (),
        "API key, or sha256: and the hash of one, with words behind it: KEY tenant=T principal=P role=R model=M name=N "
        "expires=2027-01-31; may be repeated, as role= and model= may.",
        secret=True,
    )
    keys_file: str | None = option(
        None, "File with such keys, one in a line; or a list of objects in .yaml or .json (docs/identity.md)."
    )
    roles: tuple[str, ...] = option(
        (),
        'Role, as "NAME=PERMISSION PERMISSION model:NAME": what its callers may do (docs/identity.md lists the permissions); '
        "may be repeated.",
    )
    credential_characters: int = option(
        16384, "Longest credential that is looked at; a longer one is refused.", at_least=64, at_most=1 << 20
    )
    failures: int = option(
        20,
        "Wrong credentials with one beginning that an address may send within failures_window_s; more get 429.",
        at_least=1,
        at_most=1_000_000,
    )
    failures_address: int = option(
        100, "Wrong credentials of any kind that an address may send in that time.", at_least=1, at_most=1_000_000
    )
    failures_window_s: float = option(
        60.0, "Seconds for which wrong credentials are counted.", at_least=1, at_most=86400
    )
    failures_remembered: int = option(
        8192, "Addresses, and beginnings of credentials, that are remembered for that.", at_least=16, at_most=1 << 22
    )
