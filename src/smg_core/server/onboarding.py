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
from typing import TYPE_CHECKING

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
        self._bundles: dict[_Source, TokenizerBundle] = {}
        self._media: GatewayMedia | None = None
        self._loading = asyncio.Lock()

    async def start(self) -> None:
        """Load the operator's tokenizer, so that a folder that holds none stops the start. Raises SmgError, ValueError,
        OSError."""
        if self._folder is not None:
            await self._load(_Source(self._folder))

    # ----------------------------------------------------------------------------------------------------- coming

    async def join(self, worker: Worker, engine: Engine) -> tuple[str, ...]:
        """Learn a worker's model, load what is needed to serve it, and return the names it goes by. Raises what keeps it out."""
        info, facts = await engine.describe()
        settings = self._config.model
        name = worker.spec.model or settings.name or info.model or worker.name
        names = (name, *settings.served_names)
        before = worker.models
        async with self._loading:
            source = await self._source(worker, name, engine, info, facts)
            if source is not None:
                bundle = await self._load(source)
                self._publish(names, await self._served(name, info, bundle), source)
            elif name not in self._models:
                self._publish(names, self._without_tokenizer(name, info), None)
            elif facts.context_length > self._models[name].context_length > 0:
                self._widen(names, facts.context_length)
        worker.info, worker.facts = info, self._known(facts)
        self._say_text_only(name, worker)
        worker.models = names
        self._forget_unserved(frozenset(before) - frozenset(names), worker)
        return names

    def _known(self, facts: EngineFacts) -> EngineFacts:
        """One object for all engines of a kind, after the operator's settings: a prompt is fitted once for each."""
        if self._config.media.shared_memory == "off":
            facts = attrs.evolve(facts, shared_memory="")
        if self._config.model.context_length:
            facts = attrs.evolve(facts, context_length=self._config.model.context_length)
        kept = {each.facts: each.facts for each in self._registry}
        return kept.get(facts, facts)

    def _say_text_only(self, name: str, worker: Worker) -> None:
        model = self._models[name]
        if model.media is not None and worker.facts.media is not None and not model.media.kinds & worker.facts.media:
            log.info("worker %s: text only, since its engine says that it takes no media of the model", worker.name)

    async def _source(
        self, worker: Worker, name: str, engine: Engine, info: ModelInfo, facts: EngineFacts
    ) -> _Source | None:
        """Where the model's tokenizer is to be had, if it must be loaded: for a new model, for one that so far only engines that
        speak chat served, and for one that a returning worker serves anew; None where what is there serves. Raises WorkerGone
        when the worker serves another model under a name that others still serve."""
        if facts.door == "chat" and self._folder is None:
            return None
        known = self._models.get(name)
        if self._folder is not None:
            return _Source(self._folder) if known is None or known.tokenizer is None else None
        alone = all(each is worker for each in self._registry.of(name))
        returning = name in worker.models
        if known is not None and known.tokenizer is not None and not returning:
            if known.root == info.model or alone:
                return None if known.root == info.model else await self._fetch_tokenizer(engine, info)
            raise WorkerGone(
                "The engine serves another model under a name that is taken.",
                detail=f"{worker.name} serves {info.model!r} as {name!r}, others {known.root!r}",
            )
        source = await self._fetch_tokenizer(engine, info)
        if known is not None and self._sources.get(name) == source:
            return None
        if known is not None and known.tokenizer is not None and not alone:
            raise WorkerGone(
                "The engine came back with another tokenizer than others of its model have.",
                detail=f"{worker.name} as {name!r}",
            )
        return source

    async def _fetch_tokenizer(self, engine: Engine, info: ModelInfo) -> _Source:
        """The engine's own tokenizer; where it cannot send it, the folder it names, if that is on this machine."""
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
        folder = Path(tempfile.mkdtemp(prefix="smg-tokenizer-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        unpack_archive(archive, digest, folder)
        return _Source(folder, digest)

    async def _load(self, source: _Source) -> TokenizerBundle:
        if source not in self._bundles:
            settings = self._config.tokenizer
            cache = CacheConfig(l0_bytes=settings.l0_bytes, l1_bytes=settings.l1_bytes)
            # A thread of its own, that ends: what a tokenizer keeps for each thread it ever worked on goes with it.
            with ThreadPoolExecutor(1, thread_name_prefix="smg-load") as loader:
                bundle = await asyncio.get_running_loop().run_in_executor(
                    loader, lambda: load_tokenizer(source.folder, cache=cache, fast=settings.fast, clock=self._clock)
                )
            give_back()
            if settings.chat_template is not None:
                bundle = _with_template(bundle, Path(settings.chat_template), self._clock)
            self._bundles[source] = bundle
        return self._bundles[source]

    # ------------------------------------------------------------------------------------------------------ models

    def _publish(self, names: tuple[str, ...], served: ServedModel, source: _Source | None) -> None:
        """Serve the model under `names`, in place of what was served under them."""
        for name in names:
            self._models[name] = attrs.evolve(served, name=name)
        if source is not None:
            self._sources[names[0]] = source
        self._drop_unused_bundles()

    def _widen(self, names: tuple[str, ...], context: int) -> None:
        """A worker of the model takes longer prompts than those before it; each engine's own bound is checked when it is
        chosen."""
        if not self._config.model.context_length:
            for name in names:
                self._models[name] = attrs.evolve(self._models[name], context_length=context)

    def _drop_unused_bundles(self) -> None:
        used = {*self._sources.values(), *([_Source(self._folder)] if self._folder is not None else [])}
        for source in [source for source in self._bundles if source not in used]:
            del self._bundles[source]
            if source.digest:
                shutil.rmtree(source.folder, ignore_errors=True)

    async def _served(self, name: str, info: ModelInfo, bundle: TokenizerBundle) -> ServedModel:
        media = await self._service(name, bundle)
        return ServedModel(
            name=name,
            primary=name,
            tokenizer=bundle.tokenizer,
            template=bundle.template if media is None else _placing(bundle, media.texts, self._clock),
            context_length=self._config.model.context_length or info.context_length,
            vocab_size=min(filter(None, (info.vocab_size, bundle.tokenizer.vocab_size)), default=0),
            parser=self._family(name, info, bundle),
            default_sampling=info.default_sampling,
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
            context_length=self._config.model.context_length or info.context_length,
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

    def _forget_unserved(self, names: frozenset[str], worker: Worker) -> None:
        """Let go of those of `names` that no other worker than `worker` serves."""
        for name in names:
            if all(each is worker for each in self._registry.of(name)):
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
