"""From content parts, token ids and a model's files to what an engine is sent: the package's front door.

Above: applications, and `fetching.fetch` which brings the bytes. Below: everything else here. One `Preparer` serves one model. It
decides what a picture's `detail` does, which key names an item, and when a remembered item will do. It does not wait: an
edge calls `features` in a thread, everything else on its own.
"""

import contextlib
import copy
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from PIL import Image
from PIL import __version__ as pillow_version

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.decoding.clips import ClipFacts
from smg_multimodal.decoding.costs import (
    Cost,
    TensorBound,
    cost_of_clip,
    cost_of_picture,
    cost_of_recording,
    cost_with_sound,
)
from smg_multimodal.decoding.decode import ImageLimits, picture_header
from smg_multimodal.decoding.fast_decode import prove_decoders
from smg_multimodal.decoding.reader import MediaReader, PlainReader, needs_library
from smg_multimodal.decoding.sounds import RecordingFacts
from smg_multimodal.families.media_family import MediaFamily
from smg_multimodal.families.modalities import (
    ClipProcessor,
    NumberedClips,
    PartedRecordings,
    RecordingProcessor,
    WovenClips,
)
from smg_multimodal.families.registry import family_of
from smg_multimodal.pixels.collate import joined
from smg_multimodal.preparing.content import DigestMemory, FeatureCache, Noted, content_key
from smg_multimodal.preparing.wire_forms import FloatType, WireForm
from smg_multimodal.prompts.expand import Expanded, ReadyItem, expand
from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer
from smg_multimodal.records.errors import BadClip, BadMedia, MediaTooLarge, RecordingTooLong, UnsupportedModel
from smg_multimodal.records.types import Array, ImageProcessor, ItemFeatures, Modality, Size
from smg_multimodal.records.walks import MOST_STEPS

__all__ = ["Detail", "Media", "Prepared", "Preparer"]


class Detail(StrEnum):
    """The detail in which a picture is looked at, as public APIs name it."""

    AUTO = "auto"
    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Media:
    """One item's encoded bytes, in the order in which items stand in the prompt. `several` says that it is not the prompt's
    only picture: some families look at several less closely. Of the same bytes, those of two owners are two items: neither what
    is remembered of one nor an engine's cache serves the other. `part`: which part it is of a
    recording that is sent in parts, from 0, and how many there are."""

    data: bytes
    modality: Modality = Modality.IMAGE
    detail: Detail = Detail.AUTO
    several: bool = False
    owner: str = ""
    part: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """An expanded prompt with its items, in prompt order, and the files they came from. `prompt` has the ids that were
    expanded."""

    family: MediaFamily
    rules: tuple[PromptRule, ...]
    expanded: Expanded
    items: tuple[ReadyItem, ...]
    sources: tuple[bytes, ...]
    processor: ImageProcessor | None
    prompt: Sequence[int]

    def collated(self, features: Sequence[ItemFeatures]) -> dict[str, Array]:
        """The tensors of several items of one modality as the family joins them."""
        if self.processor is not None and all(each.modality is Modality.IMAGE for each in features):
            return self.processor.collate(features)
        return {name: joined([each.tensors[name] for each in features]) for name in features[0].tensors}


