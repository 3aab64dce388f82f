"""A row of the table of families: how a model's files become a processor and a prompt rule, and how its tensors lie.

Above: `registry` and `rows_of_2026`, which have the rows. Below: `configs.files`, `modalities`, `pipelines`, `prompts.prompts`.
Layouts that many rows have, and the prompt rule that most have, are here too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.modalities import Modal
from smg_multimodal.families.pipelines import Pictures
from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer, repeat_rule, token
from smg_multimodal.records.types import Batched, Flat, ItemFeatures, Layout, Modality

__all__ = ["GRID", "MASKED", "PATCHES", "SIZED", "TILES", "MediaFamily", "token_rule"]


@dataclass(frozen=True, slots=True)
class MediaFamily:
    """One row.

    `image` makes the processor and `prompt` the rule for pictures; both are None where there are none. `primary` is the
    tensor the encoder takes, `layouts` says how every tensor lies when items are joined, `on_host` which tensors engines
    keep out of device memory, `limit` how many items a request may have. `others` has the modalities besides pictures.
    `several` makes, with the processor, a picture that is not alone in its prompt, where that is not done as for one alone.
    """

    name: str
    model_types: frozenset[str]
    image: Pictures | None
    prompt: Callable[[ModelFiles, PromptTokenizer], PromptRule] | None
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


PATCHES: Mapping[str, Layout] = {"pixel_values": Flat("patches_per_image"), "image_grid_thw": Batched()}
SIZED: Mapping[str, Layout] = {"pixel_values": Batched(), "image_sizes": Batched()}
TILES: Mapping[str, Layout] = {"pixel_values": Flat("num_patches"), "num_patches": Batched()}
MASKED: Mapping[str, Layout] = {**TILES, "pixel_attention_mask": Flat("num_patches")}
GRID = frozenset({"image_grid_thw"})


def token_rule(text: str, *keys: str) -> Callable[[ModelFiles, PromptTokenizer], PromptRule]:
    """A rule of repeated tokens, whose id is the first of `keys` that config.json has, else that of `text`."""

    def make(files: ModelFiles, vocabulary: PromptTokenizer) -> PromptRule:
        model = files.of_thinker
        ids = (model.get(key) for key in keys)
        return repeat_rule(text, token(vocabulary, text, next((each for each in ids if isinstance(each, int)), None)))

    return make
