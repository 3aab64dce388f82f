"""Makes models: loads tokenizer, chat template, parser family and media from an engine's files or from a folder (edge).

Loads each tokenizer once, however many models and workers use it, and deletes the files of engines when no model uses them.
Above: models.onboarding decides which models there are. Below: tokenizer, parsers, media. Knows no worker.
"""

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Collection, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from smg_core.clock import Clock
from smg_core.config.check import named_parsers
from smg_core.config.config import Config
from smg_core.engines.base import Engine, ModelInfo
from smg_core.errors import InternalError, SmgError, WorkerGone
from smg_core.extras import missing
from smg_core.machine.cpus import usable_cpus
from smg_core.machine.memory import trim
from smg_core.models.document_loading import content_services
from smg_core.models.sealing_keys import Sealing, cache_salts
from smg_core.pipeline.prompt.media import suggests_media
from smg_core.pipeline.prompt.served import ServedModel, names_of_classes
from smg_core.tokenizer.base import Tokenizer
from smg_core.tokenizer.chat_template import ChatTemplate
from smg_core.tokenizer.loader import TokenizerBundle, load_tokenizer, same_vocabulary, unpack_archive
from smg_parsers import Family, UnknownModelFamily, explain
from smg_parsers.families.models import family as family_named
from smg_parsers.families.models import is_described

if TYPE_CHECKING:
    from smg_core.models.media_service import GatewayMedia
    from smg_core.models.model_media import ModelMedia

__all__ = ["ModelLoader", "TokenizerSource"]

log = logging.getLogger("smg.gateway")


@attrs.frozen
class TokenizerSource:
    """Where a model's tokenizer came from: a folder and, for one that an engine sent, the digest of what it sent."""

    folder: Path
    digest: str = ""


