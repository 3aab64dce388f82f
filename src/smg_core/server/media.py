"""Media of requests, fetched and turned into what an engine takes (edge).

The one place where the gateway meets smg_multimodal: a model's files become a service that the pipeline knows by its
Protocol, and that library's errors become ours, each naming the part of the request at fault. One `GatewayMedia` serves a
gateway: the guarded way out, threads, the memory of items seen before, and the memory shared with engines on this host, are
those of all its models. Above: server.runtime. Below:
pipeline.media's roles, the engines' framing, smg_multimodal. Importing this module needs Pillow; the gateway does so when a
model may take media.
"""

import asyncio
import contextlib
import json
import logging
import secrets
import ssl
from array import array
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import attrs

from smg_core.config import MediaConfig
from smg_core.engines.base import EngineFacts, RequestMedia
from smg_core.engines.dialects import dialect
from smg_core.errors import InternalError, InvalidRequest, UnsupportedParameter
from smg_core.pipeline.media import Loan, MediaItem, PlacedMedia
from smg_core.tokenizer.base import Tokenizer
from smg_core.tokens import TokenIds
from smg_multimodal.audio import wave_of_pcm16
from smg_multimodal.content import DigestMemory, FeatureCache, routing_keys
from smg_multimodal.decode import ImageLimits
from smg_multimodal.egress import EgressRules
from smg_multimodal.errors import BadRecording, MediaError, PlaceholderMismatch, UnsupportedModel
from smg_multimodal.expand import ReadyItem
from smg_multimodal.fetch import Fetcher, FetchLimits, MediaLoader, Source
from smg_multimodal.packaging import WireTensor
from smg_multimodal.prepare import Detail, Media, Prepared, Preparer
from smg_multimodal.registry import ModelFiles
from smg_multimodal.shm import SharedMemory, SharedTensor, namespace_id, sweep_orphans
from smg_multimodal.types import Modality

__all__ = ["GatewayMedia", "ModelMedia"]

log = logging.getLogger("smg.media")

T = TypeVar("T")

_DETAILS = {"low": Detail.LOW, "high": Detail.HIGH, "original": Detail.HIGH}
_SHARED = "smg-media-"
_FILES_SHARE = 8
"""One part in so many of the cache remembers files, to know them again; the rest keeps tensors."""


@attrs.frozen
class _Vocabulary:
    """A tokenizer as smg_multimodal asks for it."""

    tokenizer: Tokenizer

    def token_id(self, token: str) -> int | None:
        return self.tokenizer.token_id(token)

    def encode(self, text: str) -> Sequence[int]:
        return self.tokenizer.encode(text)


@attrs.frozen
class _Loaded:
    """What `load` hands to `place`: files and features, in prompt order. `raw`: pixels were left for the engine to normalise."""

    media: tuple[Media, ...]
    items: tuple[ReadyItem, ...]
    raw: bool


@attrs.frozen
class _Features:
    """What `place` hands to `pack`."""

    prepared: Prepared
    loaded: _Loaded


@attrs.define(eq=False)
class _Loan:
    """Tensors of one call in shared memory, until the call is over."""

    inputs: RequestMedia
    memory: SharedMemory
    taken: tuple[tuple[SharedTensor, Any], ...]

    def write(self) -> None:
        """Fill the places; in any thread."""
        for place, tensor in self.taken:
            self.memory.write(place, tensor)

    def release(self) -> None:
        taken, self.taken = self.taken, ()
        for place, _ in taken:
            self.memory.forget(place)


