"""Tests of the tiers: each test is in one of them, `make test` has a case of each cell, and a failing run says how to go on."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from tests.tiers import OTHERS, ROOT, TIERS, command, read, remember

pytest_plugins = ["pytester"]

PARTS = ["test", "test-rest", "architecture", *(f"test-{each}" for each in OTHERS if each != "rules")]
# Without faulthandler: a run within this process would put its handlers of signals before wasmtime's, and the next component that
# traps in this process would end it.
SETTINGS = (
    "[pytest]\naddopts = --strict-markers --import-mode=importlib -p no:cacheprovider -p no:faulthandler\n"
    "markers =\n full\n sampled\n " + "\n ".join(OTHERS)
)
CONFTEST = """
import pytest
from tests import tiers

pytest_addoption = tiers.options
pytest_configure = tiers.choose

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter):
    yield
    tiers.alone(terminalreporter)

def pytest_ignore_collect(collection_path, config):
    return tiers.is_left_out(collection_path, config.getoption("--tier")) or None

@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector, obj):
    return [] if tiers.has_no_case(obj, collector.config.getoption("--tier")) else None

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    tiers.sample(items)
"""


@pytest.fixture
def house(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.Pytester]:
    pytester.makeini(SETTINGS)
    pytester.makeconftest(CONFTEST)
    pytester.syspathinsert(ROOT)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'src'}")
    profile = settings.get_current_profile_name()
    yield pytester
    settings.load_profile(profile)  # that of a tier is for the whole process


def collected(house: pytest.Pytester, tier: str) -> set[str]:
    done = house.runpytest_inprocess("--collect-only", "-q", "-p", "no:xdist", "--tier", tier)
    return {line.partition("::")[2] for line in done.outlines if "::" in line}


@pytest.mark.full
def test_each_test_is_in_one_tier_and_all_that_need_no_program_in_test_all(house: pytest.Pytester) -> None:
    marked = "\n".join(f"@pytest.mark.{each}\ndef test_{each}(): pass\n" for each in ("full", *OTHERS))
    house.makepyfile(f"import pytest\n\ndef test_plain(): pass\n\n{marked}")
    found = {part: collected(house, part) for part in PARTS}
    assert found["test"] == {"test_plain"}
    assert found["test-rest"] == {"test_full"}
    assert collected(house, "test-all") == {"test_plain", "test_full"}
    assert sorted(each for tests in found.values() for each in tests) == sorted(
        ["test_plain", "test_full", *(f"test_{each}" for each in OTHERS)]
    )


@pytest.mark.full
@pytest.mark.parametrize("marks", ["pytest.mark.rules", "[\n    pytest.mark.slow,\n    pytest.mark.rules,\n]"])
def test_a_module_of_which_a_tier_has_nothing_is_not_imported(house: pytest.Pytester, marks: str) -> None:
    house.makepyfile(
        test_of_all="def test_plain(): pass",
        test_of_rules=f"import pytest\n\npytestmark = {marks}\n\nprint('imported')\n\ndef test_rule(): pass\n",
    )
    for tier, imported in (("test", False), ("test-all", False), ("architecture", True)):
        done = house.runpytest_inprocess("--collect-only", "-q", "-s", "-p", "no:xdist", "--tier", tier)
        assert ("imported" in done.outlines) is imported, tier


@pytest.mark.full
def test_cases_of_a_test_that_a_tier_leaves_out_whole_are_not_made(house: pytest.Pytester) -> None:
    house.makepyfile(
        "import pytest\n\n@pytest.mark.full\n@pytest.mark.parametrize('number', range(3))\ndef test_many(number): pass\n\n"
        "@pytest.mark.slow\nclass TestSlow:\n    def test_one(self): pass\n\ndef test_plain(): pass\n"
    )
    for tier, made in (("test", 1), ("test-all", 4), ("test-slow", 5)):
        done = house.runpytest_inprocess("--collect-only", "-p", "no:xdist", "--tier", tier)
        counted = next(line for line in done.outlines if line.startswith("collected "))
        assert counted.startswith(f"collected {made} item"), tier


@pytest.mark.full
def test_a_tier_is_chosen_in_each_of_several_processes(house: pytest.Pytester) -> None:
    house.makepyfile("import pytest\n\ndef test_plain(): pass\n\n@pytest.mark.full\ndef test_full(): pass\n")
    for tier, name in (("test", "test_plain"), ("test-rest", "test_full")):
        done = house.runpytest_subprocess("-v", "-n", "2", "--tier", tier)
        done.assert_outcomes(passed=1)
        done.stdout.fnmatch_lines([f"*PASSED*::{name}*"])


SAMPLED = """
import pytest

