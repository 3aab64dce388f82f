"""Prices of tokens: reads a table, finds a model's row, and says what a usage costs, in whole millionths of the currency.

Pure. A price is a decimal for a million tokens, so that tokens times price are millionths; what a request costs is rounded up
once. A row may have prices for longer prompts, which then count for all tokens of the request. What is not in the table is
unknown, and never 0. Above: the limits of money. Below: nothing; `prices_file` reads the files.
"""

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from itertools import pairwise

import attrs

from smg_core.events import Usage
from smg_core.json_types import Json

__all__ = ["KINDS", "Price", "Prices", "PricesRefused", "dearest", "own_price", "read_prices"]

KINDS = ("input", "cached", "written", "output", "reasoning", "audio", "images", "video")
"""What has a price of its own. Without one, reasoning is output, and the others are input."""

_DEAREST = 10**9

Rates = tuple[tuple[int, Decimal], ...]
"""The prices from so many tokens of prompt on, the least first."""


class PricesRefused(ValueError):
    """A table that cannot be read; the text says why."""


@attrs.frozen
class Price:
    """One row: the rates of each kind that it has, and those of batches where they are others."""

    rates: Mapping[str, Rates]
    batch: "Price | None" = None

    def cost(self, usage: Usage, *, batch: bool = False) -> int | None:
        """What a usage costs; None where it has tokens of a kind that has no price here."""
        row = self.batch if batch and self.batch is not None else self
        media = (("audio", usage.audio_tokens), ("images", usage.image_tokens), ("video", usage.video_tokens))
        parts = [("cached", usage.cached_tokens), ("written", usage.cache_write_tokens)]
        parts += [(kind, count) for kind, count in media if kind in row.rates]
        read: list[tuple[str, int]] = []
        left = usage.prompt_tokens
        for kind, count in parts:  # parts of the prompt may lie within each other: none is counted twice
            read.append((kind, min(count, left)))
            left -= min(count, left)
        reasoning = min(usage.reasoning_tokens, usage.completion_tokens)
        read += [("input", left), ("reasoning", reasoning), ("output", usage.completion_tokens - reasoning)]
        total = Decimal(0)
        for kind, count in read:
            if count:
                rate = row.rate(kind, usage.prompt_tokens - usage.hosted_prompt_tokens)
                if rate is None:
                    return None
                total += rate * count
        return math.ceil(total)

    def rate(self, kind: str, prompt_tokens: int) -> Decimal | None:
        """The price of a million tokens of a kind, where the prompt is so long."""
        instead = {"output": "output", "reasoning": "output"}.get(kind, "input")
        rates = self.rates.get(kind) or self.rates.get(instead)
        if rates is None:
            return None
        return next(rate for start, rate in reversed(rates) if prompt_tokens > start or not start)

    @property
    def listed(self) -> Mapping[str, str]:
        """The rates of short prompts, as decimals, for people who choose a model."""
        return {kind: format(rates[0][1], "f") for kind, rates in self.rates.items()}


@attrs.frozen
class Prices:
    """A table: rows by name, and by how names begin, the longest first. `source` and `date` say whose they are, of when."""

    exact: Mapping[str, Price]
    begins: tuple[tuple[str, Price], ...]
    source: str = ""
    date: str = ""

    def find(self, *names: str) -> Price | None:
        """The row of the first of these names that has one: one of its own before one of how it begins."""
        for name in map(str.lower, names):
            found = self.exact.get(name)
            if found is None:
                found = next((price for begin, price in self.begins if name.startswith(begin)), None)
            if found is not None:
                return found
        return None

    def over(self, other: "Prices") -> "Prices":
        """This table, and where it has no row, that one's. A row here of how names begin comes before one there."""
        left = {name: price for name, price in other.exact.items() if not name.startswith(tuple(dict(self.begins)))}
        return Prices({**left, **self.exact}, (*self.begins, *other.begins), other.source, other.date)


def read_prices(table: Json) -> Prices:
    """The table that a JSON text has. Raises PricesRefused."""
    models = table.get("models") if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(models, dict):
        raise PricesRefused('a table of prices is {"models": {NAME: {"input": PRICE, "output": PRICE}}}')
    if table.get("currency", "USD") != "USD":
        raise PricesRefused("prices are in USD")
    rows = {name.lower(): _price(name, row) for name, row in models.items()}
    begins = sorted((name for name in rows if name.endswith("*")), key=len, reverse=True)
    return Prices(
        {name: row for name, row in rows.items() if not name.endswith("*")},
        tuple((name[:-1], rows[name]) for name in begins),
        str(table.get("source", "")),
        str(table.get("date", "")),
    )


def own_price(row: Iterable[tuple[str, str]]) -> Price:
    """The price that a worker's own entry says. Raises PricesRefused."""
    return _price("price", dict(row))


def dearest(prices: Iterable[Price]) -> Price | None:
    """A price that is at least each of these: for what may go to any of several workers. None where there are none."""
    rows = [each.rates for each in prices]
    kinds = {kind for row in rows for kind in row}
    found = {kind: max(row[kind][-1][1] for row in rows if kind in row) for kind in kinds}
    return Price({kind: ((0, rate),) for kind, rate in found.items()}) if rows else None


def _price(name: str, row: Json, *, batch: bool = False) -> Price:
    if not isinstance(row, dict) or (not row and not batch):
        raise PricesRefused(f"{name}: a row has a price for some of {', '.join(KINDS)}")
    wrong = [each for each in row if each not in KINDS and (batch or each != "batch")]
    if wrong:
        raise PricesRefused(f"{name}: {wrong[0]!r} is none of {', '.join(KINDS)}")
    rates = {kind: _rates(f"{name}, {kind}", each) for kind, each in row.items() if kind != "batch"}
    return Price(rates, _price(name, row["batch"], batch=True) if "batch" in row else None)


def _rates(where: str, value: Json) -> Rates:
    if not isinstance(value, dict):
        return ((0, _decimal(where, value)),)
    if not all(start.isdecimal() and len(start) < 10 for start in value) or "0" not in value:
        raise PricesRefused(f'{where}: prices by length of the prompt are {{"0": PRICE, "200000": PRICE}}')
    found = sorted((int(start), _decimal(where, each)) for start, each in value.items())
    if any(one[0] == other[0] for one, other in pairwise(found)):
        raise PricesRefused(f"{where}: two prices for the same length of the prompt")
    return tuple(found)


def _decimal(where: str, value: Json) -> Decimal:
    """A price, as text or a number."""
    try:
        found = (
            Decimal("NaN")
            if isinstance(value, bool) or not isinstance(value, str | int | float)
            else Decimal(str(value))
        )
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite() or not 0 <= found <= _DEAREST:
        raise PricesRefused(f"{where}: {value!r} is no price from 0 to {_DEAREST:,}")
    return found
