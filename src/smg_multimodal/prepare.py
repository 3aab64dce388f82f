"""From content parts, token ids and a model's files to what an engine is sent: the package's front door.

Above: applications, and `fetch` which brings the bytes. Below: everything else here. One `Preparer` serves one model. It
decides what a picture's `detail` does, which key names an item, and when a remembered item will do. It does not wait: an
edge calls `features` in a thread, everything else on its own.
"""

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from PIL import Image

from smg_multimodal.collate import joined
from smg_multimodal.content import DigestMemory, FeatureCache, content_key
from smg_multimodal.costs import Cost, TensorBound, cost_of_clip, cost_of_picture, cost_of_recording
from smg_multimodal.decode import ImageLimits, decode_image, picture_header
from smg_multimodal.errors import BadMedia, MediaTooLarge, UnsupportedModel
from smg_multimodal.expand import Expanded, ReadyItem, expand
from smg_multimodal.formats import recognised
from smg_multimodal.prompts import PromptRule, Vocabulary
from smg_multimodal.registry import Family, ModelFiles, family_of
from smg_multimodal.resample import BICUBIC
from smg_multimodal.types import Array, ImageProcessor, ItemFeatures, Modality, Size

__all__ = ["Decode", "Detail", "Media", "Prepared", "Preparer"]

Decode = Callable[[bytes, ImageLimits], Image.Image]
"""What makes an upright RGB picture of a file: `decode.decode_image`, or something that does the same elsewhere."""


class Detail(StrEnum):
    """How closely a picture is looked at, as public APIs name it."""

    AUTO = "auto"
    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Media:
    """One item's encoded bytes, in the order in which items stand in the prompt. `several` says that it is not the prompt's
    only picture: some families look at several less closely."""

    data: bytes
    modality: Modality = Modality.IMAGE
    detail: Detail = Detail.AUTO
    several: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """An expanded prompt with its items, in prompt order, and the files they came from."""

    family: Family
    rules: tuple[PromptRule, ...]
    expanded: Expanded
    items: tuple[ReadyItem, ...]
    sources: tuple[bytes, ...]
    processor: ImageProcessor | None

    def collated(self, features: Sequence[ItemFeatures]) -> dict[str, Array]:
        """The tensors of several items of one modality as the family joins them."""
        if self.processor is not None and all(each.modality is Modality.IMAGE for each in features):
            return self.processor.collate(features)
        return {name: joined([each.tensors[name] for each in features]) for name in features[0].tensors}


