"""Reads tables of prices from files (edge): the snapshot that is shipped, and the user's own rows over it."""

import json
from importlib.resources import files
from pathlib import Path

from smg_core.limits.prices import Prices, PricesRefused, read_prices
from smg_core.regular_files import read_regular

__all__ = ["prices_from"]

_MOST_BYTES = 16 << 20


def prices_from(path: str | None) -> Prices:
    """The shipped prices, under the rows of a file of one's own where there is one. Raises PricesRefused."""
    shipped = read_prices(json.loads(files(__package__ or "").joinpath("prices.json").read_bytes()))
    if path is None:
        return shipped
    try:
        own = read_prices(json.loads(read_regular(Path(path), _MOST_BYTES)))
    except (OSError, ValueError) as error:
        raise PricesRefused(f"{path}: {error}") from None
    return own.over(shipped)
