"""The sources of the keys of sealed content and of cache salts: settings, a file, or chance (edge).

Above: gateway.assembly, when a gateway starts. Below: sealing.
"""

import secrets
from pathlib import Path
from typing import Literal, Self

import attrs

from smg_core.sealing.cache_salts import CacheSalts
from smg_core.sealing.reasoning import ReasoningSeals
from smg_core.sealing.sealer import Sealer
from smg_core.sealing.settings import SealingConfig
from smg_core.settings import ConfigError

__all__ = ["DRAWN", "Sealing", "cache_salts", "with_cache_secret"]

DRAWN = (
    "no sealing.keys: reasoning is sealed with a key that each process has drawn; what was sealed opens neither after a restart "
    "nor in another process or replica, and is left out of the prompt there"
)
"""What the operator of a gateway without keys is told."""

LEAST_CHARACTERS = 32
"""Of a key: as many as 128 bits have in hexadecimal."""
_RANDOM_BYTES = 32


@attrs.frozen
class Sealing:
    """The sealer of a process, and what becomes of sealed reasoning that does not open (`SealingConfig`)."""

    sealer: Sealer
    on_broken: Literal["drop", "refuse_edited", "refuse"]

    @classmethod
    def of(cls, settings: SealingConfig) -> Self:
        """As the settings have it, with a key of chance where there is none. Raises ConfigError for a key that is too short and
        for a file that cannot be read."""
        keys = [*settings.keys, *(_in_file(settings.keys_file) if settings.keys_file is not None else ())]
        if any(len(key) < LEAST_CHARACTERS for key in keys):
            raise ConfigError(f"sealing.keys: a key has {LEAST_CHARACTERS} characters at least (openssl rand -hex 32)")
        masters = [key.encode() for key in keys] or [secrets.token_bytes(_RANDOM_BYTES)]
        return cls(Sealer(masters, most=settings.token_bytes), settings.on_broken)

    def seals(self, family: str) -> ReasoningSeals:
        """The seals of a family of models."""
        return ReasoningSeals(self.sealer, family, self.on_broken)


def cache_salts(settings: SealingConfig) -> CacheSalts:
    """The salts of tenants by the secret of the settings, or by one of chance. Raises ConfigError for one that is too short."""
    secret = settings.cache_secret
    if secret is not None and len(secret) < LEAST_CHARACTERS:
        raise ConfigError(f"sealing.cache_secret: it has {LEAST_CHARACTERS} characters at least (openssl rand -hex 32)")
    return CacheSalts(secrets.token_bytes(_RANDOM_BYTES) if secret is None else secret.encode())


def with_cache_secret(settings: SealingConfig) -> SealingConfig:
    """These settings with a secret of chance where they have none. Called before a gateway is split into processes: with a secret
    each, none would find in an engine's cache what another has put there."""
    if settings.cache_secret is not None:
        return settings
    return attrs.evolve(settings, cache_secret=secrets.token_hex(_RANDOM_BYTES))


def _in_file(name: str) -> list[str]:
    """The lines of a file of keys, without empty ones."""
    try:
        lines = Path(name).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"sealing.keys_file: {name} cannot be read: {error}") from None
    if keys := [line.strip() for line in lines if line.strip()]:
        return keys
    raise ConfigError(f"sealing.keys_file: {name} has no key")
