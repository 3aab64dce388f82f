"""The tensors of each engine for the same prepared request: plain arrays with the names and spans it expects.

Above: the engine codecs of an application, which turn these records into messages. Below: `prepare`, `records.types`. Knows which
tensors lie flat and which are batched, whether an engine wants whole placeholders or only the embedding positions, and in
which dtype; knows no protobuf, no socket, no file system.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from smg_multimodal.families.binned_sounds import steps_in_a_row
from smg_multimodal.families.nemotron import separate_frames
from smg_multimodal.families.newer_clips import unsegmented
from smg_multimodal.patches.minicpm import separate_views
from smg_multimodal.pixels.collate import joined
from smg_multimodal.preparing.content import content_key
from smg_multimodal.preparing.engine_names import SGLANG, VLLM, named_for_engine
from smg_multimodal.preparing.prepare import Prepared
from smg_multimodal.preparing.wire_forms import WireTensor, wire_tensor
from smg_multimodal.prompts.expand import ReadyItem
from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import Array, Flat, ItemFeatures, Modality, Placeholder, Span

__all__ = [
    "ItemInputs",
    "SglangInputs",
    "TokenSpeedInputs",
    "TokenSpeedItem",
    "TrtllmInputs",
    "VllmInputs",
    "for_items",
    "for_sglang",
    "for_tokenspeed",
    "for_trtllm",
    "for_vllm",
    "media_starts",
]


@dataclass(frozen=True, slots=True)
class _Arrangement:
    """How a family's class in vLLM takes an item's tensors that it takes laid out otherwise.

    `make` gives them, by transformers' names; all are batched but those in `flat`, which have the name of their sizes there."""

    make: Callable[[ItemFeatures], Mapping[str, Array]]
    flat: Mapping[str, str] = field(default_factory=dict)

    def joined(self, items: Sequence[ReadyItem]) -> dict[str, Array]:
        """The tensors of several items, and the sizes that flat ones are split by."""
        of_each = [self.make(item.features) for item in items]
        tensors = {name: joined([each[name] for each in of_each]) for name in of_each[0]}
        return {**tensors, **{rows: _lengths([each[name] for each in of_each]) for name, rows in self.flat.items()}}


_ARRANGED: Mapping[tuple[str, Modality], _Arrangement] = {
    ("minicpm-v", Modality.IMAGE): _Arrangement(separate_views),
    ("minicpm-ocr", Modality.IMAGE): _Arrangement(separate_views),
    ("minicpm-v", Modality.VIDEO): _Arrangement(separate_views),
    ("minicpm-ocr", Modality.VIDEO): _Arrangement(separate_views),
    ("inkling", Modality.AUDIO): _Arrangement(steps_in_a_row, {"audio_input_ids": "num_audio_tokens"}),
    ("nemotron-omni", Modality.VIDEO): _Arrangement(separate_frames, {"pixel_values_videos": "num_frames"}),
    ("minimax-m3", Modality.VIDEO): _Arrangement(unsegmented, {"pixel_values_videos": "patches_per_video"}),
}
_OF_ONE_SIZE = frozenset({"lighton-ocr", "pixtral"})
"""Families whose class in vLLM is not told how much of a picture is padding, so that several must be of one size."""
_NOT_FOR_VLLM: Mapping[tuple[str, Modality], str] = {
    ("smolvlm", Modality.VIDEO): "its model takes no clips",
    ("dots-note", Modality.VIDEO): "its model takes frames and sound in pieces, with a prompt of its own",
    ("dots-note", Modality.AUDIO): "its model takes the samples of recordings",
    ("minicpm-v-2.6", Modality.IMAGE): "its model takes a list of tensors for each picture",
    ("muse-spark", Modality.VIDEO): "its model takes clips without a grid, laid out otherwise",
    ("muse-spark", Modality.AUDIO): "its model takes features of another encoder's",
    ("muse-spark", Modality.IMAGE): "its model takes pictures without a grid, laid out otherwise",
    ("kimi-k2.5", Modality.VIDEO): "its model takes each chunk of a clip as an item of its own",
    ("nemotron-omni", Modality.IMAGE): "its model takes the sizes of pictures as a list, which no tensor is",
    ("nemotron-omni", Modality.AUDIO): "its model takes recordings in pieces, whose tokens it counts otherwise",
    ("qwen2.5-omni", Modality.AUDIO): "its model takes recordings joined along their second axis",
    ("qwen3-omni", Modality.AUDIO): "its model takes recordings joined along their second axis",
}
"""What vLLM's servicer cannot pass on, since it splits tensors along their first axis and makes no lists; and why."""
_NOT_FOR_SGLANG: Mapping[str, str] = {
    "nemotron-omni": "its model is told the tokens of a picture beside its tensors",
}
"""Families whose pictures SGLang's model does not take as tensors alone; and why."""
_COUNTED_ON: Mapping[tuple[str, Modality], frozenset[str]] = {
    ("molmo-2", Modality.IMAGE): frozenset({"image_token_pooling"})
}
"""Indices that transformers counts through all pictures of a call. vLLM does so when it has joined them."""


