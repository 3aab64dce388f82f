"""Prepared media packed for the neutral contract.

Pure. Above: the dialect's row, which imports this module when media are first packed: it needs numpy, and a gateway of text
models does not.
"""

import attrs

from smg_core.engines.base import EngineFacts
from smg_core.engines.codecs.neutral.media import NeutralRequestMedia
from smg_multimodal.preparing.packaging import for_items
from smg_multimodal.preparing.prepare import Prepared

__all__ = ["NeutralPacking"]


@attrs.frozen
class NeutralPacking:
    """The contract's `MediaPacking`."""

    def pack(self, prepared: Prepared, facts: EngineFacts) -> NeutralRequestMedia:
        """Each item by itself, as float32: the contract has no field for engines that normalise, or take other floats."""
        del facts
        return NeutralRequestMedia(for_items(prepared))
