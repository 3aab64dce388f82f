"""The media service that all models of a gateway share, made from the settings (edge).

One `GatewayMedia` has the HTTP client with its rules, the threads and processes that decode, the budgets, the cache of items
seen before, and the memory shared with engines on this host; a model's files become a `ModelMedia`, which the pipeline knows by
its Protocol.
Above: models.onboarding. Below: models.model_media, smg_multimodal. Importing this module needs Pillow; the gateway does so when
a model may take media.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import attrs

from smg_core.config.check import processor_kwargs
from smg_core.engines.base import Pixels
from smg_core.errors import InternalError
from smg_core.http.settings import MediaConfig
from smg_core.json_types import Json
from smg_core.models.fetching import fetching_rules, trusted
from smg_core.models.model_media import ModelMedia
from smg_core.models.shm_tensors import shared_memory
from smg_core.tokenizer.base import Tokenizer
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.decoding.decode import ImageLimits
from smg_multimodal.fetching.fetch import Fetcher, FetchLimits
from smg_multimodal.preparing.content import DigestMemory, FeatureCache
from smg_multimodal.preparing.prepare import Preparer
from smg_multimodal.preparing.shared_items import SharedItems
from smg_multimodal.processes.decoders import Decoders
from smg_multimodal.records.errors import MediaError, UnknownFamily, UnsupportedModel

__all__ = ["GatewayMedia", "decoder_threads"]

log = logging.getLogger("smg.media")

_OF_STRANGE_FILES = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""What values that no check foresaw may lead to while a model is loaded. Its text is served all the same."""

_SEEN = "smg-seen-"
"""How the names of folders of items begin that the processes of a gateway share."""
_MAPPED = 256
"""Items that a process keeps mapped: each takes a descriptor. Others are mapped when they come again."""
_FILES_SHARE = 8
"""One part in so many of the cache is for recognising files that come again; the rest is for tensors."""


@attrs.frozen
class _Vocabulary:
    """A tokenizer as smg_multimodal asks for it."""

    tokenizer: Tokenizer

    def token_id(self, token: str) -> int | None:
        return self.tokenizer.token_id(token)

    def encode(self, text: str) -> Sequence[int]:
        return self.tokenizer.encode(text)


