"""The vision example and notebook run as they stand, and the documentation's snippets do."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.shared import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def run(code: str, *arguments: str) -> str:
    out = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=ROOT,
    )
    assert out.returncode == 0, out.stderr
    return out.stdout


@pytest.mark.full
def test_the_vision_example_prints_where_its_picture_lies() -> None:
    out = run((ROOT / "examples" / "vision.py").read_text())
    assert "the picture has Span(offset=6, length=" in out
    assert "flat by {'pixel_values': 'patches_per_image'}" in out


@pytest.mark.full
def test_the_notebook_runs_from_top_to_bottom() -> None:
    notebook = json.loads((ROOT / "examples" / "vision_tiles.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    out = run("\n\n".join(cells) + "\nassert sheet.size == (columns * 346, rows * 346 + 346)")
    assert "receive embeddings" in out


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "multimodal").glob("*.md")), ids=lambda page: page.stem)
def test_the_snippets_of_a_page_run_one_after_the_other(page: Path) -> None:
    snippets = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    if snippets:
        run("\n\n".join(snippets))
