"""The rest of the limits of requests and tokens, for `rate_limits.updated`. Pure. Above: the sessions."""

import re
from collections.abc import Iterable

from smg_core.json_types import JsonObject

__all__ = ["limits_left"]

_DURATION = re.compile(r"([0-9.]+)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def limits_left(headers: Iterable[tuple[bytes, bytes]]) -> list[JsonObject]:
    """The limits that the headers of an answer tell; none where they say nothing of that."""
    found = {name.decode(): value.decode() for name, value in headers if name.startswith(b"x-ratelimit-")}
    return [
        {
            "name": name,
            "limit": int(found[f"x-ratelimit-limit-{name}"]),
            "remaining": int(found[f"x-ratelimit-remaining-{name}"]),
            "reset_seconds": _seconds(found.get(f"x-ratelimit-reset-{name}", "")),
        }
        for name in ("requests", "tokens")
        if f"x-ratelimit-limit-{name}" in found
    ]


def _seconds(text: str) -> float:
    """A duration as limits tell it ("1m30s"), in seconds."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text))
