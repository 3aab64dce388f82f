"""Reads the media of a vLLM request, checks media against the prompt, and describes them in words.

Decides what is consistent: every tensor has as many bytes as its shape and dtype ask for, all keys have the same number of
items, placeholders lie in the prompt and hold the tokens that receive embeddings, and the numbers of patches and audio frames
match the tokens. A real engine would fail in its model, or compute nonsense, where this one refuses. Keeps shapes and the
values of small integer tensors, and no other data. Pure: the caller passes in how shared memory is read. Above:
codecs.vllm reads with it, engine.engine checks and describes. Below: the vendor's messages.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod

import attrs

from smg_engine_contract.engines import common_pb2 as common
from smg_engine_contract.engines import vllm_engine_pb2 as pb
from smg_simulator.engine.refusal import Refused

__all__ = [
    "ReadShared",
    "SeenMedia",
    "SeenTensor",
    "check_files",
    "check_media",
    "describe_media",
    "media_spans",
    "read_media",
    "seen_tensor",
]

ReadShared = Callable[[str, int, int], bytes]
"""Name, offset and number of bytes in, bytes out. Raises Refused."""

_SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "uint32": 4, "int32": 4, "uint8": 1}
_KEPT = {"int64": "q", "uint32": "I", "int32": "i"}
_MOST_KEPT = 4096
_NAMES = {common.IMAGE: "image", common.VIDEO: "video", common.AUDIO: "audio"}
_PRIMARY = "pixel_values"
_MOST_SUMMED = 1 << 20


@attrs.frozen
class SeenTensor:
    """A tensor without its data. `nbytes` is its size; of an integer tensor `values` has the elements when there are few,
    and `sums` the sum of each row when it has two axes. `shared`: it came through shared memory."""

    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    values: tuple[int, ...] = ()
    sums: tuple[int, ...] = ()
    shared: bool = False

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape))} {self.dtype}"


@attrs.frozen
class SeenMedia:
    """Items of one modality as a request carries them. `placeholders` are (offset, length) in tokens of the prompt, one for
    each item, as are `hashes`. `batched` are names of tensors whose axis 0 is the item; `flat` maps a tensor's name to that
    of the tensor with its number of rows for each item. `embeddings` are the (offset, length) of tokens that receive
    embeddings, where the dialect lists them; None: the tokens with `token_id` do. `dialect` is the one that the request came
    by. Items that came as files, for the engine to prepare, have `hashes` and no tensors and placeholders (`as_files`)."""

    modality: str
    tensors: Mapping[str, SeenTensor]
    token_id: int | None
    placeholders: tuple[tuple[int, int], ...]
    hashes: tuple[str, ...]
    batched: frozenset[str]
    flat: Mapping[str, str]
    embeddings: tuple[tuple[int, int], ...] | None = None
    dialect: str = "vllm"
    as_files: bool = False


# ---------------------------------------------------------------------------------------------------------------- reading


def _nothing_shared(name: str, offset: int, nbytes: int) -> bytes:
    raise Refused(f"{name}: only tensors within the message are taken")


def read_media(message: pb.GenerateRequest, shared: ReadShared = _nothing_shared) -> tuple[SeenMedia, ...]:
    """The media of a GenerateRequest of the vLLM dialect. Raises Refused for what is malformed."""
    parts = [message.mm_inputs] if message.HasField("mm_inputs") else []
    parts += message.extra_mm_inputs
    if len(parts) > 1 and any(part.modality == common.AUDIO for part in parts):
        raise Refused("a batch of recordings beside another: the servicer takes it for pictures")
    seen = tuple(_seen(part, shared) for part in parts)
    # the name of a clip's tensor is changed on the way to the model
    names = [name for media in seen for name in media.tensors if (name, media.modality) != (_PRIMARY, "video")]
    if len(names) != len(set(names)):
        raise Refused(f"batches carry the same tensor keys: {sorted(names)}")
    return seen


def _seen(inputs: pb.MultimodalInputs, shared: ReadShared) -> SeenMedia:
    if not inputs.HasField("pixel_values"):
        raise Refused("multimodal inputs without pixel_values")
    if inputs.modality not in _NAMES:
        raise Refused("multimodal inputs of no modality")
    primary = inputs.encoder_input_key if inputs.HasField("encoder_input_key") else _PRIMARY
    tensors = {primary: _tensor(primary, inputs.pixel_values, shared)}
    tensors |= {name: _tensor(name, tensor, shared) for name, tensor in inputs.model_specific_tensors.items()}
    return SeenMedia(
        modality=_NAMES[inputs.modality],
        tensors=tensors,
        token_id=inputs.im_token_id if inputs.HasField("im_token_id") else None,
        placeholders=tuple((each.offset, each.length) for each in inputs.mm_placeholders),
        hashes=tuple(inputs.mm_hashes),
        batched=frozenset(inputs.batched_keys),
        flat=dict(inputs.flat_keys),
    )


def _tensor(name: str, tensor: pb.TensorData, shared: ReadShared) -> SeenTensor:
    payload = tensor.WhichOneof("payload")
    if payload == "inline":
        data = tensor.inline
    elif payload == "shm":
        data = shared(tensor.shm.name, tensor.shm.offset, tensor.shm.nbytes)
    else:
        raise Refused(f"{name}: a tensor without bytes")
    return seen_tensor(name, tuple(tensor.shape), tensor.dtype, data, shared=payload == "shm")


def seen_tensor(name: str, shape: tuple[int, ...], dtype: str, data: bytes, *, shared: bool = False) -> SeenTensor:
    """The record of a tensor. Raises Refused where `data` is not as long as shape and dtype ask for."""
    if dtype not in _SIZES:
        raise Refused(f"{name}: unknown dtype {dtype!r}")
    found, count = len(data), prod(shape)
    if found != count * _SIZES[dtype]:
        wanted = count * _SIZES[dtype]
        raise Refused(f"{name}: {found} bytes for {'x'.join(map(str, shape))} {dtype}, which has {wanted}")
    values = array(_KEPT[dtype], data) if dtype in _KEPT and count <= _MOST_SUMMED else array("q")
    rows = range(0, len(values), shape[1]) if len(shape) == 2 and shape[1] else ()
    sums = tuple(sum(values[at : at + shape[1]]) for at in rows)
    return SeenTensor(shape, dtype, found, tuple(values) if count <= _MOST_KEPT else (), sums, shared)


# --------------------------------------------------------------------------------------------------------------- checking


_OTHER_GRIDS = frozenset(
    {
        *("hunyuan_vl", "hy_v4_vl", "inkling2", "inkling2_loop"),
        *("kimi_k25", "kimi_k3", "minimax_m3_vl"),
    }
)
"""Model types whose tokens are no share of the patches: rows have one more, squares are tokens, frames are pooled or parted."""
_UNPLACED = frozenset({"whisper", "voxtral_realtime"})
"""Model types whose recordings begin with the prompt and may be longer than it is: no token of it stands for them."""

_HALVED_TWICE = frozenset({"", "qwen2_audio", "qwen2_5_omni", "qwen2_5_omni_thinker"})
"""Model types whose frames of sound are halved twice; of others that have Whisper's features it is not known here."""


