"""The settings of the history of answered requests.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["EXTRAS", "HistoryConfig"]

EXTRAS = {
    "memory": "",
    "sqlite": "",
    "postgresql": "postgres",
    "oracle": "oracle",
    "redis": "redis",
    "rediss": "redis",
    "unix": "redis",
}
"""The schemes that `history.url` may have, each with the extra of the distribution that installs its store."""

DAY = 86400.0  # seconds
CENTURY = 36_500 * DAY


@attrs.frozen
class HistoryConfig:
    """The history of answered requests: its store, and for how long it has them."""

    url: str | None = option(
        None,
        "Where responses and conversations are kept: memory:, sqlite:///FILE, postgresql://, redis://, rediss:// or oracle://; "
        "without it, in memory; `smg-gateway serve` then keeps them in a file of the user's state folder.",
        secret=True,
        flag="--history",
    )
    gateway: str | None = option(
        None,
        "Name of this gateway, the same after a restart: to it belongs what `smg-gateway serve` keeps without `history.url`. "
        "Without it, the host and the port that it listens on.",
        flag="--name",
    )
    migrate: bool = option(
        True,
        "Bring the tables of an older version of the history to this one's at the start; without it such a store is "
        "refused.",
    )
    prefix: str = option("smg_", "What the names of tables, indexes and Redis keys of the history begin with.")
    schema: str | None = option(
        None, "Schema of the database that the tables of the history are in; without it the user's own."
    )
    names: tuple[str, ...] = bound(
        (),
        "Own name of a table or a column of the history, as TABLE=NAME or TABLE.COLUMN=NAME, without the prefix; may be "
        "repeated.",
    )
    responses_s: float | None = option(
        30 * DAY,
        "Seconds that responses are kept after they were last written, or continued; null keeps them.",
        at_least=1,
        at_most=CENTURY,
    )
    conversations_s: float | None = option(
        None,
        "Seconds that conversations are kept after they were last changed; null keeps them.",
        at_least=1,
        at_most=CENTURY,
    )
    records_s: float | None = bound(
        30 * DAY,
        "Seconds that objects other than responses and conversations are kept that bring no time of their own; null keeps"
        " them.",
        at_least=1,
        at_most=CENTURY,
    )
    events_s: float = bound(
        3600.0,
        "Seconds that the events of a response's stream are kept after the last was written, for clients that resume it.",
        at_least=600,
        at_most=CENTURY,
    )
    sweep_s: float = bound(
        60.0,
        "Seconds between two rounds that delete what has expired from the history; 0 deletes nothing.",
        at_least=0,
        at_most=DAY,
    )
    zero_retention: tuple[str, ...] = option(
        (),
        'Tenant of which nothing is kept, or one key of it as TENANT/KEY; "*" keeps nothing of anybody; may be repeated.',
    )
    keys: tuple[str, ...] = option(
        (),
        "Key that contents are encrypted with, as NAME=BASE64 of 32 bytes; the first encrypts, all decrypt; may be repeated.",
        secret=True,
    )
    chain_links: int = bound(
        1000, "Most responses that one may continue, one after the other.", at_least=1, at_most=100_000
    )
    chain_bytes: int = bound(
        64 * MIB,
        "Most bytes of the responses or of the conversation that a request continues.",
        at_least=MIB,
        at_most=1 << 34,
    )
    page_bytes: int = bound(
        16 * MIB,
        "Most bytes of contents that one read of a list in the history loads: its page ends there. One thing that is "
        "larger comes alone.",
        at_least=1024,
        at_most=1 << 34,
    )
    memory_bytes: int = bound(
        256 * MIB,
        "Most bytes that the history keeps in memory, where that is its store; what was written longest ago goes first.",
        at_least=MIB,
        at_most=1 << 40,
    )
    connections: int = bound(4, "Connections of each process that read the history.", at_least=1, at_most=1024)
    waiting_writes: int = bound(
        4096,
        "Writes of each process that wait for the store of the history; over it they fail at once.",
        at_least=1,
        at_most=1 << 20,
    )
    waiting_bytes: int = bound(
        256 * MIB,
        "Most bytes of contents in the writes of each process that wait for the store of the history; over it they fail "
        "at once. One write that is larger waits alone.",
        at_least=MIB,
        at_most=1 << 40,
    )
    group: int = bound(
        32, "Most writes that one transaction of the history makes together.", at_least=1, at_most=10_000
    )
    timeout_s: float = bound(
        10.0, "Seconds that the store of the history may take for a read, or for writing.", at_least=0.1, at_most=600
    )
    flush: bool = bound(
        True,
        "SQLite: wait until the disk has a write before it counts as kept. Without it, what was kept survives the end of the "
        "process but maybe not that of the machine.",
    )
