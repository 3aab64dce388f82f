"""Says in words and headers how full limits are: OpenAI's and Anthropic's headers, the IETF's, and the text of a refusal.

Pure. Only the figures of rules that count one tenant are told: those of others would tell of other tenants. Above:
`serving.limiting`. Below: rules, counters.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

from smg_core.limits.counters import NEVER, Fullness
from smg_core.limits.rules import MICRO, LimitRule

__all__ = ["HeaderFamily", "limit_headers", "refusal_text"]

_Header = tuple[bytes, bytes]
HeaderFamily = Literal["openai", "anthropic"]
_RuleStates = Iterable[tuple[LimitRule, Fullness]]

_TOKENS = ("tokens", "input_tokens", "output_tokens")
_NOUNS = {"requests": "requests", "tokens": "tokens", "input_tokens": "input tokens", "output_tokens": "output tokens"}
_ROUNDED = 1000
_FIGURES = (b"limit", b"remaining", b"reset")
_BOTH = (("requests", ("requests",)), ("tokens", _TOKENS))
_BY_DIRECTION = (("input-tokens", ("input_tokens",)), ("output-tokens", ("output_tokens",)))
_DIMENSIONS: dict[HeaderFamily, tuple[tuple[str, tuple[str, ...], tuple[bytes, ...]], ...]] = {
    # what a family tells of, in which units that is, and the names of its figures
    "openai": tuple(
        (name, units, tuple(b"x-ratelimit-%b-%b" % (each, name.encode()) for each in _FIGURES)) for name, units in _BOTH
    ),
    "anthropic": tuple(
        (name, units, tuple(b"anthropic-ratelimit-%b-%b" % (name.encode(), each) for each in _FIGURES))
        for name, units in _BOTH + _BY_DIRECTION
    ),
}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "month": 2592000}


def limit_headers(family: HeaderFamily, states: _RuleStates, wall_s: float, *, standard: bool = False) -> list[_Header]:
    """The headers of an answer: of each dimension the rule with the smallest share left."""
    reported = [each for each in states if each[0].private and each[0].window and each[0].unit != "money"]
    dimensions = _DIMENSIONS[family]
    binding: dict[str, tuple[float, Fullness]] = {}
    for rule, full in reported:
        share = full.remaining / full.limit
        for name, units, _ in dimensions:
            if rule.unit in units and (name not in binding or share < binding[name][0]):
                binding[name] = (share, full)
    headers: list[_Header] = []
    for name, _, (limit, remaining, reset) in dimensions:
        if name in binding:
            full = binding[name][1]
            left = full.remaining
            if family == "anthropic" and name != "requests" and left >= _ROUNDED:
                left = round(left / _ROUNDED) * _ROUNDED
            headers += ((limit, b"%d" % full.limit), (remaining, b"%d" % left))
            if full.full_us is not None:  # what never comes back has no such time
                text = _duration(full.full_us) if family == "openai" else _stamp(wall_s, full.full_us)
                headers.append((reset, text.encode()))
    return headers + (_standard(reported) if standard else [])


def _duration(us: int) -> str:
    """A time as Go writes it: 12ms, 1s, 6m0s, 1h30m0s; rounded up."""
    ms = -(-us // 1000)
    if ms < 1000:
        return f"{ms}ms"
    seconds = -(-ms // 1000)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    text = f"{seconds % 60}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def _stamp(wall_s: float, us: int) -> str:
    """A time of the calendar, so many microseconds from now, rounded up."""
    moment = datetime.fromtimestamp(-(-int(wall_s * MICRO + us) // MICRO), UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _standard(reported: list[tuple[LimitRule, Fullness]]) -> list[_Header]:
    """The fields of the IETF's draft."""
    policies: list[str] = []
    states: list[str] = []
    for rule, full in reported:
        if rule.window in _SECONDS:
            name = f'"{rule.unit}-{rule.window}"'
            policies.append(f"{name};q={full.limit};w={_SECONDS[rule.window]}")
            states.append(f"{name};r={full.remaining};t={-(-(full.full_us or 0) // MICRO)}")
    if not policies:
        return []
    return [(b"ratelimit-policy", ", ".join(policies).encode()), (b"ratelimit", ", ".join(states).encode())]


def refusal_text(rule: LimitRule, wait_us: int, *, too_large: bool) -> str:
    """What a client is told that a rule refuses."""
    if not rule.private:
        return "The gateway is at a limit of its own; try again later."
    what = f"{rule.amount:,} requests at once" if rule.unit == "at_once" else f"{_NOUNS.get(rule.unit, '')}"
    whose = _whose(rule)
    if rule.unit == "money":
        return f"The budget{_every(rule)} for {whose} is spent."
    if rule.unit == "at_once":
        return f"The limit of {what} for {whose} is reached."
    limit = f"The limit of {rule.amount:,} {what}{_every(rule)} for {whose}"
    if too_large:
        return f"The request is larger than its limit ever allows: {limit[0].lower()}{limit[1:]}."
    again = "" if wait_us == NEVER else f" Please try again in {_duration(wait_us)}."
    return f"{limit} is reached.{again}"


def _every(rule: LimitRule) -> str:
    return "" if rule.window == "ever" else f" a {rule.window}"


def _whose(rule: LimitRule) -> str:
    """Whom a rule counts together, in the words of the one who is refused."""
    if "user" in rule.per or rule.user:
        whose = "this user"
    elif "key" in rule.per or rule.key:
        whose = "this key"
    elif "team" in rule.per or rule.team:
        whose = "this team"
    else:
        whose = "this organization"
    return f"{whose} and this model" if "model" in rule.per or rule.model else whose
