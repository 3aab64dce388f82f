"""Media of a request as providers take them: inline as base64, by address, or by the id of a file.

Pure. Above: the encoders. Below: the vocabulary.
"""

import base64

import attrs

from smg_core.engines.vendors.losses import not_for
from smg_core.request import MediaSource

__all__ = ["Inline", "Remote", "provider_media"]


@attrs.frozen
class Inline:
    """Bytes in the request: base64 text and their type."""

    media_type: str
    data: str


@attrs.frozen
class Remote:
    """What the provider fetches itself."""

    url: str


def provider_media(source: MediaSource, path: str, provider: str, usual: str) -> Inline | Remote:
    """The media of `source`, of the type `usual` where nothing says which. Raises UnsupportedParameter for a file's id, which is
    good at whoever made it alone, and for addresses that another machine cannot read."""
    if source.data is not None:
        return Inline(source.media_type or usual, base64.b64encode(source.data).decode())
    if source.text is not None:
        return Inline(source.media_type or "text/plain", base64.b64encode(source.text.encode()).decode())
    if source.file_id is not None:
        raise not_for(f"{path}.source.file_id", provider, "the file is not one of the provider's")
    url = source.url or ""
    if url[:5].lower() == "data:":
        head, comma, data = url[5:].partition(",")
        media_type, _, coding = head.partition(";")
        if not comma or coding.rpartition(";")[2] != "base64":
            raise not_for(f"{path}.source.url", provider, "the data: URL is not base64")
        return Inline(media_type or source.media_type or usual, data)
    if url[:8].lower().startswith(("https://", "http://")):
        return Remote(url)
    raise not_for(f"{path}.source.{'fault' if source.fault is not None else 'url'}", provider)
