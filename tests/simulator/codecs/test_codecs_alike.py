"""What the simulator's codecs have alike is written once."""

import ast
from collections import defaultdict
from pathlib import Path

from tests.source import parsed

import smg_simulator.codecs

FEW = 5
"""Lines that may be the same in two codecs: the head of a method and its first words."""


def code_lines(path: Path) -> list[tuple[int, str]]:
    """The lines of a module that say something, by number, without imports."""
    text = path.read_text()
    imports = [node for node in ast.walk(parsed(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    left_out = {number for node in imports for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines = [(number, " ".join(line.split())) for number, line in enumerate(text.splitlines(), 1)]
    return [each for each in lines if each[0] not in left_out and any(map(str.isalnum, each[1]))]


def test_no_six_lines_of_the_codecs_stand_twice() -> None:
    places: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in sorted(Path(smg_simulator.codecs.__path__[0]).glob("*.py")):
        lines = code_lines(path)
        for at in range(len(lines) - FEW):
            places[tuple(line for _, line in lines[at : at + FEW + 1])].append(f"{path.name}:{lines[at][0]}")

    assert [found for found in places.values() if len(found) > 1] == []
