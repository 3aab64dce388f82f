"""Writes the table of docs/providers.md from the cells beside the encoders; with `--check`, only says whether it is up to date.

python tools/providers_page.py [--check]
"""

import sys
from pathlib import Path

from smg_core.engines.vendors.anthropic import concepts as anthropic
from smg_core.engines.vendors.bedrock import concepts as bedrock
from smg_core.engines.vendors.chat import concepts as azure
from smg_core.engines.vendors.concepts_page import concepts_table
from smg_core.engines.vendors.gemini import concepts as gemini
from smg_core.engines.vendors.responses import concepts as responses

PAGE = Path(__file__).parent.parent / "docs" / "providers.md"
BEGIN, END = "<!-- concepts: written by tools/providers_page.py -->\n", "<!-- end of concepts -->\n"
KINDS = {"anthropic": anthropic, "gemini": gemini, "openai-responses": responses, "bedrock": bedrock, "azure": azure}


def page() -> str:
    """The page as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    table = concepts_table({kind: (each.MODEL, each.CELLS) for kind, each in KINDS.items()})
    return f"{before}{BEGIN}{table}{END}{after}"


def main() -> int:
    if "--check" not in sys.argv:
        PAGE.write_text(page())
        return 0
    if PAGE.read_text() == page():
        return 0
    print("docs/providers.md is not what the formats say: run `make docs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
