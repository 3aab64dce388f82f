"""Writes docs/demo.svg, which the README shows: a run of `smg-gateway demo` as a terminal, at the pace at which it came.

    .venv/bin/python tools/demo_svg.py

Nothing in it is written by hand: the program runs in a terminal of its own, and what it prints is drawn when it was printed.
"""

import os
import pty
import subprocess
import sys
import time
from html import escape
from pathlib import Path

FILE = Path(__file__).parent.parent / "docs" / "demo.svg"
COLUMNS, LINE, LETTER, MARGIN = 100, 19, 8.4, 16
STYLE = (
    "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d7dde5;white-space:pre}"
    ".p{fill:#7ee787}tspan{animation:s .01s linear both}@keyframes s{from{fill-opacity:0}to{fill-opacity:1}}"
)


def recorded() -> list[tuple[float, str]]:
    """What a run prints, each piece with the seconds since the first one."""
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).parent / "smg-gateway"), "demo"]
    shown = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL)  # noqa: S603  (named here)
    os.close(theirs)
    pieces, began = list[tuple[float, str]](), 0.0
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # how a terminal says that its last program has ended
            piece = b""
        if not piece:
            break
        now = time.monotonic()
        began = began or now
        pieces.append((now - began, piece.decode().replace("\r\n", "\n")))
    if shown.wait():
        raise SystemExit("the demo failed:\n" + "".join(text for _, text in pieces))
    return pieces


def lines_of(pieces: list[tuple[float, str]]) -> list[list[tuple[float, str]]]:
    """The lines of a terminal, each as the pieces that came: a line that is too long goes on in the next."""
    lines: list[list[tuple[float, str]]] = [[]]
    width = 0
    for at, text in pieces:
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
                width = 0
            word = part
            if word and width + len(word.rstrip()) > COLUMNS and len(word) < COLUMNS:
                lines.append([])
                width, word = 0, word.lstrip()
            while len(word) > COLUMNS - width:
                lines[-1].append((at, word[: COLUMNS - width]))
                lines.append([])
                word, width = word[COLUMNS - width :], 0
            if word:
                lines[-1].append((at, word))
                width += len(word)
    return lines


def drawn(lines: list[list[tuple[float, str]]]) -> str:
    """The picture."""
    while lines and not lines[-1]:
        lines.pop()
    width, height = round(COLUMNS * LETTER + 2 * MARGIN), len(lines) * LINE + 3 * MARGIN + LINE
    texts = [f'<text class="p" x="{MARGIN}" y="{MARGIN + LINE}">$ make demo</text>']
    for number, line in enumerate(lines):
        parts = "".join(f'<tspan style="animation-delay:{at:.2f}s">{escape(text)}</tspan>' for at, text in line)
        if parts:
            texts.append(f'<text x="{MARGIN}" y="{MARGIN + (number + 2) * LINE}">{parts}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="A run of make demo">\n<style>{STYLE}</style>\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n' + "\n".join(texts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    FILE.write_text(drawn(lines_of(recorded())))
    print(f"wrote {FILE.relative_to(FILE.parent.parent)}")
