"""Recordings of Gemma 3n and Gemma 4 (features of the Universal Speech Model): the logarithm of mel magnitudes, at most 30 s.

Above: `registry`. Below: `modalities`, numpy. Follows transformers' feature_extraction_gemma3n and _gemma4. Gemma 3n has as
many tokens for a short recording as for a long one; Gemma 4 begins with half a frame of silence and leaves out what is not real.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import RECORDING_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.families.modalities import Modal, of_recordings
from smg_multimodal.prompts.prompts import GEMMA_3N, GEMMA_4, PromptRule, PromptTokenizer, enclosed_rule
from smg_multimodal.recordings.audio import WHISPER_ONLY
from smg_multimodal.recordings.mel_bands import MelBands
from smg_multimodal.records.errors import BadRecording
from smg_multimodal.records.types import Array, Batched, Float32, ItemFeatures, Modality, Size

__all__ = ["GEMMA3N_AUDIO", "GEMMA4_AUDIO", "UsmProcessor", "gemma3n_audio", "gemma4_audio"]

PromptFactory = Callable[[Mapping[str, Any], PromptTokenizer], PromptRule]

_MULTIPLE = 128
"""Samples to a multiple of which a recording is padded with silence."""

_FRAMES = 256
"""Frames whose spectra are made at once: they stay in a core's second-level cache."""


def _mel(hertz: float) -> float:
    return 2595.0 * math.log10(1.0 + hertz / 700.0)


