"""Answers of OAuth with a token, as Google and Entra give them.

Decides how long a token is used. Pure. Above: the chains of Google and Entra. Below: granted.
"""

from typing import Any

import msgspec
from msgspec import Struct

from smg_core.credentials.renewal.granted import Granted, granted_until

__all__ = ["AWAITED_TOKEN_S", "RENEWED_TOKEN_S", "token_of_answer", "token_until"]

RENEWED_TOKEN_S = 300.0
"""Seconds before its end at which a token of OAuth is asked for anew; before that, agents of clouds give the same one again."""
AWAITED_TOKEN_S = 60.0
"""Seconds before its end from which on requests wait for the new one."""
_USUAL_S = 3600.0
"""What a token lasts that does not say so."""


class _Token(Struct):
    access_token: str = ""
    expires_in: float | str = 0
    error: Any = ""


def token_of_answer(status: int, body: bytes, now: float) -> Granted[str]:
    """The token of an answer of OAuth. Raises ValueError with the word of the error."""
    try:
        answer = msgspec.json.decode(body, type=_Token)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = _Token()
    if status != 200 or not answer.access_token:
        word = answer.error if isinstance(answer.error, str) else ""
        raise ValueError(f"no token is given: HTTP status {status}{f', {word[:64]}' if word else ''}")
    try:
        lasts = float(answer.expires_in)
    except ValueError:
        lasts = 0.0
    return token_until(answer.access_token, now, now + (lasts or _USUAL_S))


def token_until(token: str, now: float, ends_at: float) -> Granted[str]:
    """A token of OAuth that ends at `ends_at`."""
    return granted_until(token, now, ends_at, renewed_s=RENEWED_TOKEN_S, awaited_s=AWAITED_TOKEN_S)
