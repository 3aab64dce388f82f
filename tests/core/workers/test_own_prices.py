"""What a worker's own entry says of prices comes before the table, and the dearest counts while it is open who will answer."""

import pytest

from smg_core.events import Usage
from smg_core.limits.prices import PricesRefused, dearest, own_price, read_prices
from smg_core.workers.own_prices import OwnPrices
from smg_core.workers.registry import Registry
from smg_core.workers.worker import WorkerSpec

USED = Usage(1_000_000, 1_000_000)


def registry(**prices: tuple[tuple[str, str], ...]) -> Registry:
    found = Registry()
    for name, price in prices.items():
        found.serve(found.add(WorkerSpec(f"http://{name}:1", name=name, price=price)), ("m",))
    return found


def test_the_worker_that_has_answered_says_what_it_costs() -> None:
    own = OwnPrices(registry(cheap=(("input", "1"), ("output", "2")), dear=(("input", "3"), ("output", "4")), free=()))
    costs = {name: price.cost(USED) for name in ("cheap", "dear") if (price := own.of_worker(name)) is not None}

    assert costs == {"cheap": 3_000_000, "dear": 7_000_000}
    assert own.of_worker("free") is None
    assert own.of_worker("nobody") is None


def test_the_dearest_counts_while_it_is_open_who_will_answer() -> None:
    own = OwnPrices(registry(one=(("input", "1"), ("output", "9")), other=(("input", "3"), ("output", "4"))))
    price = own.of_model("m")

    assert price is not None
    assert price.listed == {"input": "3", "output": "9"}
    assert own.of_model("another") is None


def test_a_price_by_length_counts_as_its_highest() -> None:
    row = read_prices({"models": {"m": {"input": {"0": "1", "1000": "5"}, "output": "2"}}}).find("m")
    assert row is not None
    found = dearest([row])

    assert found is not None
    assert found.listed == {"input": "5", "output": "2"}
    assert dearest([]) is None


@pytest.mark.parametrize("row", [(("inputs", "1"),), (("input", "-1"),), (("input", "dear"),)])
def test_what_is_no_price_is_refused(row: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(PricesRefused):
        own_price(row)