class Preparer:
    """Everything one model needs. `low_side` is the longer side, in pixels, of a picture looked at with low detail; `reader`
    decodes, in the thread that calls `cost` and `features`.

    `cache` and `digests` may be shared between models: keys name the model's files too. Raises `UnsupportedModel` when no
    family takes the model or its vocabulary lacks a token.
    """

    def __init__(
        self,
        files: ModelFiles,
        vocabulary: PromptTokenizer,
        *,
        cache: FeatureCache | None = None,
        digests: DigestMemory | None = None,
        limits: ImageLimits | None = None,
        low_side: int = 512,
        reader: MediaReader | None = None,
    ) -> None:
        self.family = family_of(files)
        self.images: ImageProcessor | None = None if self.family.image is None else self.family.image(files)
        pictures = () if self.family.prompt is None else (self.family.prompt(files, vocabulary),)
        self._bound = None if self.images is None else TensorBound(self.images)
        prove_decoders()
        self.rules = (*pictures, *self._other_rules(files, vocabulary))
        self._others = {modality: modal.process(files) for modality, modal in self.family.others.items()}
        if files.woven is not None and not isinstance(self._others.get(Modality.VIDEO), WovenClips):
            raise UnsupportedModel(
                f"use_audio_in_video of the engine's --mm-processor-kwargs is not done for models of family {self.family.name}"
            )
        self._cache = FeatureCache() if cache is None else cache
        self._digests = DigestMemory() if digests is None else digests
        self._limits = limits or ImageLimits()
        self._low_side = low_side
        self._reader: MediaReader = reader or PlainReader()
        self._form: WireForm | None = None
        written = (files.model, files.preprocessor, files.processor, files.video, files.woven)
        settings = (self.family.name, *written, pillow_version)
        self._name = content_key([json.dumps(settings, sort_keys=True, default=str).encode()])

    def sent_as(self, floats: FloatType, *, raw: bool = False) -> "Preparer":
        """One that makes items as an engine takes them, so that those that come again are sent as they are: floats in this type,
        and with `raw`, of pixels that are left as they are, bytes."""
        form = WireForm(floats, raw)
        if form == WireForm():
            return self
        made = copy.copy(self)
        made._form = form
        made._name = content_key([self._name, floats.encode(), b"raw" if raw else b""])
        return made

    def _other_rules(self, files: ModelFiles, vocabulary: PromptTokenizer) -> list[PromptRule]:
        """Rules of the modalities whose tokens the model has: a Qwen model may be served without clips."""
        rules = []
        for modal in self.family.others.values():
            with contextlib.suppress(UnsupportedModel):
                rules.append(modal.prompt(files.model, vocabulary))
        return rules

    def key(self, media: Media) -> bytes:
        """The 32 bytes that name what `media` becomes: content and owner, detail where it matters, the model's files, and the
        Pillow that decodes and resizes, whose versions differ in single pixels."""
        return self._key(media, self._digests.digest(media.data, media.owner))

    def known_key(self, media: Media) -> bytes | None:
        """`key` if that takes no going through long content; else None, and the caller has `digest_of` do so in a thread, with
        the `candidate` that there is, for `noted_key`."""
        digest = self._digests.recognise(media.data, media.owner)
        return None if digest is None else self._key(media, digest)

    def candidate(self, media: Media) -> Noted | None:
        """Content seen before that may be that of `media`."""
        return self._digests.candidate(media.data, media.owner)

    def noted_key(self, media: Media, digest: bytes) -> bytes:
        """`key` of media whose content has the sha256 `digest`, which is remembered."""
        return self._key(media, self._digests.note(media.data, digest, media.owner))

    def _key(self, media: Media, digest: bytes) -> bytes:
        low = str(self._low_side).encode() if media.detail is Detail.LOW else b""
        several = b"several" if self._looks_at_several(media) else b""
        owner = [media.owner.encode()] if media.owner else []
        part = [] if media.part is None else [b"part", str(media.part).encode()]
        return content_key([self._name, media.modality.encode(), low, several, digest, *owner, *part])

    def _looks_at_several(self, media: Media) -> bool:
        return media.several and media.modality is Modality.IMAGE and self.family.several is not None

    def remembered(self, key: bytes) -> ReadyItem | None:
        """The item under `key` if it was made before and is still kept."""
        features = self._cache.get(key)
        return None if features is None else ReadyItem(features, key)

    @property
    def shares(self) -> bool:
        """Whether other processes are given what this one makes, by `share`."""
        return self._cache.shares

    def share(self, key: bytes, features: ItemFeatures) -> ItemFeatures:
        """Give `features` to other processes; returns them as they are there, for `remember`. In any thread."""
        return self._cache.share(key, features)

    def remember(self, key: bytes, features: ItemFeatures) -> ReadyItem:
        """Keep `features` under `key`."""
        self._cache.put(key, features)
        return ReadyItem(features, key)

    def features(self, media: Media, facts: ClipFacts | RecordingFacts | None = None) -> ItemFeatures:
        """Decode and process one item. Touches nothing shared, so it may run in any thread. `facts` are those of its cost."""
        made = self._made(media, facts)
        return made if self._form is None else self._form.of(made, self.family.layout(made.modality)[0])

    def _made(self, media: Media, facts: ClipFacts | RecordingFacts | None) -> ItemFeatures:
        if media.modality is not Modality.IMAGE or self.images is None:
            return self._features_of_other(media, facts)
        image = self._reader.picture(media.data, self._limits)
        size = self._looked_at(media, Size(image.height, image.width))
        if size != (image.height, image.width):
            image = image.resize((size.width, size.height), Image.Resampling.BICUBIC)
        if self._looks_at_several(media) and self.family.several is not None:
            return self.family.several(self.images, image)
        return self.images.item(image)

    def _features_of_other(self, media: Media, facts: ClipFacts | RecordingFacts | None) -> ItemFeatures:
        processor = self._processor(media.modality)
        if not isinstance(processor, ClipProcessor):
            known = (
                facts if isinstance(facts, RecordingFacts) else self._recording_facts(media, processor, self._limits)
            )
            samples = self._reader.recording(media.data, self._limits, known, processor.rate)
            if media.part is not None and isinstance(processor, PartedRecordings):
                samples = processor.part(samples, *media.part)
            return processor.item(samples)
        clip = facts if isinstance(facts, ClipFacts) else self._reader.clip_facts(media.data, self._limits)
        places = processor.sample(clip.frames, clip.rate)
        taken = self._reader.clip_frames(media.data, self._limits, clip, places)
        with _refused_as_clip(clip.size), contextlib.closing(taken) as frames:
            if isinstance(processor, NumberedClips):
                return processor.numbered(frames, places, clip.rate)
            made = processor.item(frames, clip.seconds(places), len(places) / clip.frames * clip.rate)
        if isinstance(processor, WovenClips) and (sound := self._sound_facts(media, processor, clip, self._limits)):
            samples = self._reader.recording(media.data, self._limits, sound, processor.recordings.rate)
            return processor.woven(made, samples)
        return made

    def _looked_at(self, media: Media, size: Size) -> Size:
        """The size that a picture of `size` has when the family sees it."""
        if media.detail is not Detail.LOW or max(size) <= self._low_side:
            return size
        scale = self._low_side / max(size)
        return Size(max(1, round(size.height * scale)), max(1, round(size.width * scale)))

    def measured_isolated(self, media: Media) -> bool:
        """Whether `cost` and `features` of `media` are work for a process: a foreign library opens the file."""
        return needs_library(media.data, media.modality)

    def cost(self, media: Media, max_steps: int = MOST_STEPS) -> Cost:
        """The expected cost of `features`, from the file's header and packets. Any thread. Takes milliseconds, for a file of tens
        of MiB too; where `measured_isolated`, it waits for a process.

        Raises `MediaTooLarge` for what is over a budget, and `BadMedia` for what is no medium or has a shape that the family
        refuses: nothing of it is decoded then. Raises `LongWalk` for a file of more pieces than `max_steps`: what is called on an
        event loop gives a small number, and calls again in a thread."""
        limits = replace(self._limits, max_steps=min(max_steps, self._limits.max_steps))
        if media.modality is Modality.IMAGE and self.images is not None and self._bound is not None:
            header = picture_header(media.data, limits)
            sizes = self._accepted(media, header.size, self.images)
            counts = not self._looks_at_several(media)
            return cost_of_picture(header, sizes, self.images, self._bound, counts=counts)
        processor = self._processor(media.modality)
        if isinstance(processor, ClipProcessor):
            return self._cost_of_clip(media, processor, limits)
        return cost_of_recording(self._recording_facts(media, processor, limits))

    def _processor(self, modality: Modality) -> ClipProcessor | RecordingProcessor:
        processor = self._others.get(modality)
        if processor is None:
            raise UnsupportedModel(f"models of family {self.family.name} take no {modality}")
        return processor

    def _recording_facts(self, media: Media, processor: RecordingProcessor, limits: ImageLimits) -> RecordingFacts:
        facts = self._reader.recording_facts(media.data, limits, processor.rate)
        parted = isinstance(processor, PartedRecordings)
        if media.part is not None and not parted:
            raise UnsupportedModel(f"models of family {self.family.name} take recordings whole")
        most = limits.max_seconds if media.part is not None else min(processor.longest, limits.max_seconds)
        if facts.seconds > most:
            sentence = f"the recording is {facts.seconds:.1f} s long; at most {most:g} s are taken"
            if isinstance(processor, PartedRecordings) and facts.seconds <= limits.max_seconds:
                raise RecordingTooLong(sentence, processor.parts(facts.seconds))
            raise MediaTooLarge(sentence)
        return facts

    def _sound_facts(
        self, media: Media, processor: WovenClips, clip: ClipFacts, limits: ImageLimits
    ) -> RecordingFacts | None:
        """Of a clip's sound, where it has any."""
        if not clip.sound:
            return None
        facts = self._recording_facts(media, processor.recordings, limits)
        return facts if facts.seconds else None

    def _cost_of_clip(self, media: Media, processor: ClipProcessor, limits: ImageLimits) -> Cost:
        facts = self._reader.clip_facts(media.data, limits)
        count = len(processor.sample(facts.frames, facts.rate))
        turned = (facts.size, Size(facts.size.width, facts.size.height))
        with _refused_as_clip(facts.size):
            sizes = _measured(turned, lambda size: processor.measure(size, count))
        tokens = min(processor.measure(size, count)[0] for size in sizes)
        cost = cost_of_clip(facts, count, tokens, max(processor.nbytes(size, count) for size in sizes))
        if isinstance(processor, WovenClips) and (sound := self._sound_facts(media, processor, facts, limits)):
            return cost_with_sound(cost, sound)
        return cost

    def _accepted(self, media: Media, stored: Size, processor: ImageProcessor) -> list[Size]:
        """What a picture that is stored with that size may be when it is upright, as far as the family takes it. Its orientation
        is not read: that would mean opening the file."""
        sizes = [self._looked_at(media, size) for size in (stored, Size(stored.width, stored.height))]
        return _measured(sizes, processor.measure)

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
        expanded = expand(ids, self.rules, items)
        return Prepared(self.family, self.rules, expanded, tuple(items), sources, self.images, ids)

    def prepare(self, ids: Sequence[int], media: Sequence[Media]) -> Prepared:
        """All of it in one call: `ids` has one anchor per item of `media`, in the same order."""
        self.check_count(len(media))
        grouped = self.grouped(media)
        return self.placed(ids, grouped, [self.ready(each) for each in grouped])


@contextlib.contextmanager
def _refused_as_clip(size: Size) -> Iterator[None]:
    """What a family says of a frame of that size, as a picture, is said of the clip."""
    try:
        yield
    except BadClip:
        raise
    except BadMedia as error:
        raise BadClip(f"the clip is {size.width}x{size.height}, which the model does not take") from error


def _measured(sizes: Iterable[Size], measure: Callable[[Size], object]) -> list[Size]:
    """Those of `sizes` that the family takes. Where it takes none, its refusal of the first is raised."""
    accepted, refusals = [], []
    for size in dict.fromkeys(sizes):
        try:
            measure(size)
        except BadMedia as error:
            refusals.append(error)
        else:
            accepted.append(size)
    if not accepted:
        raise refusals[0]
    return accepted
