"""Numbers and short texts in the bodies of several APIs, with their ranges, as types for msgspec. Pure."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = [
    "MODEL_CHARACTERS",
    "Bias",
    "CacheBreakpoint",
    "Count",
    "Effort",
    "Fraction",
    "Label",
    "ModelName",
    "Name",
    "Penalty",
    "Positive",
    "Seed",
    "Tier",
    "TokenId",
]


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

Tier = Literal["auto", "default", "flex", "scale", "priority", "fast"]

Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]

TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]

Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

Penalty = Annotated[float, Meta(ge=-2, le=2)]

Fraction = Annotated[float, Meta(ge=0, le=1)]

Bias = Annotated[float, Meta(ge=-100, le=100)]

Name = Annotated[str, Meta(min_length=1, max_length=256)]

Label = Annotated[str, Meta(min_length=1, max_length=512)]

MODEL_CHARACTERS = 512

ModelName = Annotated[str, Meta(max_length=MODEL_CHARACTERS)]
"""A model's name; "" where none is given."""


class CacheBreakpoint(Struct, forbid_unknown_fields=True, gc=False):
    """A prompt-cache breakpoint after the part."""

    mode: Literal["explicit"]
    ttl: Literal["30m", "12h"] | None = None
