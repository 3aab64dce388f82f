"""A rule: how much of what in which time, whom it is for, and whom it counts together.

Pure. A rule is one line: an amount, what it counts, in which time, then for whom.

    600 requests/minute per=key
    100_000 tokens/minute per=tenant,model burst=200_000
    20 USD/month tenant=acme
    8 at-once per=key model=llama-*

Above: the decision, the settings. Below: nothing.
"""

import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Literal, cast, get_args

import attrs
from msgspec import Struct

__all__ = ["AXES", "MICRO", "Asker", "LimitRule", "RuleRefused", "Unit", "Window", "read_rule", "read_rules"]

Unit = Literal["requests", "tokens", "input_tokens", "output_tokens", "at_once", "money"]
"""What a rule counts. Reasoning is output; what an engine had in its cache is input, by a weight of the settings."""

Window = Literal["second", "minute", "hour", "day", "week", "month", "ever", ""]
"""The time in which it counts: a rate for the first three, else a window of the calendar, of which "ever" does not end."""

AXES = ("tenant", "key", "user", "model", "team")
MICRO = 1_000_000
"""Money is counted in millionths of the currency."""

_RATES = {"second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000}
_UNITS: dict[str, Unit] = {
    "requests": "requests",
    "tokens": "tokens",
    "input-tokens": "input_tokens",
    "output-tokens": "output_tokens",
    "at-once": "at_once",
    "USD": "money",
}
_MOST = 10**12
_LINE = re.compile(
    r"(?P<amount>[0-9][0-9_]*(?:\.[0-9]+)?) (?P<unit>[A-Za-z-]+)(?:/(?P<window>[a-z]+))?(?P<more>(?: .*)?)"
)


class RuleRefused(ValueError):
    """A line that is no rule; the text says why."""


class Asker(Struct, frozen=True):
    """Who asks for which model. `key` is the principal within the tenant, `user` the user that a key names; `model` is the served
    model's own name, `asked` the name that the client gave. `team` is the team of the key, with those that it is within:
    "search/ranking"."""

    tenant: str = ""
    key: str = ""
    user: str = ""
    model: str = ""
    asked: str = ""
    team: str = ""


@attrs.frozen
class LimitRule:
    """At most `amount` of `unit` in each `window`, of which `burst` may come at once where that is a rate. `per` are the axes
    along which it counts apart: "key" is a key of one tenant, "user" a user of one key, "team" a team of one tenant. The next
    fields say whom it is for, "" for everybody; a model may end with an asterisk, and a team is for those within it too.

    The rest follows: `width_us` are the microseconds in which a rate gives `amount` (0: it is none), `calendar` says whether it
    counts in windows of the calendar, `capacity` is the most that can be taken at once, `private` says that one tenant alone is
    counted, so that its figures may be told to it, and `identity` is equal for rules of which one is the other with another
    amount: those count in the same place."""

    amount: int
    unit: Unit
    window: Window = ""
    burst: int = 0
    per: tuple[str, ...] = ()
    tenant: str = ""
    key: str = ""
    user: str = ""
    model: str = ""
    team: str = ""

    width_us: int = attrs.field(init=False, eq=False, repr=False)
    calendar: bool = attrs.field(init=False, eq=False, repr=False)
    capacity: int = attrs.field(init=False, eq=False, repr=False)
    private: bool = attrs.field(init=False, eq=False, repr=False)
    identity: tuple[str, ...] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Work out once what every request asks."""
        width = _RATES.get(self.window, 0)
        named = (self.tenant, self.key, self.user, self.model, self.team)
        for name, value in (
            ("width_us", width),
            ("calendar", bool(self.window) and not width),
            ("capacity", self.burst if width else self.amount),
            ("private", bool(self.tenant) or any(axis != "model" for axis in self.per)),
            ("identity", (self.unit, self.window, ",".join(self.per), *named)),
        ):
            object.__setattr__(self, name, value)

    @property
    def text(self) -> str:
        """The line that says this rule."""
        amount = f"{Decimal(self.amount) / MICRO:f}" if self.unit == "money" else str(self.amount)
        unit = next(name for name, unit in _UNITS.items() if unit == self.unit)
        words = [f"{amount} {unit}" + (f"/{self.window}" if self.window else "")]
        if self.per:
            words.append(f"per={','.join(self.per)}")
        words += [f"{name}={getattr(self, name)}" for name in AXES if getattr(self, name)]
        if self.width_us and self.burst != self.amount:
            words.append(f"burst={self.burst}")
        return " ".join(words)

    def scope(self, asker: Asker) -> str | None:
        """Whom it counts this request with, as one text, or None where it is not for it."""
        found = self._counted_with(asker)
        return None if found is None else repr(found)

    def _counted_with(self, asker: Asker) -> tuple[str, ...] | None:
        if self.tenant and (
            self.tenant != asker.tenant
            or (self.key and self.key != asker.key)
            or (self.user and self.user != asker.user)
            or (self.team and self.team != asker.team and not asker.team.startswith(self.team + "/"))
        ):
            return None
        if self.model and not (_fits(self.model, asker.model) or _fits(self.model, asker.asked)):
            return None
        per = self.per
        if not per:
            return self.identity
        if "team" in per and not asker.team:
            return None
        if "user" in per:
            found: tuple[str, ...] = (asker.tenant, asker.key, asker.user)
        elif "key" in per:
            found = (asker.tenant, asker.key)
        else:
            found = (asker.tenant,) if "tenant" in per or "team" in per else ()
        if "team" in per:
            found = (*found, asker.team)
        return (*self.identity, *found, asker.model) if "model" in per else (*self.identity, *found)


def _fits(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def read_rules(lines: Iterable[str]) -> tuple[LimitRule, ...]:
    """The rules of these lines; one that stands there twice counts once. Raises RuleRefused, also for two that differ in their
    amount alone."""
    found: dict[tuple[str, ...], LimitRule] = {}
    for line in lines:
        rule = read_rule(line)
        if found.setdefault(rule.identity, rule) != rule:
            raise RuleRefused(f"{line!r} counts what {found[rule.identity].text!r} counts; leave one of them")
    return tuple(found.values())


def read_rule(line: str) -> LimitRule:
    """The rule of a line. Raises RuleRefused."""
    parts = _LINE.fullmatch(" ".join(line.split()))
    if parts is None:
        raise RuleRefused(f"{line!r} is no rule, such as '600 requests/minute per=key'")
    unit, window = _UNITS.get(parts["unit"]), parts["window"] or ""
    if unit is None:
        raise RuleRefused(f"{line!r} counts {parts['unit']!r}, which is none of {', '.join(_UNITS)}")
    if window not in get_args(Window) or (not window) != (unit == "at_once"):
        raise RuleRefused(f"{line!r} must name its time after a slash, but for at-once: {', '.join(_windows(unit))}")
    if window not in _windows(unit) and unit != "at_once":
        raise RuleRefused(f"{line!r}: money is counted in {', '.join(_windows(unit))}")
    amount, width = _amount(line, parts["amount"], unit), _RATES.get(window, 0)
    fields = _fields(line, parts["more"].split())
    burst = _amount(line, fields.pop("burst"), unit) if "burst" in fields else amount if width else 0
    if burst and not width:
        raise RuleRefused(f"{line!r}: only a rate has a burst")
    named = fields.pop("per", "").split(",")
    per = tuple(each for each in AXES if each in named)
    return LimitRule(amount, unit, cast("Window", window), burst, per, **fields)


def _windows(unit: Unit | None) -> tuple[str, ...]:
    every = [each for each in get_args(Window) if each]
    return tuple(each for each in every if unit != "money" or each not in _RATES)


def _amount(line: str, text: str, unit: Unit) -> int:
    """The amount, which is a whole number but for money."""
    try:
        number = Decimal(text.replace("_", "")) * (MICRO if unit == "money" else 1)
    except InvalidOperation:
        raise RuleRefused(f"{line!r}: {text!r} is no number") from None
    if number != int(number) or not 1 <= number <= _MOST:
        what = "money in millionths" if unit == "money" else "a whole number"
        raise RuleRefused(f"{line!r}: {text!r} is not {what} from 1 to {_MOST:,}")
    return int(number)


def _fields(line: str, words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value or name not in ("per", "burst", *AXES):
            raise RuleRefused(f"{line!r}: {word!r} is not one of per=, burst=, tenant=, team=, key=, user=, model=")
        if name in found:
            raise RuleRefused(f"{line!r} says {name} twice")
        found[name] = value
    wrong = [each for each in found.get("per", AXES[0]).split(",") if each not in AXES]
    if wrong:
        raise RuleRefused(f"{line!r} counts per {wrong[0]!r}, which is none of {', '.join(AXES)}")
    if found.get("team") and not found.get("tenant"):
        raise RuleRefused(f"{line!r}: a team is one of a tenant; name that too")
    if (found.get("key") and not found.get("tenant")) or (found.get("user") and not found.get("key")):
        raise RuleRefused(f"{line!r}: a key is one of a tenant, and a user one of a key; name that too")
    return found
