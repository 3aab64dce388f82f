"""Plugins that see what a model says, on every API, streamed and whole: texts and events; and requests as all APIs share them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
from msgspec.structs import replace
from tests.gateway.conftest import CHAT, House, body, in_process, over_http, settled
from tests.gateway.test_migration import CHAINED, THREE, lose_engines
from tests.gateway.test_plugins import listed

from smg_core.events import Event, TextDelta
from smg_core.hooks import AttemptEnded, PluginActed
from smg_core.middleware.base import (
    CONTINUE,
    AnswerPiece,
    ChangeText,
    EventVerdict,
    PieceVerdict,
    Reject,
    RequestVerdict,
)
from smg_core.middleware.python import PythonPlugin
from smg_core.request import GenerationRequest, Message, Text
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

HERE = "tests.gateway.test_said"
EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
PIECES = ("Call me at 555", " 01", "00 222 now", ", not at 12.")
SAID, LEFT = "Call me at 555 0100 222 now, not at 12.", "Call me at [number] now, not at 12."
NUMBERS = SimulatorConfig(replies=tuple([Reply(pieces=PIECES)] * 4), timing=Timing(decode_rate=200))

Read = Callable[[Any], str]
MESSAGES = [{"role": "user", "content": "Hi"}]
APIS: dict[str, tuple[str, dict[str, Any], str, Read, Read]] = {
    "chat": (
        CHAT,
        {"model": "sim", "messages": MESSAGES},
        CHAT,
        lambda whole: whole["choices"][0]["message"]["content"],
        lambda event: "".join(each["delta"].get("content") or "" for each in event.get("choices", ())),
    ),
    "completions": (
        "/v1/completions",
        {"model": "sim", "prompt": "Hi", "max_tokens": 99},
        "/v1/completions",
        lambda whole: whole["choices"][0]["text"],
        lambda event: "".join(each["text"] for each in event.get("choices", ())),
    ),
    "responses": (
        "/v1/responses",
        {"model": "sim", "input": "Hi"},
        "/v1/responses",
        lambda whole: whole["output"][0]["content"][0]["text"],
        lambda event: event["delta"] if event.get("type") == "response.output_text.delta" else "",
    ),
    "messages": (
        "/v1/messages",
        {"model": "sim", "max_tokens": 99, "messages": MESSAGES},
        "/v1/messages",
        lambda whole: whole["content"][0]["text"],
        lambda event: event["delta"].get("text", "") if event.get("type") == "content_block_delta" else "",
    ),
    "gemini": (
        "/v1beta/models/sim:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        "/v1beta/models/sim:streamGenerateContent?alt=sse",
        lambda whole: whole["candidates"][0]["content"]["parts"][0]["text"],
        lambda event: "".join(
            part.get("text", "")
            for each in event.get("candidates", ())
            for part in each.get("content", {}).get("parts", ())
        ),
    ),
    "generate": (
        "/generate",
        {"text": "Hi", "sampling_params": {"max_new_tokens": 99}},
        "/generate",
        lambda whole: whole["text"],
        lambda event: event.get("text", ""),
    ),
    "interactions": (
        "/v1beta/interactions",
        {"model": "sim", "input": "Hi"},
        "/v1beta/interactions",
        lambda whole: whole["outputs"][0]["text"],
        lambda event: event["delta"]["text"] if event["event_type"] == "content.delta" else "",
    ),
}


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES / "redaction"))


def redaction(**said: Any) -> dict[str, Any]:
    return {"source": "redact_numbers:RedactNumbers", **said}


def events_of(sent: bytes) -> list[Any]:
    lines = [line.removeprefix(b"data: ") for line in sent.splitlines() if line.startswith(b"data: ")]
    return [msgspec.json.decode(line) for line in lines if line != b"[DONE]"]


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("api", APIS)
async def test_a_number_over_three_pieces_is_found_on_every_api_streamed_and_whole(tmp_path: Path, api: str) -> None:
    path, asked, streamed, of_whole, of_event = APIS[api]
    async with in_process(NUMBERS, config=listed(tmp_path, redaction())) as house:
        whole = await house.http.post(path, json=asked)
        assert whole.status_code == 200, whole.text
        stream = await house.http.post(streamed, json=asked if api == "gemini" else {**asked, "stream": True})
        assert stream.status_code == 200, stream.text
        await settled(house)

    assert of_whole(whole.json()) == LEFT
    said = [of_event(each) for each in events_of(stream.content)]
    assert (said[-1] if api == "generate" else "".join(said)).strip() == LEFT
    for sent in (whole.text, stream.text):
        assert not any(part in sent for part in ("at 555", '" 01', "00 222"))


async def test_what_is_kept_of_an_answer_is_what_was_left_of_it(tmp_path: Path) -> None:
    async with in_process(NUMBERS, config=listed(tmp_path, redaction())) as house:
        made = (await house.http.post("/v1/responses", json={"model": "sim", "input": "Hi", "store": True})).json()
        kept = await house.http.get(f"/v1/responses/{made['id']}")

    assert kept.json()["output"][0]["content"][0]["text"] == LEFT


async def test_several_prompts_of_one_body_are_texts_of_their_own(tmp_path: Path) -> None:
    asked = {"model": "sim", "prompt": ["One", "Two", "Three"], "max_tokens": 99}
    for stream in (False, True):
        async with in_process(NUMBERS, config=listed(tmp_path, redaction())) as house:
            answer = await house.http.post("/v1/completions", json={**asked, "stream": stream})
        assert answer.status_code == 200, answer.text
        found = [answer.json()] if not stream else events_of(answer.content)
        texts = dict.fromkeys(range(3), "")
        for each in found:
            for choice in each["choices"]:
                texts[choice["index"]] += choice["text"]
        assert {text.strip() for text in texts.values()} == {LEFT}


class Refusing(PythonPlugin):
    """Refuses an answer in which the word "now" is."""

    pieces = "text"

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        return Reject(403, "Not this.") if "now" in piece.text else CONTINUE


class Failing(PythonPlugin):
    pieces = "text"

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        raise RuntimeError("a secret of the plugin")


class Holding(PythonPlugin):
    """Holds everything back until the end."""

    pieces = "text"
    held = ""

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        self.held += piece.text
        return ChangeText(self.held if piece.last else "")


class Shouting(PythonPlugin):
    """Changes events and requests."""

    @attrs.frozen
    class Settings:
        model: str = ""
        n: int = 0

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        if self.shared.n:
            return replace(request, sampling=replace(request.sampling, n=self.shared.n))
        if self.shared.model:
            return replace(request, model=self.shared.model)
        said = Message("user", (Text("Say it loud."),))
        return replace(request, messages=(*request.messages[:-1], said), prompt=None)

    def on_event(self, event: Event) -> EventVerdict:
        return (replace(event, text=event.text.upper()),) if isinstance(event, TextDelta) else CONTINUE


def ours(attribute: str, **said: Any) -> dict[str, Any]:
    return {"source": f"{HERE}:{attribute}", **said}


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_of_what_the_model_says_is_told_and_the_engine_stops(tmp_path: Path, stream: bool) -> None:
    async with over_http(NUMBERS, config=listed(tmp_path, ours("Refusing"))) as house:
        answer = await house.http.post(CHAT, json=body("Hi", stream=stream))
        await settled(house)
        ended = [each.outcome for each in house.observer.of(AttemptEnded)]
        workers = [each.state for each in house.gateway.registry]

    assert "Not this." in answer.text
    assert "now" not in answer.text
    if stream:
        assert answer.status_code == 200
        assert "Call me at 555" in answer.text
        assert ended == ["PermissionDenied"]
    else:
        assert answer.status_code == 403
    assert workers == ["ready"]


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_of_the_first_piece_is_an_error_of_http(tmp_path: Path, stream: bool) -> None:
    engine = attrs.evolve(NUMBERS, replies=(Reply(pieces=("now", " then")),))
    async with over_http(engine, config=listed(tmp_path, ours("Refusing"))) as house:
        answer = await house.http.post(CHAT, json=body("Hi", stream=stream))
        await settled(house)

    assert answer.status_code == 403
    assert answer.json()["error"]["message"] == "Not this."


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("failure", "status"), [("closed", 500), ("open", 200)])
async def test_a_failure_counts_as_its_entry_says(tmp_path: Path, failure: str, status: int, stream: bool) -> None:
    async with over_http(NUMBERS, config=listed(tmp_path, ours("Failing", on_failure=failure))) as house:
        answer = await house.http.post(CHAT, json=body("Hi", stream=stream))
        await settled(house)
        acted = [(each.hook, each.outcome) for each in house.observer.of(PluginActed)]

    assert answer.status_code == status
    assert "secret" not in answer.text
    assert ("222" in answer.text) == (failure == "open")
    assert acted == [("piece", "failed")]


async def test_a_stream_of_which_all_is_held_back_is_whole_in_the_end(tmp_path: Path) -> None:
    async with over_http(NUMBERS, config=listed(tmp_path, ours("Holding"))) as house:
        answer = await house.http.post(CHAT, json=body("Hi", stream=True))

    found = [APIS["chat"][4](each) for each in events_of(answer.content)]
    assert [each for each in found if each] == [SAID]
    assert answer.content.endswith(b"data: [DONE]\n\n")


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("api", [each for each in APIS if each not in ("completions", "generate")])
async def test_a_plugin_changes_requests_and_events_of_every_api(tmp_path: Path, api: str) -> None:
    path, asked, _, of_whole, _ = APIS[api]
    async with in_process(NUMBERS, config=listed(tmp_path, ours("Shouting"))) as house:
        answer = await house.http.post(path, json=asked)
        assert answer.status_code == 200, answer.text
        tokenizer, (asked_of,) = house.gateway.models["sim"].tokenizer, house.engine.requests

    assert of_whole(answer.json()) == SAID.upper()
    assert "Say it loud." in tokenizer.decode(list(asked_of.input_ids))


@pytest.mark.parametrize(
    ("config", "why"), [({"n": 3}, "how many choices"), ({"model": "other"}, None)], ids=["choices", "model"]
)
async def test_what_a_plugin_may_not_change_of_a_request_is_a_failure(
    tmp_path: Path, config: dict[str, Any], why: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_process(NUMBERS, config=listed(tmp_path, ours("Shouting", config=config))) as house:
        answer = await house.http.post(CHAT, json=body("Hi"))

    if why is None:
        assert answer.status_code == 404  # the model is looked for, as a client's would be
    else:
        assert answer.status_code == 500
        assert why in caplog.text


class Capitals(PythonPlugin):
    """Changes each piece by what came before it: a piece that is shown twice, or not at all, shows."""

    pieces = "text"
    shown = 0

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        left = "".join([each.upper() if (self.shown + at) % 2 else each for at, each in enumerate(piece.text)])
        self.shown += len(piece.text)
        return ChangeText(left)


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("after", [(2, 5, 3), (0, 0, 1)])
@pytest.mark.parametrize("stream", [False, True])
async def test_engines_that_are_lost_are_not_seen_by_plugins(
    tmp_path: Path, stream: bool, after: tuple[int, int, int]
) -> None:
    config = attrs.evolve(listed(tmp_path, ours("Capitals")), workers=THREE.workers)
    config = attrs.evolve(config, routing=attrs.evolve(config.routing, retries=5))

    async def said(house: House) -> str:
        answer = await house.http.post(CHAT, json=body("Hi", stream=stream))
        assert answer.status_code == 200, answer.text
        if not stream:
            return APIS["chat"][3](answer.json())
        assert answer.content.endswith(b"data: [DONE]\n\n")
        return "".join([APIS["chat"][4](each) for each in events_of(answer.content)])

    async with over_http(CHAINED, engines=3, config=config) as house:
        undisturbed = await said(house)
        if stream:
            lose_engines(house, after)
        else:
            for engine, tokens in zip(house.engines[:2], after, strict=False):
                engine.inject(Fault("cut", after=tokens))
        assert await said(house) == undisturbed
        await settled(house)
        asked = sum(len(engine.requests) for engine in house.engines)

    assert asked > 2
    assert undisturbed != undisturbed.lower()
