"""One model's media: fetched, measured, processed, placed and packed (edge).

The pipeline's `MediaService`. Decides the order of the checks of a request's media: bytes are counted while they are fetched,
tokens and memory are measured on headers, and only what fits the prompt and the gateway's budget is decoded. Above:
models.media_service, which makes these. Below: pipeline.prompt.media's roles, the engines' framing, smg_multimodal.
"""

import asyncio
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar

import attrs

from smg_core.engines.base import EngineFacts, Pixels, RequestMedia
from smg_core.engines.kinds.table import kind
from smg_core.errors import InvalidRequest, LanguageUnknown, UnsupportedParameter
from smg_core.models.media_errors import of_the_request
from smg_core.models.shm_tensors import TensorSharing
from smg_core.pipeline.prompt.media import MediaItem, PlacedMedia, SharedInputs
from smg_core.speech import Transcription
from smg_core.tokens import TokenIds
from smg_multimodal.decoding.costs import Cost
from smg_multimodal.fetching.fetch import Fetcher, MediaLoader, together
from smg_multimodal.preparing.content import routing_keys
from smg_multimodal.preparing.packaging import media_starts
from smg_multimodal.preparing.prepare import Detail, Media, Prepared, Preparer
from smg_multimodal.processes.budget import ByteCount
from smg_multimodal.processes.decoders import Decoders
from smg_multimodal.prompts.expand import ReadyItem
from smg_multimodal.prompts.prompts import Dictation
from smg_multimodal.recordings.audio import wave_of_pcm16
from smg_multimodal.records.errors import BadDictation, LanguageNeeded, MediaTooLarge, UnsupportedModel
from smg_multimodal.records.types import Modality

__all__ = ["ModelMedia"]

T = TypeVar("T")

_COPIES = 2
"""How many copies of a request's tensors are in memory: as they were made, and in the message that is sent."""
_COPIES_JOINED = 3
"""The same where several items are joined."""

_LONGEST_ADDRESS = 8192
"""Characters of addresses that are compared on the event loop."""

_COPIED_HERE = 256 * 1024
"""Bytes of a recording that are put behind a head on the event loop."""

_DETAILS = {"low": Detail.LOW, "high": Detail.HIGH, "original": Detail.HIGH}


def _address(item: MediaItem) -> str | int:
    """What tells an item's file from others: its address, or of a long one, which has the file in itself, the very text. To hash
    that would be to go through all of it; whether two are the same is found out in a thread, by what is in them."""
    url = item.source.url or ""
    return url if len(url) <= _LONGEST_ADDRESS else id(url)


def _copies(items: Sequence[object]) -> int:
    return _COPIES if len(items) == 1 else _COPIES_JOINED


def _anything(tokens: int) -> None:
    """A check that accepts any number of tokens."""


@attrs.frozen
class _Loaded:
    """What `load` hands to `place`: files and features, in prompt order, how their pixels were made, and for which tenant.
    `others` are the same items in forms that other engines wanted. Tensors of all forms are reserved as long as this lives."""

    media: tuple[Media, ...]
    items: tuple[ReadyItem, ...]
    pixels: Pixels
    tenant: str
    others: dict[Pixels, Prepared] = attrs.field(factory=dict, repr=False)


@attrs.frozen
class _Features:
    """What `place` hands to `pack`."""

    prepared: Prepared
    loaded: _Loaded


