"""The accounts of the ledger, and their amounts: an account is one hour of one tenant, key, model and so on, and has amounts that
are added up.

Pure. The amounts of the requests since the last write are gathered in `Sums`, which has a bound. Above: `keeping`, `statements`.
Below: the usage of an answer.
"""

from operator import add
from typing import NamedTuple

from smg_core.events import Usage

__all__ = ["AMOUNTS", "HOUR_S", "NOTHING", "Account", "Amounts", "Sums", "amounts_of", "in_store"]

HOUR_S = 3600


class Account(NamedTuple):
    """For whom: `hour` counts the hours since the epoch, `key` is a principal of the tenant, `model` the served model's own name,
    `provider` the kind of engine that answered. "" where there is none, or nobody knows."""

    hour: int
    tenant: str = ""
    team: str = ""
    key: str = ""
    user: str = ""
    model: str = ""
    api: str = ""
    worker: str = ""
    provider: str = ""


class Amounts(NamedTuple):
    """What was taken. `failed` requests are among the `requests`; tokens are those of `Usage`, with parts of each; `money` is in
    millionths of a dollar, and `unpriced` counts the requests of which nobody knows what they cost."""

    requests: int = 0
    failed: int = 0
    unpriced: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    audio_tokens: int = 0
    image_tokens: int = 0
    video_tokens: int = 0
    money: int = 0


AMOUNTS = Amounts._fields
NOTHING = Amounts()


_MOST = 1 << 40
"""The most of anything that one request is counted with: an engine may say any number, and stores have 64 bits for a sum."""


def amounts_of(usage: Usage | None, money: int | None, *, failed: bool) -> Amounts:
    """The amounts of one request. Without `usage` it took nothing; `money` None: what it costs is not known."""
    if usage is None:
        return Amounts(1, int(failed))
    reported = usage.prompt_tokens > 0  # no prompt is without a token: an engine that says so says nothing
    priced = (money is not None and reported) or (failed and not usage.total_tokens)
    numbers = (
        usage.prompt_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.completion_tokens,
        usage.reasoning_tokens,
        usage.audio_tokens,
        usage.image_tokens,
        usage.video_tokens,
        money or 0,
    )
    return Amounts(1, int(failed), int(not priced), *[min(max(0, each), _MOST) for each in numbers])


def in_store(text: str) -> str:
    """A text as every store can have it: one with characters that cannot be printed is written with escapes."""
    return text if text.isprintable() else ascii(text)


class Sums:
    """The amounts of at most `most` accounts, which wait to be written."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sums: dict[Account, Amounts] = {}

    def __len__(self) -> int:
        return len(self._sums)

    @property
    def total(self) -> Amounts:
        """All of them together."""
        found = NOTHING
        for each in self._sums.values():
            found = Amounts(*map(add, found, each))
        return found

    def add(self, account: Account, amounts: Amounts) -> bool:
        """Add to an account. False: there is no room for another one, and nothing was added."""
        before = self._sums.get(account)
        if before is None:
            if len(self._sums) >= self._most:
                return False
            self._sums[account] = amounts
        else:
            self._sums[account] = Amounts(*map(add, before, amounts))
        return True

    def forget(self, tenant: str, user: str | None) -> None:
        """Forget a tenant; or one of its users, whose amounts go to those of no user."""
        found = [each for each in self._sums if each.tenant == tenant and user in (None, each.user)]
        for account in found:
            amounts = self._sums.pop(account)
            if user is not None:
                self.add(account._replace(user=""), amounts)

    def take(self, most: int) -> list[tuple[Account, Amounts]]:
        """Take out so many accounts at most, those that were added to first, in the order in which stores lock them."""
        found = [(each, self._sums[each]) for each, _ in zip(self._sums, range(most), strict=False)]
        for account, _ in found:
            del self._sums[account]
        return sorted(found)
