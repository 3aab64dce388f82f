"""The lab's page: one HTML file that needs nothing else.

Decides: how a matrix of verdicts and the steps through a transcript look. Every text from outside is escaped.
Above: `lab`. Below: nothing.
Does not know: what was checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1b1f24; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem; }
tr { border-bottom: 1px solid #d8dee4; } code, pre { font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; }
.kept { color: #116329; } .broken { color: #a40e26; font-weight: 700; } .not { color: #6e7781; }
.step { display: none; } .step.now { display: table-row; background: #fff8c5; } .step.past { display: table-row; }
button { font: inherit; padding: .2rem .8rem; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; } tr { border-color: #30363d; }
.kept { color: #56d364; } .broken { color: #ff7b72; } .step.now { background: #3b2e00; } }
"""
_SCRIPT: Final = """
const tables = [...document.querySelectorAll('.steps')], choice = document.querySelector('#choice'); let rows = [], at = 0;
function show() { rows.forEach((row, n) => row.className = 'step ' + (n < at ? 'past' : n === at ? 'now' : '')); }
function go(by) { at = Math.max(0, Math.min(rows.length - 1, at + by)); show(); }
function all() { at = rows.length - 1; show(); }
function choose() {
  tables.forEach((table, n) => table.hidden = n !== choice.selectedIndex);
  rows = [...tables[choice.selectedIndex].querySelectorAll('.step')]; at = 0; show();
}
choice.addEventListener('change', choose);
document.addEventListener('keydown', e => {
  if (e.target === choice) return;
  if (e.key === 'ArrowRight') go(1); if (e.key === 'ArrowLeft') go(-1);
});
choose();
"""


@dataclass(frozen=True, slots=True)
class FedChunk:
    """One chunk that was fed to the parser, and the pieces that came out."""

    chunk: str
    pieces: tuple[str, ...]


def page(
    laws: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str], str]],
    stepped: Sequence[tuple[str, Sequence[FedChunk]]],
) -> str:
    """The page's HTML. `rows` are name, verdict per law, and the report in full; `stepped` are names and their steps."""
    head = "".join(f"<th>{escape(law)}</th>" for law in laws)
    body = "".join(_row(*row) for row in rows)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Parser lab</title><style>{_STYLE}</style><h1>Parser lab</h1>"
        f"<table><thead><tr><th>parser</th>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{_steps(stepped) if stepped else ''}</html>\n"
    )


def _row(name: str, verdicts: Sequence[str], report: str) -> str:
    cells = "".join(f"<td class={verdict.split()[0]}>{escape(verdict)}</td>" for verdict in verdicts)
    row = f"<details><summary>{escape(name)}</summary><pre>{escape(report)}</pre></details>"
    return f"<tr><td>{row}</td>{cells}</tr>"


def _steps(stepped: Sequence[tuple[str, Sequence[FedChunk]]]) -> str:
    """One table of steps for each, of which the reader chooses one."""
    options = "".join(f"<option>{escape(name)}</option>" for name, _ in stepped)
    tables = "".join(_table(steps) for _, steps in stepped)
    return (
        f"<h2>Step by step</h2><p><select id=choice>{options}</select> <button onclick='go(-1)'>back</button> "
        "<button onclick='go(1)'>on</button> or the arrow keys, <button onclick='all()'>to the end</button></p>"
        f"{tables}<script>{_SCRIPT}</script>"
    )


def _table(steps: Sequence[FedChunk]) -> str:
    rows = "".join(
        f"<tr class=step><td><code>{escape(repr(step.chunk) if step.chunk else 'finish()')}</code></td>"
        f"<td><code>{'<br>'.join(escape(piece) for piece in step.pieces) or '&mdash;'}</code></td></tr>"
        for step in steps
    )
    return (
        f"<table class=steps hidden><thead><tr><th>fed</th><th>came out</th></tr></thead><tbody>{rows}</tbody></table>"
    )
