"""The tool `image_generation` in Responses: a served model makes pictures for another one, as the official SDK reads it."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.gateway.conftest import House, over_http
from tests.gateway.fleet import joined
from tests.gateway.test_images import colour
from tests.gateway.test_tool_loop import prompt, says
from tests.gateway.web_site import calls

from smg_core import Config
from smg_core.apis.responses.wire.grammar import check_stream
from smg_core.auth.base import Head
from smg_core.grants import Grants
from smg_core.hooks import RequestFinished, ToolCalled
from smg_core.pipeline.settings import McpConfig
from smg_core.request import Caller
from smg_core.workers.worker import WorkerSpec
from smg_mcp.records.base import ToolImage
from smg_simulator.answers.pictures import png_of
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.server.http_server import engine_http_server

pytestmark = pytest.mark.anyio

TOOL: Any = {"type": "image_generation"}
FOX = calls("image_generation", prompt="a red fox")
SAYS = Reply("There it is.")
PNG = base64.b64encode(png_of(8, 8, b"\x10\x20\x30")).decode()


async def by_name(head: Head) -> Caller | None:
    """The key `none` may use no tool, `narrow` but one model."""
    name = head.credential.text if head.credential is not None else "acme"
    grants = {"none": Grants(tools=((),)), "narrow": Grants(models=(("sim",),))}
    return Caller("acme", name, grants.get(name, Grants()))


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    file = tmp_path_factory.mktemp("pictures") / "mcp.yaml"
    file.write_text("servers: [{name: pictures, protocol: model, model: flux}]")
    config = Config(mcp=McpConfig(config=str(file)))
    async with (
        over_http(SimulatorConfig(), config=config, identity=by_name) as house,
        SimulatedEngine(SimulatorConfig(model="flux"), http_server=engine_http_server("127.0.0.1:0")) as painter,
    ):
        await joined(house.gateway, house.gateway.add_worker(WorkerSpec(painter.http_target, dialect="openai")).name)
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
        yield client


async def test_a_picture_is_an_item_and_the_model_knows_that_it_was_made(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, FOX, SAYS)
    response = await client.responses.create(model="sim", input="A fox!", tools=[{**TOOL, "size": "32x16"}])
    call, message = response.output
    assert call.type == "image_generation_call"
    assert (call.status, call.size, call.output_format, call.action) == ("completed", "32x16", "png", "generate")
    assert call.revised_prompt == "a red fox"
    assert colour(call.result)[:2] == (32, 16)
    assert message.type == "message"
    assert "picture was made" in prompt(house)
    assert call.result not in prompt(house)
    kept = await client.responses.retrieve(response.id)
    assert kept.output == response.output
    inner = [each for each in house.observer.of(RequestFinished) if each.api == "images"]
    assert inner[-1].model == "flux"
    assert inner[-1].completion_tokens > 0
    assert house.observer.of(ToolCalled)[-1].server == "image"


async def test_the_stream_has_the_events_of_a_picture_and_its_earlier_states(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, FOX, SAYS)
    tool = {**TOOL, "partial_images": 2}
    stream = await client.responses.create(model="sim", input="A fox!", tools=[tool], stream=True)
    events = [event async for event in stream]
    check_stream([event.to_dict(mode="json") for event in events])
    kinds = [event.type.removeprefix("response.image_generation_call.") for event in events if "image_g" in event.type]
    assert kinds == ["in_progress", "generating", "partial_image", "partial_image", "completed"]
    states = [event for event in events if event.type == "response.image_generation_call.partial_image"]
    assert [each.partial_image_index for each in states] == [0, 1]
    item = events[-1].response.output[0]
    shades = [colour(each.partial_image_b64)[2] for each in states] + [colour(item.result)[2]]
    assert shades == sorted(shades)


@pytest.mark.parametrize("action", ["auto", "edit"])
async def test_pictures_of_the_conversation_are_changed(house: House, client: openai.AsyncOpenAI, action: str) -> None:
    says(house, FOX, SAYS)
    tool = {**TOOL, "action": action}
    first = await client.responses.create(model="sim", input="A fox!", tools=[TOOL])
    says(house, calls("image_generation", prompt="a red fox", **({"edit": True} if action == "auto" else {})), SAYS)
    second = await client.responses.create(model="sim", input="Change it", tools=[tool], previous_response_id=first.id)
    made, changed = first.output[0], second.output[0]
    assert made.type == changed.type == "image_generation_call"
    assert (changed.status, changed.action) == ("completed", "edit")
    assert changed.result != made.result


async def test_a_change_without_a_picture_is_told_to_the_model(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, FOX, SAYS)
    response = await client.responses.create(model="sim", input="?", tools=[{**TOOL, "action": "edit"}])
    assert response.output[0].to_dict()["status"] == "failed"
    assert "no picture in the conversation" in prompt(house)


async def test_a_picture_that_cannot_be_made_is_told_to_the_model(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, calls("image_generation", prompt=""), calls("image_generation"), SAYS)
    response = await client.responses.create(model="sim", input="?", tools=[TOOL])
    assert [each.to_dict()["status"] for each in response.output[:2]] == ["failed", "failed"]
    assert "has to be a text" in prompt(house)


async def test_the_tool_is_for_those_who_may_use_it_whatever_models_they_have(house: House) -> None:
    async with openai.AsyncOpenAI(api_key="none", base_url=f"{house.url}/v1") as client:
        says(house, SAYS)
        raw = await client.responses.with_raw_response.create(model="sim", input="?", tools=[TOOL])
        assert raw.headers["x-smg-not-offered"] == "image_generation"
        with pytest.raises(openai.BadRequestError, match="image_generation"):
            await client.responses.create(model="sim", input="?", tools=[TOOL], tool_choice=TOOL)
    async with openai.AsyncOpenAI(api_key="narrow", base_url=f"{house.url}/v1") as client:
        says(house, FOX, SAYS)
        response = await client.responses.create(model="sim", input="?", tools=[TOOL], tool_choice=TOOL)
        assert response.output[0].to_dict()["status"] == "completed"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"size": "1x99999"}, "tools[0].size"),
        ({"partial_images": 4}, "tools[0].partial_images"),
        ({"output_compression": 50}, "tools[0].output_compression"),
        ({"svg": {}}, "tools[0].svg"),
        ({"action": "draw"}, "tools[0].action"),
        ({"input_image_mask": {"file_id": "file-1"}}, "tools[0].input_image_mask.file_id"),
    ],
)
async def test_settings_that_cannot_be_are_refused_by_their_field(
    client: openai.AsyncOpenAI, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="sim", input="?", tools=[{**TOOL, **fields}])
    assert refused.value.param == param


def paint(prompt: str) -> ToolImage:
    """Paints."""
    return ToolImage(PNG if prompt == "a red fox" else "no base64!", "image/png")


async def test_a_server_of_tools_makes_pictures_where_it_stands_for_the_tool(tmp_path: Path) -> None:
    file = tmp_path / "mcp.yaml"
    file.write_text(
        "servers: [{name: painter, protocol: python, functions: ['tests.gateway.test_picture_tools:paint'],"
        " builtin_type: image_generation, builtin_tool_name: paint}]"
    )
    async with (
        over_http(SimulatorConfig(), config=Config(mcp=McpConfig(config=str(file)))) as house,
        openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client,
    ):
        says(house, FOX, calls("image_generation", prompt="a cat"), SAYS)
        response = await client.responses.create(model="sim", input="A fox!", tools=[TOOL])
    made, broken = (each.to_dict() for each in response.output[:2])
    assert (made["status"], made["result"]) == ("completed", PNG)
    assert broken["status"] == "failed"
