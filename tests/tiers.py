"""The tiers of the tests: which a make target runs, what it says at its start and at its end, and how long each took.

A tier is an expression of markers. A test that a tier leaves out is deselected, never skipped, and its marker stands beside it:
`full` on a test or on a parameter, or `sampled` on a test with many cases, of which `make test` then runs some of each cell.
"""

import functools
import json
import os
import platform
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from types import FunctionType
from typing import Any

import attrs
import pytest
from hypothesis import is_hypothesis_test, settings

ROOT = Path(__file__).parent.parent
TIMES = Path(__file__).parent / "times.json"
OTHERS = ("rules", "slow", "real", "services", "clients", "engines")
FEW = 20
"""Examples of a property test in `make test`; the rest of `make test-all` has all that it asks for."""
SHOWN = 20
"""Commands that a failing run ends with, at most."""
ENVIRONMENT = ("CI", "SMG_INTEROP", "SMG_ENGINES", "SMG_REAL_ENGINE", "SMG_REAL_MODEL")
"""Variables that change what a test does: a command that runs one again has them too."""


@attrs.frozen
class Tier:
    """Which tests: an expression of markers, and what they are, in words."""

    markers: str
    what: str


EVERYWHERE = " and ".join(f"not {each}" for each in OTHERS)
TIERS = {
    "test": Tier(
        f"not full and {EVERYWHERE}",
        "the unit tests of every module, one path of each cell of the matrix, each API whole and streamed, one real process",
    ),
    "test-rest": Tier(f"full and {EVERYWHERE}", "the cases of make test-all that make test leaves out"),
    "test-all": Tier(EVERYWHERE, "every test that needs no program beside Python's"),
    "test-slow": Tier("slow", "long tests: every picture, every position of a fault"),
    "test-services": Tier("services", "what needs the programs that tools/services.sh installs"),
    "test-interop": Tier("", "the HTTP/2 transport against a gRPC server under Node.js"),
    "test-clients": Tier("clients", "clients from npm and PyPI against a gateway"),
    "test-real": Tier("real", "the client tests against a real engine"),
    "test-engines": Tier("engines", "real engines on the CPU, asked through the gateway"),
    "architecture": Tier("rules", "the rules of rooms, public names, sizes, bounds and waiting"),
}


def options(parser: pytest.Parser) -> None:
    """Add what make passes."""
    parser.addoption("--tier", choices=sorted(TIERS), help="run the tests of this make target, and say so")
    parser.addoption("--keep-times", action="store_true", help="write to tests/times.json how long the tier took")


def choose(config: pytest.Config) -> None:
    """Select the tier's tests by their markers, together with what `-m` asks for."""
    name = config.getoption("--tier")
    if name == "test":
        settings.register_profile("few", settings.default, max_examples=FEW)
        settings.load_profile("few")
    if name is None:
        return
    also = config.option.markexpr  # in a process of xdist's too: it may have been told of the expression or not
    config.option.markexpr = " and ".join(f"({each})" for each in (TIERS[name].markers, also) if each)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Told(name, config))


