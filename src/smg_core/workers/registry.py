"""All workers, found by model.

An encode worker answers no request by itself, so it serves no model to clients: only `encoders` and `candidates` know of it.

Decides which workers may take a request for a model. When there is none, it decides between "no worker serves that model"
(404) and "the workers that serve it are not ready" (503). A worker that has not joined may turn out to serve any model that the
operator's settings do not rule out; beside workers that are ready that is believed of it for a while only. A lookup happens per
request and is a dictionary read; the index is rebuilt when a worker's state or models change, which is rare.
Above: the pipeline and the monitor. Below: worker.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from smg_core.engines.base import EngineFacts
from smg_core.errors import ModelNotFound, NoWorker
from smg_core.workers.breaker import Breakers
from smg_core.workers.candidate import CandidateRecord
from smg_core.workers.handovers import Handovers
from smg_core.workers.pools import PoolHistory
from smg_core.workers.records import PoolRecords
from smg_core.workers.room import EntriesFull, room, with_room
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_core.workers.slow_start import SlowStart
from smg_core.workers.worker import Board, LocalBoard, ProbeCall, Signal, Worker, WorkerRole, WorkerSpec, records_of

if TYPE_CHECKING:
    from smg_core.workers.rates import WorkerRates

__all__ = ["Registry"]

ExpectedNames = Callable[[WorkerSpec], frozenset[str]]
"""The names by which clients may ask for the model of a worker, as far as the operator has set them; empty: its engine says."""
NAMED = 5  # workers that an error or a line in the log names


class Registry:
    """Workers in the order in which they were added, at most `settings.most`. `retry_after` (seconds) goes into a NoWorker error.
    `breakers` say which of the ready ones are left alone for a while, `handovers` which of them may be to blame for a cache that
    was not handed over, `slow_start` which get less than their share; `draw` is its source of chance. `monotonic` is the time in
    seconds, and `expected` says what a worker that has not joined may serve. `offered` are the names of adapters that workers
    would load, each with the name of its model. `pools` knows how busy those of each model and role are. `make_rates` makes what
    counts the rates of entries, once there is such an entry."""

    def __init__(
        self,
        board: Board | None = None,
        *,
        settings: WorkersConfig | None = None,
        retry_after: float = 1.0,
        breaker: BreakerConfig | None = None,
        draw: Callable[[], float] = float,  # 0.0 again and again: who starts slowly is left out of nothing
        monotonic: Callable[[], float] = float,  # without a clock no time passes
        expected: ExpectedNames = lambda spec: frozenset([spec.model] if spec.model else ()),
    ) -> None:
        self._settings = settings or WorkersConfig()
        self.slow_start = SlowStart(self._settings, draw)
        self._board = board or LocalBoard()
        self.breakers = Breakers(breaker or BreakerConfig(), self._board.breakers)
        self.handovers = Handovers(_lasting(breaker or BreakerConfig()))
        self._records = PoolRecords(self._board)
        self._workers: dict[str, Worker] = {}
        self._ready: dict[tuple[str, WorkerRole], tuple[Worker, ...]] = {}
        self._kinds: dict[tuple[str, WorkerRole], frozenset[EngineFacts]] = {}
        self._known: frozenset[str] = frozenset()
        self._split: frozenset[str] = frozenset()
        self.any_split = False  # whether some worker, ready or not, is for one part of a turn only
        self.any_bounded = False  # whether some worker has a bound of its own on what it takes
        self.any_rated = False  # whether the entry of some worker allows so much a minute
        self.make_rates: Callable[[], WorkerRates] | None = None
        self._kept_rates: WorkerRates | None = None
        self.any_asleep = False  # whether some worker's engine sleeps
        self.any_chat = False  # whether some worker, ready or not, takes requests instead of token ids
        self._kinds_of: dict[str, frozenset[EngineFacts]] = {}
        self._encoders: dict[str, tuple[Worker, ...]] = {}
        self._retry_after = retry_after
        self.offered: Mapping[str, str] = {}
        self.pools = PoolHistory(self._board.process[1])
        self._monotonic, self._expected = monotonic, expected

    @property
    def process(self) -> int:
        """The number of this process among those that share the board."""
        return self._board.process[0]

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def __len__(self) -> int:
        return len(self._workers)

    def get(self, name: str) -> Worker | None:
        """The worker of that name."""
        return self._workers.get(name)

    def adopt(self, settings: WorkersConfig, breaker: BreakerConfig, retry_after: float) -> None:
        """Go by these settings from now on."""
        self._settings = self.slow_start.settings = settings
        self.breakers.adopt(breaker)
        self.handovers.lasts = _lasting(breaker)
        self._retry_after = retry_after

    def check_new(self, spec: WorkerSpec) -> None:
        """Raise ValueError for a worker that cannot be added: its name is taken, or the registry is full."""
        if spec.label in self._workers:
            raise ValueError(f"there is a worker {spec.label!r} already")
        self.check_room(1)

    def check_room(self, count: int) -> None:
        """Raise ValueError if so many more workers cannot be added."""
        if len(self._workers) + count > self._settings.most:
            raise ValueError(f"the registry holds at most {self._settings.most} workers (workers.most)")

    def add(self, spec: WorkerSpec, source: str = "program") -> Worker:
        """A new worker in state "joining". Raises ValueError when the name is taken or the registry or the board is full."""
        self.check_new(spec)
        row = self._board.claim(spec.label)
        worker = Worker(spec=spec, row=row, board=self._board, source=source, since=self._monotonic())
        self._workers[spec.label] = worker
        return worker

    def signal(
        self, worker: Worker, signal: Signal, reason: str = "", now: float | None = None, *, alone: bool = False
    ) -> bool:
        """Send a signal to a worker's state machine and update the index. True when the worker's state changed. `now` is the time
        in monotonic seconds, from which a worker that becomes ready begins slowly; without it, it does not. `alone`: nothing is
        so for the other processes, since it is this process that leaves and not the worker."""
        changed = worker.apply(signal, reason)
        if changed and worker.state != "ready":  # what failed before counts no more when it is back
            self.breakers.forget(worker.name, alone=alone)
            self.handovers.forget(worker.name)
            self.slow_start.forget(worker.name)
        elif changed and now is not None:
            self.slow_start.ready(worker.name, now)
        if worker.state == "gone" and self._workers.pop(worker.name, None) is not None:
            self._board.release(worker.row)
        if changed:
            self._index()
        return changed

    def sleep(self, workers: Sequence[Worker], *, asleep: bool) -> None:
        """Let workers be no candidates while their engine sleeps, or be some again."""
        for worker in workers:
            worker.asleep = asleep
        self._index()

    def change(self, worker: Worker, spec: WorkerSpec) -> None:
        """Let a worker be what `spec` says, under the same name. Another engine has all its time to join."""
        if spec.url != worker.spec.url:
            worker.since = self._monotonic()
        worker.become(spec)
        self._index()

    def admitted(self, workers: tuple[Worker, ...], now: float) -> tuple[Worker, ...]:
        """Those of `workers`, which have room, that may be chosen for a request at the time `now`, in monotonic seconds."""
        found = self.breakers.admitted(workers, now)
        return self.slow_start.admitted(found, now) if self.slow_start.since else found

    def spared(self, workers: tuple[Worker, ...], now: float) -> tuple[Worker, ...]:
        """As `admitted`, for a request that could be left: none that is to be left alone for a while, and one that has just begun
        no more often than its share. Raises NoWorker where nobody is left."""
        found = self.breakers.admitted(workers, now, at_least_one=False)
        found = self.slow_start.admitted(found, now, alone=True)
        if not found:
            raise self._unspared()
        return found

    def check_spared(self, workers: tuple[Worker, ...], now: float) -> None:
        """Raise NoWorker where all of `workers` are to be left alone for a while. None is chosen."""
        if not self.breakers.admitted(workers, now, at_least_one=False):
            raise self._unspared()

    @property
    def retry_after(self) -> float:
        """Seconds after which a request that found no worker may come again."""
        return self._retry_after

    def _unspared(self) -> NoWorker:
        return NoWorker("No worker for the model can be spared.", retry_after=self._retry_after)

    def probe(self, worker: Worker, rank: int | None = None) -> ProbeCall | None:
        """Called when `worker`, or this rank of its engine, was chosen. The probe that the call is, if it is one."""
        if not self.breakers.chosen(worker.name, rank):
            return None

        def give_back() -> None:
            if worker.state == "ready":
                self.breakers.given_up(worker.name, rank)

        return ProbeCall(give_back)

    def lost_with(self, worker: Worker, began: float, now: float) -> bool:
        """Whether a call that began at `began` and has lost its worker at `now` was lost with all the calls that the worker had.
        Two losses of a worker that stays ready are an interval of health checks apart."""
        return worker.lost_with(began, now, self._settings.health_interval_s)

    @property
    def rates(self) -> "WorkerRates | None":
        """What counts the rates of entries; None where no entry has one."""
        if self.any_rated and self._kept_rates is None and self.make_rates is not None:
            self._kept_rates = self.make_rates()
        return self._kept_rates if self.any_rated else None

    def room(self, workers: tuple[Worker, ...], tokens: int = 1) -> tuple[float, float]:
        """How many more requests `workers` take together, and how many more tokens of prompts; `tokens` as of `with_room`."""
        if (rates := self.rates) is not None:
            workers, _ = rates.open_to(workers, tokens)
        return room(workers, self._settings)

    def with_room(self, workers: tuple[Worker, ...], tokens: int = 1, *, begun: bool = False) -> tuple[Worker, ...]:
        """Those of `workers` that have room for one more request, which may take so many tokens with its answer. Raises
        Overloaded where none has, and RateLimited where their entries allow no more for now; not where the request has `begun`
        and this is another call of it: half of it would be paid for nothing."""
        settings = self._settings
        if not settings.most_in_flight and not settings.most_waiting_tokens and not self.any_bounded:
            return workers
        wait = 0.0
        if (rates := self.rates) is not None and workers:
            found, wait = rates.open_to(workers, tokens)
            if not found and not begun:
                raise EntriesFull(
                    "This model gets as many requests or tokens a minute as it may.", retry_after=wait, soon=False
                )
            workers = found or workers
        return with_room(workers, settings, self._retry_after)

    def serve(self, worker: Worker, models: tuple[str, ...]) -> None:
        """Set the model names that `worker` serves."""
        worker.models = models
        self._index()

    def hold(self, worker: Worker, adapters: Mapping[str, str], names: tuple[str, ...]) -> None:
        """Set the adapters that `worker` holds, and the names by which clients ask for them."""
        worker.adapters, worker.adapter_names = adapters, names
        self._index()

    def _index(self) -> None:
        """Bring the index up to date. All workers are looked at, once: there may be a thousand, and one changes often."""
        bounded = rated = False
        ready: dict[tuple[str, WorkerRole], list[Worker]] = {}
        # Facts that are equal are mostly one object, and to hash them costs more than all else here.
        facts_of: dict[tuple[str, WorkerRole], dict[int, EngineFacts]] = {}
        encoders: dict[str, list[Worker]] = {}
        known, split, serving = set[str](), set[str](), dict[int, EngineFacts]()
        for worker in self._workers.values():
            worker.see_facts()
            role, serves, facts = worker.role, worker.serves, worker.facts
            rated = rated or worker.spec.rated
            bounded = bounded or bool(worker.spec.most_in_flight or worker.spec.most_waiting_tokens)
            if role == "encode":
                for model in worker.models:
                    encoders.setdefault(model, []).append(worker)
            else:
                known.update(serves)
                serving[id(facts)] = facts
            if role not in ("encode", "regular"):
                split.update(serves)
            for model in serves if worker.state == "ready" else ():
                ready.setdefault((model, role), []).append(worker)
                facts_of.setdefault((model, role), {})[id(facts)] = facts
        self._records.clear()
        self.any_bounded, self.any_rated = bounded or rated, rated
        self.any_asleep = any(worker.asleep for worker in self._workers.values())
        self._ready = {key: tuple([each for each in found if not each.asleep]) for key, found in ready.items()}
        self._kinds = {key: frozenset(found.values()) for key, found in facts_of.items()}
        self._known, self._split, self.any_split = frozenset(known), frozenset(split), bool(split)
        self._encoders = {model: tuple(workers) for model, workers in encoders.items() if model in known}
        self.any_chat = any(not each.takes_ids for each in serving.values())
        self._kinds_of = {}
        for (model, role), found in self._kinds.items():
            if role != "encode":
                before = self._kinds_of.get(model)
                self._kinds_of[model] = found if before is None else before | found

    @property
    def models(self) -> tuple[str, ...]:
        """Names of all models that some worker serves, ready or not, sorted."""
        return tuple(sorted(self._known))

    def of(self, model: str) -> tuple[Worker, ...]:
        """All workers that serve `model`, or hold the adapter of that name, in any state."""
        return tuple(each for each in self._workers.values() if each.answers_to(model) and each.role != "encode")

    def encoders(self, model: str) -> tuple[Worker, ...]:
        """All encode workers for `model`, in any state."""
        return self._encoders.get(model, ())

    @property
    def any_ready(self) -> bool:
        """Whether a worker is ready that serves a model."""
        return bool(self._kinds_of)

    def missing(self) -> str:
        """The workers that are not ready, each with the reason, for an operator to read; of many the first few."""
        absent = [worker for worker in self._workers.values() if worker.state != "ready"]
        reasons = [f"{worker.name} ({worker.reason or worker.state})" for worker in absent[:NAMED]]
        more = len(absent) - len(reasons)
        return "; ".join([*reasons, *([f"{more} more"] if more else [])]) or "there are none"

    def kinds(self, model: str) -> frozenset[EngineFacts]:
        """The different facts of the engines of the ready workers for `model`, whatever their role."""
        found = self._kinds_of.get(model)
        if found is None and self.offered:
            found = self._kinds_of.get(self.offered.get(model, ""))
        return found or frozenset()

    def split(self, model: str) -> bool:
        """Whether some worker for `model`, ready or not, is for one part of a turn only."""
        return model in self._split

    def some_ready(self, model: str, role: WorkerRole, exclude: frozenset[str] = frozenset()) -> bool:
        """Whether a worker for `model` in `role` is ready that is not named in `exclude`."""
        return any(worker.name not in exclude for worker in self._ready.get((model, role), ()))

    def ready_of(self, model: str, role: WorkerRole) -> tuple[Worker, ...]:
        """The workers for `model` in `role` that are ready, one object until one of them is another."""
        return self._ready.get((model, role), ())

    def ready_count(self, model: str, role: WorkerRole) -> int:
        """How many workers for `model` in `role` are ready."""
        return len(self._ready.get((model, role), ()))

    def records(self, workers: tuple[Worker, ...], model: str, role: WorkerRole) -> tuple[CandidateRecord, ...]:
        """Some of the workers for `model` in `role`, as a policy is shown them now."""
        if len(workers) > 1 and workers is self._ready.get((model, role)):
            return self._records.of(workers)
        return records_of(workers) if len(workers) > 1 else (workers[0].record,)

    @property
    def pools_kept(self) -> int:
        """Of how many pools the records are kept."""
        return len(self._records)

    def uniform(self, model: str, role: WorkerRole = "regular") -> bool:
        """Whether the engines of all ready workers for `model` have the same facts."""
        return len(self._kinds.get((model, role), ())) == 1

    def candidates(
        self, model: str, exclude: frozenset[str] = frozenset(), role: WorkerRole = "regular"
    ) -> tuple[Worker, ...]:
        """The ready workers for `model` in `role` except those named in `exclude`. Raises ModelNotFound or NoWorker."""
        ready = self._ready.get((model, role), ())
        if exclude:
            ready = tuple(worker for worker in ready if worker.name not in exclude)
        if not ready:
            self.refuse(model)
        return ready

    def refuse(self, model: str, *, hidden: bool = False) -> NoReturn:
        """Raise NoWorker when a worker serves the model but none is ready, or when a worker that is joining may turn out to serve
        it; else ModelNotFound. `hidden`: the caller may not use it, and is answered as if no worker knew it and no setting named
        it."""
        if model in self._known and not hidden:
            raise NoWorker(f"No worker for the model '{model}' is ready.", retry_after=self._retry_after)
        if not self._workers:
            raise NoWorker("The gateway has no worker yet.", retry_after=self._retry_after)
        awaited = sum(self._may_serve(worker, model, hidden) for worker in self._workers.values())
        if not awaited:
            raise ModelNotFound(model)
        who = "1 worker has" if awaited == 1 else f"{awaited} workers have"
        message = f"No worker that serves '{model}' is ready; {who} not joined yet."
        raise NoWorker(message, retry_after=self._retry_after)

    def _may_serve(self, worker: Worker, model: str, hidden: bool) -> bool:
        """Whether a worker that has not joined may turn out to serve `model`. Where none is ready, any may. Beside workers that
        are ready it counts for `workers.joining_s` seconds, in which its engine may load its model, and where the operator has
        named its model, for that name."""
        if worker.state != "joining":
            return False
        if not self.any_ready:
            return True
        if worker.role == "encode" or self._monotonic() - worker.since >= self._settings.joining_s:
            return False
        names = self._expected(worker.spec)
        return not names or (not hidden and (model in names or model.partition(":")[0] in names))


def _lasting(breaker: BreakerConfig) -> float:
    """Seconds that a failure may be in doubt: as long as it would count; without breakers none is."""
    return breaker.window_s if breaker.failures else 0.0
