"""From the name of a processor class to what does the same here: a table, one row per class.

Above: `registry`, whose rows name the classes that their models come with. Below: `tile_pipelines`, `patch_pipelines` and
`document_pipelines`, which have the table's parts. A class is named as transformers names it, or as the code published with a
model does where transformers has none. Which class a model has is `image_processor_type` of its files, and the first class of its
family's row where they name none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from smg_multimodal.configs.files import CountTokens, ModelFiles, Pipeline
from smg_multimodal.families.document_pipelines import DOCUMENT_PIPELINES
from smg_multimodal.families.patch_pipelines import PATCH_PIPELINES
from smg_multimodal.families.tile_pipelines import TILE_PIPELINES
from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import ImageProcessor

__all__ = ["PIPELINES", "Pictures", "class_of"]

PIPELINES: Mapping[str, Pipeline] = {**PATCH_PIPELINES, **TILE_PIPELINES, **DOCUMENT_PIPELINES}
"""Every class, looked up by its name without the backend's suffix. Those of DeepSeek-OCR, Kimi-VL, Step3-VL, of the
InternVL that its authors published, MiniCPM-V before 4.6, Phi-3 and the first Qwen-VL are not in transformers."""

_SAME: Mapping[str, str] = {
    **dict.fromkeys(
        ("Ernie4_5_VL_MoeImageProcessor", "Ernie4_5_VLImageProcessor", "Ernie_45T_VLImageProcessor"),
        "Ernie4_5_VLMoeImageProcessor",
    ),
    "KimiK25VisionProcessor": "Kimi_K25ImageProcessor",
    "Phi4MMImageProcessor": "Phi4MultimodalImageProcessor",
    "Qwen2_5_VLImageProcessor": "Qwen2VLImageProcessor",
    "Qwen3VLImageProcessor": "Qwen2VLImageProcessor",
}
"""Names that published files have for a class of another name."""


def class_of(files: ModelFiles) -> str | None:
    """The class that a model's files name, without the backend's suffix; None where they name none."""
    named = files.image.get("image_processor_type")
    if named is None and isinstance(older := files.image.get("feature_extractor_type"), str):
        named = older.replace("FeatureExtractor", "ImageProcessor")
    if not isinstance(named, str):
        return None
    bare = named.removesuffix("Fast").removesuffix("Pil")
    return _SAME.get(bare, bare)


@dataclass(frozen=True, slots=True)
class Pictures:
    """How a family makes its picture processor: the classes that its models come with, the usual one first.

    `tokens` says how many tokens one square or tile is, for classes that serve several families. `called` has the names that
    the family's files have for its classes, where they are those of others.
    """

    classes: tuple[str, ...]
    tokens: CountTokens | None = None
    called: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, files: ModelFiles) -> ImageProcessor:
        """The processor of one model. Raises `UnsupportedModel` where its files name a class that the family has not."""
        found = class_of(files) or self.classes[0]
        named = self.called.get(found, found)
        if named not in self.classes:
            raise UnsupportedModel(
                f"image_processor_type {named!r} is not what models of type {files.model.get('model_type')!r} are"
                f" processed with here: {', '.join(self.classes)}"
            )
        return PIPELINES[named](files, self.tokens)
