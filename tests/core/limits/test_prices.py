"""Prices: exact, unknown where they are unknown, the user's own rows first."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smg_core.events import Usage
from smg_core.limits.prices import Prices, PricesRefused, read_prices
from smg_core.limits.prices_file import prices_from

COUNTS = some.integers(0, 10**6)


def table(**rows: object) -> Prices:
    return read_prices({"models": rows})  # type: ignore[dict-item]


def cost(row: object, *, batch: int = False, **usage: int) -> int | None:
    price = table(m=row).find("m")
    assert price is not None
    return price.cost(Usage(**{"prompt_tokens": 0, "completion_tokens": 0, **usage}), batch=bool(batch))


def test_the_shipped_prices_say_of_when_and_from_where_they_are() -> None:
    prices = prices_from(None)

    assert prices.date.startswith("20")
    assert prices.source
    assert len(prices.exact) > 300


@given(COUNTS, COUNTS, some.decimals(0, 1000, places=6), some.decimals(0, 1000, places=6))
def test_a_cost_is_what_decimals_say_rounded_up_once(prompt: int, output: int, read: Decimal, write: Decimal) -> None:
    found = cost({"input": str(read), "output": str(write)}, prompt_tokens=prompt, completion_tokens=output)
    exact = prompt * read + output * write

    assert found is not None
    assert exact <= found < exact + 1


def test_each_kind_of_token_has_its_price_and_else_that_of_its_side() -> None:
    row = {"input": "10", "cached": "1", "written": "12", "output": "20", "audio": "30"}
    used = {"prompt_tokens": 100, "completion_tokens": 50, "reasoning_tokens": 20}

    assert cost(row, **used) == 100 * 10 + 50 * 20
    assert cost(row, **used, cached_tokens=40, cache_write_tokens=10) == 40 * 1 + 10 * 12 + 50 * 10 + 50 * 20
    assert cost(row, **used, audio_tokens=30, image_tokens=5) == 30 * 30 + 70 * 10 + 50 * 20
    assert cost({**row, "reasoning": "25"}, **used) == 100 * 10 + 30 * 20 + 20 * 25


@pytest.mark.parametrize(("prompt", "rate"), [(100, 10), (101, 15), (300, 20)])
def test_a_longer_prompt_has_the_prices_of_its_length_for_all_of_its_tokens(prompt: int, rate: int) -> None:
    row = {"input": {"0": "10", "100": "15", "299": "20"}}

    assert cost(row, prompt_tokens=prompt) == prompt * rate


def test_a_batch_has_its_own_prices_where_there_are_any() -> None:
    row = {"input": "10", "output": "20", "batch": {"input": "5", "output": "10"}}

    assert cost(row, batch=True, prompt_tokens=1, completion_tokens=1) == 15
    assert cost({"input": "10"}, batch=True, prompt_tokens=1) == 10


def test_what_has_no_price_is_unknown_and_not_free() -> None:
    assert table(m={"input": "1"}).find("n") is None
    assert cost({"input": "1"}, prompt_tokens=1, completion_tokens=1) is None
    assert cost({"input": "1"}, prompt_tokens=1) == 1


def test_a_row_is_found_by_its_name_before_the_longest_beginning(tmp_path: Path) -> None:
    own = {"models": {"gpt-4.1": {"input": "7"}, "claude-*": {"input": "8"}, "claude-sonnet-*": {"input": "9"}}}
    (tmp_path / "own.json").write_text(json.dumps(own))
    prices, shipped = prices_from(str(tmp_path / "own.json")), prices_from(None)

    def read(*names: str) -> int | None:
        found = prices.find(*names)
        return None if found is None else found.cost(Usage(1, 0))

    assert [read("GPT-4.1"), read("claude-sonnet-4-6"), read("claude-opus-4")] == [7, 9, 8]
    assert read("my-alias", "gpt-4.1") == 7
    assert prices.find("gpt-4o") == shipped.find("gpt-4o") is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "a table of prices is"),
        ('{"models": {"m": {}}}', "m: a row has a price"),
        ('{"models": {"m": {"inputs": 1}}}', "'inputs' is none of"),
        ('{"models": {"m": {"input": -1}}}', "-1 is no price"),
        ('{"models": {"m": {"input": "NaN"}}}', "'NaN' is no price"),
        ('{"models": {"m": {"input": true}}}', "True is no price"),
        ('{"models": {"m": {"input": {"5": "1"}}}}', "prices by length"),
        ('{"models": {"m": {"input": {"0": "1", "5": "1", "05": "2"}}}}', "two prices for the same length"),
        ('{"models": {"m": {"batch": {"batch": {}}}}}', "'batch' is none of"),
        ('{"currency": "EUR", "models": {}}', "prices are in USD"),
        ("{", "own.json: "),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_the_place(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "own.json").write_text(text)
    with pytest.raises(PricesRefused, match=why):
        prices_from(str(tmp_path / "own.json"))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PricesRefused, match=r"none\.json"):
        prices_from(str(tmp_path / "none.json"))
