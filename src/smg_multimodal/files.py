"""What a model's folder says about pictures, clips and recordings, as mappings; and what is made of it.

Above: `pipelines`, `registry`, applications that read the folder. Below: `keys`, `types`. Knows where each part is written, not
what it means.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from smg_multimodal.keys import RESIZE
from smg_multimodal.types import ImageProcessor

__all__ = ["ModelFiles", "Pipeline", "TokenCount", "whatever_the_model"]


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
    def of_thinker(self) -> Mapping[str, Any]:
        """config.json, and above it the part for what an omni model understands (its other parts are for what it says)."""
        return {**self.model, **(self.model.get("thinker_config") or {})}

    @property
    def recordings(self) -> Mapping[str, Any]:
        """The feature extractor's configuration of recordings, wherever it is written, over the processor's own values."""
        own = {key: value for key, value in self.processor.items() if not isinstance(value, Mapping)}
        return {**own, **(self.processor.get("feature_extractor") or self.preprocessor)}

    @property
    def clips(self) -> Mapping[str, Any]:
        """The video processor's configuration: the pictures' where there is none of its own."""
        return self.video or self.processor.get("video_processor") or self.preprocessor

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


TokenCount = Callable[[ModelFiles], int]
"""How many tokens a family's model makes of one square or tile."""

Pipeline = Callable[[ModelFiles, TokenCount | None], ImageProcessor]
"""What makes the processor of pictures of a model: one row of `pipelines`."""


def whatever_the_model(make: Callable[[ModelFiles], ImageProcessor]) -> Pipeline:
    """The pipeline of a class whose tokens are counted in one way, in whichever family."""
    return lambda files, _tokens: make(files)
