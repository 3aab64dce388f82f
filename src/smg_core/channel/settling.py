"""Waits until every process of a gateway has made a change (edge).

Above: those who change something for somebody who is answered then: plugins, the roster of workers, the admin door's control.
Below: base.
"""

from smg_core.channel.base import Channel
from smg_core.errors import Overloaded

__all__ = ["known_everywhere"]


async def known_everywhere(channel: Channel, number: int, seconds: float) -> None:
    """Return once every process has made the change that is the message of this number: who made it may be answered then, since
    what the answer says is so in all of them. Raises Overloaded where that takes more than so many seconds; the change stands,
    and a process that is late makes it when it goes on."""
    if not await channel.settled(number, seconds):
        raise Overloaded("It is not known whether every process has this change.", detail="channel.publish_s")
