"""Every key of a feature extractor's configuration is honoured, or the model is refused by the key's name.

The law is walked over every family that takes recordings and every key that transformers' class of that family takes, with other
values than the defaults (`recording_variations`). What transformers makes is made beside ours where its class runs on numpy,
and was written down by make_references.py where it needs torch. A new family joins by its row in `RECORDED`.
"""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from recording_variations import RECORDED, Change, Recorded, sounds, variations
from written import written_references

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.registry import FAMILIES, family_of
from smg_multimodal.records.errors import MediaError, UnsupportedModel
from smg_multimodal.records.types import ItemFeatures, Modality

Tensors = dict[str, np.ndarray[Any, Any]]
BESIDE = [each for each in RECORDED if not each.torch]
WRITTEN = [each for each in RECORDED if each.torch]


def test_every_family_that_takes_recordings_is_walked() -> None:
    walked = {each.name for each in RECORDED}
    assert all(family.model_types & walked for family in FAMILIES if Modality.AUDIO in family.others)


def ours(recorded: Recorded, change: Change) -> list[ItemFeatures] | UnsupportedModel | MediaError:
    """What is made here of each recording, or why nothing is."""
    config = {**recorded.config, **change, "feature_extractor_type": recorded.kind}
    files = ModelFiles({"model_type": recorded.name}, config)
    try:
        processor = family_of(files).others[Modality.AUDIO].process(files)
        return [processor.item(samples) for samples in sounds(processor.rate)]  # type: ignore[arg-type, union-attr]
    except (UnsupportedModel, MediaError) as error:
        return error


def whole(features: Any, samples: Any, **options: Any) -> Any:
    return features(samples, sampling_rate=features.sampling_rate, return_tensors="np", **options)


def of_qwen2_audio(features: Any, samples: Any) -> Tensors:
    out = whole(features, samples, return_attention_mask=True, padding="max_length")
    return {"input_features": out["input_features"], "feature_attention_mask": out["attention_mask"]}


def of_whisper(features: Any, samples: Any) -> Tensors:
    return {"input_features": whole(features, samples)["input_features"]}


def of_qwen2_5_omni(features: Any, samples: Any) -> Tensors:
    out = of_qwen2_audio(features, samples)
    real = out["feature_attention_mask"][0].astype(bool)
    return {"input_features": out["input_features"][:, :, real], "feature_attention_mask": np.ones((1, real.sum()))}


def of_qwen3_omni(features: Any, samples: Any) -> Tensors:
    out = whole(features, samples, return_attention_mask=True, padding=True, truncation=False)
    return {"input_features": out["input_features"], "feature_attention_mask": out["attention_mask"]}


def of_voxtral(features: Any, samples: Any) -> Tensors:
    out = whole(features, samples, padding=True, truncation=False, pad_to_multiple_of=480000)["input_features"]
    return {"input_features": out.reshape(len(out[0]), -1, 3000).transpose(1, 0, 2)}


def of_ultravox(features: Any, samples: Any) -> Tensors:
    hop = features.hop_length
    (out,) = whole(features, samples, padding=True, truncation=False, pad_to_multiple_of=hop)["input_features"]
    return {"audio_features": out[None]}


def of_gemma(features: Any, samples: Any) -> Tensors:
    out = features([samples], return_tensors="np")
    return {"input_features": out["input_features"], "input_features_mask": out["input_features_mask"]}


def of_muse(features: Any, samples: Any) -> Tensors:
    return dict(whole(features, samples))


def of_glm_asr(features: Any, samples: Any) -> Tensors:
    """The steps of its processor, which cannot be loaded without torch."""
    length = features.sampling_rate * features.chunk_length
    pieces = [samples[start : start + length] for start in range(0, len(samples), length)]
    out = whole(features, pieces, return_attention_mask=True)
    return {"input_features": out["input_features"], "input_features_mask": out["attention_mask"]}


def of_moss(features: Any, samples: Any) -> Tensors:
    out = whole(features, samples)
    return {"input_features": out["input_features"], "input_features_mask": out["input_features_mask"]}


REFERENCES: dict[str, Callable[[Any, Any], Tensors]] = {
    "qwen2_audio": of_qwen2_audio,
    "qwen2_5_omni": of_qwen2_5_omni,
    "qwen3_omni_moe": of_qwen3_omni,
    "voxtral": of_voxtral,
    "whisper": of_whisper,
    "ultravox": of_ultravox,
    "gemma3n": of_gemma,
    "gemma4": of_gemma,
    "gemma4_unified": of_gemma,
    "muse_spark": of_muse,
    "glmasr": of_glm_asr,
    "audioflamingo3": of_glm_asr,
    "musicflamingo": of_glm_asr,
    "moss_transcribe_diarize": of_moss,
}


def theirs(recorded: Recorded, change: Change) -> list[Tensors] | None:
    """What transformers makes of each recording; None where it refuses the configuration or a recording."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            features = recorded.extractor(**{**recorded.config, **change})
            return [REFERENCES[recorded.name](features, samples) for samples in sounds(features.sampling_rate)]
    except (ValueError, IndexError):
        return None


def assert_near(recorded: Recorded, name: str, expected: Any, found: Any, what: str) -> None:
    assert found.shape == expected.shape, (what, name)
    assert np.abs(found.astype(np.float64) - expected).max() <= recorded.apart, (what, name)


def assert_named(refusal: UnsupportedModel, change: Change) -> None:
    assert any(re.search(rf"\b{name}\b", str(refusal)) for name in change), (change, str(refusal))


@pytest.mark.full
@pytest.mark.parametrize("recorded", BESIDE, ids=lambda each: each.name)
def test_every_key_of_a_feature_extractor_is_honoured_or_refused_by_name(recorded: Recorded) -> None:
    honoured = 0
    for _, change in [("", {}), *variations(recorded)]:
        expected, found, what = theirs(recorded, change), ours(recorded, change), str(change)
        if isinstance(found, UnsupportedModel):
            assert_named(found, change)
        elif isinstance(found, MediaError):
            assert expected is None, what
        elif expected is not None:
            honoured += 1
            for item, tensors in zip(found, expected, strict=True):
                for name, value in tensors.items():
                    assert_near(recorded, name, value, item.tensors[name], what)
    assert honoured > len(recorded.keys) // 2


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("recorded", WRITTEN, ids=lambda each: each.name)
def test_every_key_of_a_feature_extractor_for_torch_is_honoured_or_refused_by_name(recorded: Recorded) -> None:
    rows = written_references()["recording_keys"][recorded.name]
    assert [row["change"] for row in rows] == [{}, *(change for _, change in variations(recorded))]
    for row in rows:
        found, what = ours(recorded, row["change"]), str(row["change"])
        if isinstance(found, UnsupportedModel):
            assert_named(found, row["change"])
        elif isinstance(found, MediaError):
            assert row["rows"] is None, what
        elif row["rows"] is not None:
            for item, expected in zip(found, row["rows"], strict=True):
                assert item.tokens == expected["tokens"], what
                features = item.tensors[expected["name"]]
                assert list(features.shape) == expected["shape"], what
                apart = np.abs(features.ravel()[:: expected["step"]] - expected["floats"]).max()
                assert apart <= recorded.apart, (what, apart)