def check_media(
    seen: Sequence[SeenMedia], ids: Sequence[int], merge: int, mels: int | None = None, kind: str = ""
) -> None:
    """Raise Refused where media do not fit the prompt `ids`. `merge` squared is the number of patches for one token, in
    models that send grids; `mels` the number of mel bands of recordings (None: not known)."""
    taken: dict[int, int] = {}
    counts: list[list[int]] = []
    for media in seen:
        if media.as_files:
            counts.append([])
            continue
        items = len(media.placeholders)
        if not items or len(media.hashes) != items:
            raise Refused(f"{items} placeholders for {len(media.hashes)} {media.modality} hashes")
        for key in media.batched | media.flat.keys() | set(media.flat.values()):
            if key not in media.tensors:
                raise Refused(f"there is no tensor {key!r}")
        for name, tensor in media.tensors.items():
            _check_rows(media, name, tensor, items)
        unplaced = kind in _UNPLACED
        if unplaced and (media.token_id is not None or [offset for offset, _ in media.placeholders] != [0]):
            raise Refused(f"a recording of {kind} begins with the prompt, and no token stands for it")
        counts.append([length for _, length in media.placeholders] if unplaced else _embeddings(media, ids))
        if media.token_id is not None:
            taken[media.token_id] = taken.get(media.token_id, 0) + sum(counts[-1])
    _check_overlaps(seen)
    for token_id, count in taken.items():
        if sum(each == token_id for each in ids) != count:
            raise Refused(f"token {token_id} stands outside of the placeholders")
    for media, tokens in zip(seen, counts, strict=True):
        _check_grid(media, tokens, None if kind in _OTHER_GRIDS else merge)
        _check_sound(media, tokens, mels, kind)


def check_files(seen: Sequence[SeenMedia], ids: Sequence[int], anchor: int | None) -> None:
    """Raise Refused where the prompt has not one `anchor` for each picture that came as a file (None: not known)."""
    files, found = (len(media.hashes) for media in seen if media.as_files), 0
    if (wanted := sum(files)) and anchor is not None and (found := sum(each == anchor for each in ids)) != wanted:
        raise Refused(f"{found} placeholders in the prompt for {wanted} pictures")


def _check_overlaps(seen: Sequence[SeenMedia]) -> None:
    """Raise Refused where placeholders overlap, of any modality. In the neutral contract a clip's sound has the clip's."""
    heard = {
        place
        for media in seen
        if (media.dialect, media.modality) == ("neutral", "audio")
        for place in media.placeholders
    }
    clips = {place for media in seen if media.modality == "video" for place in media.placeholders}
    places = sorted(place for media in seen for place in media.placeholders)
    for (offset, length), (after, more) in pairwise(places):
        woven = (offset, length) == (after, more) and (offset, length) in heard & clips
        if offset + length > after and not woven:
            raise Refused(f"the placeholder at {after} lies within that at {offset}")


