"""Words about pictures that depend on each other, checked alike in the APIs that take them.

Pure. Above: the decoders of images and of the tool that makes pictures. Below: errors.
"""

from collections.abc import Mapping

from smg_core.errors import InvalidRequest
from smg_core.json_types import Json

__all__ = ["check_image_terms"]

_EDGE = 4096  # of a size in pixels


def check_image_terms(wishes: Mapping[str, Json], at: str) -> None:
    """Check words for the engine that depend on each other. `at` is what stands before their names. Raises InvalidRequest."""
    size, format_ = wishes.get("size"), wishes.get("output_format") or "png"
    if isinstance(size, str) and size != "auto" and not _is_size(size):
        raise InvalidRequest(
            f"Invalid '{at}size': 'auto' or WIDTHxHEIGHT, each from 1 to {_EDGE}.",
            param=f"{at}size",
            code="invalid_value",
        )
    if wishes.get("output_compression") is not None and format_ not in ("webp", "jpeg"):
        raise InvalidRequest(
            f"Invalid '{at}output_compression': only webp and jpeg have one.", param=f"{at}output_compression"
        )
    if wishes.get("background") == "transparent" and format_ == "jpeg":
        raise InvalidRequest(f"Invalid '{at}background': a jpeg cannot be transparent.", param=f"{at}background")


def _is_size(text: str) -> bool:
    width, _, height = text.partition("x")
    return all(
        each.isascii() and each.isdecimal() and len(each) < 5 and 1 <= int(each) <= _EDGE for each in (width, height)
    )
