"""Voxtral, Ultravox and Qwen3-ASR: features, masks and token counts are those written down, prompts those of the references."""

import gzip
import importlib
import io
import json
import math
import re
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sound_files import SPOKEN, recording
from transformers import WhisperFeatureExtractor
from vocabulary import SPECIAL, TestVocabulary

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.modalities import QWEN3_ASR_AUDIO, ULTRAVOX_AUDIO, VOXTRAL_AUDIO, Modal
from smg_multimodal.families.registry import family_of
from smg_multimodal.preparing.packaging import for_items, for_vllm
from smg_multimodal.preparing.prepare import Media, Prepared, Preparer
from smg_multimodal.recordings.speech import qwen3_asr_recordings, ultravox_recordings, voxtral_recordings
from smg_multimodal.records.errors import BadMedia, MediaTooLarge, UnsupportedModel
from smg_multimodal.records.types import ItemFeatures, Modality, Size

REFERENCES = Path(__file__).parents[1] / "references.json.gz"
WORDS = TestVocabulary()
MODELS: dict[str, dict[str, Any]] = {
    "voxtral": {"model_type": "voxtral", "audio_token_id": 1000 + SPECIAL.index("[AUDIO]")},
    "ultravox": {
        "model_type": "ultravox",
        "audio_model_id": "openai/whisper-large-v3-turbo",
        "stack_factor": 8,
        "audio_token_index": 77,
    },
    "qwen3-asr": {"model_type": "qwen3_asr"},
}
MAKERS = {"voxtral": voxtral_recordings, "ultravox": ultravox_recordings, "qwen3-asr": qwen3_asr_recordings}
FRAMES_APART = 2e-5
"""How far a feature may lie from transformers', which takes its spectra in single precision."""


