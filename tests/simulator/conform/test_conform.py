"""`smg-gateway conform`: our own gateway has no breach, and every fault that is planted into a valid answer is found.

The valid answers are our own gateway's, recorded once. A mutation changes one of them in one place; what clients do not feel (one
more piece of text, a ping elsewhere) is left out by `HARMLESS`.
"""

import asyncio
import copy
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import over_http
from tests.shared import PATIENCE

from smg_core.apis import TRIALS
from smg_core.cli import main
from smg_core.sse import SseReader
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.conform.answers import HttpAnswer, answer_faults
from smg_simulator.conform.asking import look_at
from smg_simulator.conform.probes import APIS, Probe, probes
from smg_simulator.conform.report import ConformReport, Finding
from smg_simulator.engine.engine import SimulatorConfig

Event = dict[str, Any]
Mutant = tuple[str, list[Event]]

REPLY = Reply("Hello, and good day to you.", reasoning="I greet.")
CONFIG = SimulatorConfig(seed=1, rules=(Rule(("Say hello",), REPLY),))
DONE: Event = {"[DONE]": True}
STREAMED = ("text", "tool call")
WITHOUT_EVENT_LINES = ("chat", "completions", "generate_content")
HARMLESS = frozenset(
    {
        "response.in_progress",
        "ping",
        "text_delta",
        "thinking_delta",
        "input_json_delta",
        "text",
        "reasoning",
        "arguments",
        "thought_signature",
    }
)


@pytest.fixture(scope="module")
def recorded() -> Mapping[Probe, HttpAnswer]:
    """Our own gateway's answer to every probe."""

    async def record() -> dict[Probe, HttpAnswer]:
        async with over_http(CONFIG) as house:
            return {probe: await ask(house.http, probe) for api in APIS for probe in probes(TRIALS[api], "sim")}

    async def ask(http: Any, probe: Probe) -> HttpAnswer:
        answer = await http.post(probe.path, content=probe.body, headers=dict(probe.headers))
        return HttpAnswer(answer.status_code, answer.headers["content-type"].partition(";")[0], answer.content)

    return asyncio.run(record())


def of(recorded: Mapping[Probe, HttpAnswer], api: str, name: str, streamed: bool) -> tuple[Probe, HttpAnswer]:
    return next(
        (probe, answer)
        for probe, answer in recorded.items()
        if (probe.api, probe.name, probe.streamed) == (api, name, streamed)
    )


def has(api: str, *names: str) -> list[str]:
    """Those of the probes' names that the API has."""
    known = {probe.name for probe in probes(TRIALS[api], "sim")}
    return [name for name in names if name in known]


def events_of(answer: HttpAnswer) -> list[Event]:
    """The events; without the mark that may close a stream of Interactions."""
    frames = SseReader().feed(answer.body)
    found = [DONE if frame.data == "[DONE]" else json.loads(frame.data) for frame in frames]
    return found[:-1] if "event_type" in found[0] else found


def written(api: str, events: list[Event]) -> bytes:
    """Events as a server of this API writes them."""
    texts = ["[DONE]" if event == DONE else json.dumps(event) for event in events]
    lines = [
        "" if api in WITHOUT_EVENT_LINES else f"event: {event.get('type', event.get('event_type'))}\n"
        for event in events
    ]
    return "".join(f"{line}data: {text}\n\n" for line, text in zip(lines, texts, strict=True)).encode()


