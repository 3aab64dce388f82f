"""How workers come and go: what a worker serves is learned when it joins; models come with their first worker and leave with
their last (edge).

The monitor calls `connect` to reach a worker's engine and `join` whenever the engine has answered anew: at first, and after an
absence, since a restarted engine may serve another model. One tokenizer, template, parser family and media service is made for a
model, not for a worker; what differs between workers are `EngineFacts`. Above: server.runtime. Below: engines, tokenizer,
parsers.
"""

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import attrs

from smg_core.clock import Clock
from smg_core.config import Config
from smg_core.engines.base import Engine, EngineFacts, ModelInfo
from smg_core.errors import InternalError, SmgError, WorkerGone
from smg_core.pipeline.media import suggests_media
from smg_core.pipeline.served import ServedModel
from smg_core.routing import Policies
from smg_core.server.memory import give_back
from smg_core.tokenizer.base import Tokenizer
from smg_core.tokenizer.cache import CacheConfig
from smg_core.tokenizer.chat_template import ChatTemplate
from smg_core.tokenizer.loader import TokenizerBundle, load_tokenizer, unpack_archive
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker
from smg_parsers import Family, UnknownModelFamily, explain
from smg_parsers.models import family as family_named

if TYPE_CHECKING:
    from smg_core.server.media import GatewayMedia, ModelMedia

__all__ = ["Onboarding"]

log = logging.getLogger("smg.gateway")


@attrs.frozen
class _Source:
    """Where a model's tokenizer came from: a folder and, for one that an engine sent, the digest of what it sent."""

    folder: Path
    digest: str = ""


@attrs.frozen
class _Made:
    """A model that was made for a worker, and where its tokenizer came from; None for one without."""

    model: ServedModel
    source: _Source | None