_MODULE_MARKS = re.compile(r"^pytestmark = .*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def is_left_out(module: Path, tier: str | None) -> bool:
    """Whether a tier has no test of a module, by the marks that the whole module has. Such a module is not imported: half of the
    time before the first test goes to importing."""
    if tier is None or not module.name.startswith("test_"):
        return False
    found = _MODULE_MARKS.search(module.read_text(encoding="utf-8"))
    marks = set(re.findall(r"pytest\.mark\.(\w+)", found[0])) if found else set()
    return not marks.isdisjoint(_marks_left_out(tier))


def has_no_case(test: object, tier: str | None) -> bool:
    """Whether a tier has no case of a function or of a class, by the marks that stand at it: its cases are not made, and one test
    may have thousands."""
    if tier is None or not isinstance(test, type | FunctionType):
        return False
    stands = getattr(test, "pytestmark", ())  # a class may name one, or a list
    marks = {each.name for each in (stands if isinstance(stands, list | tuple) else (stands,))}
    return not marks.isdisjoint(_marks_left_out(tier))


@functools.cache
def _marks_left_out(tier: str) -> frozenset[str]:
    return frozenset(re.findall(r"not (\w+)", TIERS[tier].markers))


def examples(count: int) -> int:
    """How many examples a property test has that asks for more than others: a fifth of them in `make test`."""
    return max(FEW, count // 5) if settings.default.max_examples == FEW else count


# ------------------------------------------------------------------------------------------------------------- samples


def sample(items: Sequence[pytest.Item]) -> None:
    """Mark as `full` the cases of `sampled` tests that `make test` leaves out; in CI also the property tests, which have few
    examples in `make test` and all in the rest, so that CI runs each once, with all.

    `sampled(per=("engine", "case.api"), keep=1)` groups the cases of one test by the values of these parameters, or of attributes
    of them, and keeps so many of each group, spread over it. Each group of a test, and each test of a module, begins one case
    later than the one before: where a group has a whole answer and a stream, every second group keeps the stream.
    """
    tests: dict[tuple[Any, ...], tuple[pytest.Mark, dict[Any, list[pytest.Item]]]] = {}
    markers: dict[tuple[Any, ...], pytest.Mark | None] = {}
    for item in items:
        test = (item.path, getattr(item, "cls", None), getattr(item, "originalname", item.name))
        if test not in markers:
            markers[test] = item.get_closest_marker(
                "sampled"
            )  # of the test, its class or its module: the same in all its cases
        marker = markers[test]
        if marker is None or not hasattr(item, "callspec") or any(map(item.get_closest_marker, ("full", *OTHERS))):
            continue
        tests.setdefault(test, (marker, {}))[1].setdefault(_cell(item, marker), []).append(item)
    before: Counter[Path] = Counter()
    for (path, *_), (marker, cells) in tests.items():
        for number, cases in enumerate(cells.values(), before[path]):
            kept = set(_spread(len(cases), marker.kwargs.get("keep", 1), number))
            for place, item in enumerate(cases):
                if place not in kept:
                    item.add_marker(pytest.mark.full)
        before[path] += 1
    if os.environ.get("CI"):
        for item in items:
            if is_hypothesis_test(getattr(item, "obj", None)) and item.get_closest_marker("full") is None:
                item.add_marker(pytest.mark.full)


def _cell(item: Any, marker: pytest.Mark) -> tuple[Any, ...]:
    """The values that the cases of one cell share."""
    unknown = set(marker.kwargs) - {"per", "keep"}
    if unknown or marker.args:
        raise pytest.UsageError(f"{item.nodeid}: sampled takes per= and keep=")
    params, found = item.callspec.params, []
    for name in marker.kwargs.get("per", ()):
        parameter, _, attribute = name.partition(".")
        if parameter not in params:
            if marker in item.own_markers:
                raise pytest.UsageError(f"{item.nodeid}: sampled is per {name}, and the test has no such parameter")
            continue  # the mark of a module or a class is for whichever of its tests have it
        value = attrgetter(attribute)(params[parameter]) if attribute else params[parameter]
        found.append(
            value if isinstance(value, str | int | bytes) else id(value)
        )  # a parameter is one object in all its cases
    return tuple(found)


def _spread(count: int, keep: int, start: int) -> Iterator[int]:
    """So many places of a list, evenly apart, the first of them further on with each list."""
    for each in range(min(keep, count)):
        yield (start + each * count // min(keep, count)) % count


# ---------------------------------------------------------------------------------------------------- what a run says


class Told:
    """A pytest plugin for the process that people read: what runs, how many, about how long, and afterwards how long it took."""

    def __init__(self, name: str, config: pytest.Config) -> None:
        self._name = name
        self._config = config
        self._started = time.monotonic()
        self._collected = 0.0
        self._seconds = {"test": 0.0, "test-rest": 0.0}

    def _say(self, line: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)
            sys.stdout.flush()

    def pytest_sessionstart(self) -> None:
        self._say(f"make {self._name}: {TIERS[self._name].what}; {_about(self._name)}. Counting the tests ...")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:  # the process that only hands out tests has none
            self._count(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        if not self._collected:
            self._count(len(ids))

    def _count(self, tests: int) -> None:
        self._collected = time.monotonic() - self._started
        self._say(f"make {self._name}: {tests:,} tests, {_about(self._name)}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        part = "test-rest" if "full" in report.keywords else "test"
        self._seconds[part] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Keep how long the tier took, and its two parts; each part counts the tests by itself."""
        if exitstatus or not self._config.getoption("--keep-times"):
            return
        whole, together = time.monotonic() - self._started, sum(self._seconds.values()) or 1
        found = {self._name: whole}
        if self._name == "test-all":
            shares = {part: seconds / together for part, seconds in self._seconds.items()}
            found |= {part: self._collected + (whole - self._collected) * share for part, share in shares.items()}
        remember(found)


def remember(seconds: dict[str, float], file: Path = TIMES) -> None:
    """Write how long tiers took, and on which machine."""
    times = read(file)
    where = {"cores": os.cpu_count(), "machine": _machine(), "date": datetime.now(UTC).date().isoformat()}
    times |= {name: {"seconds": round(each), **where} for name, each in seconds.items()}
    file.write_text(json.dumps(times, indent=1, sort_keys=True) + "\n")


def read(file: Path = TIMES) -> dict[str, dict[str, Any]]:
    return json.loads(file.read_text()) if file.exists() else {}


def _machine() -> str:
    """The processor's name, where the system tells it."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _about(name: str) -> str:
    """About how long a tier takes, from what the last whole run took."""
    known = read().get(name)
    if known is None:
        return "nobody has measured how long it takes"
    seconds = known["seconds"]
    length = f"{round(seconds / 60)} minutes" if seconds > 90 else f"{seconds} seconds"
    return f"about {length} (on {known['cores']} cores of {known['machine']}, {known['date']})"


# ------------------------------------------------------------------------------------------------- what failed, alone


def alone(reporter: Any) -> None:
    """End a failing run with the commands that run what failed alone."""
    failed = dict.fromkeys(each.nodeid for kind in ("failed", "error") for each in reporter.stats.get(kind, ()))
    if not failed:
        return
    reporter.section("run what failed alone")
    for nodeid in list(failed)[:SHOWN]:
        reporter.write_line(command(nodeid))
    if len(failed) > SHOWN:
        reporter.write_line(f"and {len(failed) - SHOWN} more; all of them: {command('--last-failed')}")


def command(test: str) -> str:
    """What to type, from the root of the repository, to run one test."""
    python = Path(sys.executable)
    shown = python.relative_to(ROOT) if python.is_relative_to(ROOT) else python
    given = [f"{name}={shlex.quote(os.environ[name])} " for name in ENVIRONMENT if os.environ.get(name)]
    return f"{''.join(given)}{shown} -m pytest -p no:xdist {shlex.quote(test)}"
