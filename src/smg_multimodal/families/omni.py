"""Clips and recordings of Qwen2.5-Omni and Qwen3-Omni.

Above: `registry` puts these into rows. Below: `modalities`, `clips.video`, `clips.weaving`, `recordings.audio`. Clips are
processed as Qwen2-VL's, within bounds that are the models' own whatever their files say; recordings as Whisper's, without the
frames of padding that engines drop. The sound of a clip is listened to where engines were told `use_audio_in_video`: its tokens
then lie between those of the frames, as processing_qwen2_5_omni and processing_qwen3_omni_moe of transformers lay them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image

from smg_multimodal.clips import video
from smg_multimodal.clips.weaving import WovenRun, in_chunks, in_order
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import NAMED_KEYS
from smg_multimodal.families.modalities import QWEN_VIDEO, ClipProcessor, Modal, RecordingProcessor
from smg_multimodal.prompts.prompts import (
    PromptRule,
    PromptTokenizer,
    ReplacementWriter,
    repeat_rule,
    token,
)
from smg_multimodal.recordings import audio
from smg_multimodal.records.types import Array, Batched, Float32, ItemFeatures, Modality, Replacement, Size

__all__ = ["WEAVE_BY_MOMENT", "WEAVE_IN_CHUNKS", "HeardClips", "Weave", "omni_audio", "omni_video"]


@dataclass(frozen=True, slots=True)
class Weave:
    """How a family's processor weaves a clip's sound into its frames.

    `positions` are counted a second, one for each token of sound. With `chunks` frames and sound take turns by so many seconds,
    frames first; else the frames of a moment lie between the sound before it and after it. `start` and `end` enclose all of it,
    `sound` is its token, each with the name that its id has in config.json. `windows` is as for recordings.
    """

    positions: float
    chunks: float | None
    start: tuple[str, str]
    sound: tuple[str, str]
    end: tuple[str, str]
    windows: bool

    def reported(self, given: Mapping[str, Any]) -> "Weave":
        """The same, with what engines were told besides. Raises `UnsupportedModel` for what is no such number."""
        positions = _number(given, "position_id_per_seconds", self.positions)
        made = replace(self, positions=positions)
        if self.chunks is not None:
            made = replace(made, chunks=_number(given, "seconds_per_chunk", self.chunks))
        if made.chunks is not None and made.positions * made.chunks < 1:
            raise refused("seconds_per_chunk", made.chunks, "a chunk has a token at least")
        return made

    def runs(self, grid: tuple[int, ...], per_frame: int, interval: float, sound: int) -> tuple[WovenRun, ...]:
        """The tokens of `grid[0]` groups of frames, `interval` seconds from each other, and of the sound, in turns."""
        moments = [step * interval * self.positions for step in range(grid[0])]
        if self.chunks is None:
            return in_order(moments, per_frame, sound)
        return in_chunks(moments, per_frame, sound, int(self.positions * self.chunks))


_MOST = 10_000
"""Positions of a second, and seconds of a chunk, that engines may be told."""


def _number(given: Mapping[str, Any], key: str, usual: float) -> float:
    value = given.get(key)
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST:
        raise refused(key, value, f"a number above nothing, and at most {_MOST}, is needed")
    return value


WEAVE_IN_CHUNKS = Weave(
    25,
    2.0,
    ("<|audio_bos|>", "audio_start_token_id"),
    ("<|AUDIO|>", "audio_token_index"),
    ("<|audio_eos|>", "audio_end_token_id"),
    windows=False,
)
WEAVE_BY_MOMENT = Weave(
    13.0,
    None,
    ("<|audio_start|>", "audio_start_token_id"),
    ("<|audio_pad|>", "audio_token_id"),
    ("<|audio_end|>", "audio_end_token_id"),
    windows=True,
)


@dataclass(frozen=True, slots=True)
class HeardClips:
    """Clips whose sound is listened to: frames as `frames` makes them, and of the sound what `recordings` makes."""

    frames: video.PatchVideoProcessor
    recordings: RecordingProcessor
    weave: Weave

    def sample(self, total: int, rate: float) -> list[int]:
        """See `ClipProcessor`."""
        return self.frames.sample(total, rate)

    def measure(self, size: Size, frames: int) -> tuple[int, tuple[int, ...]]:
        """See `ClipProcessor`: without the sound, of which a clip may have none."""
        return self.frames.measure(size, frames)

    def nbytes(self, size: Size, frames: int) -> int:
        """See `ClipProcessor`."""
        return self.frames.nbytes(size, frames)

    def item(self, frames: Iterable[Image.Image], seconds: Sequence[float], rate: float | None = None) -> ItemFeatures:
        """See `ClipProcessor`."""
        made = self.frames.item(frames, seconds, rate)
        return replace(made, facts={**made.facts, "interval": self.frames.interval(seconds, rate)})

    def woven(self, clip: ItemFeatures, samples: Float32) -> ItemFeatures:
        """A clip with the tensors of its sound; `facts["woven"]` has in which turns their tokens come."""
        sound = self.recordings.item(samples)
        tensors: dict[str, Array] = {**clip.tensors, **sound.tensors}
        runs = self.weave.runs(clip.grid, clip.tokens // clip.grid[0], clip.facts["interval"], sound.tokens)
        return replace(clip, tensors=tensors, tokens=clip.tokens + sound.tokens, facts={**clip.facts, "woven": runs})


def _id_of(model: Mapping[str, Any], *names: str) -> Any:
    """The id that config.json states under one of `names`; an omni model's own part of it comes first."""
    places = (model.get("thinker_config") or {}, model)
    return next((place[name] for place in places for name in names if name in place), None)


