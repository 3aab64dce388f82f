"""Processor classes of families that mostly read documents, and these families' prompts.

Above: `pipelines`, `registry`. Below: the family modules, `prompts.prompts`. Says which parts of a model's files a class and a
rule are made from.
"""

from collections.abc import Callable, Mapping

from smg_multimodal.configs.files import ModelFiles, Pipeline, whatever_the_model
from smg_multimodal.patches import paddleocr
from smg_multimodal.prompts import prompts
from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer
from smg_multimodal.tiles import deepseek, deepseek_vl2, molmo, ovis, step3, step37

__all__ = ["DOCUMENT_PIPELINES", "DOCUMENT_RULES"]


def _ovis2(files: ModelFiles) -> ovis.Ovis2Processor:
    return ovis.ovis2_image(files.image, files.processor)


def _molmo2(files: ModelFiles) -> molmo.Molmo2Processor:
    return molmo.molmo2_image(files.image, files.model, files.processor)


DOCUMENT_PIPELINES: Mapping[str, Pipeline] = {
    "DeepseekOCRImageProcessor": whatever_the_model(lambda files: deepseek.deepseek_ocr_image(files.processor)),
    "DeepseekVLV2ImageProcessor": whatever_the_model(lambda files: deepseek_vl2.deepseek_vl2_image(files.processor)),
    "DeepseekOcr2ImageProcessor": whatever_the_model(
        lambda files: deepseek.deepseek_ocr2_image(files.image, files.processor)
    ),
    "Ernie4_5_VLMoeImageProcessor": whatever_the_model(lambda files: paddleocr.ernie_image(files.image)),
    "HunYuanVLImageProcessor": whatever_the_model(lambda files: paddleocr.hunyuan_image(files.image, files.processor)),
    "Molmo2ImageProcessor": whatever_the_model(_molmo2),
    "Ovis2ImageProcessor": whatever_the_model(_ovis2),
    "PaddleOCRVLImageProcessor": whatever_the_model(lambda files: paddleocr.paddleocr_image(files.image)),
    "Step3p7ImageProcessor": whatever_the_model(lambda files: step37.step37_image(files.image)),
    "UnlimitedOcrImageProcessor": whatever_the_model(
        lambda files: deepseek.unlimited_ocr_image(files.image, files.processor)
    ),
    "Step3VLImageProcessor": whatever_the_model(lambda files: step3.step3_image(files.model)),
}
"""Every class, looked up by its name. DeepSeek-OCR's, DeepSeek-VL2's and Step3-VL's are not transformers'; no file names them."""

DOCUMENT_RULES: Mapping[str, Callable[[ModelFiles, PromptTokenizer], PromptRule]] = {
    "ernie-4.5-vl": lambda files, words: prompts.ernie_rule(words, files.model),
    "molmo-2": lambda files, words: prompts.molmo2_rule(words, _molmo2(files).tokens.patch),
    "ovis-2": lambda files, words: prompts.ovis2_rule(words, _ovis2(files).per_view, files.model.get("image_token_id")),
    "step3-vl": lambda files, words: prompts.step3_rule(words, step3.step3_image(files.model).per_window),
}
"""By the name of the family's row: what stands for a picture, where that is not one token again and again."""
