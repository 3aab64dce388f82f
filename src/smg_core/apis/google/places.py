"""The places in a body of Google's APIs that parts of messages and tools were read from: the fields that errors name.

Pure. Above: the decoders of generateContent and Interactions.
"""

from collections.abc import Sequence

__all__ = ["part_place", "tool_place"]


def part_place(path: str, places: Sequence[Sequence[str]], whole: str) -> str:
    """The field of `path`, such as `messages[1].parts[0]`; `places` has that of each part of each message, and `whole` is the
    field of a part without one."""
    place, _, rest = path.removeprefix("messages[").partition("]")
    parts = places[int(place)]
    order = rest.removeprefix(".parts[").partition("]")[0] if rest.startswith(".parts[") else "0"
    return parts[int(order)] if int(order) < len(parts) else whole


def tool_place(path: str, places: Sequence[str]) -> str | None:
    """The field of `path`, such as `tools[1].name`; `places` has that of each tool. None for a path that is none of one tool."""
    root, _, rest = path.partition(".")
    if not (root.startswith("tools[") and root[6:-1].isdecimal()):
        return None
    at = places[int(root[6:-1])]
    return f"{at}.{rest}" if rest else at
