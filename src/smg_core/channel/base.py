"""The channel between the processes of one gateway: messages in one order, the last of each key kept.

A message with a key is state: the last one of its kind and key is kept, and a process that starts later, or that has not read
for long, gets it. A message without a key is an event. Pure. Above: local, member, relay, and those who publish and subscribe.
Below: the errors.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from smg_core.channel.settings import ChannelConfig
from smg_core.errors import PayloadTooLarge

__all__ = ["Channel", "Kept", "Notice", "Subscriber", "Subscriptions", "check_size"]


class Notice(msgspec.Struct, frozen=True):
    """One message. `number` is its place in the one order of all messages, from 1. `key` is "" for an event; with a key and no
    `body` it says that the state of that key is forgotten."""

    kind: str
    key: str
    body: bytes
    number: int


Subscriber = Callable[[Notice], None]


class Channel(Protocol):
    """One process's end of the channel."""

    def subscribe(self, kind: str, receive: Subscriber) -> None:
        """Have `receive` called with every message of this kind: at once with those that are kept, then with each that comes, in
        the one order, on the event loop. It must not wait."""
        ...

    async def publish(self, kind: str, body: bytes, *, key: str = "") -> int:
        """Send a message to all processes, this one included; its number, once the subscribers here were called. Raises
        PayloadTooLarge for a large message, and Overloaded where no more can be kept or the supervisor does not answer."""
        ...

    async def settled(self, number: int, seconds: float) -> bool:
        """True once the subscribers in every process were called with the message of this number; False after `seconds`."""
        ...


def check_size(kind: str, key: str, body: bytes, settings: ChannelConfig) -> None:
    """Raise PayloadTooLarge for a message that is larger than the settings allow."""
    if len(kind) + len(key) + len(body) > settings.message_bytes:
        raise PayloadTooLarge(
            f"This change is larger than the {settings.message_bytes} bytes that processes tell each other at once."
        )


class Kept:
    """The last message of each kind and key, in the one order; bounded by `channel.keys` and `channel.kept_bytes`."""

    def __init__(self, settings: ChannelConfig) -> None:
        self._settings = settings
        self._messages: dict[tuple[str, str], Notice] = {}
        self._bytes = 0

    def __iter__(self) -> Iterator[Notice]:
        return iter(list(self._messages.values()))

    def __len__(self) -> int:
        return len(self._messages)

    def fits(self, kind: str, key: str, body: bytes) -> bool:
        """Whether a message may be kept, or need not be."""
        if not key or not body:
            return True
        before = self._messages.get((kind, key))
        size = self._bytes + len(body) - (len(before.body) if before is not None else 0)
        count = len(self._messages) + (before is None)
        return count <= self._settings.keys and size <= self._settings.kept_bytes

    def note(self, message: Notice) -> None:
        """Keep a message in place of the last one of its key, or forget that key. Events are not kept."""
        if not message.key:
            return
        place = message.kind, message.key
        before = self._messages.pop(place, None)
        self._bytes -= len(before.body) if before is not None else 0
        if message.body:
            self._messages[place] = message
            self._bytes += len(message.body)

    def number_of(self, kind: str, key: str) -> int:
        """The number of the message that is kept; 0 if none is."""
        found = self._messages.get((kind, key))
        return 0 if found is None else found.number


class Subscriptions:
    """Who is called with messages of which kind, and what is kept of them."""

    def __init__(self, settings: ChannelConfig) -> None:
        self.kept = Kept(settings)
        self._receivers: dict[str, list[Subscriber]] = {}

    def add(self, kind: str, receive: Subscriber) -> None:
        """Call `receive` with what is kept of the kind, and from now on with every message of it."""
        self._receivers.setdefault(kind, []).append(receive)
        for message in self.kept:
            if message.kind == kind:
                receive(message)

    def note(self, message: Notice) -> list[Subscriber]:
        """Keep a message if it is state; who is to be called with it."""
        self.kept.note(message)
        return list(self._receivers.get(message.kind, ()))
