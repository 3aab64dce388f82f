"""A finding of `smg-gateway doctor` about one thing, and the allowed difference of two clocks.

Pure. Above: diagnosing, diagnosing_stores, which look. Below: nothing.
"""

from typing import Literal

import attrs

__all__ = ["Diagnosis", "FindingState", "of_clock"]

FindingState = Literal["ok", "warn", "FAIL"]
SKEW_S, BAD_SKEW_S = 2.0, 30.0
"""Seconds that two clocks may differ before it is said, and before tokens and signatures fail by it."""


@attrs.frozen
class Diagnosis:
    """One thing that was looked at: its area, how it is, what was found, and what to do about it ("" where nothing)."""

    area: str
    state: FindingState
    what: str
    do: str = ""


def of_clock(who: str, ahead: float) -> Diagnosis:
    """What it means that somebody's clock is so many seconds ahead of this machine's."""
    if abs(ahead) <= SKEW_S:
        return Diagnosis("clocks", "ok", f"{who}: within {SKEW_S:g} s of this machine")
    state: FindingState = "FAIL" if abs(ahead) > BAD_SKEW_S else "warn"
    what = f"{who}: {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine"
    return Diagnosis(
        "clocks", state, what, "have both follow NTP (timedatectl set-ntp true): tokens expire by the clock"
    )
