"""The documentation is true: snippets run, links lead somewhere, generated pages are fresh.

A fenced block that opens with ```python test is run, in a fresh interpreter, with top-level `await` allowed.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.shared import PATIENCE

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])
FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
RUNNER = """
import ast, asyncio, sys, types
code = compile(sys.stdin.read(), "snippet", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
running = types.FunctionType(code, {"__name__": "__main__"})()
asyncio.run(running) if running is not None else None
"""


class Snippet(NamedTuple):
    """A block to run, and where it stands."""

    place: str
    code: str


def snippets() -> list[Snippet]:
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in FENCE.finditer(text):
            if match["kind"].split() == ["python", "test"]:
                line = text.count("\n", 0, match.start()) + 1
                found.append(Snippet(f"{page.relative_to(ROOT)}:{line}", match["body"]))
    return found


SNIPPETS = snippets()


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings have on the web."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.sampled(keep=8)
@pytest.mark.parametrize("snippet", SNIPPETS, ids=[snippet.place for snippet in SNIPPETS])
def test_a_snippet_runs(snippet: Snippet) -> None:
    told = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=snippet.code,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert told.returncode == 0, told.stderr
    assert "Traceback" not in told.stderr


def test_the_readme_has_snippets_that_run() -> None:
    assert len([snippet for snippet in SNIPPETS if snippet.place.startswith("README.md")]) >= 2


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    broken = []
    for target in (match["target"] for match in LINK.finditer(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)

    assert broken == []


def test_the_configuration_page_is_what_the_settings_say() -> None:
    told = subprocess.run(
        [sys.executable, ROOT / "tools" / "config_docs.py", "--check"], capture_output=True, text=True
    )

    assert told.returncode == 0, told.stderr


def test_make_targets_named_in_the_docs_exist() -> None:
    files = [ROOT / "Makefile", *(ROOT / "tests").rglob("*.mk")]
    targets = {name for file in files for name in re.findall(r"^([a-z0-9-]+):", file.read_text(), re.MULTILINE)}
    named = {name for page in PAGES for name in re.findall(r"`make ([a-z0-9-]+)", page.read_text())}

    assert named <= targets


def test_flags_named_in_the_readme_exist() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "smg_core", "serve", "--help-all"], capture_output=True, text=True, check=True
    )
    readme = (ROOT / "README.md").read_text()
    commands = re.findall(r"smg-gateway serve[^\n`]*(?:\\\n[^\n`]*)*", readme)
    flags = {flag for command in commands for flag in re.findall(r"--[a-z-]+", command)}

    assert flags
    assert {flag for flag in flags - {"--help", "--help-all"} if flag not in told.stdout} == set()
