"""Traces, recorded and made; and the command that replays them."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.cli import main
from smg_simulator.fleet.formats import read_trace
from smg_simulator.fleet.generated import GENERATORS, Load, generated
from smg_simulator.fleet.oracles import hits_of_one_cache
from smg_simulator.fleet.trace import FleetRequest, FleetTrace

MOONCAKE = [
    '{"timestamp": 3000, "input_length": 1100, "output_length": 7, "hash_ids": [0, 1, 2]}',
    '{"timestamp": 1000, "input_length": 512, "output_length": 500, "hash_ids": [0]}',
]
AZURE = [
    "TIMESTAMP,ContextTokens,GeneratedTokens",
    "2023-11-16 18:15:46.6805900,374,44",
    "2023-11-16 18:15:48.1805900,396,109",
]
BURST_GPT = [
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
    "5,ChatGPT,472,18,490,Conversation log",
    "45,ChatGPT,1087,0,1087,API log",
    "118,GPT-4,417,276,693,Conversation log",
]


def test_a_mooncake_trace_shares_blocks_of_512_tokens_that_are_full() -> None:
    found = read_trace("m", MOONCAKE, 10)

    assert found.block == 512
    assert list(found.requests) == [FleetRequest(0.0, 512, 500, [0]), FleetRequest(2.0, 1100, 7, [0, 1])]


def test_an_azure_trace_has_times_and_lengths() -> None:
    found = read_trace("a", AZURE, 10)

    assert [(each.prompt_tokens, each.output_tokens) for each in found.requests] == [(374, 44), (396, 109)]
    assert [each.at for each in found.requests] == [0.0, pytest.approx(1.5)]


def test_a_burst_gpt_trace_leaves_out_what_failed_and_may_name_sessions() -> None:
    assert [(each.at, each.output_tokens) for each in read_trace("b", BURST_GPT, 10).requests] == [
        (0.0, 18),
        (113.0, 276),
    ]

    named = [
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type",
        "1,s-7,2.5,M,10,3,13,x",
    ]
    assert [each.session for each in read_trace("b", named, 10).requests] == ["s-7"]


@pytest.mark.parametrize("lines", [MOONCAKE, AZURE, BURST_GPT])
def test_a_trace_is_cut_where_it_is_asked_to_be(lines: list[str]) -> None:
    assert len(read_trace("cut", lines, 1).requests) == 1


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "line 1: neither"),
        (["what,ever"], "line 1: neither"),
        ([AZURE[0]], "no request"),
        ([*AZURE, "yesterday,1,2"], "line 4"),
        ([*AZURE, "2023-11-16 18:15:48"], "line 4"),
        ([*BURST_GPT, "1,M,many,2,3,x"], "line 5"),
        ([*MOONCAKE, "{"], "line 3"),
        ([*MOONCAKE, '{"timestamp": 1}'], "line 3"),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(lines: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_trace("odd", lines, 10)


@pytest.mark.full
@given(st.lists(st.text(max_size=30), max_size=4))
def test_any_lines_are_read_or_refused(lines: list[str]) -> None:
    for head in ([], MOONCAKE[:1], AZURE[:1], BURST_GPT[:1]):
        with contextlib.suppress(ValueError):
            read_trace("odd", [*head, *lines], 10).check()


@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize("kind", sorted(GENERATORS))
def test_a_generated_trace_is_whole_and_the_same_for_the_same_seed(kind: str) -> None:
    load = Load(requests=150, rate=10.0, seed=3)
    found = generated(kind, load)

    found.check()
    assert len(found.requests) == 150
    assert found == generated(kind, load)
    assert found != generated(kind, Load(requests=150, rate=10.0, seed=4))


SHARED = {
    "chat": 0.7,
    "agents": 0.8,
    "retrieval": 0.3,
    "day_and_night": 0.7,
    "long": 0.15,
    "hot": 0.9,
    "large_tenant": 0.6,
    "bursts": 0.0,
    "unshared": 0.0,
}


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("kind", sorted(GENERATORS))
def test_a_generated_trace_shares_what_its_kind_says(kind: str) -> None:
    found = generated(kind, Load(requests=600, rate=10.0))
    share = hits_of_one_cache(found, None) / sum(each.prompt_tokens for each in found.requests)

    assert share >= SHARED[kind]
    assert (share == 0.0) == (SHARED[kind] == 0.0)


def test_blocks_are_shared_exactly_as_far_as_texts_are() -> None:
    found = generated("chat", Load(requests=400, rate=10.0))
    sessions: dict[str, FleetRequest] = {}
    for each in found.requests:
        before = sessions.get(each.session)
        if before is not None:
            said = [*before.blocks, *before.answer_blocks]
            assert list(each.blocks[: len(said)]) == said
        sessions[each.session] = each
    assert len(sessions) < len(found.requests)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (FleetRequest(0.0, 0, 1), "at least one token"),
        (FleetRequest(-1.0, 1, 1), "before the one"),
        (FleetRequest(float("inf"), 1, 1), "before the one"),
        (FleetRequest(float("nan"), 1, 1), "before the one"),
        (FleetRequest(0.0, 31, 1, [1, 2]), "full blocks"),
        (FleetRequest(0.0, 32, 15, [1, 2], [3]), "more blocks"),
    ],
)
def test_a_trace_that_cannot_be_is_refused(broken: FleetRequest, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FleetTrace("odd", 16, [broken]).check()


# --------------------------------------------------------------------------------------------------- the command


def test_the_command_prints_a_table_and_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, report = tmp_path / "toolagent.jsonl", tmp_path / "report.html"
    path.write_text("\n".join(MOONCAKE))
    flags = ["--engines", "2", "--policy", "round_robin", "--policy", "greedy", "--outage", "0:0.5:1"]

    assert main(["simulate-fleet", "--trace", str(path), *flags, "--report", str(report)]) == 0

    printed = capsys.readouterr().out
    assert "2 requests in 2 s" in printed
    assert all(name in printed for name in ("round_robin", "greedy", "work max/mean"))
    page = report.read_text()
    assert page.count("<svg") == 3
    assert "<script" not in page
    assert "toolagent.jsonl" in page


def test_the_command_says_how_far_each_run_is_and_compares_cache_aware_unasked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate-fleet", "--trace", "hot", "--requests", "50", "--block", "64"]) == 0

    told = capsys.readouterr()
    every = ("round_robin", "cache_aware", "greedy")
    assert told.err.splitlines() == [
        f"{name}: {part} % of 50 requests" for name in every for part in range(20, 101, 20)
    ]
    assert all(name in told.out for name in every)


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--trace", "/nowhere"], "No such file"),
        (["--trace", "chat", "--policy", "none_such"], "none_such"),
        (["--trace", "chat", "--engines", "0"], "engines"),
        (["--trace", "chat", "--outage", "9:1:2"], "no engine 9"),
        (["--trace", "chat", "--outage", "soon"], "ENGINE:FROM:UNTIL"),
        (["--trace", "chat", "--requests", "0"], "requests"),
        (["--trace", "chat", "--step-s", "0"], "step_s"),
    ],
)
def test_wrong_flags_are_told_by_name(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate-fleet", *flags]) == 2
    assert said in capsys.readouterr().err


def test_a_recorded_trace_can_be_replayed_faster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace"
    path.write_text(json.dumps(json.loads(MOONCAKE[0])) + "\n" + MOONCAKE[1])

    assert main(["simulate-fleet", "--trace", str(path), "--faster", "4", "--policy", "random"]) == 0
    assert "2 requests in 0 s" in capsys.readouterr().out


ROOT = Path(__file__).parents[3]


@pytest.mark.full
@pytest.mark.parametrize("name", ["mooncake.jsonl", "azure.csv", "burstgpt.csv"])
def test_the_sample_of_each_format_is_replayed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    sample = ROOT / "examples" / "traces" / name
    assert main(["simulate-fleet", "--trace", str(sample), "--engines", "2"]) == 0

    told = capsys.readouterr().out
    assert "200 requests" in told
    assert ("0.0% of the prompt tokens were computed before" in told) == (name != "mooncake.jsonl")


def test_the_samples_are_those_that_the_generators_make() -> None:
    subprocess.run([sys.executable, str(ROOT / "tools" / "sample_traces.py"), "--check"], check=True)
