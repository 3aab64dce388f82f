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
from pathlib import Path
from typing import Any, TypeVar

import attrs

from smg_core.config import MediaConfig
from smg_core.engines.neutral.media import NeutralRequestMedia
from smg_core.engines.vllm.media import VllmRequestMedia
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
from smg_multimodal.packaging import WireTensor, for_items, for_vllm
from smg_multimodal.prepare import Detail, Media, Prepared, Preparer
from smg_multimodal.registry import ModelFiles
from smg_multimodal.shm import SharedMemory, SharedTensor, namespace_id, sweep_orphans
from smg_multimodal.types import Modality

__all__ = ["GatewayMedia", "ModelMedia"]

log = logging.getLogger("smg.media")

T = TypeVar("T")

_DETAILS = {"low": Detail.LOW, "high": Detail.HIGH, "original": Detail.HIGH}
_ALL = frozenset(Modality)
_TOGETHER = {"vllm": frozenset({Modality.IMAGE, Modality.VIDEO}), "neutral": _ALL}
"""Which kinds each dialect can be sent in one request; it can be sent any alone. vLLM's servicer (0.14) knows two kinds of
batches, pictures and clips, and takes recordings for the first."""
_NAMES = {"image": "images", "video": "videos", "audio": "audio"}
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
    """What `load` hands to `place`: files and features, in prompt order."""

    media: tuple[Media, ...]
    items: tuple[ReadyItem, ...]


