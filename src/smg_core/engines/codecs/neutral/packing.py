"""Prepared media packed for the neutral contract.

Pure. Above: the dialect's row, which imports this module when media are first packed: it needs numpy, and a gateway of text
models does not.
"""

import attrs

from smg_core.engines.base import EngineFacts
from smg_core.engines.codecs.neutral.media import NeutralRequestMedia
from smg_multimodal.preparing.packaging import for_items
from smg_multimodal.preparing.prepare import Prepared
from smg_multimodal.records.errors import UnsupportedModel

__all__ = ["NeutralPacking"]


@attrs.frozen
class NeutralPacking:
    """The contract's `MediaPacking`."""

    def pack(self, prepared: Prepared, facts: EngineFacts) -> NeutralRequestMedia:
        """Each item by itself, as float32: the contract has no field for engines that normalise, or take other floats. Raises
        UnsupportedModel where a clip has its sound with it, and the engine takes none."""
        items = for_items(prepared)
        lacking = {each.modality.value for each in items} - (facts.media or frozenset())
        if facts.media is not None and lacking:
            raise UnsupportedModel(f"the clip comes with its sound, and this engine takes no {' and '.join(lacking)}")
        return NeutralRequestMedia(items)