def kind(event: Event) -> str:
    """What an event is, in the words of HARMLESS."""
    delta = event.get("delta")
    if isinstance(delta, dict) and event.get("type") == "content_block_delta":
        return str(delta["type"])
    if "event_type" in event:
        what = delta["type"] if isinstance(delta, dict) else event["event_type"]
        return "reasoning" if what == "thought_summary" else str(what)
    if "responseId" in event:
        (candidate,) = event["candidates"]
        if "finishReason" in candidate:
            return "finish"
        return "text" if "text" in candidate["content"]["parts"][0] else "call"
    if "choices" not in event:
        return str(event.get("type", event))
    if not event["choices"]:
        return "usage"
    choice = event["choices"][0]
    if choice.get("finish_reason"):
        return "finish"
    if "text" in choice:
        return "text"
    calls = choice["delta"].get("tool_calls") or [{}]
    words = {"role": "role", "content": "text", "reasoning_content": "reasoning"}
    found = [word for name, word in words.items() if choice["delta"].get(name)]
    return "call" if calls[0].get("id") else found[0] if found else "arguments"


def numbered(events: list[Event]) -> list[Event]:
    """The same with sequence numbers that are right again, so that it is not they that tell."""
    return [
        {**event, "sequence_number": place} if "sequence_number" in event else event
        for place, event in enumerate(events)
    ]


