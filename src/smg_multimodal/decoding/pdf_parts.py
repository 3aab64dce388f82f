"""The drawings of a PDF's pages beside their own contents: forms, fonts and pictures, whose cost is counted before they are read.

A form stands in a page by its name, again and again and in other forms, and a reader works through it, with all its fonts, each
time; a few kilobytes may so be hours of work. Decides how much of that a document may have, and in which order its pictures
stand. Above: `pdf`. Below: `records.errors`, and pypdf's records of what is in a file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from smg_multimodal.records.errors import MediaTooLarge

__all__ = ["FORMS", "PartsBudget", "pictures_drawn"]

_DRAWN = re.compile(rb"/([^\x00\t\n\f\r /<>\[\](){}%]{1,127})[\x00\t\n\f\r ]+Do(?![^\x00\t\n\f\r /<>\[\](){}%])")
_ESCAPED = re.compile(rb"#([0-9A-Fa-f]{2})")
_RESOURCES, _XOBJECT, _FONT, _SUBTYPE = "/Resources", "/XObject", "/Font", "/Subtype"

FORMS = 1000
"""Parts of a page that stand in it again and again, and in each other, counted each time."""
_DEEP = 30
"""Forms in forms in forms."""
_FONTS = 20_000
"""Fonts of all pages and forms, counted each time that a page or form has them: each is worked through anew."""
_TABLES = 64 * 1024 * 1024
"""Bytes that tables of fonts inflate to, counted each time."""
_PICTURES = 10_000
"""Pictures of a document that are looked at."""


@dataclass(slots=True)
class PartsBudget:
    """How much of a document has been counted; `inflated_most` is how many bytes its pages and forms may inflate to."""

    inflated_most: int
    inflated: int = 0
    fonts: int = 0
    tables: int = 0
    seen: set[object] = field(default_factory=set)
    _of_font: dict[object, int] = field(default_factory=dict)

    def add_contents(self, size: int) -> None:
        """A page or a form that inflates to `size` bytes will be worked through. Raises MediaTooLarge."""
        self.inflated += size
        if self.inflated > self.inflated_most:
            raise MediaTooLarge(
                f"the pages of the document, with the forms in them, inflate to more than {self.inflated_most} bytes"
            )

    def add_fonts(self, resources: Any) -> None:
        """The fonts of a page or a form will be worked through. Raises MediaTooLarge."""
        fonts = _dictionary(resources.get(_FONT))
        self.fonts += len(fonts)
        if self.fonts > _FONTS:
            raise MediaTooLarge(f"the pages of the document have more than {_FONTS} fonts, counted for each page")
        for name in fonts:
            self.tables += self._tables_of(_dictionary(fonts.raw_get(name)))
            if self.tables > _TABLES:
                raise MediaTooLarge(f"the fonts of the document have tables of more than {_TABLES} bytes")

    def _tables_of(self, font: Any) -> int:
        key = _key(font)
        if key not in self._of_font:
            described = _dictionary(font.get("/FontDescriptor"))
            tables = (font.get("/ToUnicode"), described.get("/FontFile"), described.get("/FontFile3"))
            self._of_font[key] = sum(_inflated(each) for each in tables)
        return self._of_font[key]


def pictures_drawn(page: Any, contents: bytes, budget: PartsBudget) -> Iterator[Any]:
    """The pictures that a page of these `contents` draws and none before it has, in the order in which it draws them; what its
    forms and fonts cost is added to `budget`. Raises MediaTooLarge."""
    budget.add_contents(len(contents))
    left = [FORMS]
    yield from _drawn_in(page, contents, budget, left, ())


def _drawn_in(
    place: Any, contents: bytes, budget: PartsBudget, left: list[int], around: tuple[object, ...]
) -> Iterator[Any]:
    """`left`: how many more forms of the page are looked into. `around`: the forms that this one stands in."""
    resources = _dictionary(place.get(_RESOURCES))
    budget.add_fonts(resources)
    named = _dictionary(resources.get(_XOBJECT))
    if not named:
        return
    for found in _DRAWN.finditer(contents):
        part = _named(named, _ESCAPED.sub(_unescaped, found[1]))
        if not hasattr(part, "get_data"):
            continue
        key = _key(part)
        if part.get(_SUBTYPE) == "/Image":
            if key not in budget.seen and len(budget.seen) < _PICTURES:
                budget.seen.add(key)
                yield part
        elif key not in around and len(around) < _DEEP and left[0] > 0:
            left[0] -= 1
            data = part.get_data()
            budget.add_contents(len(data))
            yield from _drawn_in(part, data, budget, left, (*around, key))


def _named(parts: Any, name: bytes) -> Any:
    """The part of this name, read in the encodings in which a reader tries names."""
    for encoding in ("utf-8", "gbk", "latin-1"):
        try:
            part = parts.get("/" + name.decode(encoding))
        except UnicodeDecodeError:
            continue
        if part is not None:
            return part.get_object()
    return None


def _unescaped(found: "re.Match[bytes]") -> bytes:
    return bytes([int(found[1], 16)])


def _dictionary(found: Any) -> Any:
    """What `found` is, or refers to, where that is a dictionary; else an empty one."""
    from pypdf.generic import DictionaryObject

    found = None if found is None else found.get_object()
    return found if isinstance(found, DictionaryObject) else DictionaryObject()


def _inflated(table: Any) -> int:
    table = None if table is None else table.get_object()
    return len(table.get_data()) if hasattr(table, "get_data") else 0


def _key(part: Any) -> object:
    """What tells a part of a file from others: its number there, or itself where it has none."""
    reference = getattr(part, "indirect_reference", None)
    return id(part) if reference is None else (reference.idnum, reference.generation)