class ModelLoader:
    """Makes models. `folder` is the operator's tokenizer, without which engines are asked for theirs, which are unpacked below
    `scratch`. `pool` runs what takes long; `stack` closes what was opened. `sealing` has the keys of what is
    sealed, `content` has what reads documents for all models, and what fetches media for
    those whose engines read prompts themselves. What is made of media is kept by the name `shared_as` with other processes, if
    there are any."""

    def __init__(
        self,
        config: Config,
        *,
        folder: Path | None,
        scratch: Path,
        clock: Clock,
        pool: Executor,
        stack: AsyncExitStack,
        shared_as: str = "",
    ) -> None:
        self._config = config
        self._shared_as = shared_as
        self._folder = folder
        self._scratch = scratch
        self._clock = clock
        self._pool = pool
        self._stack = stack
        self.sealing = Sealing.of(config.sealing)
        self._salts = cache_salts(config.sealing)
        self._bundles: dict[TokenizerSource, TokenizerBundle] = {}
        self._unpacked: set[TokenizerSource] = set()  # in folders of ours
        self._media: GatewayMedia | None = None
        self.content, documents = content_services(config, pool)
        if documents is not None:
            stack.push_async_callback(documents.close)
        stack.callback(lambda: self.keep(()))

    @property
    def has_folder(self) -> bool:
        """Whether the operator named a tokenizer."""
        return self._folder is not None

    @property
    def media(self) -> "GatewayMedia | None":
        """The shared service for media, None until a model takes media."""
        return self._media

    async def start(self) -> None:
        """Load the operator's tokenizer, so that a folder that holds none stops the start, as settings do that could never work.
        Raises SmgError, ValueError (ConfigError too), OSError."""
        if self._folder is not None:
            await self._load(TokenizerSource(self._folder))

    def keep(self, used: Collection[TokenizerSource]) -> None:
        """Drop all tokenizers except those of `used` and the operator's."""
        kept = set(used)
        if self._folder is not None:
            kept.add(TokenizerSource(self._folder))
        for source in [source for source in self._bundles if source not in kept]:
            del self._bundles[source]
        for source in self._unpacked - kept:
            self._unpacked.discard(source)
            shutil.rmtree(source.folder, ignore_errors=True)

    async def source(self, engine: Engine, info: ModelInfo) -> TokenizerSource:
        """The operator's tokenizer, else the engine's own; if the engine cannot send it, the folder it names, if that is on
        this machine."""
        if self._folder is not None:
            return TokenizerSource(self._folder)
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
        unpacking = asyncio.get_running_loop().run_in_executor(self._pool, self._unpack, archive, digest)
        try:
            folder = await asyncio.shield(unpacking)
        except asyncio.CancelledError:
            unpacking.add_done_callback(_removed)
            raise
        self._unpacked.add(source := TokenizerSource(folder, digest))
        return source

    async def fits(self, engine: Engine, known: TokenizerSource) -> bool:
        """Whether the tokenizer of `engine` is that of `known`, as far as this can be told: not where the operator has named a
        tokenizer, and not of an engine that cannot send its own."""
        if self._folder is not None:
            return True
        try:
            sent = await engine.tokenizer()
        except WorkerGone:
            raise
        except SmgError:
            return True
        if sent is None or sent[1] == known.digest:
            return True
        return await asyncio.get_running_loop().run_in_executor(self._pool, same_vocabulary, sent[0], known.folder)

    def _unpack(self, archive: bytes, digest: str) -> Path:
        """A new folder with the files of `archive`."""
        folder = Path(tempfile.mkdtemp(prefix="tokenizer-", dir=self._scratch))
        try:
            unpack_archive(archive, digest, folder, limits=self._config.tokenizer)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder

    async def _load(self, source: TokenizerSource) -> TokenizerBundle:
        if source in self._bundles:
            return self._bundles[source]
        settings = self._config.tokenizer
        # A thread of its own, that ends: what a tokenizer keeps for each thread it ever worked on goes with it.
        loader = ThreadPoolExecutor(1, thread_name_prefix="smg-load")
        loading = loader.submit(
            load_tokenizer,
            source.folder,
            cache=settings,
            fast=settings.fast,
            proof_timeout_s=settings.proof_timeout_s,
            clock=self._clock,
        )
        try:
            bundle = await asyncio.wrap_future(loading)
        finally:
            loader.shutdown(wait=loading.done())  # who gives up must not wait for the thread
        trim()
        if settings.chat_template is not None:
            bundle = _with_template(bundle, Path(settings.chat_template), self._clock)
        return self._bundles.setdefault(source, bundle)

    async def model(self, name: str, info: ModelInfo, source: TokenizerSource) -> ServedModel:
        """The model that goes by `name`, with the tokenizer of `source`. Raises what keeps it from being served."""
        bundle = await self._load(source)
        found = await self._service(name, bundle)
        media, why = (None, found) if isinstance(found, str) else (found, "")
        family = self._family(name, info, bundle)
        thinks = _thinks(family, bundle)
        return ServedModel(
            name=name,
            primary=name,
            tokenizer=bundle.tokenizer,
            template=bundle.template if media is None else _with_media_texts(bundle, media.texts, self._clock),
            parser=family,
            protect_control=self._config.tokenizer.protect_control,
            encode_inline=_encode_inline(bundle.tokenizer, self._clock),
            created=int(self._clock.time()),
            root=info.model,
            media=media,
            no_media=why,
            on_violation=self._config.structured.on_violation,
            parser_header=self._config.model.parser_header,
            answer_bytes=self._config.limits.answer_bytes,
            seals=self.sealing.seals(family.name if family is not None else name),
            salts=self._salts,
            refuses_budget=self._config.messages.budget == "refuse",
            thinks=thinks,
            pair=bundle.pair,
            labels=info.labels or names_of_classes(bundle.model_config),
        )

    def without_tokenizer(self, name: str, info: ModelInfo) -> ServedModel:
        """A model whose engines all speak chat: they render and encode prompts and parse outputs themselves."""
        return ServedModel(
            name=name,
            primary=name,
            tokenizer=None,
            created=int(self._clock.time()),
            root=info.model,
            on_violation=self._config.structured.on_violation,
            answer_bytes=self._config.limits.answer_bytes,
            seals=self.sealing.seals(name),
            salts=self._salts,
        )

    async def _service(self, name: str, bundle: TokenizerBundle) -> "ModelMedia | str":
        """The service for a model's media, or the reason why there is none: "" for a model of text, for which no module about
        media is imported."""
        if not suggests_media(bundle.model_config, [file.name for file in bundle.folder.iterdir()]):
            return ""
        try:
            from smg_core.models.media_service import GatewayMedia
        except ModuleNotFoundError as error:
            log.warning("model %s takes text alone: %s", name, missing("media", error, "vision"))
            return "packages that read media are not installed"
        loop = asyncio.get_running_loop()
        if self._media is None:
            cores = usable_cpus()
            processes = self._config.server.processes or cores
            made = partial(GatewayMedia, self._config.media, processes, cores, self._shared_as)
            self._media = await loop.run_in_executor(self._pool, made)
            self._stack.push_async_callback(self._close_media)
        service = partial(self._media.service, name, bundle.folder, bundle.model_config, bundle.tokenizer)
        return await loop.run_in_executor(self._pool, service)

    async def _close_media(self) -> None:
        media, self._media = self._media, None
        if media is not None:
            await media.close()

    def _family(self, name: str, info: ModelInfo, bundle: TokenizerBundle) -> Family | None:
        """The parser family of a model, None for plain text."""
        settings = self._config.model
        wanted = named_parsers(self._config).get(name, settings.parser)
        if wanted == "none":
            return None
        if wanted != "auto":
            return family_named(wanted)
        source = bundle.template.sources.get("default") if bundle.template is not None else None
        ids = (info.model, name, info.tokenizer_path)
        unread = ""
        for each, described in (*((each, None) for each in ids), (info.model, bundle.response_template)):
            try:
                found = explain(each, source, described)
            except UnknownModelFamily as error:
                unread = f" ({error})" if described is not None else ""
                continue
            log.info("model %s: output is read as %s (%s)", name, found.family.name, found.reason)
            return found.family
        log.warning("model %s: no parser family is known for it%s; its output is passed on as plain text", name, unread)
        return None


