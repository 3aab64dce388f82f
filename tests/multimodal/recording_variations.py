"""Other values than the defaults for every key that transformers' feature extractors of recordings take.

`variations` gives a configuration once for each of them. A key of a class that is not in `VALUES` is an error, so that nobody
forgets one: a family whose class has keys of its own adds a line with a value or two for each.
"""

import importlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sound_files import recording

Change = Mapping[str, Any]

VALUES: Mapping[str, tuple[Change, ...]] = {
    "feature_size": ({"feature_size": 80}, {"feature_size": 64}),
    "sampling_rate": ({"sampling_rate": 24000}, {"sampling_rate": 17000}),
    "hop_length": ({"hop_length": 128}, {"hop_length": 200}),
    "chunk_length": ({"chunk_length": 1}, {"chunk_length": 3}),
    "n_fft": ({"n_fft": 512}, {"n_fft": 448}),
    "win_length": ({"win_length": 320}, {"win_length": 600}),
    "dither": ({"dither": 0.1},),
    "padding_value": ({"padding_value": 0.5},),
    "padding_side": ({"padding_side": "left"},),
    "return_attention_mask": ({"return_attention_mask": False}, {"return_attention_mask": True}),
    "frame_length_ms": ({"frame_length_ms": 25.0}, {"frame_length_ms": 40.0}),
    "hop_length_ms": ({"hop_length_ms": 12.5},),
    "min_frequency": ({"min_frequency": 300.0},),
    "max_frequency": ({"max_frequency": 5000.0},),
    "preemphasis": ({"preemphasis": 0.5}, {"preemphasis": 0.0}),
    "preemphasis_htk_flavor": ({"preemphasis_htk_flavor": False, "preemphasis": 0.9},),
    "fft_overdrive": ({"fft_overdrive": True}, {"fft_overdrive": False}),
    "input_scale_factor": ({"input_scale_factor": 3.0},),
    "mel_floor": ({"mel_floor": 0.01},),
    "per_bin_mean": ({"per_bin_mean": [0.5] * 128}, {"per_bin_mean": [0.5] * 7}),
    "per_bin_stddev": ({"per_bin_stddev": [2.0] * 128},),
    "audio_compression_rate": ({"audio_compression_rate": 5},),
    "audio_downsample_rate": ({"audio_downsample_rate": 3},),
    "audio_feat_stride": ({"audio_feat_stride": 2},),
    "mel_min_frequency": ({"mel_min_frequency": 100},),
    "mel_max_frequency": ({"mel_max_frequency": 6000},),
    "n_window": ({"n_window": 20},),
    "n_mels": ({"n_mels": 64},),
    "projector_window_size": ({"projector_window_size": 20}, {"projector_window_size": 3}),
    "projector_downsample_rate": ({"projector_downsample_rate": 3},),
    "audio_samples_per_token": ({"audio_samples_per_token": 1000},),
    "samples_per_token": ({"samples_per_token": 1000},),
    "audio_token_duration_s": ({"audio_token_duration_s": 0.04}, {"audio_token_duration_s": 0.0001}),
    "window_size_multiplier": ({"window_size_multiplier": 1.0}, {"window_size_multiplier": 2.5}),
    "chunk_seconds": ({"chunk_seconds": 1},),
    "min_length": ({"min_length": 0}, {"min_length": 40_000}),
    "global_log_mel_max": ({"global_log_mel_max": 4.5}, {"global_log_mel_max": None}),
}
"""Under each key what is changed in a configuration, one change at a time; some need another key beside theirs."""


@dataclass(frozen=True)
class Recorded:
    """A family with recordings: its `model_type`, and transformers' class for them with the configuration that is changed.

    `torch`: the class cannot be loaded without torch, so that make_references.py has to run it.
    """

    name: str
    module: str
    kind: str
    config: Change = field(default_factory=dict)
    torch: bool = False
    apart: float = 1e-6
    named: tuple[str, ...] = ()
    """The keys of a class whose module cannot be imported without torch; make_references.py holds them against the class."""

    @property
    def extractor(self) -> Any:
        """transformers' class."""
        return getattr(importlib.import_module(f"transformers.models.{self.module}"), self.kind)

    @property
    def keys(self) -> list[str]:
        """Every key that it or the class below it takes."""
        return list(self.named) or self.read

    @property
    def read(self) -> list[str]:
        """The same, read of the class."""
        taken = [name for each in self.extractor.__mro__[:2] for name in inspect.signature(each.__init__).parameters]
        return [*dict.fromkeys(name for name in taken if name not in ("self", "kwargs")), "padding_side"]


