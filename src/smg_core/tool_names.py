"""The name by which a model knows a tool that runs here: the server's label and the tool's own name in one.

All APIs and engines take names of letters, digits, dashes and underscores, 64 characters at most. Pure. Above: the decoders, the
pipeline. Below: nothing.
"""

import hashlib
import re

__all__ = ["flat_name"]

_LONGEST = 64  # characters that a function's name may have in every API
_DIGEST = 8  # characters of a digest that stand for the rest of a longer name
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def flat_name(label: str, name: str) -> str:
    """The name before the model of the tool `name` of the server `label`. The same two always give the same name; a name that is
    too long is cut, and ends with a digest of the whole."""
    whole = f"{label}__{name}"
    flat = _ILLEGAL.sub("_", whole)
    if len(flat) <= _LONGEST:
        return flat
    digest = hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=_DIGEST // 2).hexdigest()
    return f"{flat[: _LONGEST - _DIGEST - 1]}_{digest}"
