"""A worker's headers, and how they are kept out of what is said of it.

Decides which parts of the headers are secrets, and hides them in an error's detail: an engine may repeat in its error what it
was sent, and details are logged. Pure. Above: engines.grpc.credentials, engines.openai. Below: errors.
"""

from collections.abc import Iterable
from typing import TypeVar

from smg_core.errors import SmgError

__all__ = ["SecretHeaders"]

E = TypeVar("E", bound=SmgError)

SHORTEST = 4  # characters; hiding shorter texts would make every detail unreadable


class SecretHeaders:
    """Headers whose values are not shown: `fields` has them as they are sent."""

    __slots__ = ("_secrets", "fields")

    def __init__(self, headers: Iterable[tuple[str, str]]) -> None:
        self.fields = tuple(headers)
        # each header's value, and what follows a scheme in it ("Bearer ..."); the longest first
        parts = {part for _, value in self.fields for part in (value, value.partition(" ")[2])}
        self._secrets = sorted((part for part in parts if len(part) >= SHORTEST), key=len, reverse=True)

    def __repr__(self) -> str:
        return f"<headers {', '.join(name for name, _ in self.fields) or 'none'}>"

    def hide(self, error: E) -> E:
        """The same error, whose detail has "***" in place of each secret."""
        for secret in self._secrets:
            if error.detail:
                error.detail = error.detail.replace(secret, "***")
                error.outside_text = error.outside_text.replace(secret, "***")
        return error
