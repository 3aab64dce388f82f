"""The examples of the README are typed: mypy and pyright, both strict, find nothing in them."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.clients.versions import install_apart
from tests.shared import PATIENCE

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python test\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def written(folder: Path, *pages: str) -> list[str]:
    """The files with an example each: what awaits at the top, as in a notebook, stands in a coroutine there."""
    files = []
    for page in pages:
        for at, block in enumerate(BLOCK.finditer((ROOT / page).read_text())):
            code = block["code"]
            if re.search(r"^(async (with|for)|await|\w+ = await) ", code, re.MULTILINE):
                imports = "".join(f"{line}\n" for line in code.splitlines() if re.match(r"(from|import) ", line))
                rest = "".join(f"{line}\n" for line in code.splitlines() if not re.match(r"(from|import) ", line))
                code = f"{imports}\n\nasync def main() -> None:\n{textwrap.indent(rest, '    ')}"
            path = folder / f"{Path(page).stem.lower().replace('-', '_')}_{at}.py"
            path.write_text(code)
            files.append(str(path))
    return files


@pytest.mark.full  # mypy reads the whole package, which takes some seconds
def test_mypy_finds_nothing_in_the_examples(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *written(tmp_path, "README.md", "docs/engine-contract.md")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert told.returncode == 0, told.stdout


@pytest.mark.clients
def test_pyright_finds_nothing_in_the_examples(tmp_path: Path) -> None:
    written(tmp_path, "README.md")
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT / "src")], "include": ["*.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    told = subprocess.run(
        [install_apart("basedpyright") / "basedpyright", "--pythonpath", sys.executable, "-p", tmp_path],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert told.returncode == 0, told.stdout
