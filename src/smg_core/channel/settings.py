"""The bounds of messages between the processes of a gateway.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import attrs

from smg_core.settings import MIB, bound

__all__ = ["ChannelConfig"]


@attrs.frozen
class ChannelConfig:
    """The channel over which the processes of one gateway tell each other of changes: of workers, settings and adapters."""

    message_bytes: int = bound(
        256 * 1024, "Largest message between processes, in bytes.", at_least=1024, at_most=64 * MIB
    )
    keys: int = bound(
        16384,
        "Most things whose last state the channel between processes keeps for those that start later.",
        at_least=16,
        at_most=1 << 24,
    )
    kept_bytes: int = bound(
        16 * MIB, "Most bytes of the states that the channel between processes keeps.", at_least=65536, at_most=1 << 34
    )
    pending_bytes: int = bound(
        16 * MIB,
        "Bytes of messages that may wait for a process that does not read; beyond, it is told the last state when it "
        "reads again.",
        at_least=65536,
        at_most=1 << 34,
    )
    publish_s: float = bound(
        10.0, "Seconds that a message to all processes may take to come back to its sender.", at_least=0.1, at_most=3600
    )
