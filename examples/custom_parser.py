"""A family of one's own, with a grammar of one's own, held to the law that the built-in ones are held to.

The invented model writes `@@name arguments@@`, where the arguments are `key=value` words, and thinks between `<ponder>` tags.
Run it: `python examples/custom_parser.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from smg_parsers import Family, Parser, Thinking, register
from smg_parsers.lab.lab import examine
from smg_parsers.pieces.base import DONE, FAIL, MORE, Grammar, Sink

LIMIT = 200


@dataclass(frozen=True, slots=True)
class AtCalls:
    """`@@name key=value …@@`"""

    opens: tuple[str, ...] = ("@@",)
    at_start: bool = False
    headers: bool = False

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """A reader for what follows one `@@`."""
        return AtReader(sink)


class AtReader:
    """Waits for the closing `@@`, then passes the whole call on: short calls need no streaming."""

    def __init__(self, sink: Sink) -> None:
        self.status = MORE
        self._sink = sink

    def step(self, buf: str, pos: int, final: bool) -> int:
        """One transition: the whole call, or nothing yet, or no call after all."""
        end = buf.find("@@", pos, pos + LIMIT)
        line = buf.find("\n", pos, pos + LIMIT if end < 0 else end)
        if line >= 0 or (end < 0 and len(buf) - pos >= LIMIT):
            self.status = FAIL
            return line if line >= 0 else pos + LIMIT
        if end < 0:
            return ~pos
        name, *words = buf[pos:end].split() or [""]
        pairs = dict(word.split("=", 1) for word in words if "=" in word)
        if not name.isidentifier() or len(pairs) != len(words) or not self._sink.start(name):
            self.status = FAIL
            return end
        self._sink.arguments(json.dumps(pairs))
        self._sink.end()
        self.status = DONE
        return end + 2

    def finish(self, rest: str) -> None:
        """Nothing to do: a call is passed on whole or not at all."""


ACME = Family(
    "acme",
    patterns=("acme-chat",),
    thinking=Thinking(opens=("<ponder>",), closes=("</ponder>",)),
    calls=(AtCalls(),),
    source="the invention of this example",
)


def main() -> None:
    """Register the family, read one output, and hold the parser to the law."""
    register(ACME)
    output = "<ponder>Which city?</ponder>Let me look. @@get_weather city=Paris days=2@@ and @@ is just a sign."
    for piece in Parser.for_model("acme/Acme-Chat-7B", call_id=lambda: "call_1").parse(output):
        print(piece)
    report = examine(
        "acme", lambda: Parser(ACME, call_id=lambda: "call_1"), [output, "a@@b@@c@", "@@x y=1\n@@"], family=ACME
    )
    print(report)
    assert report.passed


if __name__ == "__main__":
    main()