class Onboarding:
    """Keeps `models`, the table of what is served, true. `folder` is the operator's tokenizer, without which engines are
    asked for theirs. `pool` runs what takes long; `stack` closes what was opened."""

    def __init__(
        self,
        config: Config,
        *,
        folder: Path | None,
        registry: Registry,
        policies: Policies,
        models: dict[str, ServedModel],
        clock: Clock,
        pool: Executor,
        stack: AsyncExitStack,
    ) -> None:
        self._config = config
        self._folder = folder
        self._registry = registry
        self._policies = policies
        self._models = models
        self._clock = clock
        self._pool = pool
        self._stack = stack
        self._sources: dict[str, _Source] = {}  # by the model's primary name
        self._pending: dict[Worker, _Source] = {}  # of workers that are about to join
        self._bundles: dict[_Source, TokenizerBundle] = {}
        self._unpacked: set[_Source] = set()  # in folders of ours
        self._media: GatewayMedia | None = None
        # Of models that workers are about to join, by primary name; gone when nobody waits.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        stack.callback(self._drop_folders)

    async def start(self) -> None:
        """Load the operator's tokenizer, so that a folder that holds none stops the start. Raises SmgError, ValueError,
        OSError."""
        if self._folder is not None:
            await self._load(_Source(self._folder))

    # ----------------------------------------------------------------------------------------------------- coming

    async def join(self, worker: Worker, engine: Engine) -> tuple[str, ...]:
        """Learn a worker's model, load what is needed to serve it, and return the names it goes by. Raises what keeps it out;
        then nothing has changed."""
        info, facts = await engine.describe()
        name = self._name(worker, info)
        names = tuple(dict.fromkeys((name, *self._config.model.served_names)))
        try:
            # Workers of one model join one by one, so that its tokenizer is fetched once.
            async with self._turns.setdefault(name, asyncio.Lock()):
                self._refuse_taken(worker, names, info, facts)
                made = await self._made(worker, name, engine, info, facts)
                # Nothing waits from here on, so that models, worker and registry change together.
                self._refuse_taken(worker, names, info, facts)
                self._enter(worker, names, info, facts, made)
        finally:
            self._pending.pop(worker, None)
            self._drop_unused_bundles()
        return names

    def _name(self, worker: Worker, info: ModelInfo) -> str:
        """What the worker's model is called. A worker's own name is none: it may be an address, which clients must not see."""
        name = worker.spec.model or self._config.model.name or info.model
        if not name:
            raise InternalError(
                "The engine does not say which model it serves; name it with model.name, or with the worker's model."
            )
        return name

    def _refuse_taken(self, worker: Worker, names: tuple[str, ...], info: ModelInfo, facts: EngineFacts) -> None:
        """Raise WorkerGone where other workers serve another model under one of `names`. Engines that speak chat say the name
        that they serve, not what lies behind it, so theirs is not compared; nor is it where the operator has named the model of
        one of the two workers: then their tokenizers are (`_made`)."""
        for name in names:
            for each in self._others(name, worker):
                another = each.models[0] != names[0]
                if not another and facts.door == each.facts.door == "ids" and each.info is not None:
                    another = each.info.model != info.model and not (worker.spec.model or each.spec.model)
                if another:
                    raise WorkerGone(
                        "The engine serves another model under a name that is taken.",
                        detail=f"{worker.name} serves {info.model!r} as {name!r}, which {each.name} serves already",
                    )

    def _others(self, name: str, worker: Worker) -> list[Worker]:
        """The workers beside `worker` that answer to `name`, whatever their state."""
        return [each for each in self._registry.of(name) if each is not worker]

    def _enter(
        self, worker: Worker, names: tuple[str, ...], info: ModelInfo, facts: EngineFacts, made: "_Made | None"
    ) -> None:
        """The worker serves its model from now on: as `made`, or as it is served already."""
        before = worker.models
        dropped = frozenset(before) - frozenset(names)
        if made is not None:
            self._policies.worker_left(worker.name, before)
            if names[0] in before:
                self._policies.forget(names[0])
            self._publish(names, made)
        elif dropped:
            self._policies.worker_left(worker.name, dropped)
        worker.info, worker.facts, worker.models = info, self._known(facts), names
        self._forget_unserved(dropped, worker)
        self._agree(names[0])
        self._say_text_only(names[0], worker)

    def _known(self, facts: EngineFacts) -> EngineFacts:
        """One object for all engines of a kind, after the operator's settings: a prompt is fitted once for each."""
        if self._config.media.shared_memory == "off":
            facts = attrs.evolve(facts, shared_memory="")
        if self._config.model.context_length:
            facts = attrs.evolve(facts, context_length=self._config.model.context_length)
        return next((each.facts for each in self._registry if each.facts == facts), facts)

    def _agree(self, name: str) -> None:
        """Bring up to date what a model has from all its workers, whichever of them joined first: the longest context, the
        smallest vocabulary, and the default sampling of the first worker in the registry whose engine says some."""
        model, workers = self._models[name], self._registry.of(name)
        contexts = [each.facts.context_length for each in workers]
        infos = [each.info for each in workers if each.info is not None]
        sizes = [info.vocab_size for info in infos]
        if model.tokenizer is not None:
            sizes.append(model.tokenizer.vocab_size)
        changes: dict[str, Any] = {
            "context_length": max(contexts) if contexts and all(contexts) else 0,
            "vocab_size": min(filter(None, sizes), default=0),
            "default_sampling": next((info.default_sampling for info in infos if info.default_sampling), {}),
        }
        if any(getattr(model, key) != value for key, value in changes.items()):
            for each in [each for each, other in self._models.items() if other.primary == name]:
                self._models[each] = attrs.evolve(self._models[each], **changes)

    def _say_text_only(self, name: str, worker: Worker) -> None:
        model = self._models[name]
        if model.media is not None and worker.facts.media is not None and not model.media.kinds & worker.facts.media:
            log.info("worker %s: text only, since its engine says that it takes no media of the model", worker.name)

    # ------------------------------------------------------------------------------------------------ tokenizers

    async def _made(
        self, worker: Worker, name: str, engine: Engine, info: ModelInfo, facts: EngineFacts
    ) -> "_Made | None":
        """The model as it is to be served from now on; None where what is there serves. Raises WorkerGone for a tokenizer other
        than that of the other workers of the model."""
        known, others = self._models.get(name), self._others(name, worker)
        speaks_chat = facts.door == "chat" and self._folder is None
        if known is not None and others:
            joins_its_like = name not in worker.models and known.root == info.model
            if speaks_chat or (known.tokenizer is not None and joins_its_like):
                return None
        if speaks_chat:
            kept = known is not None and known.tokenizer is None and known.root == info.model
            return None if kept else _Made(self._without_tokenizer(name, info), None)
        source = await self._source(engine, info)
        self._pending[worker] = source
        if known is not None and known.tokenizer is not None:
            same = self._sources.get(name) == source
            if same and (others or known.root == info.model):
                return None
            if any(each.facts.door == "ids" for each in others):
                raise WorkerGone(
                    "The engine has another tokenizer than others of its model have.",
                    detail=f"{worker.name} as {name!r}",
                )
        return _Made(await self._served(name, info, await self._load(source)), source)

    async def _source(self, engine: Engine, info: ModelInfo) -> _Source:
        """The operator's tokenizer, else the engine's own; where it cannot send it, the folder it names, if that is on this
        machine."""
        if self._folder is not None:
            return _Source(self._folder)
        try:
            sent = await engine.tokenizer()
        except WorkerGone:
            raise
        except SmgError as error:
            return _named_folder(info, error)
        if sent is None:
            return _named_folder(info, None)
        archive, digest = sent
        for source in self._bundles:
            if source.digest == digest:
                return source
        folder = await asyncio.get_running_loop().run_in_executor(self._pool, self._unpack, archive, digest)
        self._unpacked.add(source := _Source(folder, digest))
        return source

    def _unpack(self, archive: bytes, digest: str) -> Path:
        """A new folder with the files of `archive`."""
        folder = Path(tempfile.mkdtemp(prefix="smg-tokenizer-"))
        try:
            unpack_archive(archive, digest, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder

    async def _load(self, source: _Source) -> TokenizerBundle:
        if source in self._bundles:
            return self._bundles[source]
        settings = self._config.tokenizer
        cache = CacheConfig(l0_bytes=settings.l0_bytes, l1_bytes=settings.l1_bytes)
        # A thread of its own, that ends: what a tokenizer keeps for each thread it ever worked on goes with it.
        loader = ThreadPoolExecutor(1, thread_name_prefix="smg-load")
        loading = loader.submit(load_tokenizer, source.folder, cache=cache, fast=settings.fast, clock=self._clock)
        try:
            bundle = await asyncio.wrap_future(loading)
        finally:
            loader.shutdown(wait=loading.done())  # who gives up must not wait for the thread
        give_back()
        if settings.chat_template is not None:
            bundle = _with_template(bundle, Path(settings.chat_template), self._clock)
        return self._bundles.setdefault(source, bundle)

    def _drop_unused_bundles(self) -> None:
        used = {*self._sources.values(), *self._pending.values()}
        if self._folder is not None:
            used.add(_Source(self._folder))
        for source in [source for source in self._bundles if source not in used]:
            del self._bundles[source]
        for source in self._unpacked - used:
            self._unpacked.discard(source)
            shutil.rmtree(source.folder, ignore_errors=True)

    def _drop_folders(self) -> None:
        """Delete what engines have sent."""
        self._sources.clear()
        self._pending.clear()
        self._drop_unused_bundles()

    # ------------------------------------------------------------------------------------------------------ models

    def _publish(self, names: tuple[str, ...], made: "_Made") -> None:
        """Serve the model under `names`, in place of what was served under them."""
        for name in names:
            self._models[name] = attrs.evolve(made.model, name=name)
        if made.source is not None:
            self._sources[names[0]] = made.source
        else:
            self._sources.pop(names[0], None)

    async def _served(self, name: str, info: ModelInfo, bundle: TokenizerBundle) -> ServedModel:
        media = await self._service(name, bundle)
        return ServedModel(
            name=name,
            primary=name,
            tokenizer=bundle.tokenizer,
            template=bundle.template if media is None else _placing(bundle, media.texts, self._clock),
            parser=self._family(name, info, bundle),
            protect_control=self._config.tokenizer.protect_control,
            encode_inline=_encode_inline(bundle.tokenizer, self._clock),
            created=int(self._clock.time()),
            root=info.model,
            media=media,
        )

    def _without_tokenizer(self, name: str, info: ModelInfo) -> ServedModel:
        """A model whose engines all speak chat: they write and encode prompts and read outputs themselves."""
        return ServedModel(
            name=name,
            primary=name,
            tokenizer=None,
            created=int(self._clock.time()),
            root=info.model,
        )

    async def _service(self, name: str, bundle: TokenizerBundle) -> "ModelMedia | None":
        """What serves a model's media; None for a model of text. Only then is anything about media loaded."""
        if not suggests_media(bundle.model_config, [file.name for file in bundle.folder.iterdir()]):
            return None
        try:
            from smg_core.server.media import GatewayMedia
        except ImportError as error:
            log.warning(
                "model %s: text only: media need more packages (%s): pip install 'smg-sdk[vision]'", name, error
            )
            return None
        loop = asyncio.get_running_loop()
        if self._media is None:
            self._media = await loop.run_in_executor(self._pool, GatewayMedia, self._config.media)
            self._stack.push_async_callback(self._close_media)
        service = partial(self._media.service, name, bundle.folder, bundle.model_config, bundle.tokenizer)
        return await loop.run_in_executor(self._pool, service)

    async def _close_media(self) -> None:
        media, self._media = self._media, None
        if media is not None:
            await media.close()

    @property
    def media(self) -> "GatewayMedia | None":
        """What the models of this gateway share for their media, once one of them takes some."""
        return self._media

    def _family(self, name: str, info: ModelInfo, bundle: TokenizerBundle) -> Family | None:
        """The parser family of a model, None for plain text."""
        settings = self._config.model
        own = dict(each.partition("=")[::2] for each in settings.parsers)
        wanted = own.get(name, settings.parser)
        if wanted == "none":
            return None
        if wanted != "auto":
            return family_named(wanted)
        source = bundle.template.sources.get("default") if bundle.template is not None else None
        for each in (info.model, name, info.tokenizer_path):
            try:
                found = explain(each, source)
            except UnknownModelFamily:
                continue
            log.info("model %s: output is read as %s (%s)", name, found.family.name, found.reason)
            return found.family
        log.warning("model %s: no parser family is known for it; its output is passed on as plain text", name)
        return None

    # ----------------------------------------------------------------------------------------------------- leaving

    def left(self, worker: Worker) -> None:
        """A worker was removed: what it alone served is served no more."""
        self._policies.worker_left(worker.name, worker.models)
        self._forget_unserved(frozenset(worker.models), worker)
        if worker.models and worker.models[0] in self._models:
            self._agree(worker.models[0])

    def _forget_unserved(self, names: frozenset[str], worker: Worker) -> None:
        """Let go of those of `names` that no other worker than `worker` serves."""
        for name in names:
            if not self._others(name, worker):
                self._models.pop(name, None)
                self._sources.pop(name, None)
                self._policies.forget(name)
        if names:
            self._drop_unused_bundles()


def _named_folder(info: ModelInfo, error: SmgError | None) -> _Source:
    for place in (info.tokenizer_path, info.model):
        if place and Path(place).is_dir():
            return _Source(Path(place))
    raise InternalError(
        "The engine sends no tokenizer; name a folder with tokenizer.path.", detail=str(error) if error else None
    ) from error


def _with_template(bundle: TokenizerBundle, file: Path, clock: Clock) -> TokenizerBundle:
    """The same bundle with the operator's own chat template."""
    try:
        source = file.expanduser().read_text()
    except OSError as error:
        raise InternalError("The chat template cannot be read.", detail=str(error)) from error
    template = ChatTemplate(source, special=bundle.tokenizer.special, name=str(file), clock=clock)
    return attrs.evolve(bundle, template=template)


def _placing(bundle: TokenizerBundle, texts: Mapping[str, str], clock: Clock) -> ChatTemplate | None:
    """The model's template, told what to write for each kind of media where it takes a message's content as one string."""
    own = bundle.template
    if own is None:
        return None
    return ChatTemplate(own.sources, special=bundle.tokenizer.special, name=own.name, clock=clock, media=texts)


def _encode_inline(tokenizer: Tokenizer, clock: Clock) -> int:
    """Characters that `tokenizer` encodes in half a millisecond, measured on this thread, which warms it up too."""
    text = " ".join(f"{word}{number}" for number in range(500) for word in ("The quick brown ", "Zürich, ", "f(x) = "))
    best = float("inf")
    for _ in range(4):
        began = clock.monotonic()
        tokenizer.encode(text)
        best = min(best, clock.monotonic() - began)
    return round(min(max(0.0005 * len(text) / max(best, 1e-9), 1_000), 100_000))
