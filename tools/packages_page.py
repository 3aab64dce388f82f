"""Writes the table of packages of ARCHITECTURE.md from the first lines of their docstrings: `make docs`; `--check` compares."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- packages -->\n", "<!-- end of packages -->\n"


def rows() -> Iterator[str]:
    """A row for each package on the top level of `smg_core`, and for each library beside it."""
    core = ROOT / "src" / "smg_core"
    for path in sorted(core.iterdir()):
        if (path / "__init__.py").exists():
            yield _row(f"{path.name}/", path / "__init__.py")
    for path in sorted((ROOT / "src").iterdir()):
        if path != core and (path / "__init__.py").exists():
            yield _row(f"{path.name}/", path / "__init__.py")


def _row(name: str, path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    first = " ".join(text.partition("\n\n")[0].split()).replace(" (edge)", "")
    sentence = first.partition(". ")[0].removesuffix(".").removeprefix(f"{path.parent.name}: ")
    return f"| `{name}` | {sentence.replace('|', ',')} |\n"


def main() -> int:
    """Write the page, or say where it differs; the exit status."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    made = f"{before}{BEGIN}| package | what is in it |\n|---|---|\n{''.join(rows())}{END}{after}"
    if "--check" in sys.argv:
        same = made == PAGE.read_text()
        print("" if same else "ARCHITECTURE.md: the table of packages is not that of the sources; make docs")
        return 0 if same else 1
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
