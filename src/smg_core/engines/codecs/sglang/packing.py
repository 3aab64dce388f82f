"""Prepared pictures packed for SGLang.

Decides nothing but the order of calls; `smg_multimodal.preparing.packaging` decides which tensors, under which names. Pure.
Above: the dialect's row, which imports this module when media are first packed: it needs numpy, and a gateway of text models
does not.
"""

import attrs

from smg_core.engines.base import EngineFacts
from smg_core.engines.codecs.sglang.media import SglangRequestMedia
from smg_multimodal.preparing.packaging import for_sglang
from smg_multimodal.preparing.prepare import Prepared

__all__ = ["SglangPacking"]


@attrs.frozen
class SglangPacking:
    """SGLang's `MediaPacking`."""

    def pack(self, prepared: Prepared, facts: EngineFacts) -> SglangRequestMedia:
        """All pictures, as float32: its servicer reads that and int64 alone, and takes any other dtype for float32."""
        del facts
        return SglangRequestMedia(for_sglang(prepared))