def written(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(gzip.decompress(REFERENCES.read_bytes()))["speech"][name]
    return rows


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_features_and_tokens_of_recordings_are_those_written_down(name: str) -> None:
    rows, processor = written(name), MAKERS[name](MODELS[name], {})
    assert [(row["seconds"], row["seed"]) for row in rows] == list(SPOKEN)
    for row in rows:
        item = processor.item(recording(row["seconds"], seed=row["seed"]))
        assert item.tokens == row["tokens"]
        assert set(item.tensors) == set(row["tensors"])
        for key, expected in row["tensors"].items():
            array = item.tensors[key]
            assert list(array.shape) == expected["shape"], (key, row["seconds"])
            if "values" in expected:
                assert array.tolist() == expected["values"], (key, row["seconds"])
                continue
            assert array.dtype == np.float32
            apart = np.abs(array.ravel()[:: expected["step"]] - expected["floats"]).max()
            assert apart <= FRAMES_APART, (key, row["seconds"], apart)


@pytest.mark.parametrize("seconds", [0.3, 31.0])
def test_features_are_those_of_transformers_in_double_precision(seconds: float) -> None:
    """Every float, not a sample of them, against Whisper's extractor without torch."""
    samples = recording(seconds)
    theirs = WhisperFeatureExtractor(feature_size=128)
    options = {"sampling_rate": 16000, "padding": True, "truncation": False, "return_tensors": "np"}
    expected = theirs(samples, pad_to_multiple_of=480000, **options)["input_features"]
    pieces = expected.reshape(128, -1, 3000).transpose(1, 0, 2)
    assert np.abs(voxtral_recordings({}, {}).item(samples).tensors["input_features"] - pieces).max() <= 1e-6
    (expected,) = theirs(samples, pad_to_multiple_of=160, **options)["input_features"]
    made = ultravox_recordings(MODELS["ultravox"], {}).item(samples).tensors["audio_features"]
    joined = np.concatenate(list(made), axis=1)
    assert np.abs(joined[:, : expected.shape[1]] - expected).max() <= 1e-6
    assert not joined[:, expected.shape[1] :].any()


def speech(seconds: float, rate: int = 16000) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((recording(seconds, rate) * 30000).astype("<i2").tobytes())
    return out.getvalue()


def prepared(name: str, *seconds: float) -> Prepared:
    made = Preparer(ModelFiles(MODELS[name]), WORDS)
    (rule,) = made.rules
    ids = [1, *(each for _ in seconds for each in (rule.anchor, 2))]
    return made.prepare(ids, [Media(speech(each), Modality.AUDIO) for each in seconds])


def expansion(modal: Modal, name: str, text: str, tokens: int) -> list[int]:
    rule = modal.prompt(MODELS[name], WORDS)
    assert rule.text == text
    return list(rule.replace(ItemFeatures({}, Size(1, 1), tokens, (1,), Modality.AUDIO), 0).ids)


def test_prompts_are_those_of_the_references() -> None:
    """mistral-common begins a recording with a token of its own; the others repeat the one they have."""
    begin, sound, pad = (WORDS.token_id(each) for each in ("[BEGIN_AUDIO]", "[AUDIO]", "<|audio_pad|>"))
    assert expansion(VOXTRAL_AUDIO, "voxtral", "[AUDIO]", 375) == [begin] + [sound] * 375
    assert expansion(QWEN3_ASR_AUDIO, "qwen3-asr", "<|audio_pad|>", 13) == [pad] * 13
    assert expansion(ULTRAVOX_AUDIO, "ultravox", "<|audio|>", 7) == [77] * 7


@pytest.mark.parametrize("seconds", [0.2, 29.99, 30.0, 30.01, 75.3])
def test_glm_asr_has_the_tokens_that_its_processor_counts(seconds: float) -> None:
    module = importlib.import_module("transformers.models.glmasr.processing_glmasr")
    files = ModelFiles({"model_type": "glmasr"})
    item = family_of(files).others[Modality.AUDIO].process(files).item(recording(seconds))
    frames = int(item.tensors["input_features_mask"].sum())
    assert item.tokens == module.GlmAsrProcessor._get_audio_token_length(None, frames)
    assert item.tensors["input_features"].shape == (math.ceil(seconds / 30), 128, 3000)


@pytest.mark.parametrize(
    ("seconds", "said", "expected"),
    [
        (0.02, {}, "A"),
        (3.99, {}, "{25}2{25}4"),
        (4.1, {}, "{25}2{25}4{2}"),
        (30.01, {}, "{25}2{25}4{25}6{25}8{25}10{25}12{25}14{25}16{25}18{25}20{25}22{25}24{25}26{25}28{25}30{1}"),
        (4.1, {"time_marker_every_seconds": 0}, "{52}"),
        (6.5, {"time_marker_every_seconds": 3}, "{37}3{37}6{8}"),
        (2.0, {"audio_tokens_per_second": 30.0, "time_marker_every_seconds": 1}, "{25}"),
    ],
)
def test_moss_says_every_other_second_where_it_is(seconds: float, said: dict[str, Any], expected: str) -> None:
    """The texts are those of transformers' processor, which cannot be loaded without torch."""
    files = ModelFiles({"model_type": "moss_transcribe_diarize"}, {}, said)
    modal = family_of(files).others[Modality.AUDIO]
    item = modal.process(files).item(recording(seconds))
    text = re.sub(r"\{(\d+)\}", lambda run: "A" * int(run[1]), expected)
    made = modal.prompt(files.model, WORDS).replace(item, 0)
    assert list(made.ids) == list(WORDS.encode(text.replace("A", "<|audio_pad|>")))
    assert sum(span.length for span in made.features) == item.tokens == text.count("A")
    assert int(item.tensors["audio_feature_lengths"].sum()) == item.tokens


@pytest.mark.parametrize(
    "said",
    [{"time_marker_every_seconds": 1.5}, {"time_marker_every_seconds": -2}, {"time_marker_every_seconds": True},
     {"audio_tokens_per_second": 0}, {"audio_tokens_per_second": "12"}, {"audio_tokens_per_second": math.nan},
     {"audio_merge_size": 0}],
)  # fmt: skip
def test_what_moss_cannot_count_by_is_refused_by_name(said: dict[str, Any]) -> None:
    files = ModelFiles({"model_type": "moss_transcribe_diarize"}, {}, said)
    with pytest.raises(UnsupportedModel, match=next(iter(said))):
        family_of(files).others[Modality.AUDIO].process(files)


@pytest.mark.parametrize(
    ("kind", "start", "feature", "end"),
    [
        ("gemma4_unified", "<|audio>", "<|audio|>", "<audio|>"),
        ("muse_spark", "<|soft_audio_start|>", "<|audio|>", "<|soft_audio_end|>"),
        ("nemotron_h_omni", "<so_start>", "<so_embedding>", "<so_end>"),
    ],
)
def test_recordings_of_so_many_samples_a_token_stand_between_marks(
    kind: str, start: str, feature: str, end: str
) -> None:
    files = ModelFiles({"model_type": kind})
    modal = family_of(files).others[Modality.AUDIO]
    item = modal.process(files).item(recording(1.01, modal.process(files).rate))
    assert item.tokens == {"gemma4_unified": 26, "muse_spark": 13, "nemotron_h_omni": 13}[kind]
    ids = modal.prompt(files.model, WORDS).replace(item, 0).ids
    assert list(ids) == list(WORDS.encode(start + feature * item.tokens + end))


def test_a_beginning_that_the_template_wrote_is_not_written_twice() -> None:
    made = Preparer(ModelFiles(MODELS["voxtral"]), WORDS)
    begin, sound = WORDS.token_id("[BEGIN_AUDIO]"), WORDS.token_id("[AUDIO]")
    media = [Media(speech(0.5), Modality.AUDIO)]
    bare, begun = made.prepare([1, sound, 2], media), made.prepare([1, begin, sound, 2], media)
    assert list(bare.expanded.ids) == list(begun.expanded.ids) == [1, begin, *[sound] * 375, 2]
    assert bare.expanded.placeholders[0].features == begun.expanded.placeholders[0].features == ((2, 375),)


def test_ultravox_needs_a_token_that_is_in_no_text() -> None:
    class Plain(TestVocabulary):
        def token_id(self, token: str) -> int | None:
            return None

    with pytest.raises(UnsupportedModel, match="audio"):
        ULTRAVOX_AUDIO.prompt(MODELS["ultravox"], Plain())


def test_vllm_gets_the_tensors_that_its_models_take() -> None:
    (sent,) = for_vllm(prepared("voxtral", 0.5, 29.0))
    assert (sent.primary, set(sent.tensors), sent.batched_keys) == ("audio_arrays", set(), ("audio_arrays",))
    assert sent.pixel_values.shape == (2, 480000)
    (sent,) = for_vllm(prepared("qwen3-asr", 1.0, 1.0))
    assert sent.primary == "input_audio_features"
    assert set(sent.tensors) == {"feature_attention_mask", "audio_feature_lengths"}
    assert set(sent.keep_on_cpu_keys) == set(sent.tensors)
    (sent,) = for_vllm(prepared("ultravox", 31.0, 45.0))
    assert sent.primary == "audio_features"
    assert set(sent.tensors) == {"audio_lens", "audio_token_len", "audio_num_chunks"}
    assert set(sent.flat_keys.values()) == {"audio_num_chunks"}
    assert sent.batched_keys == ("audio_num_chunks",)
    assert sent.pixel_values.shape == (4, 128, 3000)
    assert set(sent.keep_on_cpu_keys) == {"audio_lens", "audio_num_chunks"}


def test_other_engines_get_features_and_samples_of_a_recording() -> None:
    (item,) = for_items(prepared("voxtral", 0.5))
    assert set(item.tensors) == {"input_features", "audio_arrays"}


@pytest.mark.parametrize("name", MODELS)
def test_recordings_that_are_too_long_empty_or_not_finite_are_refused(name: str) -> None:
    processor = MAKERS[name](MODELS[name], {})
    with pytest.raises(MediaTooLarge):
        processor.item(np.zeros(int(processor.longest * processor.rate) + 1, np.float32))
    for bad in (np.zeros(0, np.float32), np.array([np.inf], np.float32), np.zeros((2, 9), np.float32)):
        with pytest.raises(BadMedia):
            processor.item(bad)
    assert processor.item(np.zeros(1, np.float32)).tokens > 0


@pytest.mark.parametrize("name", MODELS)
def test_noise_that_a_configuration_adds_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedModel, match="dither"):
        MAKERS[name](MODELS[name], {"dither": 0.1})


def test_values_of_the_configurations_are_taken() -> None:
    samples = recording(7.0)
    assert MAKERS["voxtral"]({"audio_config": {"max_source_positions": 250}}, {}).item(samples).tokens == 2 * 63
    small = ultravox_recordings(
        {"audio_model_id": "openai/whisper-medium", "stack_factor": 4}, {"audio_context_size": 300}
    )
    assert small.item(samples).tensors["audio_features"].shape == (3, 80, 300)
    assert small.item(samples).tokens == 38 + 38 + 13
    files = ModelFiles(MODELS["ultravox"], {"feature_size": 80}, {"audio_context_size": 300, "tokenizer": {"a": 1}})
    assert files.recordings == {"audio_context_size": 300, "feature_size": 80}
    asr = qwen3_asr_recordings({}, {"min_length": 0, "feature_size": 80})
    assert asr.item(recording(0.1)).tensors["input_features"].shape == (1, 80, 100)