@dataclass(frozen=True, slots=True, eq=False)
class VllmInputs:
    """vLLM: tensors of all items of one modality joined, whole placeholders, one hash per item.

    `flat_keys` maps a tensor to the one that has its rows per item; `placeholders` and `hashes` are in prompt order. Of items
    that lie beside the prompt, every token takes an embedding, and `token_id` is None.
    """

    primary: str
    pixel_values: WireTensor
    tensors: Mapping[str, WireTensor]
    token_id: int | None
    placeholders: tuple[Span, ...]
    hashes: tuple[str, ...]
    batched_keys: tuple[str, ...]
    flat_keys: Mapping[str, str]
    keep_on_cpu_keys: tuple[str, ...]
    modality: Modality


@dataclass(frozen=True, slots=True, eq=False)
class SglangInputs:
    """SGLang: tensors of all pictures joined, the spans of embedding positions alone, and the files as they came."""

    pixel_values: WireTensor
    tensors: Mapping[str, WireTensor]
    token_id: int
    placeholders: tuple[Span, ...]
    image_data: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ItemInputs:
    """One item by itself, with transformers' names: its tensors, all the tokens it brought, and which of them receive
    embeddings."""

    modality: Modality
    content_hash: bytes
    tensors: Mapping[str, WireTensor]
    placeholder: Span
    embeddings: tuple[Span, ...]
    token_id: int


@dataclass(frozen=True, slots=True, eq=False)
class TrtllmInputs:
    """TensorRT-LLM: the files as they came; the engine does the rest. `prompt` has one anchor per picture, as it was before
    it was expanded to `expanded` tokens."""

    image_data: tuple[bytes, ...]
    prompt: Sequence[int] = field(repr=False)
    expanded: int


@dataclass(frozen=True, slots=True, eq=False)
class TokenSpeedItem:
    """One item for TokenSpeed, with its own tensors and embedding spans."""

    modality: Modality
    content_hash: bytes
    encoder_input: WireTensor
    tensors: Mapping[str, WireTensor]
    placeholders: tuple[Span, ...]
    token_id: int


@dataclass(frozen=True, slots=True, eq=False)
class TokenSpeedInputs:
    """Items in prompt order."""

    items: tuple[TokenSpeedItem, ...] = field(default=())


def _in_prompt_order(prepared: Prepared) -> list[tuple[Placeholder, ReadyItem]]:
    by_modality: dict[Modality, list[ReadyItem]] = {}
    for item in prepared.items:
        by_modality.setdefault(item.features.modality, []).append(item)
    return [(place, by_modality[place.modality][place.index]) for place in prepared.expanded.placeholders]


def _only(prepared: Prepared, engine: str, taken: frozenset[Modality]) -> list[tuple[Placeholder, ReadyItem]]:
    """The items, if they are all of one modality that the engine takes."""
    pairs = _in_prompt_order(prepared)
    found = {place.modality for place, _ in pairs}
    if len(found) > 1 or not found <= taken:
        raise UnsupportedModel(
            f"{engine} takes {' or '.join(sorted(taken))} in one request, not {', '.join(sorted(found))}"
        )
    if not pairs:
        raise UnsupportedModel("the request has no media")
    return pairs


def _feature_ids(prepared: Prepared) -> dict[Modality, int]:
    return {rule.modality: rule.feature for rule in prepared.rules}


def _unplaced(prepared: Prepared) -> frozenset[Modality]:
    """The modalities whose items lie beside the prompt."""
    return frozenset(rule.modality for rule in prepared.rules if rule.dictate is not None)


def _refuse_unplaced(prepared: Prepared, engine: str) -> None:
    """Refuse items that lie beside the prompt, for an engine that is told their place in it."""
    if _unplaced(prepared):
        raise UnsupportedModel(
            f"{engine} takes no recordings for {prepared.family.name}: they lie beside the prompt, which its contract has no"
            " place for"
        )


def _lengths(arrays: Sequence[Array]) -> Array:
    return np.array([len(array) for array in arrays], np.int64)


