"""The ids of files that are kept here, in the form of each API. Pure. Above: the decoders, the kept files. Below: nothing."""

import re

__all__ = ["file_key"]

_KEY = re.compile(
    r"(?:(?:https?://[^/?#\s]{1,300}/)?(?:v1|v1beta|v1alpha)/)?(?:files/|file-|file_)(?P<key>[A-Za-z0-9-]{1,64})"
)


def file_key(text: str) -> str | None:
    """What the id of a file has behind its prefix, in the form of any API: "file-KEY", "file_KEY", "files/KEY", or the address of
    the file in Google's. None for anything else."""
    found = _KEY.fullmatch(text)
    return None if found is None else found["key"]
