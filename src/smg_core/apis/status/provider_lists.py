"""Outside providers' lists of models, asked for with the list of models here, and cached (edge).

Each account is asked once in an hour, and after a minute where it has failed, at most a few at once; one that fails, or is late,
hides nothing of the others. Whoever asks for the list before the first answer waits for it, a second at most; later nobody waits.
Loaded where there is such a worker. Above: routes. Below: the engines of providers.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

import attrs
import msgspec

from smg_core.clock import Clock
from smg_core.engines.vendors.listing import ProviderModel
from smg_core.errors import SmgError
from smg_core.workers.worker import Worker, WorkerSpec

__all__ = ["ProviderLists", "joined_entries"]

_log = logging.getLogger("smg.models")
_KEPT_S, _FAILED_S = 3600.0, 60.0
"""How long a list is kept, and after how long one that could not be had is asked for again."""
_FIRST_S = 1.0
"""How long whoever asks first waits for lists that nobody has seen yet."""
_AT_ONCE = 8


@runtime_checkable
class Lists(Protocol):
    """An engine whose provider lists its models. `vendor_model` is its name of the engine's own."""

    vendor_model: str

    async def listed(self) -> Mapping[str, ProviderModel]:
        """All that it lists, by its names. Raises what kept it from answering."""
        ...


@attrs.define(eq=False)
class _Kept:
    """What is known of one account's list. `first` is set once it was asked, whatever came of it."""

    models: Mapping[str, ProviderModel] = attrs.field(factory=dict)
    until: float = 0.0
    asked: bool = False
    first: asyncio.Event = attrs.field(factory=asyncio.Event)


class ProviderLists:
    """The lists of all accounts that workers are of; those of workers that are gone are forgotten."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[tuple[object, ...], _Kept] = {}
        self._wanted: dict[tuple[object, ...], Worker] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._kept)

    async def run(self) -> None:
        """Ask for what is wanted, until it is cancelled."""
        places = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as asking:
            while True:
                await self._wake.wait()
                self._wake.clear()
                wanted, self._wanted = self._wanted, {}
                for account, worker in wanted.items():
                    asking.create_task(self._ask(account, worker, places))

    async def look(self, workers: Iterable[Worker]) -> None:
        """Have the lists asked for that these workers' accounts have and that are old, and wait for those never seen."""
        now, present = self._clock.monotonic(), {_account(each.spec): each for each in workers if _listing(each)}
        self._kept = {account: self._kept.get(account) or _Kept() for account in present}
        for account, kept in self._kept.items():
            if not kept.asked and kept.until <= now:
                kept.asked = True
                self._wanted[account] = present[account]
        if self._wanted:
            self._wake.set()
        new = [asyncio.ensure_future(each.first.wait()) for each in self._kept.values() if not each.first.is_set()]
        if new:
            _, late = await asyncio.wait(new, timeout=_FIRST_S)
            for each in late:
                each.cancel()

    def of(self, workers: Iterable[Worker]) -> list[ProviderModel]:
        """What is known of the models of these workers from the lists."""
        found: list[ProviderModel] = []
        for worker in workers:
            engine = _listing(worker)
            kept = None if engine is None else self._kept.get(_account(worker.spec))
            model = None if kept is None or engine is None else kept.models.get(engine.vendor_model)
            if model is not None:
                found.append(model)
        return found

    async def _ask(self, account: tuple[object, ...], worker: Worker, places: asyncio.Semaphore) -> None:
        kept, engine, lasts = self._kept.get(account), _listing(worker), _FAILED_S
        if kept is None:
            return
        try:
            async with places:
                if engine is not None:
                    kept.models, lasts = await engine.listed(), _KEPT_S
        except SmgError as error:
            _log.warning("the list of models at the provider of %s could not be had: %s", worker.name, error.cause)
        finally:
            kept.until, kept.asked = self._clock.monotonic() + lasts, False
            kept.first.set()


def _listing(worker: Worker) -> Lists | None:
    """The engine of a worker whose provider lists its models."""
    engine = worker.reached
    return engine if getattr(engine, "lists", False) and isinstance(engine, Lists) else None


def _account(spec: WorkerSpec) -> tuple[object, ...]:
    """What workers have alike whose provider lists the same for them."""
    credential = None if spec.credential is None else msgspec.json.encode(spec.credential)
    return spec.dialect, spec.url, spec.region, spec.headers, credential


def joined_entries(models: Iterable[ProviderModel]) -> ProviderModel:
    """What can be said of a model that several providers list: what each of them takes, and the most that it costs."""
    found = list(models)
    contexts = [each.context for each in found if each.context]
    outputs = [each.output for each in found if each.output]
    takes = [each.takes for each in found if each.takes is not None]
    gives = [each.gives for each in found if each.gives is not None]
    prices = [dict(each.prices) for each in found if each.prices]
    return ProviderModel(
        min(contexts, default=0),
        min(outputs, default=0),
        frozenset[str].intersection(*takes) if takes else None,
        frozenset[str].intersection(*gives) if gives else None,
        tuple(sorted({kind for each in found for kind in each.kinds})),
        tuple(max(prices, key=_dear).items()) if prices else (),
    )


def _dear(prices: Mapping[str, str]) -> tuple[float, float]:
    return float(prices.get("output", 0)), float(prices.get("input", 0))
