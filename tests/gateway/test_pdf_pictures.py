"""PDF documents with pictures: every API shows them to a model that takes pictures, and says where they were not shown."""

import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types
from tests.gateway.conftest import CHAT, House, in_process, over_http
from tests.gateway.test_chat_workers import in_a_row
from tests.gateway.test_pdf import APIS, EACH, PDF, Api
from tests.gateway.test_tool_loop import prompt
from tests.gateway.test_vision import sdk, seen
from tests.gateway.vision_models import image_part, picture, qwen2_vl
from tests.pdf_files import pictured

from smg_core import Config
from smg_core.config import MediaConfig, WorkersConfig
from smg_core.http.settings import DocumentsConfig
from smg_multimodal.decoding.pdf import DocumentLimits, pdf_contents
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

REPORT = pictured(("The lamp is new.", [(56, 56)]), ("The stairs are old.", [(112, 56), (84, 56)]))
SCAN = pictured(("", [(280, 140)]))
LOSSY = "x-smg-lossy"


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_vl(tmp_path_factory.mktemp("qwen") / "model"))


@asynccontextmanager
async def seeing(folder: str, serve: Any = in_process, documents: Any = None, **media: Any) -> AsyncIterator[House]:
    config = Config(
        workers=WorkersConfig(dialect="vllm"), media=MediaConfig(**media), documents=documents or DocumentsConfig()
    )
    async with serve(SimulatorConfig(model_folder=folder), config=config) as house:
        yield house


@pytest.fixture(scope="module")
async def house(qwen: str) -> AsyncIterator[House]:
    async with seeing(qwen) as house:
        yield house


@pytest.fixture(scope="module")
async def blind() -> AsyncIterator[House]:
    async with in_process(SimulatorConfig()) as house:
        yield house


def grids(house: House) -> list[tuple[int, ...]]:
    """The height and width in patches of 14 of each picture that the engine was sent."""
    values = seen(house).tensors["image_grid_thw"].values
    return [tuple(values[at + 1 : at + 3]) for at in range(0, len(values), 3)]


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@EACH
async def test_the_pictures_of_a_pdf_stand_in_its_text(house: House, api: Api) -> None:
    answer = await api.ask(house, PDF, REPORT)
    assert answer.status_code == 200, answer.text
    assert LOSSY not in answer.headers
    assert grids(house) == [(4, 4), (4, 8), (4, 6)]
    text = prompt(house)
    places = [text.index(each) for each in ("The lamp is new.", "The stairs are old.", "</document>")]
    marks = [at for at in range(len(text)) if text.startswith("<|vision_start|>", at)]
    assert [sum(mark > place for mark in marks) for place in places] == [3, 2, 0]


@pytest.mark.full
async def test_files_that_were_uploaded_bring_their_pictures_in_every_api(qwen: str) -> None:
    async with seeing(qwen, over_http) as house:
        own = openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key="k", max_retries=0)
        claude = anthropic.AsyncAnthropic(base_url=house.url, api_key="k", max_retries=0)
        google = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=house.url)).aio
        async with own, claude:
            id = (await own.files.create(file=("scan.pdf", SCAN, PDF), purpose="user_data")).id
            named: Any = [{"role": "user", "content": [{"type": "file", "file": {"file_id": id}}]}]
            await own.chat.completions.create(model="sim", messages=named)
            part: Any = {"type": "input_file", "file_id": id}
            stream = await own.responses.create(model="sim", input=[{"role": "user", "content": [part]}], stream=True)
            assert [event.type async for event in stream][-1] == "response.completed"
            source: Any = {"type": "file", "file_id": id.replace("-", "_")}
            await claude.beta.messages.create(
                model="sim",
                max_tokens=9,
                betas=["files-api-2025-04-14"],
                messages=[{"role": "user", "content": [{"type": "document", "source": source}]}],
            )
            uri: Any = types.Part.from_uri(file_uri=id.replace("file-", "files/"), mime_type=PDF)
            await google.models.generate_content(model="sim", contents=[uri])
            counted = await claude.messages.count_tokens(
                model="sim", messages=[{"role": "user", "content": [{"type": "document", "source": source}]}]
            )
        assert [list(seen(house, at).tensors["image_grid_thw"].values) for at in range(-4, 0)] == [[1, 10, 20]] * 4
        assert counted.input_tokens == len(house.engine.requests[-2].input_ids)


