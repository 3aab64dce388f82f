"""Prepared media packed for TokenSpeed.

Decides in which dtype tensors are sent; `smg_multimodal.preparing.packaging` decides which tensors, under which names. Pure.
Above: the dialect's row, which imports this module when media are first packed: it needs numpy, and a gateway of text models
does not.
"""

import attrs

from smg_core.engines.base import EngineFacts
from smg_core.engines.codecs.tokenspeed.media import TokenSpeedRequestMedia
from smg_multimodal.preparing.packaging import for_tokenspeed
from smg_multimodal.preparing.prepare import Prepared

__all__ = ["TokenSpeedPacking"]


@attrs.frozen
class TokenSpeedPacking:
    """TokenSpeed's `MediaPacking`."""

    def pack(self, prepared: Prepared, facts: EngineFacts) -> TokenSpeedRequestMedia:
        """Each item by itself, floats as wide as the engine's encoder takes them."""
        return TokenSpeedRequestMedia(for_tokenspeed(prepared, facts.floats).items)
