"""smg_multimodal: Pictures, clips and recordings to the tensors that an engine expects.

    files = ModelFiles(model=config_json, preprocessor=preprocessor_config_json)
    preparer = Preparer(files, vocabulary)
    prepared = preparer.prepare(token_ids, [Media(jpeg_bytes)])
    prepared.expanded.ids, prepared.expanded.placeholders, for_vllm(prepared)

The names below load their modules, and with them numpy and Pillow, when they are first used.
Begin with `preparing.prepare`, which goes from a model's files and media to what an engine is sent; `families` has a row for each
family of models, `decoding` reads files, `processes` does so where it can be stopped, `fetching` brings media here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smg_multimodal.configs.files import ModelFiles as ModelFiles
    from smg_multimodal.decoding.decode import ImageLimits as ImageLimits
    from smg_multimodal.decoding.decode import decode_image as decode_image
    from smg_multimodal.families.registry import family_of as family_of
    from smg_multimodal.fetching.egress import EgressRules as EgressRules
    from smg_multimodal.preparing.content import DigestMemory as DigestMemory
    from smg_multimodal.preparing.content import FeatureCache as FeatureCache
    from smg_multimodal.preparing.content import routing_keys as routing_keys
    from smg_multimodal.preparing.packaging import for_items as for_items
    from smg_multimodal.preparing.packaging import for_sglang as for_sglang
    from smg_multimodal.preparing.packaging import for_tokenspeed as for_tokenspeed
    from smg_multimodal.preparing.packaging import for_trtllm as for_trtllm
    from smg_multimodal.preparing.packaging import for_vllm as for_vllm
    from smg_multimodal.preparing.prepare import Detail as Detail
    from smg_multimodal.preparing.prepare import Media as Media
    from smg_multimodal.preparing.prepare import Prepared as Prepared
    from smg_multimodal.preparing.prepare import Preparer as Preparer
    from smg_multimodal.prompts.expand import Expanded as Expanded
    from smg_multimodal.prompts.expand import ReadyItem as ReadyItem
    from smg_multimodal.records.errors import BadMedia as BadMedia
    from smg_multimodal.records.errors import MediaError as MediaError
    from smg_multimodal.records.errors import MediaForbidden as MediaForbidden
    from smg_multimodal.records.errors import MediaTooLarge as MediaTooLarge
    from smg_multimodal.records.errors import MediaUnavailable as MediaUnavailable
    from smg_multimodal.records.errors import PlaceholderMismatch as PlaceholderMismatch
    from smg_multimodal.records.errors import UnknownFamily as UnknownFamily
    from smg_multimodal.records.errors import UnsupportedModel as UnsupportedModel
    from smg_multimodal.records.types import ItemFeatures as ItemFeatures
    from smg_multimodal.records.types import Modality as Modality
    from smg_multimodal.records.types import Placeholder as Placeholder
    from smg_multimodal.records.types import Size as Size
    from smg_multimodal.records.types import Span as Span

_PLACES = {
    "preparing.content": ("DigestMemory", "FeatureCache", "routing_keys"),
    "decoding.decode": ("ImageLimits", "decode_image"),
    "fetching.egress": ("EgressRules",),
    "records.errors": (
        "BadMedia",
        "MediaError",
        "MediaForbidden",
        "MediaTooLarge",
        "MediaUnavailable",
        "PlaceholderMismatch",
        "UnknownFamily",
        "UnsupportedModel",
    ),
    "prompts.expand": ("Expanded", "ReadyItem"),
    "preparing.packaging": ("for_items", "for_sglang", "for_tokenspeed", "for_trtllm", "for_vllm"),
    "preparing.prepare": ("Detail", "Media", "Prepared", "Preparer"),
    "configs.files": ("ModelFiles",),
    "families.registry": ("family_of",),
    "records.types": ("ItemFeatures", "Modality", "Placeholder", "Size", "Span"),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    *_MODULE_OF,
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
