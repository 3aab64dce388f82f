"""Reads the text of one page, as a program that is run for it alone (edge): one can be written so that reading it takes hours.

By trafilatura where that is installed (the extra `web`), else by the standard library, which keeps headings and paragraphs.
Run with the bounds of CPU seconds and of bytes of memory as arguments and the page as UTF-8 on its input; writes its title and
its text as JSON. It imports nothing of this package, so that it runs by its path. Above: `page_reading`. Below: nothing.
"""

import json
import re
import sys
from html.parser import HTMLParser

__all__: list[str] = []

_SPACE = re.compile(r"[ \t\r\f\v]+")
_BLANK = re.compile(r"\n\s*\n+")
_LEFT_OUT = frozenset(
    {"script", "style", "noscript", "template", "svg", "nav", "footer", "aside", "form", "iframe", "head"}
)
_BLOCKS = frozenset(
    {"p", "div", "section", "article", "br", "tr", "table", "ul", "ol", "blockquote", "pre", "main", "header"}
)


class _Plain(HTMLParser):
    """Gathers the text of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self._parts: list[str] = []
        self._hidden: list[str] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = True
        elif tag == "body":
            self._hidden.clear()  # whatever a head has left open
        elif tag in _LEFT_OUT:
            self._hidden.append(tag)
        elif len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
            self._parts.append("\n\n" + "#" * int(tag[1]) + " ")
        elif tag == "li":
            self._parts.append("\n- ")
        elif tag in _BLOCKS:
            self._parts.append("\n\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in self._hidden:
            while self._hidden.pop() != tag:
                pass
        elif tag in _BLOCKS or (len(tag) == 2 and tag[0] == "h"):
            self._parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._hidden:
            self._parts.append(data)

    @property
    def text(self) -> str:
        return _BLANK.sub("\n\n", _SPACE.sub(" ", "".join(self._parts))).strip()


def _read(page: str, *, alone: bool) -> dict[str, str]:
    plain = _Plain()
    plain.feed(page)
    plain.close()
    found, title = "", " ".join("".join(plain.title).split())[:300]
    if not alone:
        try:
            import trafilatura
        except ImportError:
            pass
        else:
            found = trafilatura.extract(page, output_format="markdown", include_comments=False, deduplicate=True) or ""
    return {"title": title, "text": found or plain.text}


def _bound(seconds: int, memory: int) -> None:
    """Have the system end this program after so many seconds of CPU, or over so many bytes of memory, where it can."""
    try:
        import resource
    except ImportError:  # Windows: who has started it ends it after its time
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _main() -> None:
    """Read the page of the input."""
    seconds, memory = int(sys.argv[1]), int(sys.argv[2])
    _bound(seconds, memory)
    page = sys.stdin.buffer.read().decode("utf-8", "replace")
    page_text = _read(page, alone=len(sys.argv) > 3)
    sys.stdout.buffer.write(json.dumps(page_text).encode("utf-8", "replace"))


if __name__ == "__main__":
    _main()
