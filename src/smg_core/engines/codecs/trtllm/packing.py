"""Prepared pictures packed for TensorRT-LLM.

Decides nothing but the order of calls; `smg_multimodal.preparing.packaging` decides which files. Pure. Above: the dialect's
row, which imports this module when media are first packed: it needs numpy, and a gateway of text models does not.
"""

import attrs

from smg_core.engines.base import EngineFacts
from smg_core.engines.codecs.trtllm.media import TrtllmRequestMedia
from smg_multimodal.preparing.packaging import for_trtllm
from smg_multimodal.preparing.prepare import Prepared

__all__ = ["TrtllmPacking"]


@attrs.frozen
class TrtllmPacking:
    """TensorRT-LLM's `MediaPacking`."""

    def pack(self, prepared: Prepared, facts: EngineFacts) -> TrtllmRequestMedia:
        """The files of all pictures, in prompt order."""
        del facts
        return TrtllmRequestMedia(for_trtllm(prepared))
