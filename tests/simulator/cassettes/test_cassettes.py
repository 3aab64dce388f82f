"""Cassettes: a real gateway is recorded behind its clients, and asked again; no key and, where wanted, no word is kept."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.conftest import eventually, over_http
from tests.shared import PATIENCE

from smg_core.cli import main
from smg_core.config import Config, ModelConfig
from smg_simulator import Reply, Rule, SimulatorConfig
from smg_simulator.cassettes.answer_summary import AnswerSummary, summary_of_answer
from smg_simulator.cassettes.cassette import CassetteExchange, kept_body, kept_path, read_cassette, redacted_body
from smg_simulator.cassettes.difference import ReplayedExchange, answer_differences, replay_lines
from smg_simulator.cassettes.recording import CassetteRecorder

KEY = "sk-secret-0123456789abcdef"
CALL = Reply(tool_calls=(("get_weather", {"city": "Paris"}),))
QUESTION = {"model": "sim", "messages": [{"role": "user", "content": "Tell me of Paris."}], "max_tokens": 12}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


@asynccontextmanager
async def recording(url: str, out: Path, *, secret: bytes | None = None, most: int = 1 << 20) -> AsyncIterator[str]:
    """A recorder on a port of its own before the server at `url`."""
    recorder = CassetteRecorder(url, out, most=most, secret=secret, tell=print)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(recorder, lifespan="off", ws="none", log_level="error"))
    async with recorder.opened():
        running = asyncio.create_task(server.serve(sockets=[listener]))
        await eventually(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


async def asked(url: str) -> list[httpx.Response]:
    """The same of every API, whole and streamed, with a key."""
    headers = {"authorization": f"Bearer {KEY}", "cookie": f"session={KEY}", "x-api-key": KEY}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE) as client:
        bodies: list[tuple[str, dict[str, Any]]] = [
            ("/v1/chat/completions", QUESTION),
            ("/v1/chat/completions", {**QUESTION, "stream": True, "tools": [TOOL]}),
            ("/v1/responses", {"model": "sim", "input": "Tell me of Paris.", "max_output_tokens": 12, "stream": True}),
            ("/v1/messages?key=" + KEY, {**QUESTION, "stream": True}),
            ("/v1/chat/completions", {**QUESTION, "model": "no-such-model"}),
        ]
        return [await client.post(path, json=body) for path, body in bodies]


@pytest.mark.full
@pytest.mark.anyio
async def test_what_is_recorded_has_no_key_and_is_answered_alike_when_it_is_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "cassette.jsonl"
    async with over_http(SimulatorConfig()) as house:
        async with recording(house.url, out) as url:
            through = await asked(url)
        direct = await asked(house.url)
        status = await asyncio.to_thread(main, ["replay", str(out), house.url, "--faster", "1000"])

    told = capsys.readouterr()
    exchanges = list(read_cassette(out.read_text().splitlines()))
    assert [each.status_code for each in through] == [each.status_code for each in direct] == [200, 200, 200, 200, 404]
    assert through[0].json()["choices"] == direct[0].json()["choices"]
    assert KEY not in out.read_text()
    assert out.stat().st_mode & 0o777 == 0o600
    assert [each.status for each in exchanges] == [200, 200, 200, 200, 404]
    assert all(each.summary.text and each.summary.output_tokens for each in exchanges[:1] + exchanges[2:4])
    assert all(each.times and each.times[-1] <= each.seconds for each in exchanges)
    assert [each.at for each in exchanges] == sorted(each.at for each in exchanges)
    assert status == 0, told.out
    assert "5 requests, 0 answered differently: nothing" in told.out


@pytest.mark.full
@pytest.mark.anyio
async def test_another_parser_shows_what_it_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cassette.jsonl"
    engine = SimulatorConfig(rules=(Rule((), CALL),))
    body = {**QUESTION, "max_tokens": 100, "tools": [TOOL]}
    async with (
        over_http(engine) as house,
        recording(house.url, out) as url,
        httpx.AsyncClient(timeout=PATIENCE) as client,
    ):
        answer = await client.post(f"{url}/v1/chat/completions", json=body)
    async with over_http(engine, config=Config(model=ModelConfig(parser="mistral"))) as other:
        status = await asyncio.to_thread(main, ["replay", str(out), other.url])

    told = capsys.readouterr().out
    assert answer.json()["choices"][0]["finish_reason"] == "tool_calls"
    assert status == 1
    assert "1 requests, 1 answered differently" in told
    assert re.search(r"request 1 \(/v1/chat/completions\): calls: .*get_weather.* -> '\[\]'", told)


@pytest.mark.full
@pytest.mark.anyio
async def test_redacted_prompts_have_other_words_of_the_same_lengths_and_answers_none(tmp_path: Path) -> None:
    out = tmp_path / "cassette.jsonl"
    async with over_http(SimulatorConfig()) as house, recording(house.url, out, secret=b"x" * 32) as url:
        answers = await asked(url)
        await asked(url)

    text = answers[0].json()["choices"][0]["message"]["content"]
    kept = out.read_text()
    first, again = (json.loads(line) for line in (kept.splitlines()[0], kept.splitlines()[5]))
    content = json.loads(first["body"])["messages"][0]["content"]
    assert "Paris" not in kept
    assert text not in kept
    assert re.fullmatch(r"\w{4} \w{2} \w{2} \w{5}\.", content)
    assert first["body"] == again["body"]
    assert first["summary"]["characters"] == len(text)
    assert json.loads(first["body"])["model"] == "sim"


@pytest.mark.full
@pytest.mark.anyio
async def test_a_full_cassette_records_no_more_and_a_server_that_is_gone_is_a_502(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, gone = tmp_path / "small.jsonl", tmp_path / "gone.jsonl"
    async with over_http(SimulatorConfig()) as house, recording(house.url, out, most=900) as url:
        answers = await asked(url)
    async with recording("http://127.0.0.1:9", gone) as url, httpx.AsyncClient() as client:
        lost = await client.post(f"{url}/v1/chat/completions", json=QUESTION)

    assert [each.status_code for each in answers] == [200, 200, 200, 200, 404]
    assert out.stat().st_size <= 900
    assert capsys.readouterr().out.count("the cassette is full") == 1
    assert lost.status_code == 502
    assert gone.read_text() == ""


def test_a_cassette_that_is_there_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "there.jsonl"
    out.write_text("mine")

    assert main(["record", "http://127.0.0.1:9", str(out), "--listen", "127.0.0.1:0"]) == 1
    assert out.read_text() == "mine"
    assert "File exists" in capsys.readouterr().err


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("text", ["", "{", '{"at": 1}', "[]"])
def test_a_file_that_is_no_cassette_is_refused_with_its_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "odd.jsonl"
    file.write_text(text)

    assert main(["replay", str(file), "http://127.0.0.1:9"]) == 2
    assert "there is no exchange in it" if not text else "line 1: " in capsys.readouterr().err


def test_a_port_that_is_taken_is_said_and_leaves_no_cassette(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new.jsonl"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["record", "http://127.0.0.1:9", str(out), "--listen", place]) == 1

    assert f"cannot listen on {place}: " in capsys.readouterr().err
    assert not out.exists()


SECRETS = [f"hidden-{number}-0123456789" for number in range(9)]


@pytest.mark.full
@pytest.mark.anyio
@pytest.mark.parametrize("secret", [None, b"x" * 32])
async def test_what_bodies_and_answers_name_as_keys_is_in_no_cassette(tmp_path: Path, secret: bytes | None) -> None:
    out, server = tmp_path / "cassette.jsonl", SECRETS[0]
    tool: dict[str, Any] = {
        "type": "mcp",
        "server_label": "x",
        "require_approval": "never",
        "authorization": SECRETS[1],
    }
    tool |= {
        "server_url": f"https://u:{SECRETS[2]}@host/mcp?token={SECRETS[3]}&page=2",
        "headers": {"X-Own": SECRETS[4]},
    }
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/v1/responses", {"model": "sim", "input": "hi", "tools": [tool], "max_output_tokens": 3}),
        ("/v1/messages", {**QUESTION, "mcp_servers": [{"type": "url", "authorization_token": SECRETS[5], "url": "x"}]}),
        (f"/v1beta/models/sim:generateContent?key={SECRETS[6]}", {"contents": [{"parts": [{"text": "hi"}]}]}),
        ("/v1/chat/completions", {**QUESTION, "model": SECRETS[7]}),  # repeated in the error
        ("/v1/realtime/client_secrets", {"session": {"type": "realtime", "model": "sim"}}),
    ]
    async with (
        over_http(SimulatorConfig()) as house,
        recording(house.url, out, secret=secret) as url,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client,
    ):
        headers = {"authorization": f"Bearer {SECRETS[7]}", "cookie": f"session={server}; other={SECRETS[8]}"}
        answers = [await client.post(path, json=body, headers=headers) for path, body in bodies]

    kept = out.read_text()
    assert SECRETS[7] in answers[3].text
    assert answers[4].json()["value"].startswith("ek_")
    assert [each for each in [*SECRETS, "ek_"] if each in kept] == []
    assert len(kept.splitlines()) == len(bodies)
    if secret is None:
        told = json.loads(json.loads(kept.splitlines()[0])["body"])["tools"][0]
        assert told["server_url"] == "https://host/mcp?page=2"


def test_a_schema_that_has_a_password_stays_and_a_body_without_keys_is_kept_to_the_byte() -> None:
    schema = '{"tools": [{"properties": {"password": {"type":"string"}}}],  "x": "token"}'

    assert kept_body(schema) == schema
    assert kept_body("no json") == "no json"


@pytest.mark.full
@given(
    st.recursive(
        st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
    )
)
def test_no_text_under_the_name_of_a_key_is_kept_wherever_it_stands(value: Any) -> None:
    body = json.dumps([value, {"deep": [{"x-API-key": "hidden!", "a": value}]}, {"client_secret": "hidden!"}])

    kept = kept_body(body)

    assert "hidden!" not in kept
    assert json.loads(kept)[1]["deep"][0]["x-API-key"] == ""


@pytest.mark.full
@pytest.mark.anyio
async def test_generate_content_and_other_apis_are_answered_alike_when_they_are_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, contents = tmp_path / "cassette.jsonl", {"contents": [{"parts": [{"text": "hi"}]}]}
    async with over_http(SimulatorConfig()) as house:
        async with recording(house.url, out) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:
            for path in (":generateContent", ":streamGenerateContent", ":streamGenerateContent?alt=sse"):
                (await client.post(f"/v1beta/models/sim{path}", json=contents)).raise_for_status()
            (await client.get("/v1/models")).raise_for_status()
            file = {"file": ("x.bin", b"\xff\x00")}
            (await client.post("/v1/files", files=file, data={"purpose": "user_data"})).raise_for_status()
        exchanges = list(read_cassette(out.read_text().splitlines(keepends=True)))
        status = await asyncio.to_thread(main, ["replay", str(out), f"{house.url}/v1/", "--faster", "1000"])

    told = capsys.readouterr().out
    assert [bool(each.summary.finish and each.summary.output_tokens) for each in exchanges] == [True] * 3 + [False]
    assert len({each.summary.text for each in exchanges[:3]}) == 1
    assert told.count("bodies that are no text") == 1
    assert (status, "4 requests, 0 answered differently" in told) == (0, True), told


def test_a_cassette_whose_last_line_is_cut_has_the_others_and_one_that_is_cut_within_is_refused() -> None:
    whole = [
        json.dumps({"at": 0.0, "method": "POST", "path": "/v1/x", "body": "", "status": 200, "summary": {}}) + "\n"
    ] * 2
    cut = whole[0][:40]

    assert len(list(read_cassette([*whole, cut]))) == 2
    for lines in ([whole[0], cut + "\n", whole[1]], [cut]):
        with pytest.raises(ValueError, match=r"line \d"):
            list(read_cassette(lines))


@pytest.mark.parametrize("path", ["http://elsewhere/v1/x", "", "v1/x"])
def test_a_cassette_does_not_choose_the_server_that_gets_the_key(path: str) -> None:
    line = json.dumps({"at": 0.0, "method": "POST", "path": path, "body": "", "status": 200, "summary": {}})

    with pytest.raises(ValueError, match="line 1: POST"):
        list(read_cassette([line]))


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", "http://x:99999", "http://x/?key=1"])
def test_what_is_no_url_of_a_server_is_refused(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["record", url, str(tmp_path / "x")], ["replay", str(tmp_path / "x"), url], ["bench", url]):
        assert main(command) == 2
        assert f"{command[0]}: {url}: expected http://HOST:PORT" in capsys.readouterr().err


def test_keys_in_a_query_are_left_out() -> None:
    assert kept_path("/v1/models/m:generateContent", f"key={KEY}&alt=sse") == "/v1/models/m:generateContent?alt=sse"
    assert kept_path("/v1/models", "") == "/v1/models"


@pytest.mark.full
@given(st.text(), st.text())
def test_redaction_keeps_lengths_and_shared_beginnings(one: str, two: str) -> None:
    def redacted(text: str) -> str:
        if text.startswith("data:") or "://" in text:
            return ""
        body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode(errors="replace")
        found: str = json.loads(redacted_body(body, b"secret"))["messages"][0]["content"]
        return found

    one, two = one.encode(errors="ignore").decode(), two.encode(errors="ignore").decode()
    first, both = redacted(one), redacted(f"{one} {two}")
    if first and both:
        assert len(first) == len(one)
        assert both.startswith(first)


@given(st.sampled_from(["/v1/chat/completions", "/v1/responses", "/v1/messages", "/other"]), st.binary(max_size=200))
def test_what_is_no_answer_is_said_to_be_none_and_raises_nothing(path: str, body: bytes) -> None:
    for content_type in ("text/event-stream", "application/json"):
        assert isinstance(summary_of_answer(path, 200, content_type, body), AnswerSummary)
    assert isinstance(summary_of_answer(path, 200, "text/event-stream", b"data: " + body + b"\n\n"), AnswerSummary)


def test_differences_are_named_from_where_they_begin() -> None:
    def exchange(summary: AnswerSummary, status: int = 200, *, redacted: bool = False) -> CassetteExchange:
        return CassetteExchange(0.0, "POST", "/x", "", status, summary, times=[0.1], seconds=0.2, redacted=redacted)

    was = exchange(AnswerSummary(text="the same then this", finish="stop", prompt_tokens=3))
    now = exchange(AnswerSummary(text="the same then that", finish="length", prompt_tokens=3))
    hidden = exchange(AnswerSummary(finish="stop", prompt_tokens=3, characters=18), redacted=True)

    assert list(answer_differences(ReplayedExchange(was, was))) == []
    assert dict(answer_differences(ReplayedExchange(was, now))) == {
        "text": "from character 16: 'is' -> 'at'",
        "finish": "from character 0: 'stop' -> 'length'",
    }
    assert [name for name, _ in answer_differences(ReplayedExchange(hidden, now))] == ["finish"]
    assert dict(answer_differences(ReplayedExchange(was, exchange(AnswerSummary(error="busy"), 503)))) == {
        "status": "200 -> 503: busy"
    }
    lines, different = replay_lines([ReplayedExchange(was, now)] * 15)
    assert different == 15
    assert lines[20] == "... and 10 more"
    assert any(line.startswith("first piece, after") and "0.1000" in line for line in lines)
