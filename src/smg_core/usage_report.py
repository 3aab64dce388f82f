"""The report of accounts: the rows of the ledger that somebody asks for.

Pure, and apart from the ledger, so that the descriptions of the APIs need nothing of it. Above: the ledger, the routes. Below:
nothing.
"""

from msgspec import UNSET, Struct, UnsetType

__all__ = ["USAGE_AXES", "UsageReport", "UsageRow"]

USAGE_AXES = ("tenant", "team", "key", "user", "model", "api", "worker", "provider")
"""By what accounts are apart, beside the hour."""


class UsageRow(Struct, omit_defaults=True):
    """What was taken from `start` to `end` (RFC 3339) by whom the other names say. Tokens are those of the answers' usage:
    `cached_tokens` and `cache_write_tokens` and those of media are part of the prompt's, `reasoning_tokens` of the completion's.
    `cost_usd` is a decimal; what the `unpriced_requests` cost is not known and not in it."""

    start: str
    end: str
    requests: int
    failed_requests: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    audio_tokens: int
    image_tokens: int
    video_tokens: int
    cost_usd: str
    unpriced_requests: int
    tenant: str | UnsetType = UNSET
    team: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    api: str | UnsetType = UNSET
    worker: str | UnsetType = UNSET
    provider: str | UnsetType = UNSET


class UsageReport(Struct):
    """The rows that were asked for. `has_more`: there are further ones, from `after` = `next_after` on."""

    object: str
    data: list[UsageRow]
    has_more: bool
    next_after: int | None