def _joined_tensors(prepared: Prepared, pairs: Sequence[tuple[Placeholder, ReadyItem]]) -> dict[str, Array]:
    """Every tensor of the modality's layout over all items, and the sizes that flat ones are split by."""
    items = [item for _, item in pairs]
    primary, layouts, _ = prepared.family.layout(pairs[0][0].modality)
    collated = prepared.collated([item.features for item in items])
    for name, layout in layouts.items():
        if isinstance(layout, Flat) and layout.sizes not in collated:
            collated[layout.sizes] = _lengths([item.features.tensors[name] for item in items])
        if name not in collated and name != primary:
            collated[name] = joined([item.features.tensors[name] for item in items])
    return collated


def for_vllm(prepared: Prepared, dtype: str = "float32", *, raw: bool = False) -> tuple[VllmInputs, ...]:
    """A request for vLLM, one record per modality, in the order in which they begin in the prompt.

    Pictures and clips may stand in one request. Recordings stand alone: its servicer (0.14) takes every batch that is no
    clip for pictures. `dtype` is that of floats; with `raw`, for pixels that were left as they are, those go as uint8.
    Raises `UnsupportedModel` for what it cannot be sent.
    """
    pairs = _in_prompt_order(prepared)
    if not pairs:
        raise UnsupportedModel("the request has no media")
    _refuse_woven(prepared, "vLLM")
    modalities = tuple(dict.fromkeys(place.modality for place, _ in pairs))
    if len(modalities) > 1 and Modality.AUDIO in modalities:
        raise UnsupportedModel("vLLM takes no recordings beside pictures or clips in one request")
    return tuple(_vllm_batch(prepared, modality, dtype, raw=raw) for modality in modalities)


def _vllm_batch(prepared: Prepared, modality: Modality, dtype: str, *, raw: bool) -> VllmInputs:
    pairs = [pair for pair in _in_prompt_order(prepared) if pair[0].modality is modality]
    primary, layouts, on_host = prepared.family.layout(modality)
    flat = {name: layout.sizes for name, layout in layouts.items() if isinstance(layout, Flat)}
    if (why := _NOT_FOR_VLLM.get((prepared.family.name, modality))) is not None:
        raise UnsupportedModel(f"{prepared.family.name} takes no {modality} on vLLM: {why}")
    whose = f"{prepared.family.name} takes one {modality} per request on vLLM"
    arranged = _ARRANGED.get((prepared.family.name, modality))
    try:
        if arranged is None:
            tensors = _joined_tensors(prepared, pairs)
            for name in _COUNTED_ON.get((prepared.family.name, modality), ()):
                tensors[name] = joined([item.features.tensors[name] for _, item in pairs])
        else:
            flat, tensors = dict(arranged.flat), arranged.joined([item for _, item in pairs])
    except ValueError as error:  # numpy's, of arrays that do not lie end to end
        raise UnsupportedModel(f"{whose}, or several of the same length") from error
    for name, array in tensors.items():
        if name not in flat and len(array) != len(pairs):
            raise UnsupportedModel(f"{whose}: {name} is not split")
    sizes = {item.features.tensors[primary].shape for _, item in pairs}
    if prepared.family.name in _OF_ONE_SIZE and len(sizes) > 1:
        raise UnsupportedModel(f"{whose}, or several of one shape")

    def called(name: str) -> str | None:
        return named_for_engine(VLLM, prepared.family.name, modality, name)

    pixels = "uint8" if raw and modality is not Modality.AUDIO else dtype
    wired = {
        own: wire_tensor(array, pixels if name == primary else dtype)
        for name, array in tensors.items()
        if (own := called(name)) is not None
    }
    encoder = called(primary) or primary
    first = wired.pop(encoder)
    flat = {own: called(rows) or rows for name, rows in flat.items() if (own := called(name)) is not None}
    return VllmInputs(
        primary=encoder,
        pixel_values=first,
        tensors=wired,
        token_id=None if modality in _unplaced(prepared) else _feature_ids(prepared)[modality],
        placeholders=tuple(place.span for place, _ in pairs),
        hashes=tuple(place.content_hash.hex() for place, _ in pairs),
        batched_keys=tuple(name for name in (encoder, *wired) if name not in flat),
        flat_keys=flat,
        keep_on_cpu_keys=tuple(sorted({called(name) or name for name in on_host} & set(wired))),
        modality=modality,
    )