class GatewayMedia:
    """What the models of one gateway share."""

    def __init__(self, config: MediaConfig) -> None:
        rules = EgressRules(
            schemes=frozenset({"https", "http"} if config.allow_http else {"https"}),
            hosts=frozenset(config.allow_hosts) or None,
            ports=frozenset({80, 443, config.port or 443}),
            private=frozenset(config.allow_private),
            files=Path(config.allow_files).expanduser() if config.allow_files else None,
        )
        limits = FetchLimits(
            max_bytes=config.max_bytes,
            connect_seconds=min(3.0, config.timeout_s),
            total_seconds=config.timeout_s,
            concurrent=config.fetches,
            max_request_bytes=config.max_request_bytes,
        )
        files = config.cache_bytes // _FILES_SHARE
        self._config = config
        self._pool = ThreadPoolExecutor(config.threads, thread_name_prefix="smg-media")
        self._fetcher = Fetcher(rules, limits, tls=_tls(config.tls_ca), pool=self._pool)
        self._shared = _shared_memory(config)
        self._features = FeatureCache(config.cache_bytes - files)
        self._digests = DigestMemory(files)

    def service(self, name: str, folder: Path, config: Mapping[str, Any], tokenizer: Tokenizer) -> "ModelMedia | None":
        """The service of the model whose files lie in `folder`; None, with a line in the log, where it takes no media. Reads
        files and takes milliseconds: not on an event loop."""
        files = ModelFiles(
            model=config,
            preprocessor=_object(folder / "preprocessor_config.json"),
            processor=_object(folder / "processor_config.json"),
            video=_object(folder / "video_preprocessor_config.json"),
        )
        try:
            preparers = {raw: self._preparer(files, tokenizer, raw=raw) for raw in (False, True)}
        except (UnsupportedModel, MediaError, LookupError, TypeError, ValueError) as error:
            log.warning("model %s: text only: %s", name, error)
            return None
        preparer = preparers[False]
        kinds = frozenset(rule.modality for rule in preparer.rules)
        if not kinds:
            log.info("model %s: text only, since its vocabulary has no place for media", name)
            return None
        log.info("model %s: takes %s (%s)", name, " and ".join(sorted(kinds)), preparer.family.name)
        most = min(self._config.max_items, preparer.family.limit)
        return ModelMedia(preparers, self._fetcher, self._pool, kinds, most, self._shared)

    def _preparer(self, files: ModelFiles, tokenizer: Tokenizer, *, raw: bool) -> Preparer:
        """What makes features of media: normalised ones, or `raw` ones for engines that normalise pixels themselves."""
        return Preparer(
            files.unnormalised() if raw else files,
            _Vocabulary(tokenizer),
            cache=self._features,
            digests=self._digests,
            limits=ImageLimits(max_bytes=self._config.max_bytes, max_pixels=self._config.max_pixels),
        )

    @property
    def shared_bytes(self) -> int:
        """Bytes of tensors in shared memory now."""
        return self._shared.memory.nbytes if self._shared is not None else 0

    async def close(self) -> None:
        """Let go of threads, connections and shared memory."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        await self._fetcher.close()
        if self._shared is not None:
            self._shared.memory.close()


class ModelMedia:
    """One model's media: the pipeline's `MediaService`. Features are made as the engines probably want them, and made anew for an
    engine that wants them otherwise, so that a fleet may mix engines that normalise pixels with others."""

    def __init__(
        self,
        preparers: Mapping[bool, Preparer],
        fetcher: Fetcher,
        pool: Executor,
        kinds: frozenset[Modality],
        max_items: int,
        shared: "_Shared | None" = None,
    ) -> None:
        self.kinds: frozenset[str] = frozenset(kind.value for kind in kinds)
        self._shared = shared
        self._preparers = preparers
        self._preparer = preparers[False]
        self._loaders = {raw: MediaLoader(each, fetcher, pool=pool) for raw, each in preparers.items()}
        self._fetcher = fetcher
        self._pool = pool
        self._max_items = max_items
        self._anchors = {rule.modality: rule.anchor for rule in self._preparer.rules}

    @property
    def texts(self) -> Mapping[str, str]:
        """What stands for a medium in a prompt whose template takes content as one string."""
        return {rule.modality.value: rule.text for rule in self._preparer.rules}

    async def load(self, items: Sequence[MediaItem], *, normalizes: bool) -> _Loaded:
        """Fetch, then process, the items; several at once, what is named twice only once."""
        self._check(items)
        first = {item.source.url: item for item in reversed(items)}
        fetched = dict(zip(first, await _together([self._fetch(item) for item in first.values()]), strict=True))
        files = [fetched[item.source.url] if item.source.data is None else item.source.data for item in items]
        self._check_sizes(items, files)
        several = sum(item.kind == "image" for item in items) > 1
        processed = [self._process(item, data, several, normalizes) for item, data in zip(items, files, strict=True)]
        ready = await _together(processed)
        return _Loaded(tuple(media for media, _ in ready), tuple(done for _, done in ready), normalizes)

    def _check(self, items: Sequence[MediaItem]) -> None:
        if len(items) > self._max_items:
            raise InvalidRequest(
                f"The request has {len(items)} media; at most {self._max_items} are taken.",
                param=items[self._max_items].param,
                code="too_many_media",
            )

    def _check_sizes(self, items: Sequence[MediaItem], files: Sequence[bytes]) -> None:
        limits, total = self._fetcher.limits, 0
        for item, data in zip(items, files, strict=True):
            total += len(data)
            if len(data) > limits.max_bytes or total > limits.max_request_bytes:
                whose, most = (
                    ("one item", limits.max_bytes)
                    if len(data) > limits.max_bytes
                    else ("all items of a request together", limits.max_request_bytes)
                )
                raise InvalidRequest(
                    f"The media are too large: {whose} may have {most} bytes.", param=item.param, code="media_too_large"
                )

    async def _fetch(self, item: MediaItem) -> bytes:
        url = item.source.url
        if url is None:
            return item.source.data or b""
        with _ours(item.param):
            return await self._fetcher.fetch(url)

    async def _process(self, item: MediaItem, data: bytes, several: bool, raw: bool) -> tuple[Media, ReadyItem]:
        if item.format == "pcm16":
            data = wave_of_pcm16(data)
        source = Source(None, data, Modality(item.kind), _DETAILS.get(item.detail, Detail.AUTO), several)
        with _ours(item.param, item.format):
            (media,), (ready,) = await self._loaders[raw].load([source])
        return media, ready

    async def place(self, ids: TokenIds, loaded: _Loaded) -> PlacedMedia:
        """Expand, in the pool."""
        with _ours("messages"):
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._placed, ids, loaded)

    def _placed(self, ids: TokenIds, loaded: _Loaded) -> PlacedMedia:
        prepared = self._preparers[loaded.raw].placed(array("I", ids.buffer.tobytes()), loaded.media, loaded.items)
        keys = array("Q", routing_keys(prepared.expanded).tobytes())
        return PlacedMedia(TokenIds(prepared.expanded.ids), _Features(prepared, loaded), keys)

    async def pack(self, features: _Features, facts: EngineFacts) -> RequestMedia:
        """Package in the pool: items of a request are joined into one tensor. Raises UnsupportedParameter for what the engine's
        dialect cannot carry."""
        with _ours("messages"):
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._packed, features, facts)

    def _packed(self, features: _Features, facts: EngineFacts) -> RequestMedia:
        packing = dialect(facts.dialect).packing
        if packing is None:
            raise UnsupportedModel(f"engines of the dialect {facts.dialect} take no media")
        prepared, loaded = features.prepared, features.loaded
        if facts.normalizes != loaded.raw:
            preparer = self._preparers[facts.normalizes]
            items = [preparer.ready(each) for each in loaded.media]
            prepared = replace(prepared, items=tuple(items), processor=preparer.images)
        return packing().pack(prepared, facts.normalizes)

    async def lend(self, inputs: RequestMedia, facts: EngineFacts) -> Loan | None:
        """Tensors go into files that the engine reads, where it sees the same memory and there is room; else None."""
        shared = self._shared
        if shared is None or facts.shared_memory != shared.namespace:
            return None
        loan = _loan(inputs, shared.memory)
        if loan is None:
            return None
        writing = asyncio.get_running_loop().run_in_executor(self._pool, loan.write)
        try:
            await asyncio.shield(writing)
        except OSError as error:
            log.warning("media are sent inline: shared memory cannot be written to: %s", error)
            loan.release()
            return None
        except asyncio.CancelledError:
            writing.add_done_callback(lambda done: _given_up(done, loan))
            raise
        return loan

    def refuse_strays(self, ids: TokenIds) -> None:
        buffer = array("I", ids.buffer.tobytes())
        for modality, anchor in self._anchors.items():
            if buffer.count(anchor):
                raise InvalidRequest(f"The prompt has a placeholder for {modality.value} content, but no such content.")


@attrs.frozen
class _Shared:
    """Memory that engines may see too, if what they say of it is `namespace`."""

    memory: SharedMemory
    namespace: str


def _shared_memory(config: MediaConfig) -> _Shared | None:
    """What tensors are shared through; None where that is off, or there is nothing of the kind here."""
    if config.shared_memory == "off":
        return None
    try:
        sweep_orphans(_SHARED)
        memory = SharedMemory(f"{_SHARED}{secrets.token_hex(8)}", max_bytes=config.shared_memory_bytes)
        return _Shared(memory, namespace_id())
    except OSError as error:
        log.warning("media are sent inline: there is no shared memory here: %s", error)
        return None


def _loan(inputs: RequestMedia, memory: SharedMemory) -> _Loan | None:
    """Places for as many tensors as there is room for; None when there is none for any."""
    tensors = inputs.lendable
    places = [memory.take(WireTensor(each.data, tuple(each.shape), each.dtype)) for each in tensors]
    taken = tuple((place, tensor) for place, tensor in zip(places, tensors, strict=True) if place is not None)
    return _Loan(inputs.lent(places), memory, taken) if taken else None


def _given_up(writing: "asyncio.Future[None]", loan: _Loan) -> None:
    """Nobody waits for this any more."""
    if not writing.cancelled():
        writing.exception()
    loan.release()


@contextlib.contextmanager
def _ours(param: str, said: str | None = None) -> Iterator[None]:
    """Errors of the library as errors of the request's part `param`. Its messages are made for clients. `said` is the format
    that a recording was said to have."""
    try:
        yield
    except BadRecording as error:
        hint = f" (it was said to be {said!r})" if said not in (None, "wav", "pcm16") else ""
        raise InvalidRequest(f"Invalid '{param}': {error}{hint}.", param=param, code=error.code) from error
    except PlaceholderMismatch as error:
        raise InvalidRequest(f"The media cannot be placed: {error}.", param=param, code=error.code) from error
    except MediaError as error:
        raise InvalidRequest(f"Invalid '{param}': {error}.", param=param, code=error.code) from error
    except UnsupportedModel as error:
        raise UnsupportedParameter(f"Invalid '{param}': {error}.", param=param) from error


async def _together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order; on the first fault, or when the caller is cancelled, the rest is cancelled too."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


def _object(file: Path) -> Mapping[str, Any]:
    """The JSON object in `file`; empty where there is none."""
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InternalError("A file of the model cannot be read.", detail=f"{file}: {error}") from error
    return found if isinstance(found, dict) else {}


def _tls(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise InternalError("The certificates for fetching media cannot be read.", detail=f"{ca}: {error}") from error