class Preparer:
    """Everything one model needs. `low_side` is the longer side, in pixels, of a picture looked at with low detail; `decode` is
    called for every picture, in the thread that calls `features`.

    `cache` and `digests` may be shared between models: keys name the model's files too. Raises `UnsupportedModel` when no
    family takes the model or its vocabulary lacks a token.
    """

    def __init__(
        self,
        files: ModelFiles,
        vocabulary: Vocabulary,
        *,
        cache: FeatureCache | None = None,
        digests: DigestMemory | None = None,
        limits: ImageLimits | None = None,
        low_side: int = 512,
        decode: Decode = decode_image,
    ) -> None:
        self.family = family_of(files)
        self.images: ImageProcessor | None = None if self.family.image is None else self.family.image(files)
        pictures = () if self.family.prompt is None else (self.family.prompt(files, vocabulary),)
        self._bound = None if self.images is None else TensorBound(self.images)
        self.rules = (*pictures, *self._other_rules(files, vocabulary))
        configurations = {Modality.VIDEO: files.clips, Modality.AUDIO: files.recordings}
        self._others = {
            modality: modal.process(files.model, configurations[modality])
            for modality, modal in self.family.others.items()
        }
        self._cache = FeatureCache() if cache is None else cache
        self._digests = DigestMemory() if digests is None else digests
        self._limits = limits or ImageLimits()
        self._low_side = low_side
        self._decode = decode
        settings = (self.family.name, files.model, files.preprocessor, files.processor, files.video)
        self._name = content_key([json.dumps(settings, sort_keys=True, default=str).encode()])

    def _other_rules(self, files: ModelFiles, vocabulary: Vocabulary) -> list[PromptRule]:
        """Rules of the modalities whose tokens the model has: a Qwen model may be served without clips."""
        rules = []
        for modal in self.family.others.values():
            with contextlib.suppress(UnsupportedModel):
                rules.append(modal.prompt(files.model, vocabulary))
        return rules

    def key(self, media: Media) -> bytes:
        """The 32 bytes that name what `media` becomes: content, detail where it matters, and the model's files."""
        return self._key(media, self._digests.digest(media.data))

    def known_key(self, media: Media) -> bytes | None:
        """`key` if that takes no hashing of long content; else None, and the caller hashes in a thread for `noted_key`."""
        digest = self._digests.recognise(media.data)
        return None if digest is None else self._key(media, digest)

    def noted_key(self, media: Media, digest: bytes) -> bytes:
        """`key` of media whose content has the sha256 `digest`, which is remembered."""
        return self._key(media, self._digests.note(media.data, digest))

    def _key(self, media: Media, digest: bytes) -> bytes:
        low = str(self._low_side).encode() if media.detail is Detail.LOW else b""
        several = b"several" if self._looks_at_several(media) else b""
        return content_key([self._name, media.modality.encode(), low, several, digest])

    def _looks_at_several(self, media: Media) -> bool:
        return media.several and media.modality is Modality.IMAGE and self.family.several is not None

    def remembered(self, key: bytes) -> ReadyItem | None:
        """The item under `key` if it was made before and is still kept."""
        features = self._cache.get(key)
        return None if features is None else ReadyItem(features, key)

    def remember(self, key: bytes, features: ItemFeatures) -> ReadyItem:
        """Keep `features` under `key`."""
        self._cache.put(key, features)
        return ReadyItem(features, key)

    def features(self, media: Media) -> ItemFeatures:
        """Decode and process one item. Touches nothing shared, so it may run in any thread."""
        if media.modality is not Modality.IMAGE or self.images is None:
            process = self._others.get(media.modality)
            if process is None:
                raise UnsupportedModel(f"models of family {self.family.name} take no {media.modality}")
            return process(media.data, self._limits)
        image = self._decode(media.data, self._limits)
        size = self._looked_at(media, Size(image.height, image.width))
        if size != (image.height, image.width):
            image = image.resize((size.width, size.height), Image.Resampling(BICUBIC))
        if self._looks_at_several(media) and self.family.several is not None:
            return self.family.several(self.images, image)
        return self.images.item(image)

    def _looked_at(self, media: Media, size: Size) -> Size:
        """The size that a picture of `size` has when the family sees it."""
        if media.detail is not Detail.LOW or max(size) <= self._low_side:
            return size
        scale = self._low_side / max(size)
        return Size(max(1, round(size.height * scale)), max(1, round(size.width * scale)))

    def cost(self, media: Media) -> Cost:
        """What `features` will cost, from the file's header. Takes milliseconds, for a file of tens of MiB too; any thread.

        Raises `MediaTooLarge` for what is over a budget, and `BadMedia` for what is no medium or has a shape that the family
        refuses: nothing of it is decoded then."""
        if media.modality is Modality.IMAGE and self.images is not None and self._bound is not None:
            header = picture_header(media.data, self._limits)
            sizes = self._accepted(media, header.size, self.images)
            counts = not self._looks_at_several(media)
            return cost_of_picture(header, sizes, self.images, self._bound, counts=counts)
        if media.modality is Modality.VIDEO and recognised(media.data) is not None:
            return cost_of_clip(picture_header(media.data, self._limits, animated=True))
        return cost_of_recording(len(media.data))

    def _accepted(self, media: Media, stored: Size, processor: ImageProcessor) -> list[Size]:
        """What a picture that is stored with that size may be when it is upright, as far as the family takes it. Its orientation
        is not read: that would mean opening the file."""
        sizes = {self._looked_at(media, size) for size in (stored, Size(stored.width, stored.height))}
        accepted, refusal = [], BadMedia("the image has a shape that the model does not take")
        for size in sizes:
            try:
                processor.measure(size)
            except BadMedia as error:
                refusal = error
            else:
                accepted.append(size)
        if not accepted:
            raise refusal
        return accepted

    def ready(self, media: Media) -> ReadyItem:
        """The item of `media`, remembered or made now."""
        key = self.key(media)
        return self.remembered(key) or self.remember(key, self.features(media))

    @staticmethod
    def grouped(media: Sequence[Media]) -> list[Media]:
        """The items of one prompt, each knowing whether the prompt has several pictures; `prepare` does this by itself."""
        pictures = sum(each.modality is Modality.IMAGE for each in media)
        return [replace(each, several=each.several or pictures > 1) for each in media]

    def check_count(self, count: int) -> None:
        """Refuse more items than the family takes in one request."""
        if count > self.family.limit:
            raise MediaTooLarge(f"{count} items; the model takes at most {self.family.limit} in one request")

    def placed(self, ids: Sequence[int], media: Sequence[Media], items: Sequence[ReadyItem]) -> Prepared:
        """Expand `ids` for items that are ready."""
        self.check_count(len(items))
        sources = tuple(each.data for each in media)
        return Prepared(self.family, self.rules, expand(ids, self.rules, items), tuple(items), sources, self.images)

    def prepare(self, ids: Sequence[int], media: Sequence[Media]) -> Prepared:
        """All of it in one call: `ids` has one anchor per item of `media`, in the same order."""
        self.check_count(len(media))
        grouped = self.grouped(media)
        return self.placed(ids, grouped, [self.ready(each) for each in grouped])