@attrs.define(eq=False)
class _Loan:
    """Tensors of one call in shared memory, until the call is over."""

    inputs: VllmRequestMedia
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

    def service(
        self,
        name: str,
        folder: Path,
        config: Mapping[str, Any],
        tokenizer: Tokenizer,
        dialect: str,
        *,
        raw: bool = False,
        said: frozenset[str] | None = None,
    ) -> "ModelMedia | None":
        """The service of the model whose files lie in `folder`, engines of which speak `dialect`; None, with a line in the
        log, where it takes no media. `raw` is for engines that normalise pixels themselves; `said` are the kinds that the
        engine says it takes (None: it cannot say). Reads files and takes milliseconds: not on an event loop."""
        if dialect not in _TOGETHER:
            log.info("model %s: text only, since its engine's dialect (%s) carries no media", name, dialect)
            return None
        files = ModelFiles(
            model=config,
            preprocessor=_object(folder / "preprocessor_config.json"),
            processor=_object(folder / "processor_config.json"),
            video=_object(folder / "video_preprocessor_config.json"),
        )
        files = files.unnormalised() if raw else files
        limits = ImageLimits(max_bytes=self._config.max_bytes, max_pixels=self._config.max_pixels)
        try:
            preparer = Preparer(
                files, _Vocabulary(tokenizer), cache=self._features, digests=self._digests, limits=limits
            )
        except (UnsupportedModel, MediaError, LookupError, TypeError, ValueError) as error:
            log.warning("model %s: text only: %s", name, error)
            return None
        kinds = frozenset(rule.modality for rule in preparer.rules if said is None or rule.modality.value in said)
        if not kinds:
            log.info("model %s: text only, since its engine says that it takes nothing else", name)
            return None
        log.info("model %s: takes %s (%s)", name, " and ".join(sorted(kinds)), preparer.family.name)
        loader = MediaLoader(preparer, self._fetcher, pool=self._pool)
        most = min(self._config.max_items, preparer.family.limit)
        return ModelMedia(preparer, loader, self._fetcher, self._pool, dialect, kinds, most, self._shared, raw=raw)

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
    """One model's media: the pipeline's `MediaService`."""

    def __init__(
        self,
        preparer: Preparer,
        loader: MediaLoader,
        fetcher: Fetcher,
        pool: Executor,
        dialect: str,
        kinds: frozenset[Modality],
        max_items: int,
        shared: "_Shared | None" = None,
        *,
        raw: bool = False,
    ) -> None:
        self.raw = raw
        self.kinds: frozenset[str] = frozenset(kind.value for kind in kinds)
        self._dialect = dialect
        self._together = _TOGETHER[dialect]
        self._shared = shared
        self._preparer = preparer
        self._loader = loader
        self._fetcher = fetcher
        self._pool = pool
        self._max_items = max_items
        self._anchors = {rule.modality: rule.anchor for rule in preparer.rules}

    @property
    def texts(self) -> Mapping[str, str]:
        """What stands for a medium in a prompt whose template takes content as one string."""
        return {rule.modality.value: rule.text for rule in self._preparer.rules}

    async def load(self, items: Sequence[MediaItem]) -> _Loaded:
        """Fetch, then process, the items; several at once, what is named twice only once."""
        self._check(items)
        first = {item.source.url: item for item in reversed(items)}
        fetched = dict(zip(first, await _together([self._fetch(item) for item in first.values()]), strict=True))
        files = [fetched[item.source.url] if item.source.data is None else item.source.data for item in items]
        self._check_sizes(items, files)
        several = sum(item.kind == "image" for item in items) > 1
        ready = await _together([self._process(item, data, several) for item, data in zip(items, files, strict=True)])
        return _Loaded(tuple(media for media, _ in ready), tuple(done for _, done in ready))

    def _check(self, items: Sequence[MediaItem]) -> None:
        if len(items) > self._max_items:
            raise InvalidRequest(
                f"The request has {len(items)} media; at most {self._max_items} are taken.",
                param=items[self._max_items].param,
                code="too_many_media",
            )
        kinds = {Modality(item.kind) for item in items}
        if len(kinds) > 1 and not kinds <= self._together:
            odd = next(item for item in items if item.kind != items[0].kind)
            raise UnsupportedParameter(
                f"This model's engine does not take {_NAMES[odd.kind]} and {_NAMES[items[0].kind]} in one request.",
                param=odd.param,
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

    async def _process(self, item: MediaItem, data: bytes, several: bool) -> tuple[Media, ReadyItem]:
        if item.format == "pcm16":
            data = wave_of_pcm16(data)
        source = Source(None, data, Modality(item.kind), _DETAILS.get(item.detail, Detail.AUTO), several)
        with _ours(item.param, item.format):
            (media,), (ready,) = await self._loader.load([source])
        return media, ready

    async def place(self, ids: TokenIds, loaded: _Loaded) -> PlacedMedia:
        """Expand and package, in the pool: items of a request are joined into one tensor."""
        with _ours("messages"):
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._placed, ids, loaded)

    def _placed(self, ids: TokenIds, loaded: _Loaded) -> PlacedMedia:
        prepared = self._preparer.placed(array("I", ids.buffer.tobytes()), loaded.media, loaded.items)
        keys = array("Q", routing_keys(prepared.expanded).tobytes())
        return PlacedMedia(TokenIds(prepared.expanded.ids), self._packed(prepared), keys)

    def _packed(self, prepared: Prepared) -> NeutralRequestMedia | VllmRequestMedia:
        if self._dialect == "neutral":
            return NeutralRequestMedia(for_items(prepared))
        dtype = "uint8" if self.raw else "float32"
        return VllmRequestMedia(for_vllm(prepared, dtype))

    async def lend(self, inputs: Any, memory: str) -> Loan | None:
        """Tensors go into files that the engine reads, where it sees the same memory and there is room; else None."""
        shared = self._shared
        if shared is None or memory != shared.namespace or not isinstance(inputs, VllmRequestMedia):
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


def _loan(inputs: VllmRequestMedia, memory: SharedMemory) -> _Loan | None:
    """Places for as many tensors as there is room for; None when there is none for any."""
    taken, shared = [], []
    for batch in inputs.batches:
        places: dict[str, SharedTensor] = {}
        for name, tensor in {batch.primary: batch.pixel_values, **batch.tensors}.items():
            place = memory.take(WireTensor(tensor.data, tuple(tensor.shape), tensor.dtype))
            if place is not None:
                places[name] = place
                taken.append((place, tensor))
        shared.append(places)
    return _Loan(attrs.evolve(inputs, shared=tuple(shared)), memory, tuple(taken)) if taken else None


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