class GatewayMedia:
    """Fetching, decoding, budgets and caches of one gateway."""

    def __init__(self, config: MediaConfig, processes: int = 1, cores: int = 1, shared_as: str = "") -> None:
        """`processes` is how many gateways like this one share the `cores`, and what is made of media by the name `shared_as`, if
        there is one."""
        files = config.cache_bytes // _FILES_SHARE
        self._config = config
        self._decoders = Decoders(
            threads=config.threads or decoder_threads(cores, processes),
            processes=config.processes,
            memory=config.decode_bytes,
            tensors=config.tensor_bytes,
            seconds=config.decode_timeout_s,
            clip_seconds=config.clip_timeout_s,
            wait_seconds=config.wait_s,
        )
        self._fetcher = Fetcher(
            fetching_rules(config), _fetch_limits(config), tls=trusted(config.tls_ca), pool=self._decoders.pool
        )
        shares = config.shared_memory != "off"
        self._shared = shared_memory(self._decoders.pool, config.shared_memory_bytes) if shares else None
        self._seen = _seen_by_all(shared_as, config.cache_bytes - files, processes)
        self._features = _features(self._seen, config.cache_bytes - files, processes)
        self._digests = DigestMemory(files)

    def service(self, name: str, folder: Path, config: Mapping[str, object], tokenizer: Tokenizer) -> ModelMedia | str:
        """The service of the model whose files lie in `folder`. Where it takes no media a line in the log says so, and the
        reason is returned, in words for clients ("" for a model of text). Reads files and takes milliseconds: not on an event
        loop."""
        files = ModelFiles(
            model=config,
            preprocessor=_object(folder / "preprocessor_config.json"),
            processor=_object(folder / "processor_config.json"),
            video=_object(folder / "video_preprocessor_config.json"),
        )
        try:
            if (arguments := processor_kwargs(self._config).get(name)) is not None:
                files = files.with_kwargs(arguments)
            preparers = {pixels: self._preparer(files, tokenizer, pixels) for pixels in self._ways()}
        except (UnsupportedModel, MediaError) as error:
            log.warning("model %s: text only: %s", name, error)
            return _for_the_client(error)
        except _OF_STRANGE_FILES as error:
            log.warning("model %s: text only: its files cannot be used (%s: %s)", name, type(error).__name__, error)
            return "its files cannot be used"
        preparer = next(iter(preparers.values()))
        kinds = frozenset(rule.modality for rule in preparer.rules)
        if not kinds:
            log.info("model %s: text only, since its vocabulary has no place for media", name)
            return ""
        log.info("model %s: takes %s (%s)", name, " and ".join(sorted(kinds)), preparer.family.name)
        most = min(self._config.max_items, preparer.family.limit)
        return ModelMedia(
            preparers, self._fetcher, self._decoders, kinds, most, self._shared, resize=self._config.resize
        )

    def _ways(self) -> list[Pixels]:
        """All forms in which engines may want pixels."""
        resizes: Sequence[Literal["pil", "torch"]] = (
            ("pil", "torch") if self._config.resize == "auto" else (self._config.resize,)
        )
        return [Pixels(raw, resize) for raw in (False, True) for resize in resizes]

    def _preparer(self, files: ModelFiles, tokenizer: Tokenizer, pixels: Pixels) -> Preparer:
        """A preparer that makes features with pixels in this form."""
        files = files.resized_by(pixels.resize)
        return Preparer(
            files.unnormalised() if pixels.raw else files,
            _Vocabulary(tokenizer),
            cache=self._features,
            digests=self._digests,
            limits=ImageLimits(
                max_bytes=self._config.max_bytes,
                max_pixels=self._config.max_pixels,
                max_scans=self._config.max_scans,
                max_frames=self._config.max_frames,
                max_memory=self._config.decode_bytes,
                max_seconds=self._config.max_seconds,
                formats=frozenset(self._config.formats),
            ),
            reader=self._decoders.processes,
        )

    @property
    def tensor_bytes(self) -> int:
        """Bytes of tensors reserved for requests now."""
        return self._decoders.tensors.allotment.used

    @property
    def shared_bytes(self) -> int:
        """Bytes of tensors in shared memory now."""
        return self._shared.memory.nbytes if self._shared is not None else 0

    async def close(self) -> None:
        """Close threads, connections and shared memory."""
        self._decoders.close()
        await self._fetcher.close()
        if self._shared is not None:
            self._shared.memory.close()
        if self._seen is not None:
            self._seen.close()


def _seen_by_all(name: str, nbytes: int, processes: int) -> SharedItems | None:
    """What the processes of a gateway remember together, by a `name` that they share; None, with a line in the log, where there
    is no memory for it."""
    if not name or not nbytes:
        return None
    try:
        SharedItems.sweep(_SEEN)
        return SharedItems(f"{_SEEN}{name}", nbytes, processes)
    except OSError as error:
        log.warning("each process remembers media for itself: there is no shared memory here: %s", error)
        return None


def _features(seen: SharedItems | None, nbytes: int, processes: int) -> FeatureCache:
    """The cache of this process. Beside shared memory it has what lies there, which takes memory of its own only where it is
    removed from there."""
    if seen is None:
        return FeatureCache(nbytes)
    return FeatureCache(nbytes // max(1, processes), seen, most=_MAPPED)


def _for_the_client(error: Exception) -> str:
    """Why a model takes no media, without what the log says besides: which other families there are."""
    return error.reason if isinstance(error, UnknownFamily) else str(error)


def decoder_threads(cores: int, processes: int) -> int:
    """How many items are processed at once by default: so many that one tenant's share, three quarters, uses all cores."""
    return max(2, -(-4 * -(-cores // processes) // 3))


def _fetch_limits(config: MediaConfig) -> FetchLimits:
    return FetchLimits(
        max_bytes=config.max_bytes,
        connect_seconds=min(3.0, config.timeout_s),
        total_seconds=config.timeout_s,
        concurrent=config.fetches,
        max_request_bytes=config.max_request_bytes,
        process_seconds=2 * max(config.decode_timeout_s, config.clip_timeout_s),
    )


def _object(file: Path) -> Mapping[str, Json]:
    """The JSON object in `file`; empty where there is none."""
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InternalError("A file of the model cannot be read.", detail=f"{file}: {error}") from error
    return found if isinstance(found, dict) else {}
