"""Whisper's and Voxtral Realtime's prompts, and recordings that lie beside them."""

import io
import wave
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sound_files import recording
from vocabulary import TestVocabulary

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.modalities import PartedRecordings
from smg_multimodal.families.registry import family_of
from smg_multimodal.preparing.content import routing_keys
from smg_multimodal.preparing.packaging import for_items, for_sglang, for_tokenspeed, for_vllm
from smg_multimodal.preparing.prepare import Media, Prepared, Preparer
from smg_multimodal.prompts.prompts import Dictation, PromptRule
from smg_multimodal.records.errors import (
    BadDictation,
    MediaTooLarge,
    PlaceholderMismatch,
    RecordingTooLong,
    UnsupportedModel,
)
from smg_multimodal.records.types import Modality, Span

WORDS = TestVocabulary()
WHISPER: dict[str, Any] = {"model_type": "whisper", "num_mel_bins": 80, "max_source_positions": 1500}
VOXTRAL: dict[str, Any] = {"model_type": "voxtral_realtime", "text_config": {"vocab_size": 131072}}


def rule_of(model: dict[str, Any]) -> PromptRule:
    return family_of(ModelFiles(model)).others[Modality.AUDIO].prompt(model, WORDS)


def dictated(model: dict[str, Any], *asked: Any) -> list[int]:
    rule = rule_of(model)
    assert rule.dictate is not None
    return list(rule.dictate(Dictation(*asked)))


def speech(seconds: float, seed: int = 0) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes((recording(seconds, seed=seed) * 30000).astype("<i2").tobytes())
    return out.getvalue()


def prepared(model: dict[str, Any], seconds: float, *asked: Any, seed: int = 0) -> Prepared:
    return Preparer(ModelFiles(model), WORDS).prepare(
        dictated(model, *asked), [Media(speech(seconds, seed), Modality.AUDIO)]
    )


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (("de",), "<|startoftranscript|><|de|><|transcribe|><|notimestamps|>"),
        (("DE", True), "<|startoftranscript|><|de|><|translate|><|notimestamps|>"),
        (("yue", False, ""), "<|startoftranscript|><|yue|><|transcribe|><|notimestamps|>"),
        (("en", False, "  Ewe, ram \n"), "<|startofprev|> Ewe, ram<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"),
    ],
)  # fmt: skip
def test_whispers_prompt_names_language_and_task(asked: Any, text: str) -> None:
    assert dictated(WHISPER, *asked) == WORDS.encode(text)


def test_whispers_of_english_alone_are_asked_for_nothing() -> None:
    english = {**WHISPER, "vocab_size": 51864}
    for asked in ((), ("en",), (None, False, " ")):
        assert dictated(english, *asked) == WORDS.encode("<|startoftranscript|><|notimestamps|>")
    for asked, field in ((("de",), "language"), (("en", True), "model")):
        with pytest.raises(BadDictation, match="English") as refused:
            dictated(english, *asked)
        assert refused.value.field == field


@pytest.mark.parametrize("language", [None, "", "xx", "transcribe", "German", "d", "de|>", "\N{KELVIN SIGN}o"])
def test_a_language_that_whisper_does_not_know_is_refused(language: str | None) -> None:
    with pytest.raises(BadDictation) as refused:
        dictated(WHISPER, language)
    assert refused.value.field == "language"


@pytest.mark.parametrize("text", ["<|translate|>", "and then <|endoftext|>", "<|startoftranscript|>", "x<|de|>"])
def test_a_control_token_that_is_typed_into_what_came_before_is_refused(text: str) -> None:
    with pytest.raises(BadDictation, match="control token") as refused:
        dictated(WHISPER, "de", False, text)
    assert refused.value.field == "prompt"


