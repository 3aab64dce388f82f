"""Which family a model belongs to: a table, one row each.

Above: `prepare` and applications. Below: the family modules and `prompts`. A row says how a model is recognised, how its
files become a processor and a prompt rule, and how its tensors lie when several items are joined. Recognition goes by
`model_type` of config.json, which the model's publisher sets, and never by the name a deployment gives the model.
Adding a family is adding a module and a row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from PIL import Image

from smg_multimodal import gemma, internvl, kimi, llama4, llava, minicpm, phi, pixtral, prompts, qwen
from smg_multimodal.errors import UnsupportedModel
from smg_multimodal.keys import RESIZE
from smg_multimodal.modalities import PHI4_AUDIO, QWEN2_AUDIO, QWEN_VIDEO, Modal
from smg_multimodal.prompts import PromptRule, Vocabulary, repeat_rule, token
from smg_multimodal.types import Batched, Flat, ImageProcessor, ItemFeatures, Layout, Modality

__all__ = ["FAMILIES", "Family", "ModelFiles", "family_of"]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What a model's folder says, each as a mapping (empty where there is no such file).

    `model` is config.json, `preprocessor` preprocessor_config.json, `processor` processor_config.json, `video`
    video_preprocessor_config.json. Where `preprocessor` is empty the `image_processor` part of `processor` stands in.
    """

    model: Mapping[str, Any]
    preprocessor: Mapping[str, Any] = field(default_factory=dict)
    processor: Mapping[str, Any] = field(default_factory=dict)
    video: Mapping[str, Any] = field(default_factory=dict)

    @property
    def image(self) -> Mapping[str, Any]:
        """The image processor's configuration, wherever it is written."""
        return self.preprocessor or self.processor.get("image_processor") or {}

    @property
    def recordings(self) -> Mapping[str, Any]:
        """The feature extractor's configuration of recordings: preprocessor_config.json of audio models."""
        return self.processor.get("feature_extractor") or self.preprocessor

    @property
    def clips(self) -> Mapping[str, Any]:
        """The video processor's configuration, wherever it is written."""
        return self.video or self.processor.get("video_processor") or {}

    def unnormalised(self) -> "ModelFiles":
        """The same, but pixels keep their bytes' values, 0 to 255: for engines that rescale and normalise on the device."""
        off = {"do_rescale": False, "do_normalize": False}
        return replace(self, preprocessor={**self.image, **off}, video={**self.clips, **off})

    def resized_by(self, backend: str) -> "ModelFiles":
        """The same, made by the arithmetic of transformers' "pil" or torchvision ("torch") backend."""
        own = {RESIZE: backend}
        return replace(self, preprocessor={**self.image, **own}, video={**self.clips, **own})

    def with_kwargs(self, given: Mapping[str, Any]) -> "ModelFiles":
        """The same, with what an engine was told by `--mm-processor-kwargs`: keys for pictures and clips alike, or for one kind
        under `images_kwargs` and `videos_kwargs`. A `size` there stands before `min_pixels` and `max_pixels` of the files."""
        common = {key: value for key, value in given.items() if key not in ("images_kwargs", "videos_kwargs")}
        pictures = {**common, **(given.get("images_kwargs") or {})}
        clips = {**common, **(given.get("videos_kwargs") or {})}
        return replace(self, preprocessor=_told(self.image, pictures), video=_told(self.clips, clips))


