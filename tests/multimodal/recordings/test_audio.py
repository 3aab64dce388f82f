"""Log-mel features are transformers'; WAV files and resampling give the samples they should."""

import gzip
import io
import json
import math
import struct
import tracemalloc
import warnings
import wave
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sound_files import RECORDINGS, recording
from transformers import WhisperFeatureExtractor
from transformers.audio_utils import mel_filter_bank
from transformers.models.gemma3n.feature_extraction_gemma3n import Gemma3nAudioFeatureExtractor
from transformers.models.gemma4.feature_extraction_gemma4 import Gemma4AudioFeatureExtractor
from transformers.models.gemma4.processing_gemma4 import Gemma4Processor
from transformers.models.qwen2_5_omni.processing_qwen2_5_omni import (
    _get_feat_extract_output_lengths as qwen2_5_omni_tokens,
)
from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import (
    _get_feat_extract_output_lengths as qwen3_omni_tokens,
)

from smg_multimodal.decoding import sounds
from smg_multimodal.families.usm import gemma3n_audio, gemma4_audio
from smg_multimodal.recordings import audio
from smg_multimodal.recordings.audio import (
    Phi4AudioProcessor,
    WhisperProcessor,
    halved_twice,
    mel_filters,
    read_wave,
    resampled,
    wave_length,
    wave_of_pcm16,
    wave_recording,
    windowed,
)
from smg_multimodal.records.errors import BadMedia, MediaError, MediaTooLarge, UnsupportedModel

REFERENCES = Path(__file__).parents[1] / "references.json.gz"


