"""The keys of sealed content.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

from typing import Literal

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["SealingConfig"]


@attrs.frozen
class SealingConfig:
    """Reasoning that clients keep and send back: signatures of Messages, encrypted content of Responses."""

    keys: tuple[str, ...] = option(
        (),
        "Secret that seals, of 32 characters or more (openssl rand -hex 32); may be repeated: the first seals, all open, so that "
        "a key is replaced by putting a new one before it. All replicas need the same. Without any, each process draws its own.",
        secret=True,
    )
    keys_file: str | None = option(None, "File with secrets that seal, one in a line, behind those of sealing.keys.")
    on_broken: Literal["drop", "refuse_edited", "refuse"] = bound(
        "drop",
        "What becomes of sealed reasoning that cannot be used: drop leaves it out of the prompt; refuse_edited answers 400 where "
        "it was sealed here and its text was changed; refuse answers 400 for any that does not open.",
    )
    cache_secret: str | None = option(
        None,
        "Secret of 32 characters or more from which the cache salts of tenants are made. Replicas before the same engines need "
        "the same, to share what the engines have cached. Without it, one is drawn at each start, for all processes of it.",
        secret=True,
    )
    token_bytes: int = bound(
        MIB, "Longest sealed content that is opened, in bytes; what is longer is broken.", at_least=256, at_most=1 << 30
    )
