"""The files of a model's folder, as mappings; and what is made of it.

Above: `families.pipelines`, `families.registry`, applications that read the folder. Below: `keys`, `records.types`. Knows where
each part is written, not what it means.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from smg_multimodal.configs.keys import NAMED_KEYS, RESIZE
from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import ImageProcessor

__all__ = ["CountTokens", "ModelFiles", "Pipeline", "whatever_the_model"]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a model's folder, each as a mapping (empty where there is no such file).

    `model` is config.json, `preprocessor` preprocessor_config.json, `processor` processor_config.json, `video`
    video_preprocessor_config.json. What processor_config.json says of a processor, under `image_processor`, `video_processor` or
    `feature_extractor`, stands before the file of its own that the processor may have, as it does in transformers. `woven` is
    what engines were told of the sound of clips, which is then woven into them; None where it is not listened to.
    """

    model: Mapping[str, Any]
    preprocessor: Mapping[str, Any] = field(default_factory=dict)
    processor: Mapping[str, Any] = field(default_factory=dict)
    video: Mapping[str, Any] = field(default_factory=dict)
    woven: Mapping[str, Any] | None = None

    @property
    def image(self) -> Mapping[str, Any]:
        """The image processor's configuration, wherever it is written."""
        return self.processor.get("image_processor") or self.preprocessor

    @property
    def of_thinker(self) -> Mapping[str, Any]:
        """config.json, and above it the part of an omni model for its input (other parts are for its output)."""
        return {**self.model, **(self.model.get("thinker_config") or {})}

    @property
    def recordings(self) -> Mapping[str, Any]:
        """The feature extractor's configuration of recordings, wherever it is, over the processor's values."""
        own = {key: value for key, value in self.processor.items() if not isinstance(value, Mapping)}
        nested = self.processor.get("feature_extractor")
        return {**own, **(self.preprocessor if nested is None else nested)}

    @property
    def clips(self) -> Mapping[str, Any]:
        """The video processor's configuration: the pictures' where there is none of its own."""
        return self.processor.get("video_processor") or self.video or self.preprocessor

    def _with(self, image: Mapping[str, Any], clips: Mapping[str, Any]) -> "ModelFiles":
        """The same files with further keys for pictures and for clips, which stand before those of the files."""
        nested = ("image_processor", "video_processor")
        recordings = self.processor.get("feature_extractor", self.preprocessor)
        processor = {key: value for key, value in self.processor.items() if key not in nested}
        return replace(
            self,
            preprocessor={**self.image, **image},
            video={**self.clips, **clips},
            processor={**processor, "feature_extractor": recordings},
        )

    def unnormalised(self) -> "ModelFiles":
        """The same, but pixels keep their bytes' values, 0 to 255: for engines that rescale and normalise on the device."""
        off = {"do_rescale": False, "do_normalize": False}
        return self._with(off, off)

    def resized_by(self, backend: str) -> "ModelFiles":
        """The same, made by the arithmetic of transformers' "pil" or torchvision ("torch") backend."""
        return self._with({RESIZE: backend}, {RESIZE: backend})

    def with_kwargs(self, given: Mapping[str, Any]) -> "ModelFiles":
        """The same, with what an engine was told by `--mm-processor-kwargs`: keys for pictures and clips alike, or for one kind
        under `images_kwargs` and `videos_kwargs`. A `size` there stands before `min_pixels` and `max_pixels` of the files.

        Raises `UnsupportedModel` for what is told about recordings: it is not done here."""
        if given.get("audio_kwargs"):
            raise UnsupportedModel(
                f"audio_kwargs {given['audio_kwargs']!r} of the engine's --mm-processor-kwargs is not done here"
            )
        common = {key: value for key, value in given.items() if key not in (*_KINDS, *_OF_SOUND)}
        pictures, clips = ({**common, **(given.get(kind) or {})} for kind in _KINDS)
        sound = {
            key: value for key, value in {**given, **(given.get("videos_kwargs") or {})}.items() if key in _OF_SOUND
        }
        clips = {key: value for key, value in clips.items() if key not in _OF_SOUND}
        made = self._with(_named_keys(pictures), _named_keys(clips))
        return replace(made, woven=sound) if any(sound.get(key) for key in _LISTENED_TO) else made


_KINDS = ("images_kwargs", "videos_kwargs")
_LISTENED_TO = ("use_audio_in_video", "load_audio_from_video")
"""What says, in transformers, that the sound of clips is listened to: the older name and the newer one."""
_OF_SOUND = ("audio_kwargs", *_LISTENED_TO, "seconds_per_chunk", "position_id_per_seconds")


def _named_keys(given: Mapping[str, Any]) -> dict[str, Any]:
    left = {} if "size" not in given else {"min_pixels": None, "max_pixels": None}
    return {**left, **given, NAMED_KEYS: sorted(given)}


CountTokens = Callable[[ModelFiles], int]
"""How many tokens a family's model makes of one square or tile."""

Pipeline = Callable[[ModelFiles, CountTokens | None], ImageProcessor]
"""What makes the processor of pictures of a model: one row of `pipelines`."""


def whatever_the_model(make: Callable[[ModelFiles], ImageProcessor]) -> Pipeline:
    """The pipeline of a class whose tokens are counted in one way, in whichever family."""
    return lambda files, _tokens: make(files)
