"""Results of the matrix: what each cell gave, kept by the process that runs pytest and written when all is over.

A cell is a test of `tests/matrix` with two properties: "cell", its place in the page, and "result", what came of it. Cells of one
run are added to the file, so that a run of a part leaves the others as they were.
"""

import json
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "build" / "matrix.json"

Cell = tuple[str, str, str, str]
"""API, feature, engine, and "stream" or "whole"."""


class Results:
    """A pytest plugin, registered where results come together."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a cell gave; a cell that failed gave nothing that can be shown."""
        properties: dict[str, Any] = dict(report.user_properties)
        if report.when == "call" and "cell" in properties:
            result = properties.get("result", "") if report.passed else "failed"
            self._found["\t".join(properties["cell"])] = result

    def pytest_sessionfinish(self) -> None:
        if self._found:
            self._file.parent.mkdir(exist_ok=True)
            before = read(self._file)
            self._file.write_text(json.dumps({**before, **self._found}, indent=1, sort_keys=True))


def read(file: Path = FILE) -> dict[str, str]:
    """The results of the last runs, by cell, its words joined by tabs."""
    return json.loads(file.read_text()) if file.exists() else {}
