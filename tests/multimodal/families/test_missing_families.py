"""How a model fails whose family is not here: by its type, and never as a model of another family."""

import re

import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING_NAMES
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES
from transformers.models.auto.video_processing_auto import VIDEO_PROCESSOR_MAPPING_NAMES

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.registry import FAMILIES, family_of
from smg_multimodal.records.errors import UnknownFamily, UnsupportedModel

SEE_OR_HEAR = {
    *IMAGE_PROCESSOR_MAPPING_NAMES,
    *VIDEO_PROCESSOR_MAPPING_NAMES,
    *FEATURE_EXTRACTOR_MAPPING_NAMES,
    *PROCESSOR_MAPPING_NAMES,
}
"""Model types of transformers that have a processor of pictures, clips or recordings, or one of several kinds of input."""

OF_ENGINES = {
    *("bailing_moe_v3_vl", "deepseek_v41", "deepseek_vl_v2", "eagle_2_5_vl", "h2ovl_chat", "interns1_pro"),
    *("interns2", "isaac", "keye", "kimi_audio", "kimi_k3", "mimo_v2_omni", "mimovl", "moondream3", "NVLM_D"),
    *("ovis", "ovis2_5", "skywork_chat", "step5"),
}
"""Model types that vLLM or SGLang serve with code of their own, or with code that is published with the model."""


TAKEN = {kind for row in FAMILIES for kind in row.model_types}


def files_of(kind: str, *architectures: str) -> ModelFiles:
    """A model's files that say as much as any do: a tower for pictures, one for sound, and a class of processor."""
    config = {"model_type": kind, "vision_config": {}, "audio_config": {}, "architectures": list(architectures)}
    return ModelFiles(config, {"image_processor_type": "Qwen2VLImageProcessor"}, {"processor_class": "Processor"})


def test_every_type_that_sees_or_hears_has_one_row_or_is_refused_by_its_name() -> None:
    assert len(SEE_OR_HEAR) > 250
    here = 0
    for kind in sorted({*SEE_OR_HEAR, *CONFIG_MAPPING_NAMES, *OF_ENGINES, *TAKEN}):
        rows = [row for row in FAMILIES if kind in row.model_types]
        if rows:
            assert [family_of(files_of(kind))] == rows, kind
            here += 1
            continue
        with pytest.raises(
            UnknownFamily, match=rf"models of type {re.escape(repr(kind))}(, .*)?; the families here are "
        ):
            family_of(files_of(kind))
    assert here == len(TAKEN) == sum(len(row.model_types) for row in FAMILIES)


def test_the_refusal_names_the_architectures_and_every_family_that_is_here() -> None:
    with pytest.raises(UnknownFamily) as refused:
        family_of(files_of("keye", "KeyeForConditionalGeneration"))
    assert refused.value.reason == "no family here takes models of type 'keye' (KeyeForConditionalGeneration)"
    assert str(refused.value).endswith(", ".join(sorted(row.name for row in FAMILIES)))


@pytest.mark.parametrize(
    ("kind", "instead"),
    [
        ("cohere_asr", "not made here: a server over HTTP.*transcriptions"),
        ("ovis2_5", "no tokens for pictures: a server over HTTP"),
        ("mimo_v2_omni", "not made here: a server over HTTP"),
    ],
)
def test_the_refusal_of_a_model_that_engines_serve_says_why_and_what_takes_it(kind: str, instead: str) -> None:
    for architectures in ((), ("Qwen2VLForConditionalGeneration", "Ovis2_5", "MiMoV2OmniForCausalLM")):
        with pytest.raises(UnknownFamily, match=instead) as refused:
            family_of(files_of(kind, *architectures))
        assert instead.split(":")[0] in refused.value.reason


@pytest.mark.parametrize("kind", ["qwen2_vl ", "Qwen2_VL", "qwen2_vl_next", "qwen2", "", None, 7])
def test_a_type_that_is_nearly_that_of_a_row_is_another(kind: object) -> None:
    with pytest.raises(UnknownFamily):
        family_of(ModelFiles({"model_type": kind}))


@pytest.mark.parametrize(
    ("kind", "architecture"),
    [
        ("llava", "LlavaLlamaForCausalLM"),
        ("llava", "MantisForConditionalGeneration"),
        ("llava", "TarsierForConditionalGeneration"),
    ],
)
def test_a_model_of_other_code_under_a_type_of_a_row_is_refused_by_its_architecture(
    kind: str, architecture: str
) -> None:
    with pytest.raises(UnsupportedModel, match=architecture):
        family_of(files_of(kind, architecture))
