"""`smg-gateway simulate`: scripts in files, and models that write no text, seen through a gateway."""

import asyncio
import copy
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.shared import PATIENCE

from smg_core import Gateway
from smg_core.cli import main
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.commands.simulate_script import parse_script, read_script

HELLO = [{"role": "user", "content": "Hello"}]
TURNS = """
[[turns]]
reasoning = "I look it up."
say = ["One moment. ", 0.01, "I ask."]
calls = { weather = [{ city = "Paris" }, { city = "Rome" }], clock = {} }

[[turns]]
fault = "refuse"

[[turns]]
when = ["sunny"]
say = "Take no umbrella."
fault = { kind = "cut", after = 2 }

[[rules]]
when = "title"
say = "Two cities"
"""


@asynccontextmanager
async def simulated(*flags: str) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway for the engine that the command starts."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "smg_core", "simulate", "--listen", "127.0.0.1:0", *flags,
        stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE):
            line = (await process.stdout.readline()).decode()
        target = line.split("--worker ")[1].strip()
        async with Gateway(workers=[target]) as gateway, gateway.http_client(httpx, base_url="http://gateway") as http:
            yield http
    finally:
        process.terminate()
        await process.wait()


async def asked(http: httpx.AsyncClient, path: str, **body: Any) -> Any:
    answer = await http.post(path, json={"model": "sim", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_script_has_replies_calls_pauses_and_faults(tmp_path: Path) -> None:
    (tmp_path / "weather.toml").write_text(TURNS)

    script = read_script(tmp_path / "weather.toml")

    calls = (("weather", {"city": "Paris"}), ("weather", {"city": "Rome"}), ("clock", {}))
    first = Reply("One moment. I ask.", "I look it up.", calls, pauses=((12, 0.01),))
    last = Reply("Take no umbrella.", when=("sunny",), fault=Fault("cut", after=2))
    assert script.replies == (first, Reply(fault=Fault("refuse")), last)
    assert script.rules == (Rule(("title",), Reply("Two cities")),)
    assert not script.repeat


@pytest.mark.parametrize(
    ("parsed", "told"),
    [
        ({}, "neither 'turns' nor 'rules'"),
        ({"turns": [{"sey": "x"}]}, "unknown field `sey` - at `$.turns[0]`"),
        ({"turns": [{}, {"say": ["x", -1]}]}, "`$.turns[1].say[1]`"),
        ({"rules": [{"fault": "melt"}]}, "`$.rules[0].fault`"),
        ({"turns": [{"fault": {"kind": "cut", "status": "NO"}}]}, "can fail with - at `$.turns[0]`"),
        ({"turns": [{}, {"calls": {"f": {"when": date(2020, 1, 1)}}}]}, "not JSON serializable - at `$.turns[1]`"),
        ({"turns": [{"calls": {"f": {"x": float("inf")}}}]}, "are no JSON"),
        ({"turns": [{"say": "\ud800"}]}, "half of a surrogate pair - at `$.turns[0]`"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_script_is_told_with_its_place(parsed: object, told: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_script(parsed)

    assert told in str(refused.value)


WHOLE: dict[str, Any] = {
    "repeat": False,
    "turns": [
        {
            "say": ["a", 0.1, "b"],
            "reasoning": "r",
            "calls": {"f": [{"a": 1}], "g": {"b": [1, {"c": 2}]}},
            "finish": "stop",
            "fault": {"kind": "cut", "after": 1, "seconds": 1.0, "status": "UNAVAILABLE", "message": "m"},
            "when": ["x"],
        },
        {"say": "x", "fault": "cut", "when": "y"},
    ],
    "rules": [{"when": "t", "say": "x"}],
}
ODD: list[Any] = [None, 5, -1, 1.5, True, "", "x", [], ["x"], [[1]], [None], {}, {"": 1}, {"a": None}, [{"a": [{}]}]]
ODD += [10**30, float("nan"), float("inf"), "\ud800", {1: 2}, {None: 1}, {True: [{2: 3}]}, {date(2020, 1, 1): 1}]
ODD += [
    date(2020, 1, 1),
    datetime(2020, 1, 1, tzinfo=UTC),
    time(12, 30),
    b"hi",
    {"a", "b"},
    {(1, 2): 3},
    [b"hi"],
    {"a": {4}},
]
"""What TOML, YAML and JSON can hold, where the format has something else."""


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in entries:
        yield from places(each, (*at, key))


def test_a_value_of_a_wrong_type_anywhere_is_told_in_one_sentence() -> None:
    taken, told = 0, []
    for at in places(WHOLE):
        for odd in ODD:
            parsed: Any = {"": copy.deepcopy(WHOLE)}
            node, keys = parsed, ("", *at)
            for key in keys[:-1]:
                node = node[key]
            node[keys[-1]] = odd
            try:
                parse_script(parsed[""])
            except ValueError as error:  # anything else that is raised fails
                told.append(str(error))
            else:
                taken += 1
    assert taken > 50
    assert len(told) > 500
    assert [each for each in told if "\n" in each or len(each) > 250] == []


def test_a_script_that_cannot_be_read_ends_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--script", str(tmp_path / "none.toml")]) == 2
    assert f"--script: {tmp_path}/none.toml cannot be read" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.anyio
async def test_the_command_plays_a_script(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(
        json.dumps(
            {
                "turns": [{"say": "one", "calls": {"weather": {"city": "Paris"}}}, {"say": "two", "when": "sunny"}],
                "rules": [{"when": "title", "say": "Two cities"}],
                "repeat": True,
            }
        )
    )
    tools = [{"type": "function", "function": {"name": "weather"}}]

    async with simulated("--script", str(tmp_path / "script.json")) as http:
        first = await asked(http, "/v1/chat/completions", messages=HELLO, tools=tools)
        stray = await asked(http, "/v1/chat/completions", messages=[{"role": "user", "content": "a title"}])
        second = await asked(http, "/v1/chat/completions", messages=[{"role": "user", "content": "It is sunny"}])
        again = await asked(http, "/v1/chat/completions", messages=HELLO, tools=tools)

    for answer in (first, again):
        message = answer["choices"][0]["message"]
        assert message["content"].strip() == "one"
        assert message["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Paris"}'}
    assert stray["choices"][0]["message"]["content"] == "Two cities"
    assert second["choices"][0]["message"]["content"] == "two"


@pytest.mark.full
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("flags", "path", "body"),
    [
        pytest.param(("--pooled", "embed"), "/v1/embeddings", {"input": "Hello"}, marks=pytest.mark.full),
        (("--pooled", "score"), "/v1/rerank", {"query": "Hello", "documents": ["a", "b"]}),
        pytest.param(("--pooled", "classify", "--labels", "a,b"), "/v1/classify", {"input": "x"}, marks=pytest.mark.full),
        pytest.param(
            ("--alternatives", "5,6"),
            "/v1/score",
            {"query": "Hello", "items": ["a"], "label_token_ids": [5, 6]},
            marks=pytest.mark.full,
        ),
    ],
)  # fmt: skip
async def test_the_command_makes_engines_that_embed_and_score(
    flags: tuple[str, ...], path: str, body: dict[str, Any]
) -> None:
    async with simulated(*flags) as http:
        answer = await asked(http, path, **body)

    made = answer.get("data") or answer.get("results") or answer["scores"]
    assert len(made) == len(body.get("documents", [0]))