def _told(config: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    left = {} if "size" not in given else {"min_pixels": None, "max_pixels": None}
    return {**config, **left, **given}


@dataclass(frozen=True, slots=True)
class Family:
    """One row.

    `image` makes the processor and `prompt` the rule for pictures; both are None where there are none. `primary` is the
    tensor the encoder takes, `layouts` says how every tensor lies when items are joined, `on_host` which tensors engines
    keep out of device memory, `limit` how many items a request may have. `others` has the modalities besides pictures.
    `several` makes, with the processor, a picture that is not alone in its prompt, where that is not done as for one alone.
    """

    name: str
    model_types: frozenset[str]
    image: Callable[[ModelFiles], ImageProcessor] | None
    prompt: Callable[[ModelFiles, Vocabulary], PromptRule] | None
    layouts: Mapping[str, Layout]
    primary: str = "pixel_values"
    on_host: frozenset[str] = frozenset()
    limit: int = 10
    others: Mapping[Modality, Modal] = field(default_factory=dict)
    several: Callable[[Any, Image.Image], ItemFeatures] | None = None

    def layout(self, modality: Modality) -> tuple[str, Mapping[str, Layout], frozenset[str]]:
        """Primary tensor, layouts, and tensors kept on the host, of one modality's items."""
        if modality is Modality.IMAGE:
            return self.primary, self.layouts, self.on_host
        modal = self.others[modality]
        return modal.primary, modal.layouts, modal.on_host


_PATCHES: Mapping[str, Layout] = {"pixel_values": Flat("patches_per_image"), "image_grid_thw": Batched()}
_SIZED: Mapping[str, Layout] = {"pixel_values": Batched(), "image_sizes": Batched()}
_TILES: Mapping[str, Layout] = {"pixel_values": Flat("num_patches"), "num_patches": Batched()}
_GRID = frozenset({"image_grid_thw"})


def _configured(text: str, *keys: str) -> Callable[[ModelFiles, Vocabulary], PromptRule]:
    """A rule of repeated tokens, whose id is the first of `keys` that config.json has, else that of `text`."""

    def make(files: ModelFiles, vocabulary: Vocabulary) -> PromptRule:
        ids = (files.model.get(key) for key in keys)
        return repeat_rule(text, token(vocabulary, text, next((each for each in ids if isinstance(each, int)), None)))

    return make


def _llama4_prompt(files: ModelFiles, vocabulary: Vocabulary) -> PromptRule:
    per_tile = llama4.llama4_image(files.image, files.model).per_tile
    return prompts.llama4_rule(vocabulary, per_tile, files.model.get("image_token_index"))


def _gemma_prompt(files: ModelFiles, vocabulary: Vocabulary) -> PromptRule:
    return prompts.gemma_rule(
        vocabulary, gemma.gemma3_image(files.image, files.model, files.processor).per_view, files.model
    )


def _pixtral_prompt(files: ModelFiles, vocabulary: Vocabulary) -> PromptRule:
    image = token(vocabulary, "[IMG]", files.model.get("image_token_index") or files.model.get("image_token_id"))
    return prompts.pixtral_rule(image, token(vocabulary, "[IMG_BREAK]"), token(vocabulary, "[IMG_END]"))


def _qwen_vl_prompt(files: ModelFiles, vocabulary: Vocabulary) -> PromptRule:
    start = token(vocabulary, "<img>", (files.model.get("visual") or {}).get("image_start_id"))
    return prompts.qwen_vl_rule(
        start, token(vocabulary, "<imgpad>", start + 2), token(vocabulary, "</img>", start + 1), "<imgpad>"
    )


FAMILIES: tuple[Family, ...] = (
    Family(
        "qwen2-vl",
        frozenset({"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen3_vl_text"}),
        lambda files: qwen.qwen_image(files.image),
        _configured("<|image_pad|>", "image_token_id"),
        _PATCHES,
        on_host=_GRID,
        others={Modality.VIDEO: QWEN_VIDEO},
    ),
    Family(
        "qwen2-audio",
        frozenset({"qwen2_audio"}),
        None,
        None,
        {},
        others={Modality.AUDIO: QWEN2_AUDIO},
    ),
    Family(
        "qwen-vl",
        frozenset({"qwen"}),
        lambda files: qwen.first_qwen_image(files.image, files.model),
        _qwen_vl_prompt,
        {"pixel_values": Batched()},
    ),
    Family(
        "glm-4v",
        frozenset({"glm4v", "glm4v_moe", "glm46v"}),
        lambda files: qwen.glm_image(files.image),
        _configured("<|image|>", "image_token_id"),
        _PATCHES,
        on_host=_GRID,
    ),
    Family(
        "llava",
        frozenset({"llava", "vipllava"}),
        lambda files: llava.llava_image(files.image, files.model, files.processor),
        _configured("<image>", "image_token_index", "image_token_id"),
        {"pixel_values": Batched()},
    ),
    Family(
        "llava-next",
        frozenset({"llava_next"}),
        lambda files: llava.llava_next_image(files.image, files.model, files.processor),
        _configured("<image>", "image_token_index", "image_token_id"),
        _SIZED,
    ),
    Family(
        "llava-onevision",
        frozenset({"llava_onevision"}),
        lambda files: llava.onevision_image(files.image, files.model, files.processor),
        _configured("<image>", "image_token_index", "image_token_id"),
        _SIZED,
        several=llava.AnyResolutionProcessor.whole,
    ),
    Family(
        "pixtral",
        frozenset({"pixtral", "mistral3"}),
        lambda files: pixtral.pixtral_image(files.image, files.model, files.processor),
        _pixtral_prompt,
        _SIZED,
    ),
    Family(
        "llama-4",
        frozenset({"llama4"}),
        lambda files: llama4.llama4_image(files.image, files.model),
        _llama4_prompt,
        {
            "pixel_values": Flat("patches_per_image"),
            "aspect_ratios": Batched(),
            "patches_per_image": Batched(),
        },
        on_host=frozenset({"aspect_ratios", "patches_per_image"}),
        limit=8,
    ),
    Family(
        "kimi-k2.5",
        frozenset({"kimi_k25"}),
        lambda files: kimi.kimi_image(files.image),
        _configured("<|media_pad|>", "media_placeholder_token_id", "image_token_id"),
        _PATCHES,
        on_host=_GRID,
    ),
    Family(
        "phi-3",
        frozenset({"phi3_v"}),
        lambda files: phi.phi3_image(files.image),
        _configured("<|image|>"),
        {"pixel_values": Batched(), "image_sizes": Batched(), "num_img_tokens": Batched()},
    ),
    Family(
        "phi-4",
        frozenset({"phi4mm", "phi4_multimodal"}),
        lambda files: phi.phi4_image(files.image),
        _configured("<|endoftext10|>"),
        {
            "image_pixel_values": Batched(),
            "image_sizes": Batched(),
            "image_attention_mask": Batched(),
            "num_img_tokens": Batched(),
        },
        primary="image_pixel_values",
        others={Modality.AUDIO: PHI4_AUDIO},
    ),
    Family(
        "gemma-3",
        frozenset({"gemma3"}),
        lambda files: gemma.gemma3_image(files.image, files.model, files.processor),
        _gemma_prompt,
        {"pixel_values": Flat("num_patches"), "num_crops": Batched()},
    ),
    Family(
        "internvl",
        frozenset({"internvl"}),
        lambda files: internvl.internvl_image(files.image, files.model, files.processor),
        lambda files, vocabulary: prompts.internvl_rule(vocabulary, files.model.get("image_token_id")),
        _TILES,
        on_host=frozenset({"num_patches"}),
    ),
    Family(
        "internvl-chat",
        frozenset({"internvl_chat"}),
        lambda files: internvl.internvl_chat_image(files.image, files.model),
        lambda files, vocabulary: prompts.internvl_rule(vocabulary, files.model.get("image_token_id")),
        _TILES,
        on_host=frozenset({"num_patches"}),
    ),
    Family(
        "minicpm-v",
        frozenset({"minicpmv4_6"}),
        lambda files: minicpm.minicpm_image(files.image),
        lambda files, vocabulary: prompts.minicpm_rule(
            vocabulary, files.model.get("image_token_id"), numbered=files.image.get("use_image_id") is not False
        ),
        {"pixel_values": Batched(), "target_sizes": Flat("num_patches_per_image")},
    ),
)
"""Every family, looked up by `model_type`."""


def _type_of(files: ModelFiles) -> str:
    kind = str(files.model.get("model_type") or "")
    vision = files.model.get("vision_config") or {}
    if kind == "llava" and vision.get("model_type") == "pixtral":
        return "pixtral"
    return kind


def family_of(files: ModelFiles, families: tuple[Family, ...] = FAMILIES) -> Family:
    """The row of a model. Raises `UnsupportedModel` when its `model_type` is in none."""
    kind = _type_of(files)
    for family in families:
        if kind in family.model_types:
            return family
    raise UnsupportedModel(f"no multimodal family takes models of type {kind!r}")
