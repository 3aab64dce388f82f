"""The token prices of workers' own entries, before the table of prices.

Above: limiting, accounting. Below: the workers, prices.
"""

from functools import lru_cache

from smg_core.limits.prices import Price, dearest, own_price
from smg_core.workers.registry import Registry

__all__ = ["OwnPrices"]

_read = lru_cache(maxsize=256)(own_price)


class OwnPrices:
    """The prices of the workers in `registry`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def of_worker(self, name: str) -> Price | None:
        """What the worker of that name costs, None where its entry does not say so."""
        worker = self._registry.get(name)
        return None if worker is None or not worker.spec.price else _read(worker.spec.price)

    def of_model(self, *names: str) -> Price | None:
        """The most that a worker of the first of these models costs whose entries say it."""
        for name in names:
            rows = [_read(each.spec.price) for each in self._registry.of(name) if each.spec.price]
            if rows:
                return dearest(rows)
        return None
