"""What the tests of real engines gave, as docs/engines.md: a section for each. A run leaves the others as they are."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill

import attrs
import pytest
from tests.engines.real_engines import ENGINES, ROOT, SECTIONS, RealEngine

PAGE = ROOT / "docs" / "engines.md"
HEAD = """# Real engines

Made by `make test-engines`, which installs each engine in an environment of its own, starts it with `Gateway.launch` and asks it
through the gateway; no line is written by hand. `ENGINES` names those of a run, and the sections of the others stay as they were.
The model is the tiny one of `tests/engines`, on a CPU: figures of speed would mean nothing, and there are none. TensorRT-LLM and
TokenSpeed need a GPU; they run against the embedded engine alone.
"""
SECTION = """## {title}

{versions}
{about}
| test | result |
|---|---|
{rows}
"""


@attrs.define
class Report:
    """Keeps what each test gave, and writes the page when all are over."""

    rows: dict[str, dict[str, str]] = attrs.field(factory=dict)
    """Results by the engine's title and the test's name."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        title = next((text for name, text in report.user_properties if name == "section"), None)
        if not isinstance(title, str) or not (report.when == "call" or report.failed):
            return
        self.rows.setdefault(title, {})[_sentence(report.nodeid)] = report.outcome

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        del exitstatus
        sections = _sections(PAGE)
        for engine in SECTIONS.values():
            if engine.title in self.rows:
                sections[engine.title] = _section(engine, self.rows[engine.title])
        known = [sections[title] for title in SECTIONS if title in sections]
        PAGE.write_text("\n".join([HEAD, *known]))


def _sentence(node: str) -> str:
    """The test's name in words, and what it was given beside the engine."""
    name, _, given = node.rpartition("::")[2].removeprefix("test_").partition("[")
    others = [each for each in given.rstrip("]").split("-") if each and each not in ENGINES]
    return name.replace("_", " ") + (f" [{', '.join(others)}]" if others else "")


def _sections(page: Path) -> dict[str, str]:
    """The sections of the page as it is, by their titles."""
    texts = page.read_text().split("\n## ")[1:] if page.exists() else []
    return {text.partition("\n")[0]: f"## {text.rstrip()}\n" for text in texts}


def _section(engine: RealEngine, rows: Mapping[str, str]) -> str:
    about = f"\n{fill(engine.about, 128)}\n" if engine.about else ""
    table = "\n".join(f"| {name} | {outcome} |" for name, outcome in rows.items())
    return SECTION.format(title=engine.title, versions=_versions(engine), about=about, rows=table)


def _versions(engine: RealEngine) -> str:
    names = list(engine.packages)
    code = f"from importlib.metadata import version; print(*[f'{{n}} {{version(n)}}' for n in {names!r}], sep=', ')"
    asked = subprocess.run([engine.python, "-c", code], capture_output=True, text=True, check=True)
    return asked.stdout.strip()
