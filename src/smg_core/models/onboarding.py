"""Adds and removes workers: asks what a worker serves when it joins; adds models with their first worker and removes them with
their last (edge).

The monitor calls `join` when a worker's engine first answers and after every absence, since a restarted engine may serve another
model. Tokenizer, template, parser family and media service are made once per model; only the `EngineFacts` differ between the
workers of a model. Above: gateway.assembly. Below: engines, tokenizer, parsers.
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import attrs

from smg_core.config.config import Config
from smg_core.engines.base import Engine, EngineFacts, ModelInfo
from smg_core.engines.handover import can_encode, can_pair, role_of
from smg_core.errors import InternalError, SmgError, WorkerGone
from smg_core.machine.memory import trim
from smg_core.machine.scratch import Scratch
from smg_core.models.loading import ModelLoader, TokenizerSource
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.routing import Policies
from smg_core.workers.evidence import evidence_of
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker, WorkerRole

if TYPE_CHECKING:
    from smg_core.models.media_service import GatewayMedia

__all__ = ["Onboarding", "executor_of", "loading_place"]

log = logging.getLogger("smg.gateway")


@attrs.frozen
class _Made:
    """A model that was made for a worker, and the source of its tokenizer (None: it has no tokenizer)."""

    model: ServedModel
    source: TokenizerSource | None


def executor_of(config: Config) -> FairExecutor:
    """The threads for the long work of requests; they return memory to the system after large work."""
    return FairExecutor(config.tokenizer.encode_threads, after_large=trim)


async def loading_place(config: Config, stack: AsyncExitStack) -> tuple[ThreadPoolExecutor, Path]:
    """The threads that load models and the folder that they are loaded into, until `stack` closes."""
    pool = ThreadPoolExecutor(config.tokenizer.load_threads, thread_name_prefix="smg-load")
    stack.callback(pool.shutdown, wait=False, cancel_futures=True)
    scratch = await asyncio.get_running_loop().run_in_executor(pool, Scratch)
    stack.callback(scratch.close)
    return pool, scratch.path


def refuse_role(role: WorkerRole | None, facts: EngineFacts) -> None:
    """Raise WorkerGone for an engine that cannot be what the operator says, by its dialect or by its own account."""
    its_role = role_of(facts.kv)
    if "encode" in (role, its_role) and not can_encode(facts.dialect):
        raise WorkerGone(
            "The engine cannot encode media for others.",
            detail=f"no encode worker can speak the dialect {facts.dialect}",
        )
    if role in ("prefill", "decode") and not can_pair(facts.dialect):
        raise WorkerGone(
            "The engine cannot share its cache.", detail=f"no {role} worker can speak the dialect {facts.dialect}"
        )
    if role is not None and its_role is not None and role != its_role:
        its = facts.kv.role
        raise WorkerGone(
            "The engine has another role.", detail=f"it is a {its_role} engine ({its}), not {role}", outside_text=its
        )


def refuse_adapters(worker: Worker, facts: EngineFacts) -> None:
    """Raise WorkerGone for an engine that is said to hold adapters and cannot be asked for one."""
    if worker.spec.adapters and not facts.lora:
        raise WorkerGone(
            "The engine cannot be asked for adapters.",
            detail=f"{worker.name}: the dialect {facts.dialect} has no field for one",
        )


def refuse_rank(rank: int | None, facts: EngineFacts) -> None:
    """Raise WorkerGone for a rank that the engine does not have, by its own account."""
    if rank is not None and not 0 <= rank < facts.ranks:
        raise WorkerGone("The engine has no such rank.", detail=f"rank {rank} of {facts.ranks}")


def is_away(worker: Worker) -> bool:
    """Whether a worker's engine cannot be reached, whatever an operator wants of the worker."""
    return worker.state == "unreachable" or worker.failing