class ModelMedia:
    """One model's media: the pipeline's `MediaService`. Features are made as the engines probably want them, and made anew for an
    engine that wants them otherwise, so that a fleet may mix engines that normalise pixels with others. `preparers` has one for
    every way in which engines may want them, with floats as they are made; `resize` is the operator's own word on it."""

    def __init__(
        self,
        preparers: Mapping[Pixels, Preparer],
        fetcher: Fetcher,
        decoders: Decoders,
        kinds: frozenset[Modality],
        max_items: int,
        sharing: TensorSharing | None = None,
        resize: Literal["auto", "pil", "torch"] = "auto",
    ) -> None:
        self.kinds: frozenset[str] = frozenset(kind.value for kind in kinds)
        self._sharing = sharing
        self._preparers = preparers
        self._preparer = next(iter(preparers.values()))
        self._loaders: dict[Pixels, tuple[Preparer, MediaLoader]] = {}
        self._resize = resize
        self._fetcher = fetcher
        self._decoders = decoders
        self._pool = decoders.pool
        self._max_items = max_items
        self._anchors = {rule.modality: rule.anchor for rule in self._preparer.rules}
        found = (rule.dictate for rule in self._preparer.rules if rule.dictate is not None)
        self._dictate = next(found, None)
        self._paced = any(rule.paced for rule in self._preparer.rules)

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts that stand for media in a prompt whose template takes content as one string."""
        return {rule.modality.value: rule.text for rule in self._preparer.rules}

    @property
    def dictates(self) -> bool:
        return self._dictate is not None

    def dictated(self, asked: Transcription) -> TokenIds:
        if self._dictate is None:
            raise UnsupportedParameter("The model's own template writes its prompts.", param="model")
        try:
            return TokenIds(self._dictate(Dictation(asked.language, asked.translate, asked.prompt, asked.detects)))
        except BadDictation as error:
            place = error.field if error.field == "model" else f"transcription.{error.field}"
            refusal = LanguageUnknown if isinstance(error, LanguageNeeded) else UnsupportedParameter
            raise refusal(f"Invalid '{error.field}': {error}.", param=place) from error

    @property
    def languages(self) -> frozenset[int]:
        return frozenset(each for rule in self._preparer.rules for each in rule.languages)

    async def load(
        self,
        items: Sequence[MediaItem],
        *,
        pixels: Pixels,
        tenant: str = "",
        check: Callable[[int], None] = _anything,
    ) -> _Loaded:
        """Fetch the items, measure them on their headers, and process them, several at once. An item named twice comes once."""
        self._check(items)
        media = await self._fetched(items, tenant)
        pixels = self._wanted(pixels)
        _, loader = self._loading(pixels)
        costs = await self._costs(loader, media, items, tenant)
        check(sum(cost.tokens for cost in costs))
        copies = _copies(items)
        with of_the_request(items[0].param):
            room = await self._decoders.reserve(copies * sum(cost.tensors for cost in costs), tenant)
        try:
            made = [partial(loader.item, each, cost, tenant=tenant) for each, cost in zip(media, costs, strict=True)]
            ready = await together([self._naming(each, item) for each, item in zip(made, items, strict=True)])
            loaded = _Loaded(tuple(media), tuple(ready), pixels, tenant)
        except BaseException:
            room.release()
            raise
        room.shrink(copies * sum(each.features.nbytes for each in ready))
        room.live_as_long_as(loaded)
        return loaded

    async def _costs(
        self, loader: MediaLoader, media: Sequence[Media], items: Sequence[MediaItem], tenant: str
    ) -> list[Cost]:
        work = [
            self._naming(partial(loader.cost, each, tenant=tenant), item)
            for each, item in zip(media, items, strict=True)
        ]
        return await together(work)

    def _wanted(self, pixels: Pixels) -> Pixels:
        """The form in which pixels are made for an engine that wants them so."""
        return pixels if self._resize == "auto" else attrs.evolve(pixels, resize=self._resize)

    def _loading(self, pixels: Pixels) -> tuple[Preparer, MediaLoader]:
        """What makes items in this form, and what brings their files."""
        found = self._loaders.get(pixels)
        if found is None:
            preparer = self._preparers[attrs.evolve(pixels, floats="float32")].sent_as(pixels.floats, raw=pixels.raw)
            found = preparer, MediaLoader(preparer, self._fetcher, decoders=self._decoders)
            self._loaders[pixels] = found
        return found

    def _check(self, items: Sequence[MediaItem]) -> None:
        if len(items) > self._max_items:
            raise InvalidRequest(
                f"The request has {len(items)} media; at most {self._max_items} are taken.",
                param=items[self._max_items].param,
                code="too_many_media",
            )

    async def _fetched(self, items: Sequence[MediaItem], tenant: str) -> list[Media]:
        """The items' files, counted while they come; a URL that is named twice is fetched once."""
        count = self._fetcher.count()
        first = {_address(item): item for item in reversed(items) if item.source.data is None}
        work = [
            self._naming(partial(self._fetcher.fetch, item.source.url or "", tenant=tenant, count=count), item)
            for item in first.values()
        ]
        for item in items:
            if item.source.data is not None:
                self._count(item, item.source.data, count)
        files = dict(zip(first, await together(work), strict=True))
        for item in items:
            if item.source.data is None and first[_address(item)] is not item:
                self._count(item, files[_address(item)], count)
        several = sum(item.kind == "image" for item in items) > 1
        return [await self._medium(item, files, several, tenant) for item in items]

    def _count(self, item: MediaItem, data: bytes, count: ByteCount) -> None:
        with of_the_request(item.param):
            if len(data) > self._fetcher.limits.max_bytes:
                raise MediaTooLarge(f"the media has more than {self._fetcher.limits.max_bytes} bytes")
            count.add(len(data))

    async def _medium(self, item: MediaItem, files: Mapping[str | int, bytes], several: bool, tenant: str) -> Media:
        data = files[_address(item)] if item.source.data is None else item.source.data
        if item.format == "pcm16":
            if len(data) <= _COPIED_HERE:
                data = wave_of_pcm16(data)
            else:
                data = await asyncio.get_running_loop().run_in_executor(self._pool, wave_of_pcm16, data)
        return Media(data, Modality(item.kind), _DETAILS.get(item.detail, Detail.AUTO), several, tenant, item.part)

    @staticmethod
    async def _naming(work: Callable[[], Awaitable[T]], item: MediaItem) -> T:
        """The result of `work`, which begins here, so that none waits where a request was given up; its errors name `item`."""
        with of_the_request(item.param, item.format):
            return await work()

    async def place(self, ids: TokenIds, loaded: _Loaded) -> PlacedMedia:
        """Expand, in the pool."""
        with of_the_request("messages"):
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._placed, ids, loaded)

    def _placed(self, ids: TokenIds, loaded: _Loaded) -> PlacedMedia:
        preparer, _ = self._loading(loaded.pixels)
        prepared = preparer.placed(array("I", ids.buffer.tobytes()), loaded.media, loaded.items)
        keys = array("Q", routing_keys(prepared.expanded).tobytes())
        starts = media_starts(prepared)
        tokens: Counter[str] = Counter()
        size = len(prepared.expanded.ids)
        for each in prepared.expanded.placeholders:  # of what lies beside the prompt, what is heard with its tokens
            tokens[each.modality.value] += 0 if self.dictates and not self._paced else min(each.span.length, size)
        most = [each.span.stop - size for each in prepared.expanded.placeholders] if self._paced else [None]
        return PlacedMedia(TokenIds(prepared.expanded.ids), _Features(prepared, loaded), keys, starts, tokens, most[0])

    async def pack(self, features: _Features, facts: EngineFacts) -> RequestMedia:
        """Package in the pool: items of a request are joined into one tensor. Raises UnsupportedParameter for what the engine's
        dialect cannot carry."""
        with of_the_request("messages"):
            prepared = features.prepared
            pixels = self._wanted(Pixels(facts.normalizes, facts.resizes, facts.floats))
            if features.loaded.pixels not in (pixels, attrs.evolve(pixels, floats="float32")):
                prepared = await self._otherwise(features, pixels)
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._packed, prepared, facts)

    async def _otherwise(self, features: _Features, pixels: Pixels) -> Prepared:
        """The same items, made anew for an engine that wants their pixels in another form: once for a request and form, and
        reserved as the first form was."""
        loaded, (preparer, loader) = features.loaded, self._loading(pixels)
        if (known := loaded.others.get(pixels)) is not None:
            return known
        media, tenant, copies = loaded.media, loaded.tenant, _copies(loaded.media)
        costs = await together([loader.cost(each, tenant=tenant) for each in media])
        room = await self._decoders.reserve(copies * sum(cost.tensors for cost in costs), tenant, continues=True)
        try:
            made = [loader.item(each, cost, tenant=tenant) for each, cost in zip(media, costs, strict=True)]
            items = tuple(await together(made))
        except BaseException:
            room.release()
            raise
        room.shrink(copies * sum(each.features.nbytes for each in items))
        room.live_as_long_as(loaded)
        found = replace(features.prepared, items=items, processor=preparer.images)
        loaded.others[pixels] = found
        return found

    @staticmethod
    def _packed(prepared: Prepared, facts: EngineFacts) -> RequestMedia:
        packing = kind(facts.dialect).packing
        if packing is None:
            raise UnsupportedModel(f"engines of the dialect {facts.dialect} take no media")
        return packing().pack(prepared, facts)

    async def share(self, inputs: RequestMedia, facts: EngineFacts) -> SharedInputs | None:
        """Calls `TensorSharing.share`; None if the gateway shares no memory."""
        return None if self._sharing is None else await self._sharing.share(inputs, facts)

    def refuse_strays(self, ids: TokenIds) -> None:
        buffer = array("I", ids.buffer.tobytes())
        for modality, anchor in self._anchors.items():
            if buffer.count(anchor):
                raise InvalidRequest(f"The prompt has a placeholder for {modality.value} content, but no such content.")
