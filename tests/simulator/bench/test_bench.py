"""The bench: which requests are sent when, its figures, its page, and a real gateway measured by the command."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.conftest import over_http

from smg_core.auth.settings import AuthConfig
from smg_core.cli import main
from smg_core.config import Config
from smg_simulator import SimulatorConfig, Timing
from smg_simulator.bench.asking import BenchTarget, bench_run
from smg_simulator.bench.figures import BenchObjective, BenchOutcome, quantile, summary
from smg_simulator.bench.load import made_requests, prompt_words, requests_of_trace
from smg_simulator.bench.report import bench_lines, bench_page
from smg_simulator.fleet.trace import FleetRequest, FleetTrace

GOOD = BenchObjective(first=1.0, gap=0.05)
TRACES = Path(__file__).parents[3] / "examples" / "traces"


def outcome(first: float = 0.5, whole: float = 1.4, tokens: int = 19, **fields: object) -> BenchOutcome:
    return BenchOutcome(0.0, 0.0, first=first, whole=whole, output_tokens=tokens, **fields)  # type: ignore[arg-type]


def test_an_objective_is_met_by_first_token_and_mean_gap_and_never_by_a_failure() -> None:
    assert GOOD.met(outcome())
    assert not GOOD.met(outcome(first=1.1, whole=1.2))
    assert not GOOD.met(outcome(whole=2.0))
    assert not GOOD.met(BenchOutcome(0.0, 0.0, error="503"))


def test_the_figures_of_a_run() -> None:
    outcomes = [
        outcome(prompt_tokens=100, cached_tokens=50, gaps=(0.1, 0.2)),
        outcome(first=2.0, whole=3.0, prompt_tokens=100),
        BenchOutcome(3.0, 3.5, error="503 busy"),
        BenchOutcome(3.0, 3.0, error="503 busy"),
    ]

    figures = summary(outcomes, 10.0, GOOD)

    assert (figures.requests, figures.failed, figures.errors) == (4, 2, (("503 busy", 2),))
    assert (figures.rate, figures.output_rate) == (0.2, 3.8)
    assert (figures.goodput, figures.good_rate) == (0.25, 0.1)
    assert (figures.cached_share, figures.late) == (0.25, 0.5)
    assert (figures.first.p50, figures.first.p99) == (0.5, 2.0)
    assert (figures.gap.p50, figures.gap.p90) == (0.1, 0.2)


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_a_value_that_this_share_is_at_most(values: list[float], share: float) -> None:
    found = quantile(sorted(values), share)

    assert found in values
    assert sum(each <= found for each in values) >= share * len(values) - 1e-6


def test_prompts_have_their_length_share_their_beginning_and_are_the_same_for_a_seed() -> None:
    made = list(made_requests(3, prompt_tokens=20, output_tokens=5, shared_tokens=8, rate=2.0, seed=1))
    again = list(made_requests(3, prompt_tokens=20, output_tokens=5, shared_tokens=8, rate=2.0, seed=1))

    assert made == again
    assert {len(each.prompt.split()) for each in made} == {20}
    assert len({tuple(each.prompt.split()[:8]) for each in made}) == 1
    assert len({each.prompt for each in made}) == 3
    assert made[0].at == 0.0 < made[1].at < made[2].at


def test_requests_that_share_blocks_in_a_trace_share_words() -> None:
    first, second = FleetRequest(0.0, 40, 5, blocks=(1, 2)), FleetRequest(1.5, 36, 7, blocks=(1, 3))

    one, two = requests_of_trace(FleetTrace("trace", 16, [first, second]), 0)

    assert (two.at, two.output_tokens, len(two.prompt.split())) == (1.5, 7, 36)
    assert one.prompt.split()[:16] == two.prompt.split()[:16]
    assert one.prompt.split()[16:32] != two.prompt.split()[16:32]
    assert prompt_words("x", 0) == ""


def test_the_page_is_whole_without_anything_from_outside_even_where_nothing_was_answered() -> None:
    for outcomes in ([outcome(gaps=(0.1,))], [BenchOutcome(0.0, 0.0, error="<b>503</b>")], []):
        page = bench_page("Bench of <model>", ["said"], outcomes, summary(outcomes, 1.0, GOOD), GOOD)

        assert page.count("<svg") == 4
        for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
            ElementTree.fromstring(drawing)
        assert not re.search(r"<script|src=|href=|<b>|<model>", page)


@pytest.mark.full
@pytest.mark.anyio
@pytest.mark.parametrize("users", [4, None])
async def test_a_gateway_before_an_engine_is_measured_in_a_closed_and_in_an_open_loop(users: int | None) -> None:
    engine = SimulatorConfig(timing=Timing(decode_rate=200, prefill_rate=100_000), reply_tokens=12)
    requests = made_requests(12, prompt_tokens=30, output_tokens=12, shared_tokens=0, rate=60.0, seed=0)
    come: list[BenchOutcome] = []
    async with over_http(engine) as house:
        target = BenchTarget(house.url, "sim", {}, 60.0)
        outcomes, seconds = await bench_run(target, requests, users=users, most=64, come=come.append)

    figures = summary(outcomes, seconds, BenchObjective(60, 60))
    assert (figures.requests, figures.failed, figures.goodput) == (12, 0, 1.0)
    assert come == outcomes
    assert figures.output_rate > 0
    assert figures.gap.p99 > 0.002
    assert all(each.first <= each.whole and each.prompt_tokens > 30 for each in outcomes)


@pytest.mark.anyio
async def test_refusals_and_broken_streams_are_failures_with_their_reason() -> None:
    async with over_http() as house:
        gone = BenchTarget(house.url, "no-such-model", {}, 60.0)
        requests = list(made_requests(2, prompt_tokens=5, output_tokens=5, shared_tokens=0, rate=None, seed=0))
        refused, _ = await bench_run(gone, requests, users=2, most=2, come=lambda _: None)
    lost, _ = await bench_run(gone, requests, users=2, most=2, come=lambda _: None)

    assert all(each.error.startswith("404 The model 'no-such-model'") for each in refused)
    assert all(each.error for each in lost)


def test_errors_of_many_kinds_are_bounded_and_figures_without_an_answer_are_dashes() -> None:
    outcomes = [BenchOutcome(0.0, 0.0, error=f"refused {number}") for number in range(50)]

    lines = bench_lines(summary(outcomes, 1.0, GOOD), GOOD)

    assert lines[3].split() == ["first", "token", "-", "-", "-"]
    assert len(lines) == 7 + 11
    assert lines[-1] == "40 x others, of 40 kinds"


@pytest.mark.anyio
async def test_a_server_that_asks_for_a_key_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    import asyncio

    config = Config(auth=AuthConfig(keys=("a-key-0123456789abcdef tenant=acme",)))
    async with over_http(config=config) as house:
        status = await asyncio.to_thread(main, ["bench", f"{house.url}/v1"])

    told = capsys.readouterr().err
    assert status == 1
    assert told.count("\n") == 1
    assert told.endswith("it answers 401 Unauthorized to /v1/models; give its API key in SMG_API_KEY\n")


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--report", "/no/such/folder/x.html"], "--report: there is no folder /no/such/folder"),
        (["--users", "0"], "is no whole number from 1"),
        (["--users", "2", "--rate", "3"], "not allowed with argument"),
        (["--trace", "/no/such/file"], "--trace: /no/such/file: No such file or directory"),
        (["--field", "temperature"], "--field: temperature: expected NAME=JSON"),
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "http://127.0.0.1:9", *arguments]) == 2

    assert words in capsys.readouterr().err


def test_a_server_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "http://127.0.0.1:9"]) == 1

    assert "http://127.0.0.1:9 cannot be asked" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.anyio
async def test_the_command_measures_a_trace_and_writes_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import asyncio

    trace = next(path for path in sorted(TRACES.iterdir()) if path.suffix == ".jsonl")
    command = [
        "--trace",
        str(trace),
        "--requests",
        "8",
        "--faster",
        "1000",
        "--json",
        "--report",
        str(tmp_path / "b.html"),
    ]
    async with over_http(SimulatorConfig(context_length=1 << 20)) as house:
        status = await asyncio.to_thread(main, ["bench", house.url, *command])

    told = capsys.readouterr()
    assert status == 0, told.err
    assert json.loads(told.out)["requests"] == 8
    assert "8 of 8 requests (100 %), 0 failed" in told.err
    assert "<svg" in (tmp_path / "b.html").read_text()