class Onboarding:
    """Keeps `models`, the table of served models, up to date. `loader` makes the models."""

    def __init__(
        self,
        config: Config,
        *,
        loader: ModelLoader,
        registry: Registry,
        policies: Policies,
        models: dict[str, ServedModel],
    ) -> None:
        self._config = config
        self._loader = loader
        self._registry = registry
        self._policies = policies
        self._models = models
        self._sources: dict[str, TokenizerSource] = {}  # by the model's primary name
        self._adapted: dict[str, ServedModel] = {}  # by the name of an adapter: the model that it was made from
        self._on_demand = config.workers.of_adapters()
        self._pending: dict[Worker, TokenizerSource] = {}  # of workers that are about to join
        # Of models that workers are about to join, by primary name; gone when nobody waits.
        self._joining: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def media(self) -> "GatewayMedia | None":
        """The shared service for media, None until a model takes media."""
        return self._loader.media

    async def start(self) -> None:
        """Load the operator's tokenizer, so that a folder that holds none stops the start. Raises SmgError, ValueError,
        OSError."""
        await self._loader.start()

    # ----------------------------------------------------------------------------------------------------- coming

    async def join(self, worker: Worker, engine: Engine) -> tuple[str, ...]:
        """Ask for a worker's model, load what is needed to serve it, and return the model's names. If it raises, nothing has
        changed."""
        info, facts = await engine.describe()
        refuse_adapters(worker, facts)
        refuse_role(worker.spec.role, facts)
        refuse_rank(worker.spec.rank, facts)
        name = self._name(worker, info)
        names = tuple(dict.fromkeys((name, *self._config.model.served_names)))
        if "encode" in (worker.spec.role, role_of(facts.kv)):
            self._enter_encoder(worker, engine, names, info, facts)
            return names
        adapters = await self._adapters(worker, engine, facts)
        compared: TokenizerSource | None = None
        try:
            while True:
                # Workers of one model join one by one, so that its tokenizer is loaded once.
                async with self._joining.setdefault(name, asyncio.Lock()):
                    self._refuse_taken(worker, names, info, facts)
                    known = self._comparable(worker, name, info, facts)
                    if known is None or known == compared:
                        made = await self._made(worker, name, engine, info, facts)
                        # Nothing waits from here on, so that models, worker and registry change together.
                        self._refuse_taken(worker, names, info, facts)
                        self._enter(worker, engine, names, info, facts, made, adapters)
                        return names
                # Not one by one: an engine that is slow to send its tokenizer holds up no other.
                self._pending[worker] = known
                if not await self._loader.fits(engine, known):
                    raise _other_tokenizer(worker, name)
                compared = known
        finally:
            self._pending.pop(worker, None)
            self._drop_unused_bundles()

    def _enter_encoder(
        self, worker: Worker, engine: Engine, names: tuple[str, ...], info: ModelInfo, facts: EngineFacts
    ) -> None:
        """Let an encode worker make embeddings for its model from now on. It brings no model along: others serve that."""
        self._refuse_taken(worker, names, info, facts)
        if dropped := frozenset(worker.models) - frozenset(names):
            self._policies.worker_left(worker.name, dropped)
        worker.stated_facts, worker.kv = facts, facts.kv
        worker.info, worker.facts, worker.models = info, self._known(facts), names
        worker.evidence = evidence_of(getattr(engine, "found", ""), info, facts)

    def _name(self, worker: Worker, info: ModelInfo) -> str:
        """The name of the worker's model, never the worker's own name: that may be an address, which clients must not see."""
        name = worker.spec.model or self._config.model.name or info.model
        if not name:
            raise InternalError(
                "The engine does not say which model it serves; name it with model.name, or with the worker's model."
            )
        return name

    def _refuse_taken(self, worker: Worker, names: tuple[str, ...], info: ModelInfo, facts: EngineFacts) -> None:
        """Raise WorkerGone where other workers serve another model under one of `names`. Engines that speak chat say the name
        that they serve, not what lies behind it, so theirs is not compared; nor is it where the operator has named the model of
        one of the two workers: then their tokenizers are (`_comparable`). An engine that cannot be reached holds no name:
        otherwise a fleet that goes and comes back with another model would keep itself out for ever."""
        for name in names:
            for each in self._reachable_others(name, worker):
                another = each.models[0] != names[0]
                if not another and facts.takes_ids and each.facts.takes_ids and each.info is not None:
                    another = each.info.model != info.model and not (worker.spec.model or each.spec.model)
                if another:
                    raise WorkerGone(
                        "The engine serves another model under a name that is taken.",
                        detail=f"{worker.name} serves {info.model!r} as {name!r}, which {each.name} serves already",
                    )

    def _others(self, name: str, worker: Worker) -> list[Worker]:
        """The workers beside `worker` that answer to `name`, whatever their state."""
        return [each for each in self._registry.of(name) if each is not worker]

    def _reachable_others(self, name: str, worker: Worker) -> list[Worker]:
        """Those of the others whose engines can be reached."""
        return [each for each in self._others(name, worker) if not is_away(each)]

    def _enter(
        self,
        worker: Worker,
        engine: Engine,
        names: tuple[str, ...],
        info: ModelInfo,
        facts: EngineFacts,
        made: "_Made | None",
        adapters: dict[str, str],
    ) -> None:
        """Let the worker serve its model from now on: as `made`, or as it is served already."""
        before, held = worker.models, worker.adapter_names
        dropped = frozenset(before) - frozenset(names)
        if made is not None:
            self._policies.worker_left(worker.name, before)
            if names[0] in before:
                self._policies.forget(names[0])
            self._publish(names, made)
        elif dropped:
            self._policies.worker_left(worker.name, dropped)
        worker.stated_facts, worker.kv = facts, facts.kv  # before the facts, which are one object for all equal ones
        worker.info, worker.facts, worker.models = info, self._known(facts), names
        worker.evidence = evidence_of(getattr(engine, "found", ""), info, facts)
        if made is not None:
            self._displace(worker, names)
        self._forget_unserved(dropped, worker)
        for name in {names[0], *dropped}:
            self._agree(name)
        self._hold(worker, adapters, held)
        self._say_text_only(names[0], worker)
        if self._on_demand:
            self._offer()

    def _displace(self, worker: Worker, names: tuple[str, ...]) -> None:
        """Workers that cannot be reached serve none of `names` any more, under which there is another model now: they join
        anew, or stay out, when they come back."""
        for each in {each for name in names for each in self._others(name, worker)}:
            if is_away(each) and (each.facts.takes_ids or each.models[0] != names[0]):
                before, each.models = each.serves, ()
                each.adapters, each.adapter_names = {}, ()
                self._policies.worker_left(each.name, before)
                self._forget_unserved(frozenset(before), each)

    def _known(self, facts: EngineFacts) -> EngineFacts:
        """The facts after the operator's settings, as one object for all equal ones: a prompt is fitted once for each."""
        if self._config.media.shared_memory == "off":
            facts = attrs.evolve(facts, shared_memory="")
        if bound := self._config.model.context_length:
            facts = attrs.evolve(facts, context_length=min(bound, facts.context_length or bound))
        return next((each.facts for each in self._registry if each.facts == facts), facts)

    def _agree(self, name: str) -> None:
        """Bring up to date what a model that is served has from all its workers, whichever of them joined first: the longest
        context, the smallest vocabulary, and the default sampling of the first worker in the registry whose engine says some."""
        if name not in self._models:
            return
        model, workers = self._models[name], self._registry.of(name)
        contexts = [each.facts.context_length for each in workers]
        infos = [each.info for each in workers if each.info is not None]
        sizes = [info.vocab_size for info in infos]
        if model.tokenizer is not None:
            sizes.append(model.tokenizer.vocab_size)
        agreed = attrs.evolve(
            model,
            context_length=max(contexts) if contexts and all(contexts) else 0,
            vocab_size=min(filter(None, sizes), default=0),
            default_sampling=next((info.default_sampling for info in infos if info.default_sampling), {}),
        )
        if agreed != model:
            for each in [each for each, other in self._models.items() if other.primary == name]:
                self._models[each] = attrs.evolve(
                    self._models[each],
                    context_length=agreed.context_length,
                    vocab_size=agreed.vocab_size,
                    default_sampling=agreed.default_sampling,
                )

    def _say_text_only(self, name: str, worker: Worker) -> None:
        model = self._models[name]
        if model.media is not None and worker.facts.media is not None and not model.media.kinds & worker.facts.media:
            log.info("worker %s: text only, since its engine says that it takes no media of the model", worker.name)

    # ------------------------------------------------------------------------------------------------ tokenizers

    def _speaks_chat(self, facts: EngineFacts) -> bool:
        """Whether the engine's tokenizer is no concern of the gateway."""
        return not facts.takes_ids and not self._loader.has_folder

    def _joins_its_like(self, worker: Worker, name: str, info: ModelInfo, facts: EngineFacts) -> bool:
        """Whether the model is served already as the worker will serve it, by others too. Where one of these is sent ids and can
        be reached, its tokenizer is the model's, and the worker has to have it, whether it joins or comes back."""
        known = self._models.get(name)
        if known is None or not self._others(name, worker):
            return False
        if self._speaks_chat(facts):
            return True
        new = name not in worker.models and known.root == info.model
        needed = any(each.facts.takes_ids for each in self._reachable_others(name, worker))
        return known.tokenizer is not None and (new or needed)

    def _comparable(self, worker: Worker, name: str, info: ModelInfo, facts: EngineFacts) -> TokenizerSource | None:
        """Where the tokenizer of the model's other workers came from, for a worker that joins them: if its own were another one,
        its tokens would mean other text. None where there is nothing to compare."""
        if self._speaks_chat(facts) or not self._joins_its_like(worker, name, info, facts):
            return None
        return self._sources.get(name)

    async def _made(
        self, worker: Worker, name: str, engine: Engine, info: ModelInfo, facts: EngineFacts
    ) -> "_Made | None":
        """The model as it is to be served from now on; None where what is there serves."""
        if self._joins_its_like(worker, name, info, facts):
            return None
        known, fellows = self._models.get(name), self._reachable_others(name, worker)
        if self._speaks_chat(facts):
            kept = known is not None and known.tokenizer is None and known.root == info.model
            return None if kept else _Made(self._loader.without_tokenizer(name, info), None)
        source = await self._loader.source(engine, info)
        self._pending[worker] = source
        if known is not None and known.tokenizer is not None:
            same = self._sources.get(name) == source
            if same and (fellows or known.root == info.model):
                return None
        return _Made(await self._loader.model(name, info, source), source)

    def _drop_unused_bundles(self) -> None:
        self._loader.keep({*self._sources.values(), *self._pending.values()})

    # ------------------------------------------------------------------------------------------------------ models

    def _publish(self, names: tuple[str, ...], made: "_Made") -> None:
        """Serve the model under `names`, in place of what was served under them."""
        for name in names:
            self._models[name] = attrs.evolve(made.model, name=name)
        for each in [each for each in self._models.values() if each.adapter and each.primary == names[0]]:
            self._models[each.name] = attrs.evolve(made.model, name=each.name, adapter=each.adapter)
        if made.source is not None:
            self._sources[names[0]] = made.source
        else:
            self._sources.pop(names[0], None)

    # ---------------------------------------------------------------------------------------------------- adapters

    async def _adapters(self, worker: Worker, engine: Engine, facts: EngineFacts) -> dict[str, str]:
        """The adapters that the engine holds, by name: as it lists them, else as they were configured."""
        listed = await engine.adapters() if facts.lora else ()
        if listed is None:
            return dict(worker.spec.adapters)
        most = self._config.workers.most_adapters
        if len(listed) > most:
            log.warning("worker %s holds %d adapters; clients may ask for %d", worker.name, len(listed), most)
        return {each.name: each.id for each in listed[:most]}

    async def refresh_adapters(self, worker: Worker, engine: Engine) -> None:
        """Ask again which adapters the engine of a worker that has joined holds. Called after each probe, and when adapters were
        loaded or unloaded at the admin door of this process. One that cannot be asked now keeps those that it had."""
        if not worker.facts.lora or worker.role == "encode":
            return
        try:
            adapters = await self._adapters(worker, engine, worker.facts)
        except SmgError:
            return
        if worker.models and worker.state != "gone":
            self._hold(worker, adapters, worker.adapter_names)

    def change_adapter(self, worker: Worker, name: str, id: str) -> bool:
        """Let a worker hold one adapter more, or with an `id` of "" one less, as another process has learnt from its engine.
        Returns whether the engine is to be asked which it holds: always, unless this one was known."""
        if worker.role == "encode" or (worker.models and worker.adapters.get(name, "") == id):
            return False
        adapters = {each: known for each, known in worker.adapters.items() if each != name}
        if id:
            adapters[name] = id
        if worker.models and worker.state != "gone" and len(adapters) <= self._config.workers.most_adapters:
            self._hold(worker, adapters, worker.adapter_names)
        return True

    def _is_left(self, name: str, worker: Worker) -> bool:
        """Whether an adapter of this name is there that no other worker than this one holds."""
        known = self._models.get(name)
        return known is not None and bool(known.adapter) and not self._others(name, worker)

    def _hold(self, worker: Worker, adapters: dict[str, str], before: tuple[str, ...]) -> None:
        """Let clients ask for `adapters` of this worker, and no longer for others of `before`: as "adapter", unless something
        else is served under that name, and as "model:adapter"."""
        primary = worker.models[0]
        names: dict[str, str] = {}
        for adapter in adapters:
            for name in (adapter, *[f"{model}:{adapter}" for model in worker.models]):
                known = self._models.get(name)
                ours = known is None or (known.primary, known.adapter) == (primary, adapter)
                if name not in names and (ours or self._is_left(name, worker)):
                    names[name] = adapter
        if adapters == worker.adapters and tuple(names) == worker.adapter_names == before:
            return
        if taken := sorted(adapters.keys() - names.keys()):
            log.warning("worker %s: adapters under names that are taken: %s", worker.name, ", ".join(taken))
        served = self._models[primary]
        for name, adapter in names.items():
            known = self._models.get(name)
            if known is None or known.adapter != adapter or self._adapted.get(name) is not served:
                self._models[name], self._adapted[name] = attrs.evolve(served, name=name, adapter=adapter), served
        self._registry.hold(worker, adapters, tuple(names))
        self._forget_unserved(frozenset(before) - names.keys(), worker)

    def _offer(self) -> None:
        """Let clients ask for the adapters that workers would load, as long as their model is served, under names that nothing
        else has."""
        offered: dict[str, str] = {}
        for adapter, (named, _) in self._on_demand.items():
            served = self._models.get(named)
            if served is None or served.adapter:
                continue
            primary = served.primary or served.name
            for name in (adapter, *[f"{each}:{adapter}" for each in self._names_of(primary)]):
                if name not in self._models:
                    self._models[name] = attrs.evolve(served, name=name, adapter=adapter)
                    self._adapted[name] = self._models[primary]
                if self._models[name].adapter == adapter and self._models[name].primary == primary:
                    offered[name] = primary
        for name in self._registry.offered.keys() - offered.keys():
            if name in self._models and self._models[name].adapter and not self._registry.of(name):
                del self._models[name]
                self._adapted.pop(name, None)
        self._registry.offered = offered

    def _names_of(self, primary: str) -> list[str]:
        """All names of a model that is served."""
        return [name for name, each in self._models.items() if each.primary == primary and not each.adapter]

    # ----------------------------------------------------------------------------------------------------- leaving

    def left(self, worker: Worker) -> None:
        """To be called when a worker was removed: models that it alone served are removed."""
        self._policies.worker_left(worker.name, worker.models)
        self._forget_unserved(frozenset(worker.serves), worker)
        if worker.models:
            self._agree(worker.models[0])
        if self._on_demand:
            self._offer()

    def _forget_unserved(self, names: frozenset[str], worker: Worker) -> None:
        """Remove those of `names` that no other worker than `worker` serves."""
        for name in names:
            if not self._others(name, worker):
                self._models.pop(name, None)
                self._sources.pop(name, None)
                self._adapted.pop(name, None)
                self._policies.forget(name)
        if names:
            self._drop_unused_bundles()
        if names and self._on_demand:
            self._offer()


def _other_tokenizer(worker: Worker, name: str) -> WorkerGone:
    return WorkerGone(
        "The engine has another tokenizer than others of its model have.", detail=f"{worker.name} as {name!r}"
    )