_WHISPER = ("whisper.feature_extraction_whisper", "WhisperFeatureExtractor")
_SHORT = {"feature_size": 128, "chunk_length": 2}
RECORDED = (
    Recorded("qwen2_audio", *_WHISPER, _SHORT),
    Recorded("qwen2_5_omni", *_WHISPER, _SHORT),
    Recorded("qwen3_omni_moe", *_WHISPER, _SHORT),
    Recorded("voxtral", *_WHISPER, {"feature_size": 128}),
    Recorded("ultravox", *_WHISPER, {"feature_size": 128}),
    Recorded("whisper", *_WHISPER, {"feature_size": 80, "chunk_length": 3}),
    Recorded(
        "voxtral_realtime",
        "voxtral_realtime.feature_extraction_voxtral_realtime",
        "VoxtralRealtimeFeatureExtractor",
        torch=True,
        apart=2e-5,
        named=(
            *("feature_size", "sampling_rate", "hop_length", "n_fft", "win_length", "padding_value"),
            *("global_log_mel_max", "padding_side"),
        ),
    ),
    Recorded("gemma3n", "gemma3n.feature_extraction_gemma3n", "Gemma3nAudioFeatureExtractor", apart=0),
    Recorded("glmasr", *_WHISPER, _SHORT),
    Recorded("audioflamingo3", *_WHISPER, _SHORT),
    Recorded("musicflamingo", *_WHISPER, _SHORT),
    Recorded(
        "moss_transcribe_diarize",
        "moss_transcribe_diarize.feature_extraction_moss_transcribe_diarize",
        "MossTranscribeDiarizeFeatureExtractor",
        {"chunk_length": 2},
    ),
    Recorded(
        "inkling_mm_model",
        "inkling.feature_extraction_inkling",
        "InklingFeatureExtractor",
        torch=True,
        apart=0,
        named=(
            *("feature_size", "sampling_rate", "padding_value", "audio_token_duration_s", "window_size_multiplier"),
            *("n_fft", "padding_side"),
        ),
    ),
    Recorded(
        "dots3_note",
        "dots3_note.feature_extraction_dots3_note",
        "Dots3NoteFeatureExtractor",
        {"chunk_length": 2},
        torch=True,
        apart=2e-5,
    ),
    Recorded(
        "gemma4_unified",
        "gemma4_unified.feature_extraction_gemma4_unified",
        "Gemma4UnifiedAudioFeatureExtractor",
        apart=0,
    ),
    Recorded("muse_spark", "muse_spark.feature_extraction_muse_spark", "MuseSparkFeatureExtractor", apart=0),
    Recorded("gemma4", "gemma4.feature_extraction_gemma4", "Gemma4AudioFeatureExtractor", apart=0),
    Recorded(
        "phi4_multimodal",
        "phi4_multimodal.feature_extraction_phi4_multimodal",
        "Phi4MultimodalFeatureExtractor",
        torch=True,
        apart=2e-3,
    ),
    Recorded(
        "granite_speech",
        "granite_speech.feature_extraction_granite_speech",
        "GraniteSpeechFeatureExtractor",
        torch=True,
        apart=1e-4,
    ),
    Recorded(
        "nemotron_h_omni",
        "parakeet.feature_extraction_parakeet",
        "ParakeetFeatureExtractor",
        {"feature_size": 128},
        torch=True,
        apart=2e-4,
    ),
    Recorded("qwen3_asr", "qwen3_asr.feature_extraction_qwen3_asr", "Qwen3ASRFeatureExtractor", torch=True, apart=2e-5),
)
SECONDS = (0.31, 2.57)


def variations(recorded: Recorded) -> Iterator[tuple[str, Change]]:
    """(key, change) for all keys. Raises `KeyError` for a key that nobody has given values."""
    for key in recorded.keys:
        for change in VALUES[key]:
            yield key, change


def sounds(rate: int) -> list[Any]:
    """A short and a longer recording at `rate` Hz."""
    return [recording(seconds, rate, seed=number) for number, seconds in enumerate(SECONDS)]
