"""Processes tell each other that something new is known of a worker's health (edge).

What is known is in memory that they share (`workers.polls`); the message says where to look now. Above: gateway.assembly.
Below: the channel.
"""

import logging
from collections.abc import Awaitable, Callable

from smg_core.channel.base import Channel
from smg_core.errors import SmgError

__all__ = ["hear_others", "telling_others"]

log = logging.getLogger("smg.workers")

KIND = "probed"


def telling_others(channel: Channel) -> Callable[[str], Awaitable[None]]:
    """Tells all processes of the worker of that name. One that cannot be told finds out by its next look."""

    async def tell(name: str) -> None:
        try:
            await channel.publish(KIND, name.encode())
        except SmgError as error:
            log.warning("worker %s: other processes were not told of its health: %s", name, error)

    return tell


def hear_others(channel: Channel, heard: Callable[[str], None]) -> None:
    """Have `heard` called with the name of each worker that a process tells of."""
    channel.subscribe(KIND, lambda message: heard(message.body.decode()))
