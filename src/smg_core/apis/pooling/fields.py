"""The fields that vLLM's bodies of pooled work share, and which of them are honoured.

Pure. Above: the decoders of embeddings, rerank, score and classify. Source: vLLM's PoolingBasicRequestMixin.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from smg_core.errors import InvalidRequest, UnsupportedParameter

__all__ = ["KeptTokens", "PoolFields", "check_pool_fields", "named_field"]

KeptTokens = Annotated[int, Meta(ge=-1, le=2**31 - 1)]


class PoolFields(Struct, forbid_unknown_fields=True, kw_only=True):
    """`truncate_prompt_tokens` is how many tokens of an input stay (-1: as many as the model takes), `truncation_side` the side
    that is cut off. `use_activation` False: the model's raw numbers. `user` is whom limits and the ledger count it for. A
    `priority` other than 0 and a `cache_salt` are refused: no call for pooled work carries them."""

    user: str | None = None
    truncate_prompt_tokens: KeptTokens | None = None
    truncation_side: Literal["left", "right"] | None = None
    use_activation: bool | None = None
    priority: int | None = None
    cache_salt: str | None = None


SIDES = {"truncation_side": ("left", "right")}


def check_pool_fields(wire: PoolFields) -> None:
    """Refuse by name what cannot be honoured. Raises InvalidRequest."""
    if wire.truncate_prompt_tokens == 0:
        raise InvalidRequest(
            "Invalid 'truncate_prompt_tokens': expected -1, or 1 or more.",
            param="truncate_prompt_tokens",
            code="integer_below_min_value",
        )
    if wire.priority:
        raise UnsupportedParameter("Pooled work has no priorities here: 'priority' must be 0.", param="priority")
    if wire.cache_salt is not None:
        raise UnsupportedParameter("No engine's call for pooled work carries a cache salt.", param="cache_salt")


def named_field(path: str) -> str:
    """The field that `path` in a PoolRequest was read from, of those that are shared."""
    return {"truncate": "truncate_prompt_tokens", "activation": "use_activation"}.get(path, path)
