"""Writes ``<family>.json`` beside it: the situations of ``scenarios.py``, and the cases by hand that the file already holds.

A case whose source begins with "format:" is a situation laid out by the family's writer and is made anew; every other case was
written by hand into the JSON file and is kept as it is. The tests read the JSON files only. From the repository's root:
``PYTHONPATH=tests/parsers python tests/parsers/corpus/build.py``. With ``--check`` it writes nothing and names each file that is
not as it would be written.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from scenarios import SCENARIOS
from writers import WRITERS

HERE = Path(__file__).resolve().parent


def by_hand(path: Path) -> list[dict[str, Any]]:
    """The cases of the file that no program made."""
    if not path.exists():
        return []
    cases: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [case for case in cases if not case["source"].startswith("format:")]


def family_cases(family: str, path: Path) -> list[dict[str, Any]]:
    """All cases of a family, those by hand first."""
    made = by_hand(path)
    form = WRITERS.get(family)
    if form is not None:
        made.extend(case for scenario in SCENARIOS for case in scenario(form))
    names = [case["name"] for case in made]
    if len(set(names)) != len(names):
        raise ValueError(
            f"{family}: two cases have one name: {sorted(name for name in names if names.count(name) > 1)}"
        )
    return made


def dump(family: str, source: str, cases: list[dict[str, Any]]) -> str:
    """The file's text, one case to a line, so that a change of a case is a change of a line."""
    lines = ",\n".join(json.dumps(case, ensure_ascii=False).replace("\u2028", "\\u2028") for case in cases)
    return f'{{"family": {json.dumps(family)}, "source": {json.dumps(source)}, "cases": [\n{lines}\n]}}\n'


def main() -> None:
    """Write every family's file, or say which is not as it would be written."""
    total = 0
    check = "--check" in sys.argv[1:]
    for family in sorted({*WRITERS, *(path.stem for path in HERE.glob("*.json"))}):
        path = HERE / f"{family}.json"
        cases = family_cases(family, path)
        source = WRITERS[family].source if family in WRITERS else cases[0]["source"]
        text = dump(family, source, cases)
        if not check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.name} lacks a situation, or has one that no writer lays out")
        total += len(cases)
    sys.stdout.write(f"{total} cases\n")


if __name__ == "__main__":
    main()
