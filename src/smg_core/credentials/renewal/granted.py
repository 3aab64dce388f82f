"""A credential that was granted, and the times at which it is renewed, awaited and over.

Decides these times from the time at which it ends. Pure. Above: renewed, and all sources of credentials.
"""

import math
from datetime import UTC, datetime
from typing import Generic, TypeVar

import attrs

__all__ = ["AWAITED_S", "RENEWED_S", "Granted", "ending_of", "granted_until", "sendable_key"]

T = TypeVar("T")

RENEWED_S = 900.0
"""Seconds before its end at which a token is asked for anew, while requests go on with the one that is there."""
AWAITED_S = 600.0
"""Seconds before its end from which on requests wait for the new one."""


@attrs.frozen
class Granted(Generic[T]):
    """A `value`, which is a secret. All times are seconds since the Unix epoch: from `renew_at` on it is asked for anew, from
    `wait_at` on requests wait for that, and after `ends_at` it is worth nothing."""

    value: T = attrs.field(repr=False)
    renew_at: float = math.inf
    wait_at: float = math.inf
    ends_at: float = math.inf


def granted_until(
    value: T, now: float, ends_at: float, *, renewed_s: float = RENEWED_S, awaited_s: float = AWAITED_S
) -> Granted[T]:
    """A token that ends at `ends_at`. One that lasts for less than four times `renewed_s` is renewed in its last quarter, and
    awaited in its last sixth: it would be asked for without end otherwise."""
    lasts = max(0.0, ends_at - now)
    return Granted(value, ends_at - min(renewed_s, lasts / 4), ends_at - min(awaited_s, lasts / 6), ends_at)


def sendable_key(text: str) -> str:
    """A key without the white space around it. Raises ValueError, without the key, for what no header can carry."""
    key = text.strip()
    if not key:
        raise ValueError("it is empty")
    if not all("!" <= each <= "~" or each == " " for each in key):
        raise ValueError("it has characters that no header can carry")
    return key


def ending_of(text: str) -> float:
    """The seconds since the Unix epoch of a time in ISO 8601. Raises ValueError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("the time at which the credential ends is none") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
