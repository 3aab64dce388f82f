"""Marks the messages of a mesh with its key, so that nobody without it is listened to.

For carriers that have no encryption of their own: a message has a mark over the mesh's name, its sender and its bytes. With
several keys the first one marks, and what any of them has marked is taken; so a key is changed without a stop: add the new one at
the end everywhere, then put it first everywhere, then take the old one away. A message that is replayed is taken for what it is,
something that was said before, and changes nothing. Pure.
"""

import base64
import binascii
from collections.abc import Sequence
from hashlib import blake2b
from hmac import compare_digest

from smg_core.settings import ConfigError

__all__ = ["MeshKeys", "read_mesh_keys"]

_KEY_BYTES, _ID_BYTES, _MARK_BYTES = 32, 4, 16


def read_mesh_keys(texts: Sequence[str]) -> tuple[bytes, ...]:
    """The keys of the settings. Raises ConfigError for one that is none; it is not repeated."""
    keys = []
    for number, text in enumerate(texts, start=1):
        try:
            key = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != _KEY_BYTES:
            raise ConfigError(f"mesh.keys: number {number} is not {_KEY_BYTES} bytes in base64")
        keys.append(key)
    return tuple(keys)


class MeshKeys:
    """The keys of a mesh; without any, messages are as they are."""

    def __init__(self, keys: Sequence[bytes], cluster: str) -> None:
        self._cluster = cluster.encode()
        self._keys: dict[bytes, bytes] = {}
        self.adopt(keys)

    def adopt(self, keys: Sequence[bytes]) -> None:
        """Use these keys from now on."""
        self._keys = {blake2b(key, digest_size=_ID_BYTES, person=b"smg mesh key").digest(): key for key in keys}

    def marked(self, sender: str, data: bytes) -> bytes:
        """A message of this sender with its mark before it."""
        for name, key in self._keys.items():
            return name + self._mark(key, sender, data) + data
        return data

    def opened(self, sender: str, data: bytes) -> bytes | None:
        """The message without its mark; None where the mark is not of a key that is known, or of another sender."""
        if not self._keys:
            return data
        key = self._keys.get(data[:_ID_BYTES])
        mark, body = data[_ID_BYTES : _ID_BYTES + _MARK_BYTES], data[_ID_BYTES + _MARK_BYTES :]
        if key is None or not compare_digest(mark, self._mark(key, sender, body)):
            return None
        return body

    def _mark(self, key: bytes, sender: str, data: bytes) -> bytes:
        name = sender.encode()
        head = b"%d %d " % (len(self._cluster), len(name))
        return blake2b(head + self._cluster + name + data, digest_size=_MARK_BYTES, key=key).digest()