def left_out(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        if kind(event) not in HARMLESS:
            yield f"{kind(event)} left out at {place}", numbered(events[:place] + events[place + 1 :])


def cut_off(events: list[Event]) -> Iterator[Mutant]:
    for place in range(len(events)):
        yield f"cut off before {place}", events[:place]


def swapped(events: list[Event]) -> Iterator[Mutant]:
    """Two neighbours in the other order; a ping may stand anywhere, and so may text beside reasoning."""
    for place, (one, two) in enumerate(itertools.pairwise(events)):
        kinds = {kind(one), kind(two)}
        free = "ping" in kinds or kinds <= {"text", "reasoning"} or ("response.in_progress" in kinds and place)
        if len(kinds) == 2 and not free:
            changed = [*events[:place], two, one, *events[place + 2 :]]
            yield f"{kind(one)} behind {kind(two)} at {place}", numbered(changed)


def twice(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        if kind(event) not in HARMLESS | {"message_delta"}:
            yield f"{kind(event)} twice at {place}", numbered([*events[: place + 1], event, *events[place + 1 :]])


def renamed(events: list[Event]) -> Iterator[Mutant]:
    """Another id in one event: of the response, the item, the chunk, the call."""
    for place, event in enumerate(events):
        for path in ids_in(event):
            if place or path[0] not in ("id", "responseId", "response", "message"):
                changed = copy.deepcopy(events)
                target: Any = changed[place]
                for step in path[:-1]:
                    target = target[step]
                target[path[-1]] += "x" if isinstance(target[path[-1]], str) else 1
                yield f"{'.'.join(map(str, path))} changed at {place}", changed


def ids_in(event: Event) -> Iterator[tuple[Any, ...]]:
    if "choices" in event:
        yield ("id",)
        return
    if "responseId" in event:
        yield ("responseId",)
    if event.get("type") == "content_block_start":
        yield ("index",)
    for name in ("item_id", "output_index", "index", "sequence_number"):
        if name in event and event.get("type") != "content_block_start":
            yield (name,)
    if "item" in event and event["type"].endswith("done"):
        yield ("item", "id")
    if "response" in event:
        yield ("response", "id")
    if "interaction" in event:
        yield ("interaction", "id")


def without_fields(events: list[Event]) -> Iterator[Mutant]:
    """One field gone that clients read."""
    for place, event in enumerate(events):
        for name in (
            "id",
            "object",
            "model",
            "choices",
            "type",
            "item",
            "delta",
            "part",
            "message",
            "content_block",
            "responseId",
            "event_type",
            "interaction",
            "index",
            "step",
        ):
            if name in event:
                changed = copy.deepcopy(events)
                del changed[place][name]
                yield f"no {name} in {kind(event)} at {place}", changed


def without_usage(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        for holder in (None, "response", "message", "interaction"):
            inside = event.get(holder) if holder else event
            if isinstance(inside, dict) and inside.get("usage") is not None:
                for usage in (None, {}, {"prompt_tokens": 1}):
                    changed = copy.deepcopy(events)
                    (changed[place][holder] if holder else changed[place])["usage"] = usage
                    yield f"usage {usage} in {kind(event)} at {place}", changed
        if "usageMetadata" in event:
            for wrong in (None, {}, {"promptTokenCount": 1}):
                yield (
                    f"usage {wrong} at {place}",
                    [*events[:place], {**event, "usageMetadata": wrong}, *events[place + 1 :]],
                )


def after_the_end(events: list[Event]) -> Iterator[Mutant]:
    for event in (events[0], events[-1]):
        yield f"{kind(event)} behind the end", numbered([*events, event])


PLANTED: tuple[Callable[[list[Event]], Iterator[Mutant]], ...] = (
    left_out,
    cut_off,
    swapped,
    twice,
    renamed,
    without_fields,
    without_usage,
    after_the_end,
)


@pytest.mark.full
@pytest.mark.sampled(per=("plant",))
@pytest.mark.parametrize("plant", PLANTED, ids=[plant.__name__ for plant in PLANTED])
@pytest.mark.parametrize("api", APIS)
def test_every_planted_fault_of_a_stream_is_found(
    recorded: Mapping[Probe, HttpAnswer], api: str, plant: Callable[[list[Event]], Iterator[Mutant]]
) -> None:
    missed, planted = [], 0
    for name in has(api, *STREAMED):
        probe, answer = of(recorded, api, name, True)
        events = events_of(answer)
        assert answer_faults(probe, attrs.evolve(answer, body=written(api, events))) == []
        for what, mutant in plant(events):
            planted += 1
            if not answer_faults(probe, attrs.evolve(answer, body=written(api, mutant))):
                missed.append(f"{name}: {what}")
    assert not missed, "\n".join(missed)
    assert planted > 1


@pytest.mark.parametrize("line", [b": ping", b"event: chunk", b"data: [DONE]", b"id: 1", b"data:{}"])
def test_a_line_that_googles_sdk_fails_on_is_found(recorded: Mapping[Probe, HttpAnswer], line: bytes) -> None:
    probe, answer = of(recorded, "generate_content", "text", True)

    assert answer_faults(probe, answer) == []
    assert answer_faults(probe, attrs.evolve(answer, body=line + b"\n\n" + answer.body))
    assert answer_faults(probe, attrs.evolve(answer, body=answer.body + line + b"\n\n"))


@pytest.mark.parametrize("api", APIS)
def test_every_required_field_of_a_whole_answer_is_missed(recorded: Mapping[Probe, HttpAnswer], api: str) -> None:
    needed = {
        "chat": ("id", "object", "created", "model", "choices", "usage"),
        "responses": ("id", "object", "created_at", "status", "model", "output", "tools", "tool_choice", "usage"),
        "messages": ("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"),
        "completions": ("id", "object", "created", "model", "choices", "usage"),
        "interactions": ("id", "object", "status", "model", "created", "updated", "steps", "usage"),
        "generate_content": ("candidates", "usageMetadata", "modelVersion", "responseId"),
    }
    probe, answer = of(recorded, api, "text", False)
    for name in needed[api]:
        body = json.loads(answer.body)
        del body[name]
        (fault,) = answer_faults(probe, attrs.evolve(answer, body=json.dumps(body).encode()))
        assert name in fault


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": 500}, "the status is 500"),
        ({"media_type": "text/plain"}, "content-type"),
        ({"body": b"<html>"}, ""),
        ({"body": b'{"choices": 7}'}, ""),
    ],
)
def test_what_is_no_answer_at_all_is_told(
    recorded: Mapping[Probe, HttpAnswer], api: str, change: dict[str, Any], said: str
) -> None:
    for streamed in (False, True):
        probe, answer = of(recorded, api, "text", streamed)
        faults = answer_faults(probe, attrs.evolve(answer, **change))
        assert faults
        assert said in faults[0]


@pytest.mark.parametrize("api", APIS)
def test_an_answer_that_says_something_else_than_was_wanted_is_a_breach(
    recorded: Mapping[Probe, HttpAnswer], api: str
) -> None:
    for streamed in (False, True):
        _, text = of(recorded, api, "text", streamed)
        wrong = {"tool call": "no tool is called", "JSON schema": "does not follow the schema"}
        for wanted in has(api, *wrong):
            probe, _ = of(recorded, api, wanted, streamed)
            said = wrong[wanted]
            assert said in str(answer_faults(probe, text))
        refusal, _ = of(recorded, api, "unknown model", streamed)
        assert "not one of 4xx" in answer_faults(refusal, text)[0]


def test_what_a_server_may_lack_it_may_refuse_by_name(recorded: Mapping[Probe, HttpAnswer]) -> None:
    probe, _ = of(recorded, "chat", "logprobs", False)
    _, refusal = of(recorded, "chat", "unknown role", False)

    assert answer_faults(probe, refusal) == []
    assert answer_faults(probe, attrs.evolve(refusal, body=b"{}")) != []
    assert answer_faults(of(recorded, "chat", "text", False)[0], refusal) == ["the status is 400"]


# ----------------------------------------------------------------------------------------------------------- the command


@contextmanager
def replaying(recorded: Mapping[Probe, HttpAnswer]) -> Iterator[str]:
    """A server that answers each probe as recorded, and what it does not know by 404."""
    by_request = {(probe.path, probe.body): answer for probe, answer in recorded.items()}

    class Replay(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            answer = by_request.get((self.path, body), HttpAnswer(404, "text/plain", b""))
            self.send_response(answer.status)
            self.send_header("content-type", answer.media_type)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Replay) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.full
@pytest.mark.anyio
async def test_our_own_gateway_has_no_breach() -> None:
    async with over_http(CONFIG) as house:
        report = await asyncio.to_thread(look_at, house.url, "sim", timeout=PATIENCE)

    assert (report.breaches, list(report.absent)) == (0, [])
    assert {finding.outcome for finding in report.findings} == {"ok"}
    assert len(report.findings) == sum(1 for api in APIS for _ in probes(TRIALS[api], "sim"))


@pytest.mark.full
def test_a_breach_is_told_and_the_exit_status_is_one(
    recorded: Mapping[Probe, HttpAnswer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    probe, answer = of(recorded, "responses", "text", True)
    broken = attrs.evolve(answer, body=written("responses", events_of(answer)[:-1]))
    chat_and_responses = {each: said for each, said in recorded.items() if each.api != "messages"}
    with replaying({**chat_and_responses, probe: broken}) as url:
        assert main(["conform", url, "--model", "sim"]) == 1
        text = capsys.readouterr().out
        assert main(["conform", url, "--model", "sim", "--api", "responses", "--json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert main(["conform", url, "--model", "sim", "--api", "chat"]) == 0
        assert main(["conform", url, "--model", "sim", "--api", "messages"]) == 1

    assert "the stream ended when no item is open" in text
    assert "messages   is not served" in text
    assert text.endswith(f"probes of sim at {url}: 1 breaches\n")
    (breach,) = [each for each in told["findings"] if each["outcome"] == "breach"]
    assert (breach["probe"], breach["streamed"], told["breaches"]) == ("text", True, 1)


@pytest.mark.full
def test_a_server_that_nobody_runs_or_without_any_api_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "http://127.0.0.1:1", "--model", "sim"]) == 1
    assert "cannot be asked" in capsys.readouterr().err
    with replaying({}) as url:
        assert main(["conform", url, "--model", "sim"]) == 1


def test_a_report_counts_probes_with_a_breach() -> None:
    findings = [Finding("chat", "text", False, "ok"), Finding("chat", "text", True, "breach", ("a", "b"))]
    report = ConformReport("http://x", "m", findings)

    assert report.breaches == 1
    assert report.text().splitlines()[1:] == [
        "chat       text           stream  breach",
        "    a",
        "    b",
        "2 probes of m at http://x: 1 breaches",
    ]