def _token_of(model: Mapping[str, Any], kind: str) -> Any:
    return _id_of(model, f"{kind}_token_id", f"{kind}_token_index")


def _repeated(text: str, kind: str, modality: Modality) -> Callable[[Mapping[str, Any], PromptTokenizer], PromptRule]:
    return lambda model, vocabulary: repeat_rule(text, token(vocabulary, text, _token_of(model, kind)), modality)


def _woven_rule(text: str, weave: Weave, model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """A clip's tokens, or, where its sound was listened to, theirs and the sound's between two marks."""
    plain = _repeated(text, "video", Modality.VIDEO)(model, vocabulary)

    def write(item: ItemFeatures, index: int) -> Replacement:
        runs: Sequence[WovenRun] | None = item.facts.get("woven")
        if runs is None:
            return plain.replace(item, index)
        start, end = (token(vocabulary, mark, _id_of(model, key)) for mark, key in (weave.start, weave.end))
        sound = token(vocabulary, weave.sound[0], _token_of(model, "audio"))
        writer = ReplacementWriter().put(start)
        for heard, count in runs:
            writer.run(sound if heard else plain.feature, count)
        return writer.put(end).done()

    return replace(plain, replace=write)


def _recordings(files: ModelFiles, *, windows: bool) -> RecordingProcessor:
    made = audio.whisper(files.recordings, {"feature_size": 128, "chunk_length": 300})
    seconds, count = (None, audio.windowed) if windows else (made.seconds, audio.halved_twice)
    return replace(made, seconds=seconds, trimmed=not windows, count=count)


def omni_video(text: str, cell: int, weave: Weave) -> Modal:
    """Clips whose frames have 128 to 768 cells of `cell` pixels a side, unless the engine was told otherwise; `text` stands for
    one in the prompt, and `weave` says how sound comes in where that is wanted."""

    def make(files: ModelFiles) -> ClipProcessor:
        names = set(files.clips.get(NAMED_KEYS) or ())
        bounds = {"min_pixels": 128 * cell * cell, "max_pixels": 768 * cell * cell}
        own = {} if "size" in names else {key: value for key, value in bounds.items() if key not in names}
        made = video.qwen2_video({**files.clips, **own})
        if files.woven is None:
            return made
        return HeardClips(made, _recordings(files, windows=weave.windows), weave.reported(files.woven))

    return Modal(
        make,
        lambda model, vocabulary: _woven_rule(text, weave, model, vocabulary),
        {**QWEN_VIDEO.layouts, "second_per_grid_ts": Batched()},
        QWEN_VIDEO.primary,
        QWEN_VIDEO.on_host | {"second_per_grid_ts"},
    )


def omni_audio(text: str, *, windows: bool) -> Modal:
    """Recordings; `text` stands for one in the prompt. With `windows` (Qwen3-Omni) a recording keeps its length, else
    it is cut to the configured one."""
    return Modal(
        lambda files: _recordings(files, windows=windows),
        _repeated(text, "audio", Modality.AUDIO),
        {"input_features": Batched(), "feature_attention_mask": Batched()},
        "input_features",
    )