@given(st.text(alphabet="ab ", min_size=0, max_size=700), st.integers(4, 448))
def test_what_came_before_never_takes_more_than_half_of_the_prompt(text: str, positions: int) -> None:
    made = dictated({**WHISPER, "max_target_positions": positions}, "de", False, text)
    said = WORDS.encode(" " + text.strip()) if text.strip() else []
    kept = said[-(positions // 2 - 1) :]
    assert made[:-4] == ([WORDS.token_id("<|startofprev|>"), *kept] if said else [])
    assert made[-4:] == WORDS.encode("<|startoftranscript|><|de|><|transcribe|><|notimestamps|>")


@pytest.mark.parametrize("delay", [1, 6, 30])
def test_voxtral_hears_silence_before_it_writes(delay: int) -> None:
    """32 tokens of it, and those by which words are late; mistral-common's streaming prompt."""
    model = {**VOXTRAL, "default_num_delay_tokens": delay}
    begin, pad = WORDS.token_id("<s>"), WORDS.token_id("[STREAMING_PAD]")
    assert dictated(model) == dictated(model, "de", False, "ewe") == [begin, *[pad] * (32 + delay)]
    with pytest.raises(BadDictation, match="not translate"):
        dictated(model, "de", True)


@pytest.mark.parametrize("seconds", [0.01, 0.08, 1.0, 3.3])
def test_voxtrals_recording_is_as_long_as_prompt_and_answer(seconds: float) -> None:
    made = prepared(VOXTRAL, seconds)
    (sent,) = for_vllm(made)
    tokens = 32 - (-round(seconds * 16000) // 1280) + 6 + 1 + 10
    assert (sent.primary, sent.pixel_values.shape, set(sent.tensors)) == ("audio_arrays", (1, tokens * 1280), set())
    assert (sent.placeholders, sent.token_id) == ((Span(0, tokens),), None)
    heard = made.items[0].features.tensors["audio_arrays"][0]
    assert not heard[: 32 * 1280].any()
    assert not heard[-17 * 1280 :].any()
    assert made.items[0].features.tensors["input_features"].shape == (1, 128, tokens * 8)
    assert made.items[0].features.tensors["num_delay_tokens"].tolist() == [6]


@pytest.mark.parametrize("model", [WHISPER, VOXTRAL], ids=["whisper", "voxtral"])
def test_the_prompt_stays_as_it_is_and_the_recording_begins_with_it(model: dict[str, Any]) -> None:
    made = prepared(model, 0.5, "de")
    (place,) = made.expanded.placeholders
    assert list(made.expanded.ids) == dictated(model, "de")
    assert place.span == Span(0, made.items[0].features.tokens)
    assert place.span.stop > len(made.expanded.ids)
    (sent,) = for_vllm(made)
    assert (sent.batched_keys, sent.flat_keys, sent.keep_on_cpu_keys) == ((sent.primary,), {}, ())


@pytest.mark.parametrize("model", [WHISPER, VOXTRAL], ids=["whisper", "voxtral"])
def test_prompts_with_other_recordings_share_no_key(model: dict[str, Any]) -> None:
    one, same, other = (routing_keys(prepared(model, 0.3, "de", seed=seed).expanded) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert len(one) == len(dictated(model, "de"))
    assert not (one == other).any()


def test_whisper_takes_half_a_minute_and_one_recording() -> None:
    made = Preparer(ModelFiles(WHISPER), WORDS)
    ids = dictated(WHISPER, "de")
    with pytest.raises(MediaTooLarge, match="at most 30 s"):
        made.prepare(ids, [Media(speech(30.1), Modality.AUDIO)])
    with pytest.raises(MediaTooLarge, match="at most 1"):
        made.prepare(ids, [Media(speech(0.2), Modality.AUDIO)] * 2)
    with pytest.raises(PlaceholderMismatch, match="audio placeholders"):
        made.prepare(ids[2:], [Media(speech(0.2), Modality.AUDIO)])
    assert made.prepare(ids, [Media(speech(30.0), Modality.AUDIO)]).items[0].features.tokens == 1500


@pytest.mark.parametrize(
    ("model", "config", "key"),
    [
        ({**WHISPER, "num_mel_bins": 128}, {"feature_size": 80}, "feature_size"),
        (WHISPER, {"chunk_length": 20}, "chunk_length"),
        ({**WHISPER, "max_source_positions": "many"}, {}, "max_source_positions"),
        ({**VOXTRAL, "audio_length_per_tok": 0}, {}, "audio_length_per_tok"),
        ({**VOXTRAL, "default_num_delay_tokens": 257}, {}, "default_num_delay_tokens"),
        (VOXTRAL, {"global_log_mel_max": "loud"}, "global_log_mel_max"),
        (VOXTRAL, {"feature_extractor_type": "WhisperFeatureExtractor"}, "feature_extractor_type"),
    ],
)
def test_what_the_encoder_cannot_read_is_refused_by_name(
    model: dict[str, Any], config: dict[str, Any], key: str
) -> None:
    files = ModelFiles(model, config)
    with pytest.raises(UnsupportedModel, match=key):
        family_of(files).others[Modality.AUDIO].process(files)


def test_mels_are_those_of_the_model_where_no_file_says_them() -> None:
    files = ModelFiles({**WHISPER, "num_mel_bins": 128})
    made = family_of(files).others[Modality.AUDIO].process(files).item(recording(0.5))  # type: ignore[arg-type, union-attr]
    assert made.tensors["input_features"].shape == (1, 128, 3000)


@pytest.mark.parametrize("model", [WHISPER, VOXTRAL], ids=["whisper", "voxtral"])
def test_engines_that_are_told_a_place_in_the_prompt_are_refused(model: dict[str, Any]) -> None:
    made = prepared(model, 0.3, "de")
    for send, whose in ((for_items, "neutral contract"), (for_tokenspeed, "TokenSpeed"), (for_sglang, "SGLang")):
        with pytest.raises(UnsupportedModel, match=whose):
            send(made)


@given(st.floats(0.2, 200.0), st.integers(0, 3))
def test_parts_of_a_recording_are_all_of_it_and_none_is_too_long(seconds: float, seed: int) -> None:
    made = family_of(ModelFiles(WHISPER)).others[Modality.AUDIO].process(ModelFiles(WHISPER))
    assert isinstance(made, PartedRecordings)
    samples = np.random.default_rng(seed).standard_normal(round(seconds * 16000)).astype(np.float32)
    parts = made.parts(seconds)
    cut = [made.part(samples, each, parts) for each in range(parts)]
    assert np.array_equal(np.concatenate(cut), samples)
    assert max(map(len, cut)) <= 30 * 16000
    assert parts == 1 or min(map(len, cut)) > 14 * 16000


def test_a_recording_is_cut_where_it_is_quiet() -> None:
    made = family_of(ModelFiles(WHISPER)).others[Modality.AUDIO].process(ModelFiles(WHISPER))
    assert isinstance(made, PartedRecordings)
    samples = np.ones(40 * 16000, np.float32)
    samples[round(20.2 * 16000) : round(20.3 * 16000)] = 0
    assert 20.2 * 16000 <= len(made.part(samples, 0, 2)) <= 20.3 * 16000


def test_a_part_is_an_item_of_its_own() -> None:
    made, data = Preparer(ModelFiles(WHISPER), WORDS), speech(40.0)
    with pytest.raises(RecordingTooLong) as refused:
        made.ready(Media(data, Modality.AUDIO))
    assert refused.value.parts == 2
    one, two = (made.ready(Media(data, Modality.AUDIO, part=(each, 2))) for each in range(2))
    assert one.content_hash != two.content_hash
    assert one.features.tensors["input_features"].shape == (1, 80, 3000)
    with pytest.raises(UnsupportedModel, match="take recordings whole"):
        Preparer(ModelFiles(VOXTRAL), WORDS).ready(Media(data, Modality.AUDIO, part=(0, 2)))
