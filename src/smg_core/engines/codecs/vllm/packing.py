"""Prepared media packed for vLLM.

Decides in which dtype tensors are sent; `smg_multimodal.preparing.packaging` decides which tensors, under which names. Pure.
Above: the dialect's row, which imports this module when media are first packed: it needs numpy, and a gateway of text models
does not.
"""

import attrs

from smg_core.engines.base import EngineFacts
from smg_core.engines.codecs.vllm.media import VllmRequestMedia
from smg_multimodal.preparing.packaging import for_vllm
from smg_multimodal.preparing.prepare import Prepared

__all__ = ["VllmPacking"]


@attrs.frozen
class VllmPacking:
    """vLLM's `MediaPacking`."""

    def pack(self, prepared: Prepared, facts: EngineFacts) -> VllmRequestMedia:
        """A batch for each modality; pixels as bytes for an engine that normalises them, floats as wide as it takes them."""
        return VllmRequestMedia(for_vllm(prepared, facts.floats, raw=facts.normalizes))
