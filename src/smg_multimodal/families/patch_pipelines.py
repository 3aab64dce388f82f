"""Processor classes whose pictures keep their shape and become patches, or a tensor of their own size.

Above: `pipelines`. Below: the family modules. Says which parts of a model's files a class is made from.
"""

from collections.abc import Mapping

from smg_multimodal.configs.files import Pipeline, whatever_the_model
from smg_multimodal.patches import (
    gemma4,
    glm5,
    inkling,
    kimi,
    kimi_vl,
    lfm2,
    minicpm,
    muse,
    nemotron,
    patch_variants,
    pixtral,
    qwen,
)

__all__ = ["PATCH_PIPELINES"]

_GLM = whatever_the_model(lambda files: qwen.glm_image(files.image))
_STRIPS = whatever_the_model(lambda files: minicpm.minicpm_strips_image(files.image, files.model))
_PIXTRAL = whatever_the_model(lambda files: pixtral.pixtral_image(files.image, files.model, files.processor))

PATCH_PIPELINES: Mapping[str, Pipeline] = {
    "CohereCompassImageProcessor": whatever_the_model(lambda files: patch_variants.compass_image(files.image)),
    "Cosmos3EdgeImageProcessor": whatever_the_model(lambda files: patch_variants.cosmos_image(files.image)),
    "Gemma4UnifiedImageProcessor": whatever_the_model(lambda files: gemma4.gemma4_unified_image(files.image)),
    "Glm5NextImageProcessor": whatever_the_model(lambda files: glm5.glm5_image(files.image)),
    "HYV4VLImageProcessor": whatever_the_model(lambda files: patch_variants.hy4_image(files.image)),
    "InklingImageProcessor": whatever_the_model(lambda files: inkling.inkling_image(files.image)),
    "Inkling2ImageProcessor": whatever_the_model(lambda files: inkling.inkling2_image(files.image)),
    "Lfm2VlImageProcessor": whatever_the_model(lambda files: lfm2.lfm2_image(files.image)),
    "MiniMaxM3VLImageProcessor": whatever_the_model(lambda files: patch_variants.minimax_image(files.image)),
    "MuseGlimmerImageProcessor": whatever_the_model(lambda files: muse.muse_image(files.image)),
    "NemotronH_Omni_Reasoning_V3ImageProcessor": whatever_the_model(lambda files: nemotron.nemotron_image(files.image)),
    "Gemma4ImageProcessor": whatever_the_model(lambda files: gemma4.gemma4_image(files.image)),
    "Glm46VImageProcessor": _GLM,
    "Glm4vImageProcessor": _GLM,
    "KimiVLImageProcessor": whatever_the_model(lambda files: kimi_vl.kimi_vl_image(files.image)),
    "Kimi_K25ImageProcessor": whatever_the_model(lambda files: kimi.kimi_image(files.image)),
    "MiniCPMV4_6ImageProcessor": whatever_the_model(lambda files: minicpm.minicpm_image(files.image)),
    "MiniCPMOcrImageProcessor": whatever_the_model(lambda files: minicpm.minicpm_ocr_image(files.image)),
    "MiniCPMVImageProcessor": _STRIPS,
    "PixtralImageProcessor": _PIXTRAL,
    "Qwen2VLImageProcessor": whatever_the_model(lambda files: qwen.qwen_image(files.image)),
}