def _thinks(family: Family | None, bundle: TokenizerBundle) -> bool:
    """Whether the model's chat template knows the family's reasoning: models that do not reason share families with some that
    do. A family that the model's own files describe is its alone."""
    if family is None or bundle.template is None or is_described(family):
        return True
    marks = [mark.strip() for mark in (*family.thinking.opens, *family.thinking.closes)]
    return any(mark in source for source in bundle.template.sources.values() for mark in marks)


def _removed(unpacking: "asyncio.Future[Path]") -> None:
    """Delete a folder that was unpacked for a load that was given up."""
    if not unpacking.cancelled() and unpacking.exception() is None:
        shutil.rmtree(unpacking.result(), ignore_errors=True)


def _named_folder(info: ModelInfo, error: SmgError | None) -> TokenizerSource:
    for place in (info.tokenizer_path, info.model):
        if place and Path(place).is_dir():
            return TokenizerSource(Path(place))
    raise InternalError(
        "The engine sends no tokenizer; name a folder with tokenizer.path.",
        detail=error.whole if error else None,
        outside_text=error.outside_text if error else "",
    ) from error


def _with_template(bundle: TokenizerBundle, file: Path, clock: Clock) -> TokenizerBundle:
    """The same bundle with the operator's own chat template."""
    try:
        source = file.expanduser().read_text()
    except OSError as error:
        raise InternalError("The chat template cannot be read.", detail=str(error)) from error
    template = ChatTemplate(source, special=bundle.tokenizer.special, name=str(file), clock=clock)
    return attrs.evolve(bundle, template=template)


def _with_media_texts(bundle: TokenizerBundle, texts: Mapping[str, str], clock: Clock) -> ChatTemplate | None:
    """The bundle with a template that writes these texts for media, for templates that take a message's content as one string."""
    own = bundle.template
    if own is None:
        return None
    return ChatTemplate(own.sources, special=bundle.tokenizer.special, name=own.name, clock=clock, media=texts)


def _encode_inline(tokenizer: Tokenizer, clock: Clock) -> int:
    """How many characters `tokenizer` encodes in half a millisecond: measured on this thread, which also warms it up."""
    text = " ".join(f"{word}{number}" for number in range(500) for word in ("The quick brown ", "Zürich, ", "f(x) = "))
    best = float("inf")
    for _ in range(4):
        began = clock.monotonic()
        tokenizer.encode(text)
        best = min(best, clock.monotonic() - began)
    return round(min(max(0.0005 * len(text) / max(best, 1e-9), 1_000), 100_000))