def test_filters_are_the_references() -> None:
    slaney = mel_filter_bank(201, 128, 0.0, 8000.0, 16000, norm="slaney", mel_scale="slaney")
    kaldi = mel_filter_bank(257, 80, 0, 7690, 16000, triangularize_in_mel_space=True, mel_scale="kaldi")
    assert np.allclose(mel_filters(201, 128, 0.0, 8000.0, 16000), slaney, rtol=1e-12, atol=1e-15)
    assert np.allclose(mel_filters(257, 80, 0.0, 7690.0, 16000, kaldi=True), kaldi, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("seconds", [0.05, 0.5, 1.23456, 3.0])
def test_whisper_features_are_the_references(mels: int, seconds: float) -> None:
    samples = recording(seconds)
    theirs = WhisperFeatureExtractor(feature_size=mels, chunk_length=5)
    out = theirs(samples, sampling_rate=16000, return_tensors="np", return_attention_mask=True)
    item = WhisperProcessor(mels=mels, seconds=5).item(samples)
    assert item.tensors["input_features"].shape == out["input_features"].shape
    assert np.abs(item.tensors["input_features"] - out["input_features"]).max() <= 1e-6
    assert np.array_equal(item.tensors["feature_attention_mask"], out["attention_mask"])
    frames = int(out["attention_mask"].sum())
    assert item.tokens == max(0, (((frames - 1) // 2 + 1) - 2) // 2 + 1)


OMNI_LENGTHS = (201, 640, 16000, 16001, 19753, 48000, 52345)


@pytest.mark.parametrize("samples", OMNI_LENGTHS)
def test_recordings_of_qwen_omni_are_the_real_frames_of_the_references(samples: int) -> None:
    """Qwen2.5-Omni's are padded to the longest that it takes, and engines drop the padding; Qwen3-Omni's keep their length."""
    sound = recording(4.0)[:samples]
    theirs = WhisperFeatureExtractor(feature_size=128, chunk_length=6)
    for name, padding, counted in (
        ("qwen2_5_omni", "max_length", qwen2_5_omni_tokens),
        ("qwen3_omni_moe", True, qwen3_omni_tokens),
    ):
        out = theirs(sound, sampling_rate=16000, return_tensors="np", return_attention_mask=True, padding=padding)
        real = out["attention_mask"].astype(bool)[0]
        later = name == "qwen3_omni_moe"
        ours = WhisperProcessor(
            seconds=None if later else 6, trimmed=not later, count=windowed if later else halved_twice
        )
        item = ours.item(sound)
        assert item.tensors["input_features"].shape[2] == real.sum() == item.tensors["feature_attention_mask"].sum()
        assert np.abs(item.tensors["input_features"] - out["input_features"][:, :, real]).max() <= 1e-6
        assert item.tokens == max(0, int(counted(real.sum())))


def test_a_recording_longer_than_the_model_takes_is_cut_as_the_reference_cuts_it() -> None:
    sound = recording(4.0)
    out = WhisperFeatureExtractor(feature_size=128, chunk_length=3)(sound, sampling_rate=16000, return_tensors="np")
    ours = WhisperProcessor(seconds=3, trimmed=True).item(sound).tensors["input_features"]
    assert ours.shape == out["input_features"].shape
    assert np.abs(ours - out["input_features"]).max() <= 1e-6


@pytest.mark.sampled(per=("settings",))
@pytest.mark.parametrize("samples", [513, 640, 16000, 19753, 480_001])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"preemphasis": 0.0, "fft_overdrive": False, "feature_size": 80, "mel_floor": 1e-3},
        {"input_scale_factor": 2.0, "per_bin_mean": [0.5] * 128, "per_bin_stddev": [2.0] * 128},
    ],
)
def test_gemma_3n_features_are_the_references(samples: int, settings: dict[str, Any]) -> None:
    sound = np.tile(recording(4.0), 8)[:samples]
    out = Gemma3nAudioFeatureExtractor(**settings)(sound, return_tensors="np")
    item = gemma3n_audio({}, settings).item(sound)
    assert np.array_equal(item.tensors["input_features_mask"], out["input_features_mask"])
    assert item.tensors["input_features"].dtype == out["input_features"].dtype
    assert np.array_equal(item.tensors["input_features"], out["input_features"])
    assert item.tokens == 188


@pytest.mark.parametrize("samples", [161, 640, 16000, 19753, 480_001])
@pytest.mark.parametrize("settings", [{}, {"preemphasis": 0.97, "fft_overdrive": True, "feature_size": 80}])
def test_gemma_4_features_are_the_references(samples: int, settings: dict[str, Any]) -> None:
    sound = np.tile(recording(4.0), 8)[:samples]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = Gemma4AudioFeatureExtractor(**settings)
    out = theirs([sound], return_tensors="np")
    item = gemma4_audio({}, settings).item(sound)
    assert np.array_equal(item.tensors["input_features_mask"], out["input_features_mask"])
    assert item.tensors["input_features"].dtype == out["input_features"].dtype
    assert np.array_equal(item.tensors["input_features"], out["input_features"])
    written = Gemma4Processor.replace_audio_token(SimpleNamespace(boa_token="", audio_token="x", eoa_token=""), out, 0)
    assert item.tokens == len(written)


@pytest.mark.parametrize("settings", [{"dither": 0.1}, {"padding_value": 0.5}, {"per_bin_mean": [0.0]}])
def test_settings_of_gemmas_features_that_are_not_done_are_refused_by_name(settings: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedModel, match=next(iter(settings))):
        gemma3n_audio({}, settings)


@pytest.mark.full
def test_phi_4_features_are_those_written_down() -> None:
    rows = json.loads(gzip.decompress(REFERENCES.read_bytes()))["audio"]
    assert len(rows) == len(RECORDINGS)
    for row in rows:
        item = Phi4AudioProcessor().item(recording(row["seconds"], seed=row["seed"]))
        features = item.tensors["audio_input_features"]
        assert list(features.shape) == row["shape"]
        assert [item.tokens] == row["tokens"]
        assert np.allclose(features.ravel()[:: row["step"]], row["values"], atol=2e-3, rtol=0)


def wav(samples: np.ndarray[Any, Any], channels: int, width: int, rate: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return out.getvalue()


def test_integer_samples_of_every_width_are_read() -> None:
    assert np.allclose(read_wave(wav(np.array([0, 128, 255], np.uint8), 1, 1, 8000))[0], [-1, 0, 127 / 128])
    assert np.allclose(read_wave(wav(np.array([-32768, 0, 16384], "<i2"), 1, 2, 8000))[0], [-1, 0, 0.5])
    packed = np.frombuffer(b"\x00\x00\x80\x00\x00\x00\x00\x00\x40", np.uint8)
    assert np.allclose(read_wave(wav(packed, 1, 3, 8000))[0], [-1, 0, 0.5])
    assert np.allclose(read_wave(wav(np.array([-(2**31), 2**30], "<i4"), 1, 4, 8000))[0], [-1, 0.5])


def test_channels_are_averaged_and_floats_read() -> None:
    samples, rate = read_wave(wav(np.array([16384, 0, -16384, -16384], "<i2"), 2, 2, 44100))
    assert rate == 44100
    assert np.allclose(samples, [0.25, -0.5])
    body = np.array([0.5, -0.25], "<f4").tobytes()
    header = struct.pack("<HHIIHH", 3, 1, 16000, 64000, 4, 32)
    data = b"RIFF" + bytes(4) + b"WAVEfmt " + struct.pack("<I", 16) + header + b"data" + struct.pack("<I", 8) + body
    assert np.allclose(read_wave(data)[0], [0.5, -0.25])


@given(st.binary(max_size=200))
def test_anything_that_is_no_recording_is_refused(data: bytes) -> None:
    for start in (b"", b"RIFF\0\0\0\0WAVE", b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0"):
        try:
            samples, rate = read_wave(start + data)
        except MediaError:
            continue
        assert samples.dtype == np.float32
        assert rate >= 1000


def test_recordings_too_long_empty_or_not_finite_are_refused() -> None:
    processor = WhisperProcessor(longest=1.0)
    with pytest.raises(MediaTooLarge):
        processor.item(recording(1.5))
    for bad in (np.zeros(0, np.float32), np.array([np.nan], np.float32), np.zeros((2, 2), np.float32)):
        with pytest.raises(BadMedia):
            processor.item(bad)
    with pytest.raises(BadMedia):
        Phi4AudioProcessor().item(np.zeros(399, np.float32))
    with pytest.raises(MediaTooLarge):
        read_wave(bytes(100), max_bytes=99)


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_resampling_keeps_a_tone(rate: int) -> None:
    time = np.arange(rate) / rate
    tone = np.sin(2 * np.pi * 700 * time).astype(np.float32)
    made = resampled(tone, rate, 16000)
    assert len(made) == 16000
    ideal = np.sin(2 * np.pi * 700 * np.arange(16000) / 16000)
    assert np.abs(made[200:-200] - ideal[200:-200]).max() < 0.01


def test_resampling_to_the_same_rate_gives_the_samples_themselves() -> None:
    samples = recording(0.1)
    assert resampled(samples, 16000, 16000) is samples


def test_a_recording_too_long_is_refused_before_it_is_resampled() -> None:
    """At a low rate a small file would become a hundred times its size."""
    slow = wav(np.zeros(1000 * 60, np.uint8), 1, 1, 1000)
    with pytest.raises(MediaTooLarge, match=r"60\.0 s"):
        wave_recording(slow, 16000, 30.0)
    assert len(wave_recording(slow, 16000, 60.0)) == 60 * 16000


def test_rates_without_a_common_divisor_take_no_more_memory() -> None:
    samples = recording(1.0, 44101)
    tracemalloc.start()
    try:
        made = resampled(samples, 44101, 16000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(made) == 16000
    assert peak < 64 * 1024 * 1024
    near = resampled(recording(1.0, 44100), 44100, 16000)
    assert np.corrcoef(made[100:-100], near[100:-100])[0, 1] > 0.95


def by_every_kernel_at_once(samples: Any, rate: int, wanted: int, zeros: int = 6, rolloff: float = 0.99) -> Any:
    """The resampler's formula, with the weights of all phases in memory."""
    old, new = rate // math.gcd(rate, wanted), wanted // math.gcd(rate, wanted)
    base = min(old, new) * rolloff
    reach = math.ceil(zeros * old / base)
    offsets = np.arange(-reach, reach + 2)[None] - (np.arange(new) * old % new / new)[:, None]
    times = np.clip(offsets * (base / old), -zeros, zeros)
    kernels = np.sinc(times) * np.cos(times * np.pi / zeros / 2) ** 2 * (base / old)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(samples, (reach, reach + 2)), kernels.shape[1])
    places = np.arange(math.ceil(new * len(samples) / old))
    return np.einsum("ij,ij->i", windows[places * old // new], kernels[places % new]).astype(np.float32)


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("rate", [1000, 11025, 44101, 383_999, 384_000])
def test_the_resamplers_weights_take_the_memory_of_a_few_whatever_the_rate(rate: int) -> None:
    """All of them were 181 MB for a rate that has no divisor in common with the model's."""
    samples = recording(0.05, rate)
    tracemalloc.start()
    try:
        made = resampled(samples, rate, 16000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < sounds._OVERHEAD
    assert np.array_equal(made, by_every_kernel_at_once(samples, rate, 16000))


@settings(max_examples=30, deadline=None)
@given(st.integers(1000, 5000), st.integers(1, 300), st.integers(64, 2000))
def test_samples_do_not_depend_on_how_many_weights_are_in_memory(rate: int, count: int, weights: int) -> None:
    samples = np.random.default_rng(rate).standard_normal(count).astype(np.float32)
    with patch.object(audio, "_WEIGHTS", weights):
        made = resampled(samples, rate, 1601)
    assert np.array_equal(made, by_every_kernel_at_once(samples, rate, 1601))


def streamed(told: int, riff: int, behind: bytes = b"") -> bytes:
    whole = wav(np.arange(-300, 300, dtype="<i2"), 1, 2, 16000)
    assert whole[36:40] == b"data"
    return whole[:4] + struct.pack("<I", riff) + whole[8:40] + struct.pack("<I", told) + whole[44:] + behind


@pytest.mark.parametrize("riff", [0, 36, 0xFFFFFFFF])
@pytest.mark.parametrize("told", [0, 0x7FFFF000, 0xFFFFFFFF])
def test_samples_whose_length_was_not_known_when_the_head_was_written_go_on_to_the_end(told: int, riff: int) -> None:
    data = streamed(told, riff)
    assert np.array_equal(read_wave(data)[0], np.arange(-300, 300, dtype=np.float32) / np.float32(32768))
    assert wave_length(data) == (600 / 16000, 16000)


def test_a_file_that_says_how_long_it_is_and_has_no_samples_has_none() -> None:
    nothing = wav(np.zeros(0, "<i2"), 1, 2, 16000)
    note = b"LIST\x04\0\0\0INFO"
    data = nothing[:4] + struct.pack("<I", len(nothing) - 8 + len(note)) + nothing[8:] + note
    assert wave_length(data) == (0.0, 16000)


@pytest.mark.parametrize("count", [0, 1, 1000, 3 * 1024 * 1024 + 7])
def test_bare_samples_become_a_wav_file_and_are_copied_once(count: int) -> None:
    samples = bytes(count)
    tracemalloc.start()
    try:
        made = wave_of_pcm16(samples)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert made[44:] == samples
    with wave.open(io.BytesIO(made)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24000, 1, 2)
    assert peak < 1.3 * len(made) + 20_000


def test_long_recordings_are_worked_on_in_pieces_that_make_no_difference() -> None:
    processor = Phi4AudioProcessor()
    samples = recording(45.0)
    whole = processor.item(samples).tensors["audio_input_features"]
    late = processor.item(samples[4096 * 160 :]).tensors["audio_input_features"]
    assert np.array_equal(whole[:, 4096:], late)
