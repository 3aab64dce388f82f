"""Processor classes whose pictures become squares or tiles, each (3, height, width) floats.

Above: `pipelines`. Below: the family modules. Says which parts of a model's files a class is made from.
"""

from collections.abc import Mapping
from dataclasses import replace

from smg_multimodal.configs.files import CountTokens, ModelFiles, Pipeline, whatever_the_model
from smg_multimodal.patches import qwen
from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import ImageProcessor
from smg_multimodal.tiles import (
    aria,
    cohere,
    deepseek_vl,
    gemma,
    idefics,
    internvl,
    llama4,
    llava,
    mllama,
    nemotron_nano,
    phi,
)

__all__ = ["TILE_PIPELINES"]


def _counted(name: str) -> Pipeline:
    """Of a class whose pictures are stretched to one size, and whose tokens the family counts."""

    def make(files: ModelFiles, tokens: CountTokens | None) -> ImageProcessor:
        if tokens is None:
            raise UnsupportedModel(f"image_processor_type {name} does not say how many tokens a picture is")
        named = {**files.image, "image_processor_type": name}
        return replace(llava.llava_image(named, files.model, files.processor), tokens=tokens(files))

    return make


def _got_ocr2(files: ModelFiles, tokens: CountTokens | None) -> ImageProcessor:
    made = internvl.internvl_image(files.image, files.model, files.processor)
    return made if tokens is None else replace(made, per_tile=tokens(files))


_CROPPED = whatever_the_model(lambda files: llava.llava_image(files.image, files.model, files.processor))
_IDEFICS3 = whatever_the_model(lambda files: idefics.idefics3_image(files.image, files.model, files.processor))
_INTERNVL_CHAT = whatever_the_model(lambda files: internvl.internvl_chat_image(files.image, files.model))
_NEXT = whatever_the_model(lambda files: llava.llava_next_image(files.image, files.model, files.processor))

TILE_PIPELINES: Mapping[str, Pipeline] = {
    "AriaImageProcessor": whatever_the_model(lambda files: aria.aria_image(files.image, files.processor)),
    "BlipImageProcessor": _counted("BlipImageProcessor"),
    "CLIPImageProcessor": _CROPPED,
    "Cohere2VisionImageProcessor": whatever_the_model(lambda files: cohere.cohere2_image(files.image)),
    "DeepseekVLHybridImageProcessor": whatever_the_model(
        lambda files: deepseek_vl.deepseek_vl_hybrid_image(files.image, files.processor)
    ),
    "DeepseekVLImageProcessor": whatever_the_model(
        lambda files: deepseek_vl.deepseek_vl_image(files.image, files.processor)
    ),
    "Gemma3ImageProcessor": whatever_the_model(
        lambda files: gemma.gemma3_image(files.image, files.model, files.processor)
    ),
    "GotOcr2ImageProcessor": _got_ocr2,
    "Idefics3ImageProcessor": _IDEFICS3,
    "InternVLChatImageProcessor": _INTERNVL_CHAT,
    "Llama4ImageProcessor": whatever_the_model(lambda files: llama4.llama4_image(files.image, files.model)),
    "LlavaImageProcessor": _CROPPED,
    "LlavaNextImageProcessor": _NEXT,
    "LlavaOnevisionImageProcessor": whatever_the_model(
        lambda files: llava.onevision_image(files.image, files.model, files.processor)
    ),
    "MllamaImageProcessor": whatever_the_model(lambda files: mllama.mllama_image(files.image)),
    "NemotronNanoVLV2ImageProcessor": whatever_the_model(lambda files: nemotron_nano.nemotron_nano_image(files.model)),
    "Phi3VImageProcessor": whatever_the_model(lambda files: phi.phi3_image(files.image)),
    "Phi4MultimodalImageProcessor": whatever_the_model(lambda files: phi.phi4_image(files.image)),
    "QwenVLImageProcessor": whatever_the_model(lambda files: qwen.first_qwen_image(files.image, files.model)),
    "SiglipImageProcessor": _counted("SiglipImageProcessor"),
    "SmolVLMImageProcessor": _IDEFICS3,
}
