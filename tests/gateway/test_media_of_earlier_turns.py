"""A medium of an earlier turn that cannot be used has a note in its place, where the settings say so."""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.conftest import CHAT, House, in_process
from tests.gateway.fleet import CALM
from tests.gateway.test_chat_workers import in_a_row
from tests.gateway.tool_server import RED_DOT
from tests.gateway.vision_models import llava

from smg_core import Config
from smg_core.config import MediaConfig, WorkersConfig
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.pipeline.prompt.media_notes import noted_earlier
from smg_core.request import GenerationRequest, Image, MediaSource, Message, Text, ToolCall, ToolResult
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

RESPONSES, MESSAGES, INTERACTIONS = "/v1/responses", "/v1/messages", "/v1/interactions"
GEMINI = "/v1beta/models/sim:generateContent"
NOTE = "[Here was a picture that cannot be shown.]"
DAMAGED = base64.b64encode(RED_DOT[:30]).decode()
GOOD = base64.b64encode(RED_DOT).decode()
PDF = base64.b64encode(b"%PDF-1.7 and no more").decode()


def chat(data: str) -> list[dict[str, Any]]:
    return [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}]


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        CHAT,
        {
            "messages": [
                {"role": "user", "content": chat("IT")},
                {"role": "assistant", "content": "A dot."},
                {"role": "user", "content": "And?"},
            ]
        },
    ),
    "chat, a result": (
        CHAT,
        {
            "messages": [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c", "content": chat("IT")},
                {"role": "user", "content": "And?"},
            ]
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "input": [
                {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,IT"}]},
                {"role": "assistant", "content": "A dot."},
                {"role": "user", "content": "And?"},
            ]
        },
    ),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 9,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "IT"}}
                    ],
                },
                {"role": "assistant", "content": "A dot."},
                {"role": "user", "content": "And?"},
            ],
        },
    ),
    "generateContent": (
        "/v1beta/models/sim:generateContent",
        {
            "contents": [
                {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "IT"}}]},
                {"role": "model", "parts": [{"text": "A dot."}]},
                {"role": "user", "parts": [{"text": "And?"}]},
            ]
        },
    ),
}


def body(case: str, data: str) -> tuple[str, dict[str, Any]]:
    path, fields = ASKED[case]
    made: dict[str, Any] = json.loads(json.dumps({"model": "sim", **fields}).replace("IT", data))
    return path, made


def prompt(house: House) -> str:
    tokenizer = house.gateway.models["sim"].tokenizer
    assert tokenizer is not None
    return tokenizer.decode(house.engine.requests[-1].input_ids, skip_special_tokens=False)


@pytest.fixture(scope="module")
async def sees(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = str(llava(tmp_path_factory.mktemp("llava") / "model"))
    config = Config(workers=WorkersConfig(dialect="vllm"), media=MediaConfig(note_earlier=True))
    async with in_process(SimulatorConfig(model_folder=folder), config=config) as house:
        yield house


@pytest.fixture(scope="module")
async def reads() -> AsyncIterator[House]:
    async with in_process(SimulatorConfig(seed=1), config=Config(media=MediaConfig(note_earlier=True))) as house:
        yield house


@pytest.mark.parametrize("case", list(ASKED))
async def test_a_damaged_picture_of_an_earlier_turn_has_a_note_in_its_place(sees: House, case: str) -> None:
    path, asked = body(case, DAMAGED)
    answer = await sees.http.post(path, json=asked)
    assert answer.status_code == 200, answer.text
    assert NOTE in prompt(sees)


@pytest.mark.parametrize("case", list(ASKED))
async def test_a_picture_that_the_model_does_not_take_has_a_note_in_its_place(reads: House, case: str) -> None:
    path, asked = body(case, GOOD)
    answer = await reads.http.post(path, json=asked)
    assert answer.status_code == 200, answer.text
    assert NOTE in prompt(reads)


async def test_a_good_picture_stays(sees: House) -> None:
    path, asked = body("chat", GOOD)
    assert (await sees.http.post(path, json=asked)).status_code == 200
    assert NOTE not in prompt(sees)
    assert sees.engine.requests[-1].multimodal is not None


async def test_several_are_each_noted_and_a_good_one_beside_them_stays(sees: House) -> None:
    turn = {"role": "user", "content": [*chat(DAMAGED), *chat(GOOD), *chat(DAMAGED)]}
    asked = {
        "model": "sim",
        "messages": [turn, {"role": "assistant", "content": "y"}, {"role": "user", "content": "z"}],
    }
    assert (await sees.http.post(CHAT, json=asked)).status_code == 200
    assert prompt(sees).count(NOTE) == 2
    assert sees.engine.requests[-1].multimodal is not None


async def test_a_damaged_document_of_an_earlier_turn_has_a_note_in_its_place(reads: House) -> None:
    file = {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}}
    turns = [
        {"role": "user", "content": [file]},
        {"role": "assistant", "content": "y"},
        {"role": "user", "content": "z"},
    ]
    answer = await reads.http.post(CHAT, json={"model": "sim", "messages": turns})
    assert answer.status_code == 200, answer.text
    assert "[Here was a file that cannot be shown.]" in prompt(reads)