FEATURES = [type("F", (), {{"name": name}}) for name in ("text", "tools")]

@pytest.mark.sampled(per=("engine", "feature.name"){keep})
@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.parametrize("feature", FEATURES, ids=["text", "tools"])
@pytest.mark.parametrize("engine", ["a", "b", pytest.param("c", marks=pytest.mark.slow)])
def test_cell(engine, feature, way): pass

def test_other(): pass
"""


@pytest.mark.full
def test_of_a_sampled_test_one_case_of_each_cell_is_in_make_test_and_the_others_in_the_rest(
    house: pytest.Pytester,
) -> None:
    house.makepyfile(SAMPLED.format(keep=""))
    some, rest = collected(house, "test"), collected(house, "test-rest")
    assert some == {
        *(
            "test_cell[a-text-whole]",
            "test_cell[a-tools-stream]",
            "test_cell[b-text-whole]",
            "test_cell[b-tools-stream]",
        ),
        "test_other",
    }
    assert not some & rest
    assert some | rest == collected(house, "test-all")
    assert len(collected(house, "test-slow")) == 4


def test_a_sample_keeps_as_many_of_each_cell_as_it_is_told(house: pytest.Pytester) -> None:
    house.makepyfile(SAMPLED.format(keep=", keep=2"))
    assert len(collected(house, "test")) == 9
    assert collected(house, "test-rest") == set()


def test_a_sample_per_a_parameter_that_the_test_lacks_is_an_error(house: pytest.Pytester) -> None:
    house.makepyfile(SAMPLED.replace("feature.name", "nothing").format(keep=""))
    done = house.runpytest_inprocess("--collect-only", "-p", "no:xdist")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*sampled is per nothing, and the test has no such parameter*"])


PROPERTY = """
from hypothesis import given, settings, strategies as st
from tests.tiers import examples

asked = []

@settings(max_examples=examples(500), database=None)
@given(st.integers())
def test_any(number): asked.append(number)

def test_how_many(): assert len(asked) {expected}
"""


@pytest.mark.full
@pytest.mark.parametrize(("tier", "expected"), [("test", "== 100"), ("test-all", "== 500")])
def test_a_property_test_has_few_examples_in_make_test_and_all_in_make_test_all(
    house: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tier: str, expected: str
) -> None:
    monkeypatch.delenv("CI", raising=False)
    house.makepyfile(PROPERTY.format(expected=expected))
    done = house.runpytest_subprocess("-q", "-p", "no:xdist", "--tier", tier)
    done.assert_outcomes(passed=2)


def test_in_ci_a_property_test_runs_once_with_all_examples_in_the_rest(
    house: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    house.makepyfile(PROPERTY.format(expected=""))
    assert collected(house, "test") == {"test_how_many"}
    assert collected(house, "test-rest") == {"test_any"}


def test_a_run_says_at_its_start_what_runs_and_how_many(house: pytest.Pytester) -> None:
    house.makepyfile("def test_a(): pass\ndef test_b(): pass\n")
    done = house.runpytest_inprocess("-q", "-p", "no:xdist", "--tier", "test")
    done.stdout.fnmatch_lines([f"make test: {TIERS['test'].what}; *", "make test: 2 tests, *"])


@pytest.mark.full
def test_a_failing_run_ends_with_the_command_that_runs_what_failed_alone(house: pytest.Pytester) -> None:
    house.makepyfile("import pytest\n\n@pytest.mark.parametrize('x', ['a b'])\ndef test_a(x): assert not x\n")
    done = house.runpytest_inprocess("-q", "-p", "no:xdist")
    name = "test_a_failing_run_ends_with_the_command_that_runs_what_failed_alone.py::test_a[a b]"
    done.stdout.fnmatch_lines(["*run what failed alone*", command(name).replace("[", "[[]"), "1 failed*"])


def test_how_long_a_tier_took_is_kept_with_its_machine_beside_the_others(tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    remember({"test-all": 1000.4, "test": 300.2}, file)
    remember({"test": 280.0}, file)
    found = read(file)
    assert {name: each["seconds"] for name, each in found.items()} == {"test": 280, "test-all": 1000}
    assert found["test"]["cores"] == os.cpu_count()
    assert json.loads(file.read_text()) == found
