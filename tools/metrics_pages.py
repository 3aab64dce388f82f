"""Writes what is made of the table of metrics: the dashboard and the alert rules in deploy/, and the tables of
docs/observability.md; with `--check`, only says whether they are up to date.

python tools/metrics_pages.py [--check]
"""

import sys
from pathlib import Path

from smg_core.observability.metrics.dashboard import alert_rules, dashboard, metrics_table, smg_names_table

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- metrics: written by tools/metrics_pages.py -->\n", "<!-- end of metrics -->\n"
BEGIN_SMG, END_SMG = BEGIN.replace("metrics:", "SMG's names:"), "<!-- end of SMG's names -->\n"


def pages() -> dict[Path, str]:
    """Every file with the text that it should have."""
    page = ROOT / "docs" / "observability.md"
    text = _between(page.read_text(), BEGIN, END, metrics_table())
    text = _between(text, BEGIN_SMG, END_SMG, smg_names_table())
    return {
        ROOT / "deploy" / "grafana-dashboard.json": dashboard(),
        ROOT / "deploy" / "prometheus-alerts.yml": alert_rules(),
        page: text,
    }


def _between(text: str, begin: str, end: str, new: str) -> str:
    """A text with `new` in place of what is between two marks."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}{new}{end}{after}"


def main() -> int:
    if "--check" not in sys.argv:
        for path, text in pages().items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return 0
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is not what the table of metrics says: run `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