@dataclass(frozen=True, slots=True)
class UsmProcessor:
    """Recordings to (1, frames, mels) floats and a (1, frames) mask of real frames; lengths in samples, `kept` at most.

    `emphasis` is what of each sample is taken off the next; with `htk` the first of a frame is taken off itself.
    `overdrive` doubles the transform's length. `mean` and `deviation`, where given, normalise each of the mels. `tokens` is
    the count of every recording (Gemma 3n); with None (Gemma 4) a token is four real frames.
    """

    mels: int = 128
    rate: int = 16000
    frame: int = 512
    hop: int = 160
    low: float = 125.0
    high: float = 7600.0
    emphasis: float = 0.97
    htk: bool = True
    overdrive: bool = True
    scale: float = 1.0
    floor: float = 1e-5
    mean: tuple[float, ...] | None = None
    deviation: tuple[float, ...] | None = None
    tokens: int | None = None
    kept: int = 480_000
    longest: float = 600.0

    @property
    def transform(self) -> int:
        """The length of the Fourier transform: a power of two."""
        power = 1 << (self.frame - 1).bit_length()
        return power * 2 if self.overdrive else power

    @property
    def fixed(self) -> bool:
        """Whether this is Gemma 3n's way: as many tokens for every recording, and arithmetic of its own."""
        return self.tokens is not None

    def filters(self) -> NDArray[np.float64]:
        """(bins, mels) triangles, evenly spaced in mels, of height one."""
        count = self.transform // 2 + 1
        bins: NDArray[Any] = np.linspace(0, self.rate // 2, count)
        if self.fixed:
            bins = np.arange(count, dtype=np.float32) * (self.rate / self.transform)
        corners = 700.0 * (10 ** (np.linspace(_mel(self.low), _mel(self.high), self.mels + 2) / 2595.0) - 1.0)
        gaps, slopes = np.diff(corners), corners[None] - bins[:, None]
        triangles = np.minimum(-slopes[:, :-2] / gaps[:-1], slopes[:, 2:] / gaps[1:])
        return np.asarray(np.maximum(0.0, triangles), np.float64)

    def _window(self) -> Float32:
        if not self.fixed:
            return np.hanning(self.frame + 1)[:-1].astype(np.float32)
        turns = np.arange(self.frame, dtype=np.float32)
        return np.asarray(0.5 * (1 - np.cos(2 * np.pi * turns / self.frame)), np.float32)

    def log_mel(self, samples: Float32) -> Float32:
        """(frames, mels) floats of samples that are padded already."""
        if self.scale != 1.0:
            samples = samples * self.scale
        pieces = np.lib.stride_tricks.sliding_window_view(samples, self.frame + 1)[:: self.hop]
        bands, window = MelBands.of(self.filters()), self._window()
        made = np.empty((len(pieces), self.mels), np.float32)
        for start in range(0, len(pieces), _FRAMES):
            sharp = self._sharpened(pieces[start : start + _FRAMES])
            mels = bands(np.abs(np.fft.rfft(sharp * window, self.transform)))
            loud = np.log(np.maximum(mels, self.floor) if self.fixed else mels + self.floor)
            if self.mean is not None:
                loud = loud - np.array(self.mean)
            if self.deviation is not None:
                loud = loud / np.array(self.deviation)
            made[start : start + _FRAMES] = loud
        return made

    def _sharpened(self, pieces: Float32) -> Float32:
        """Frames, of which each sample has lost a part of the one before it."""
        if self.emphasis <= 0:
            return pieces[:, :-1]
        if not self.htk:
            return np.asarray(pieces[:, 1:] - self.emphasis * pieces[:, :-1])
        first = pieces[:, :1] * (1.0 - self.emphasis)
        return np.concatenate([first, pieces[:, 1:-1] - self.emphasis * pieces[:, :-2]], axis=1)

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        if samples.ndim != 1 or not len(samples) or not np.isfinite(samples).all():
            raise BadRecording("the recording must be mono, not empty, and finite")
        lead = 0 if self.fixed else self.frame // 2
        real = min(len(samples), self.kept)
        padded = np.zeros(lead + -(-real // _MULTIPLE) * _MULTIPLE, np.float32)
        padded[lead : lead + real] = samples[:real]
        if len(padded) <= self.frame:
            raise BadRecording(f"the recording has fewer than {self.frame + 1 - lead} samples")
        features = self.log_mel(padded)
        ends = np.arange(len(features)) * self.hop + (0 if self.fixed else self.frame)
        mask = (ends >= lead) & (ends < lead + real)
        if not self.fixed:
            features = features * mask[:, None]
        tensors: dict[str, Array] = {"input_features": features[None], "input_features_mask": mask[None]}
        tokens = int(mask[::2][::2].sum()) if self.tokens is None else self.tokens
        return ItemFeatures(tensors, Size(1, len(samples)), tokens, (len(features),), Modality.AUDIO)


_COMMON = {
    "feature_size": 128,
    "sampling_rate": 16000,
    "hop_length_ms": 10.0,
    "input_scale_factor": 1.0,
    "preemphasis_htk_flavor": True,
    "dither": 0.0,
    "padding_value": 0.0,
    "padding_side": "right",
}
_GEMMA_3N = ProcessorClass(
    frozenset({"Gemma3nAudioFeatureExtractor"}),
    {
        **_COMMON,
        "frame_length_ms": 32.0,
        "min_frequency": 125.0,
        "max_frequency": 7600.0,
        "preemphasis": 0.97,
        "fft_overdrive": True,
        "mel_floor": 1e-5,
    },
    WHISPER_ONLY,
)
_GEMMA_4 = ProcessorClass(
    frozenset({"Gemma4AudioFeatureExtractor"}),
    {
        **_COMMON,
        "frame_length_ms": 20.0,
        "min_frequency": 0.0,
        "max_frequency": 8000.0,
        "preemphasis": 0.0,
        "fft_overdrive": False,
        "mel_floor": 1e-3,
    },
    WHISPER_ONLY,
)


def _per_mel(config: Mapping[str, Any], key: str) -> tuple[float, ...] | None:
    values = config.get(key)
    if values is not None and len(values) != config["feature_size"]:
        raise refused(key, values, f"one number for each of the {config['feature_size']} mels is needed")
    return None if values is None else tuple(float(value) for value in values)


def _samples(config: Mapping[str, Any], key: str, rate: int) -> int:
    count = round(rate * float(config[key]) / 1000)
    if count < 1:
        raise refused(key, config[key], "this is no sample long")
    return count


def _processor(config: Mapping[str, Any], kind: ProcessorClass, tokens: int | None) -> UsmProcessor:
    given = settled(config, kind, kind=RECORDING_CLASS)
    rate = positive_number(given, "sampling_rate")
    return UsmProcessor(
        mels=positive_number(given, "feature_size"),
        rate=rate,
        frame=_samples(given, "frame_length_ms", rate),
        hop=_samples(given, "hop_length_ms", rate),
        low=float(given["min_frequency"]),
        high=float(given["max_frequency"]),
        emphasis=float(given["preemphasis"]),
        htk=bool(given["preemphasis_htk_flavor"]),
        overdrive=bool(given["fft_overdrive"]),
        scale=float(given["input_scale_factor"]),
        floor=float(given["mel_floor"]),
        mean=_per_mel(given, "per_bin_mean"),
        deviation=_per_mel(given, "per_bin_stddev"),
        tokens=tokens,
    )


def gemma3n_audio(model: Mapping[str, Any], config: Mapping[str, Any]) -> UsmProcessor:
    """From the feature extractor's configuration; processor_config.json or config.json says how many tokens a recording is."""
    tokens = config.get("audio_seq_length") or model.get("audio_soft_tokens_per_image") or 188
    return _processor(config, _GEMMA_3N, int(tokens))


def gemma4_audio(model: Mapping[str, Any], config: Mapping[str, Any]) -> UsmProcessor:
    """From the feature extractor's configuration."""
    del model
    return _processor(config, _GEMMA_4, None)


def _modal(make: Callable[[Mapping[str, Any], Mapping[str, Any]], UsmProcessor], prompt: PromptFactory) -> Modal:
    return Modal(
        of_recordings(make), prompt, {"input_features": Batched(), "input_features_mask": Batched()}, "input_features"
    )


GEMMA3N_AUDIO = _modal(
    gemma3n_audio, lambda model, vocabulary: enclosed_rule(vocabulary, model, Modality.AUDIO, GEMMA_3N)
)
GEMMA4_AUDIO = _modal(gemma4_audio, lambda model, vocabulary: enclosed_rule(vocabulary, model, Modality.AUDIO, GEMMA_4))