def for_items(prepared: Prepared, dtype: str = "float32") -> tuple[ItemInputs, ...]:
    """Items of any modalities, each by itself, in prompt order: for engines that batch on their own. The sound that is woven into
    a clip is an item of its own behind the clip, with the same placeholder."""
    _refuse_unplaced(prepared, "the neutral contract")
    ids = _feature_ids(prepared)
    return tuple(
        ItemInputs(
            modality=modality,
            content_hash=_named(place, modality),
            tensors={name: wire_tensor(array, dtype) for name, array in tensors.items()},
            placeholder=place.span,
            embeddings=tuple(each for each in place.features if prepared.expanded.ids[each.offset] == ids[modality])
            if _is_woven(item.features)
            else place.features,
            token_id=ids[modality],
        )
        for place, item in _in_prompt_order(prepared)
        for modality, tensors in _unwoven(prepared, item.features).items()
    )


def media_starts(prepared: Prepared) -> tuple[tuple[int, str], ...]:
    """Where each item begins, with its name as hex, as engines know it that get each by itself."""
    return tuple(
        (place.span.offset, _named(place, modality).hex())
        for place, item in _in_prompt_order(prepared)
        for modality in ((place.modality, Modality.AUDIO) if _is_woven(item.features) else (place.modality,))
    )


def _named(place: Placeholder, modality: Modality) -> bytes:
    """The hash of an item, or of the sound that is woven into it."""
    return place.content_hash if modality is place.modality else content_key([place.content_hash, b"sound"])


def _is_woven(features: ItemFeatures) -> bool:
    return "woven" in features.facts


def _unwoven(prepared: Prepared, features: ItemFeatures) -> Mapping[Modality, Mapping[str, Array]]:
    """An item's tensors; of a clip with its sound those of each."""
    if not _is_woven(features):
        return {features.modality: features.tensors}
    _, heard, _ = prepared.family.layout(Modality.AUDIO)
    seen = {name: array for name, array in features.tensors.items() if name not in heard}
    return {features.modality: seen, Modality.AUDIO: {name: features.tensors[name] for name in heard}}


def _refuse_woven(prepared: Prepared, engine: str) -> None:
    if any(_is_woven(item.features) for item in prepared.items):
        raise UnsupportedModel(
            f"{engine} cannot be told which sound is of which clip, so {prepared.family.name} takes no clips with sound on it"
            " while its engines are said to use_audio_in_video"
        )


def for_sglang(prepared: Prepared) -> SglangInputs:
    """Pictures for SGLang, as float32 (it maps float32 and int64 only)."""
    pairs = _only(prepared, "SGLang", frozenset({Modality.IMAGE}))
    if (why := _NOT_FOR_SGLANG.get(prepared.family.name)) is not None:
        raise UnsupportedModel(f"{prepared.family.name} takes no image on SGLang: {why}")
    tensors = _joined_tensors(prepared, pairs)
    return SglangInputs(
        pixel_values=wire_tensor(tensors.pop(prepared.family.primary)),
        tensors={
            own: wire_tensor(array)
            for name, array in tensors.items()
            if (own := named_for_engine(SGLANG, prepared.family.name, Modality.IMAGE, name)) is not None
        },
        token_id=_feature_ids(prepared)[Modality.IMAGE],
        placeholders=tuple(span for place, _ in pairs for span in place.features),
        image_data=tuple(prepared.sources[place.index] for place, _ in pairs),
    )


def for_trtllm(prepared: Prepared) -> TrtllmInputs:
    """The files of a request for TensorRT-LLM, in prompt order."""
    pairs = _only(prepared, "TensorRT-LLM", frozenset({Modality.IMAGE}))
    files = tuple(prepared.sources[place.index] for place, _ in pairs)
    return TrtllmInputs(files, prepared.prompt, len(prepared.expanded.ids))


def for_tokenspeed(prepared: Prepared, dtype: str = "bfloat16") -> TokenSpeedInputs:
    """Items of any modalities for TokenSpeed, in prompt order."""
    _refuse_woven(prepared, "TokenSpeed")
    _refuse_unplaced(prepared, "TokenSpeed")
    ids = _feature_ids(prepared)
    items = []
    for place, item in _in_prompt_order(prepared):
        tensors = dict(item.features.tensors)
        primary, _, _ = prepared.family.layout(place.modality)
        encoder = wire_tensor(tensors.pop(primary), dtype)
        rest = {name: wire_tensor(array, dtype) for name, array in tensors.items()}
        token_id = ids[place.modality]
        items.append(TokenSpeedItem(place.modality, place.content_hash, encoder, rest, place.features, token_id))
    return TokenSpeedInputs(tuple(items))