@pytest.mark.sampled(keep=4)
@EACH
async def test_a_model_without_pictures_reads_the_text_and_the_answer_says_so(blind: House, api: Api) -> None:
    answer = await api.ask(blind, PDF, REPORT)
    assert answer.status_code == 200, answer.text
    assert answer.headers[LOSSY] == "documents=without 3 of their pictures"
    assert "The lamp is new." in prompt(blind)
    answer = await api.ask(blind, PDF, SCAN)
    assert answer.status_code == 400, answer.text
    assert "its pages are pictures" in answer.text


async def test_a_stream_says_so_in_its_head(blind: House) -> None:
    api = APIS["Chat Completions"]
    data = base64.b64encode(REPORT).decode()
    async with blind.http.stream("POST", api.path, json={**api.asking(PDF, data), "stream": True}) as answer:
        assert answer.headers[LOSSY] == "documents=without 3 of their pictures"


@pytest.mark.full
async def test_pictures_fill_up_what_room_others_leave_and_never_fail_what_the_text_alone_would_not(qwen: str) -> None:
    file = {"type": "file", "file": {"filename": "r.pdf", "file_data": base64.b64encode(REPORT).decode()}}
    own = [image_part(picture(56, 28)), image_part(picture(28, 56))]

    async def ask(house: House, *parts: Any, **fields: Any) -> Any:
        turns = [{"role": "user", "content": list(parts)}]
        return await house.http.post(CHAT, json={"model": "sim", "messages": turns, **fields})

    async with seeing(qwen, max_items=3) as house:
        answer = await ask(house, file, *own)
        assert (answer.status_code, answer.headers[LOSSY]) == (200, "documents=without 2 of their pictures")
        assert grids(house) == [(4, 4), (4, 6), (6, 4)]
        answer = await ask(house, file, *own, own[0])
        assert (answer.status_code, answer.headers[LOSSY]) == (200, "documents=without 3 of their pictures")
        refused = await ask(house, file, *own, own[0], own[0])
        assert refused.status_code == 400
        assert "messages[0].content[4]" in refused.text
    async with seeing(qwen, formats=("png",)) as house:  # the pictures are JPEG
        answer = await ask(house, file)
        assert (answer.status_code, answer.headers[LOSSY]) == (200, "documents=without 3 of their pictures")
        assert not house.engine.requests[-1].multimodal
        broken = await ask(house, file, image_part(b"no picture"))
        assert broken.status_code == 400
        assert "messages[0].content[1]" in broken.text
    async with seeing(qwen, documents=DocumentsConfig(max_pictures=0)) as house:
        assert (await ask(house, file)).headers[LOSSY] == "documents=without 3 of their pictures"


async def test_where_a_model_takes_fewer_pictures_it_is_shown_half_of_them(house: House) -> None:
    scans = pictured(*[("", [(56 + at, 56)]) for at in range(16)])  # the model takes ten at most
    answer = await APIS["Chat Completions"].ask(house, PDF, scans)
    assert (answer.status_code, answer.headers[LOSSY]) == (200, "documents=without 8 of their pictures")
    assert len(grids(house)) == 8


async def test_a_medium_behind_a_document_is_named_by_its_place_in_the_request(house: House) -> None:
    file = {"type": "file", "file": {"filename": "r.pdf", "file_data": base64.b64encode(REPORT).decode()}}
    turns = [{"role": "user", "content": [file, file, image_part(b"no picture")]}]
    refused = await house.http.post(CHAT, json={"model": "sim", "messages": turns})
    assert refused.status_code == 400
    assert "'messages[0].content[2]" in refused.json()["error"]["message"]


@pytest.mark.full
async def test_a_server_that_reads_prompts_itself_and_cannot_say_what_it_sees_is_sent_the_text() -> None:
    async with in_a_row() as house:
        answer = await APIS["Chat Completions"].ask(house, PDF, REPORT)
        assert answer.status_code == 200, answer.text
        assert answer.headers[LOSSY] == "documents=without 3 of their pictures"


@pytest.mark.full
async def test_an_engine_that_prepares_pictures_itself_is_sent_those_of_the_pages(qwen: str) -> None:
    config = Config(workers=WorkersConfig(dialect="trtllm"))
    async with in_process(SimulatorConfig(model_folder=qwen), config=config) as house, sdk(house) as client:
        file: Any = {"type": "file", "file": {"filename": "s.pdf", "file_data": base64.b64encode(SCAN).decode()}}
        await client.chat.completions.create(model="sim", messages=[{"role": "user", "content": [file]}])
        (scanned,) = pdf_contents(SCAN, DocumentLimits(), pictures=True).pictures
        assert list(seen(house).hashes) == [hashlib.sha256(scanned.data).hexdigest()]