def _check_rows(media: SeenMedia, name: str, tensor: SeenTensor, items: int) -> None:
    """Axis 0 of a batched tensor is the item; a flat one has as many rows as its sizes say."""
    rows = tensor.shape[0] if tensor.shape else 0
    if name in media.batched and rows != items:
        raise Refused(f"{name}: {rows} rows for {items} items")
    if name in media.flat:
        sizes = media.tensors[media.flat[name]].values
        if len(sizes) != items or sum(sizes) != rows:
            raise Refused(f"{name}: {rows} rows, but the sizes of its items are {list(sizes)}")


def _embeddings(media: SeenMedia, ids: Sequence[int]) -> list[int]:
    """How many embeddings each placeholder takes: one for each of its tokens that is `token_id`, or for all when there is
    none."""
    counts, end = [], 0
    for offset, length in media.placeholders:
        if offset < end or not length or offset + length > len(ids):
            raise Refused(f"a placeholder of {length} tokens at {offset} does not fit the prompt of {len(ids)}")
        end = offset + length
        inside = ids[offset:end]
        count = length if media.token_id is None else sum(each == media.token_id for each in inside)
        if not count:
            raise Refused(f"the placeholder at {offset} has no token {media.token_id}")
        counts.append(count)
    spans = media.embeddings
    if spans is not None and any(
        ids[at] != media.token_id for start, length in spans for at in range(start, start + length)
    ):
        raise Refused(f"embeddings lie at tokens other than {media.token_id}")
    if spans is not None and sum(length for _, length in spans) != sum(counts):
        raise Refused(f"{sum(counts)} tokens {media.token_id} for {sum(length for _, length in spans)} embeddings")
    return counts


def _check_grid(media: SeenMedia, counts: Sequence[int], merge: int | None) -> None:
    """Raise Refused where the tokens do not match the grid; without `merge` they need not."""
    grid = media.tensors.get(f"{media.modality}_grid_thw")
    if grid is None or merge is None:
        return
    if len(grid.shape) != 2 or grid.shape[1] != 3 or len(grid.values) != 3 * len(counts):
        raise Refused(f"{media.modality}_grid_thw: {grid} for {len(counts)} items")
    patches = [prod(grid.values[at : at + 3]) for at in range(0, len(grid.values), 3)]
    rows = media.tensors[_PRIMARY].shape[0] if _PRIMARY in media.tensors else sum(patches)
    if rows != sum(patches):
        raise Refused(f"{_PRIMARY}: {rows} rows for grids of {sum(patches)} patches")
    for count, cells in zip(counts, patches, strict=True):
        if count * merge * merge != cells:
            raise Refused(f"{count} tokens for {cells} patches, {merge * merge} of which become one")


def _check_sound(media: SeenMedia, counts: Sequence[int], mels: int | None, kind: str) -> None:
    """Raise Refused where the tokens do not match the frames: Whisper's (counted by the mask) are halved twice, of Phi-4's
    eight become one token."""
    whisper = media.tensors.get("input_features") if kind in _HALVED_TWICE else None
    phi = media.tensors.get("input_audio_embeds") or media.tensors.get("audio_input_features")
    if whisper is not None:
        mask = media.tensors.get("feature_attention_mask")
        if mask is None or len(whisper.shape) != 3 or mask.shape != (whisper.shape[0], whisper.shape[2]):
            raise Refused(f"input_features {whisper} with the mask {mask}")
        if mels is not None and whisper.shape[1] != mels:
            raise Refused(f"input_features {whisper}, but the model has {mels} bands")
        wanted = [(((frames - 1) // 2 + 1) - 2) // 2 + 1 for frames in mask.sums]
    elif phi is not None:
        wanted = [-(-phi.shape[1] // 8)] * phi.shape[0]
    else:
        return
    if wanted != list(counts):
        raise Refused(f"{list(counts)} tokens for recordings that have {wanted}")


def _places(media: SeenMedia) -> Sequence[tuple[int, int]]:
    """Where the items lie. Of files it is not known, so that what the cache has of them is parted from the first token on."""
    return [(0, 1)] * len(media.hashes) if media.as_files else media.placeholders


def media_spans(seen: Sequence[SeenMedia]) -> tuple[tuple[int, int, str], ...]:
    """(offset, length, hash) of every item, in prompt order, for the prefix cache."""
    return tuple(
        sorted(
            (offset, length, digest)
            for media in seen
            for (offset, length), digest in zip(_places(media), media.hashes, strict=True)
        )
    )


def describe_media(seen: Sequence[SeenMedia]) -> str:
    """The counts, positions and shapes of the media in words: the answer to a prompt with the word "shapes"."""
    parts = []
    for media in seen:
        count = len(media.hashes)
        shapes = ", ".join(f"{name} {tensor}" for name, tensor in sorted(media.tensors.items()))
        tokens = ", ".join(f"{length} tokens at {offset}" for offset, length in media.placeholders)
        many = f"I see {count} {media.modality}{'s' if count > 1 else ''}"
        parts.append(f"{many} in files" if media.as_files else f"{many} ({tokens}): {shapes}")
    return ". ".join(parts) + "."
