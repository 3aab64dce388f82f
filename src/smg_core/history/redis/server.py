"""Whether a Redis can keep what the history promises, by what it says of itself.

Pure. Above: `store`, at the start. Below: nothing.
"""

from collections.abc import Mapping

__all__ = ["redis_fault"]

_OLDEST = 7
"""The first version that refuses a script as a whole where memory is short."""


def redis_fault(info: Mapping[str, object]) -> str:
    """Why the server cannot have the history, "" if it can. `info` is its answer to INFO; what it leaves out is not judged."""
    version = str(info.get("redis_version", _OLDEST))
    if _number(version.partition(".")[0]) < _OLDEST:
        return f"this Redis is of version {version}; {_OLDEST} is the oldest that will do"
    if info.get("role") == "slave":
        return "this Redis is a replica, and the history has to be written; name the primary"
    if info.get("redis_mode") == "cluster":
        return "this Redis is a cluster, which does not write several keys at once; name a single server"
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if _number(info.get("maxmemory", 0)) and policy != "noeviction":
        return (
            f"this Redis evicts what is kept when its memory is full (maxmemory-policy {policy}); set it to noeviction"
        )
    return ""


def _number(value: object) -> int:
    text = str(value)
    return int(text) if text.isdecimal() else 0