def parts(url: str, kind: str = "image/png") -> Iterator[tuple[str, Any]]:
    """The parts of a medium, or document, of this data URL, by the path of the API."""
    data = url.partition("base64,")[2]
    document = not kind.startswith("image/")
    if document:
        file = {"file_data": url, "filename": "a.pdf"}
        yield CHAT, {"type": "file", "file": file}
        yield RESPONSES, {"type": "input_file", **file}
    else:
        yield CHAT, {"type": "image_url", "image_url": {"url": url}}
        yield RESPONSES, {"type": "input_image", "image_url": url}
    source = {"type": "base64", "media_type": kind, "data": data}
    yield MESSAGES, {"type": "document" if document else "image", "source": source}
    yield GEMINI, {"inlineData": {"mimeType": kind, "data": data}}
    yield INTERACTIONS, {"type": "document" if document else "image", "mime_type": kind, "data": data}


def media() -> Iterator[tuple[str, Any]]:
    for data in ("!!!", "", "QUJD"):
        yield from parts(f"data:image/png;base64,{data}")
        yield from parts(f"data:application/pdf;base64,{data}", "application/pdf")
        yield GEMINI, {"inlineData": {"mimeType": "video/mp4", "data": data}}
        yield INTERACTIONS, {"type": "audio", "mime_type": "audio/wav", "data": data}
    yield from parts("data:text/plain;base64,!!!", "text/plain")
    for url in ("nonsense", "data:", "data:image/png", "https://127.0.0.1:1/x.png", "file:///etc/passwd"):
        yield CHAT, {"type": "image_url", "image_url": {"url": url}}
        yield RESPONSES, {"type": "input_image", "image_url": url}
        yield MESSAGES, {"type": "image", "source": {"type": "url", "url": url}}
        yield GEMINI, {"fileData": {"fileUri": url, "mimeType": "image/png"}}
        yield INTERACTIONS, {"type": "image", "uri": url}
    inner = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": GOOD}}
    yield MESSAGES, {"type": "document", "source": {"type": "content", "content": [inner]}}
    yield CHAT, {"type": "file", "file": {"file_id": "file-1"}}
    yield RESPONSES, {"type": "input_file", "file_id": "file-1"}
    yield RESPONSES, {"type": "input_image", "file_id": "file-1"}
    yield MESSAGES, {"type": "image", "source": {"type": "file", "file_id": "file_1"}}
    yield MESSAGES, {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
    kept = "https://generativelanguage.googleapis.com/v1beta/files/abc"
    for uri in (kept, "gs://b/x.png", "files/abc"):
        yield GEMINI, {"fileData": {"fileUri": uri, "mimeType": "image/png"}}
        yield INTERACTIONS, {"type": "image", "uri": uri}
    yield GEMINI, {"fileData": {"fileUri": "https://x.invalid/a"}}


def turns(path: str, part: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A conversation with this part in an earlier turn, and one with it in the last."""
    if path == GEMINI:
        said = [{"role": "user", "parts": [part]}, {"role": "model", "parts": [{"text": "A."}]}]
        return {"contents": [*said, {"role": "user", "parts": [{"text": "And?"}]}]}, {"contents": said[:1]}
    if path == INTERACTIONS:
        steps: list[Any] = [{"type": "user_input", "content": [part]}, {"type": "model_output", "content": "A."}]
        common: dict[str, Any] = {"model": "sim", "store": False}
        return {**common, "input": [*steps, {"type": "user_input", "content": "And?"}]}, {**common, "input": steps[:1]}
    name, common = ("input", {"store": False}) if path == RESPONSES else ("messages", {"max_tokens": 9})
    talk: list[Any] = [{"role": "user", "content": [part]}, {"role": "assistant", "content": "A."}]
    common = {"model": "sim", **common}
    return {**common, name: [*talk, {"role": "user", "content": "And?"}]}, {**common, name: talk[:1]}


async def noted_and_refused(house: House) -> None:
    for path, part in media():
        earlier, last = turns(path, part)
        answer = await house.http.post(path, json=earlier)
        assert answer.status_code == 200, (path, part, answer.text)
        assert "cannot be shown.]" in prompt(house), (path, part)
        answer = await house.http.post(path, json=last)
        assert answer.status_code == 400, (path, part, answer.text)
        assert answer.json()["error"]["message"]


@pytest.mark.full
async def test_whatever_is_wrong_with_it_a_medium_of_an_earlier_turn_is_noted_and_one_of_the_last_refused(
    sees: House, reads: House
) -> None:
    await noted_and_refused(sees)
    await noted_and_refused(reads)


@pytest.mark.full
async def test_so_it_is_before_a_server_that_reads_conversations_itself() -> None:
    config = attrs.evolve(CALM, media=MediaConfig(note_earlier=True))
    async with in_a_row(SimulatorConfig(seed=1), config=config) as row:
        for path, part in media():
            earlier, last = turns(path, part)
            answer = await row.http.post(path, json=earlier)
            assert answer.status_code == 200, (path, part, answer.text)
            tokenizer = row.far.gateway.models["sim"].tokenizer
            assert tokenizer is not None
            said = tokenizer.decode(row.engine.requests[-1].input_ids, skip_special_tokens=False)
            assert "cannot be shown.]" in said, (path, part)
            answer = await row.http.post(path, json=last)
            assert answer.status_code == 400, (path, part, answer.text)


async def test_a_picture_before_the_beginning_of_an_answer_is_of_the_turn_that_is_answered(sees: House) -> None:
    turns = [{"role": "user", "content": chat(DAMAGED)}, {"role": "assistant", "content": "It is"}]
    asked = {"model": "sim", "messages": turns, "continue_final_message": True, "add_generation_prompt": False}
    answer = await sees.http.post(CHAT, json=asked)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "messages[0].content[0]")


async def test_a_medium_that_cannot_be_had_is_no_item_of_a_conversation(reads: House) -> None:
    made = await reads.http.post("/v1/conversations", json={})
    part = {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,%%%"}
    path = f"/v1/conversations/{made.json()['id']}/items"
    answer = await reads.http.post(path, json={"items": [{"role": "user", "content": [part]}]})
    assert answer.status_code == 400
    assert "file_data" in answer.json()["error"]["param"]


@pytest.mark.parametrize("case", list(ASKED))
async def test_the_turn_that_is_to_be_answered_is_refused(sees: House, case: str) -> None:
    path, asked = body(case, DAMAGED)
    turns = asked.get("messages") or asked.get("input") or asked["contents"]
    del turns[-1]
    if case != "chat, a result":
        del turns[-1]
    assert (await sees.http.post(path, json=asked)).status_code == 400


async def test_without_the_setting_a_damaged_picture_of_an_earlier_turn_is_refused() -> None:
    async with in_process(SimulatorConfig(seed=1)) as house:
        for case in ASKED:
            path, asked = body(case, GOOD)
            assert (await house.http.post(path, json=asked)).status_code == 400


ROLES = st.sampled_from(["user", "assistant", "tool", "system"])
PICTURE = Image(MediaSource(url="data:image/png;base64,AAAA"))
PARTS = st.sampled_from([Text("x"), PICTURE, ToolCall("c", "f", "{}"), ToolResult("c", (Text("y"), PICTURE))])


@given(
    turns=st.lists(st.builds(Message, ROLES, st.lists(PARTS, max_size=3).map(tuple)), max_size=5).map(tuple),
    place=st.integers(0, 6),
    order=st.integers(0, 4),
    inner=st.none() | st.integers(0, 3),
)
def test_one_part_at_most_is_changed_and_none_of_the_current_turn(
    turns: tuple[Message, ...], place: int, order: int, inner: int | None
) -> None:
    request = GenerationRequest("id", "m", messages=turns)
    at = f"messages[{place}].parts[{order}]" + ("" if inner is None else f".content[{inner}]")
    for kind in (InvalidRequest, UnsupportedParameter):
        found = noted_earlier(request, kind("no", param=at))
        if found is None:
            continue
        assert found.messages[:place] == turns[:place]
        assert found.messages[place + 1 :] == turns[place + 1 :]
        asking = [turn.role for turn in turns]
        while asking[-1] == "assistant":  # the beginning of the answer
            asking.pop()
        assert any(later != asking[-1] for later in asking[place:])
        before, after = turns[place].parts[order], found.messages[place].parts[order]
        if inner is not None:
            assert isinstance(before, ToolResult)
            assert isinstance(after, ToolResult)
            before, after = before.content[inner], after.content[inner]
        assert before == PICTURE
        assert after == Text(NOTE)
    assert noted_earlier(request, InvalidRequest("no", param="sampling.n")) is None
