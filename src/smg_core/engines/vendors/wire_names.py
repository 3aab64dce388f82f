"""The names and ids of tools and calls as a provider takes them, and back.

Providers differ in which characters and how many they take. A name that fits is sent as it is; another one is rewritten, always
in the same way, and what the model calls by it is mapped back. Pure. Above: the formats. Below: nothing.
"""

import hashlib
import re

import attrs

__all__ = ["SentNames", "wire_id"]

_DIGEST = 8  # characters of a digest that stand for the rest of a name


@attrs.frozen
class SentNames:
    """Names for one request. At most `longest` characters of letters, digits, "_" and "-"; `letter_first`: it begins with a
    letter or "_". A tool of a namespace has that before its name. `changed` has the names that were rewritten, or joined."""

    longest: int
    letter_first: bool = False
    changed: dict[str, tuple[str, str | None]] = attrs.field(factory=dict)

    def wire(self, name: str, namespace: str | None = None) -> str:
        """The name to send."""
        whole = name if namespace is None else f"{namespace}__{name}"
        flat = re.sub(r"[^a-zA-Z0-9_-]", "_", whole)
        if self.letter_first and not re.match(r"[a-zA-Z_]", flat):
            flat = f"_{flat}"
        if len(flat) > self.longest or flat != whole:
            flat = f"{flat[: self.longest - _DIGEST - 1]}_{_digest(whole)}"
        if flat != name:
            self.changed[flat] = (name, namespace)
        return flat

    def own(self, wire: str) -> tuple[str, str | None]:
        """The tool's name and namespace, of a name that the model calls."""
        return self.changed.get(wire, (wire, None))


def wire_id(call_id: str, *, longest: int, allowed: str = "a-zA-Z0-9_-") -> str:
    """The id of a call as it is sent: unchanged where it fits, else a digest of it. A call and its result get the same one."""
    if 0 < len(call_id) <= longest and re.fullmatch(f"[{allowed}]+", call_id):
        return call_id
    return f"call_{_digest(call_id, 16)}"[:longest]


def _digest(text: str, length: int = _DIGEST) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=length // 2).hexdigest()
