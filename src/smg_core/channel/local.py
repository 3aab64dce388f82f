"""The channel of a gateway with one process (edge).

Above: the runtime, where it is given no other. Below: base.
"""

from smg_core.channel.base import Notice, Subscriber, Subscriptions, check_size
from smg_core.channel.settings import ChannelConfig
from smg_core.errors import Overloaded

__all__ = ["LocalChannel"]


class LocalChannel:
    """The channel of a gateway with one process: each message is delivered at once."""

    def __init__(self, settings: ChannelConfig | None = None) -> None:
        self._settings = settings or ChannelConfig()
        self._subscriptions = Subscriptions(self._settings)
        self._number = 0

    def subscribe(self, kind: str, receive: Subscriber) -> None:
        self._subscriptions.add(kind, receive)

    async def publish(self, kind: str, body: bytes, *, key: str = "") -> int:
        check_size(kind, key, body, self._settings)
        if not self._subscriptions.kept.fits(kind, key, body):
            raise Overloaded("No more changes can be kept.", detail="channel.keys or channel.kept_bytes is reached")
        self._number += 1
        message = Notice(kind, key, body, self._number)
        for receive in self._subscriptions.note(message):
            receive(message)
        return message.number

    async def settled(self, number: int, seconds: float) -> bool:
        return True
