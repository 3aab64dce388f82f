"""generateContent at the paths of Vertex AI, with Google's SDK as client."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google import genai
from google.genai import errors, types
from google.oauth2.credentials import Credentials
from tests.gateway.conftest import House, over_http

from smg_core import Config
from smg_core.config import ModelConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with over_http(SimulatorConfig(seed=1)) as house:
        yield house


CLIENTS: dict[str, dict[str, Any]] = {
    "a key": {"api_key": "-"},
    "a project": {"project": "p", "location": "eu-west1", "credentials": Credentials(token="t")},
}
"""How a client of Vertex AI says who it is."""


def client(house: House, how: str, version: str | None) -> genai.client.AsyncClient:
    options = types.HttpOptions(base_url=house.url, api_version=version)
    return genai.Client(vertexai=True, http_options=options, **CLIENTS[how]).aio


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("how", list(CLIENTS))
@pytest.mark.parametrize("version", [None, "v1"])
async def test_an_answer_a_stream_and_a_count_come_at_the_paths_of_vertex_ai(
    house: House, how: str, version: str | None
) -> None:
    async with client(house, how, version) as google:
        names = ["sim", "publishers/google/models/sim", (await google.models.get(model="models/sim")).name]
        for model in (*names, *(["projects/p/locations/eu-west1/endpoints/sim"] if how == "a project" else [])):
            assert model
            house.engine.say(Reply("one two"), Reply("three"))
            whole = await google.models.generate_content(model=model, contents="x")
            assert whole.text == "one two"
            stream = await google.models.generate_content_stream(model=model, contents="x")
            assert "".join([chunk.text or "" async for chunk in stream]) == "three"
            counted = await google.models.count_tokens(model=model, contents="x y z")
            assert (counted.total_tokens or 0) > 0


async def test_tools_schemas_and_settings_are_written_as_for_the_other_api(house: House) -> None:
    look = types.FunctionDeclaration(
        name="look",
        parameters=types.Schema(type=types.Type.OBJECT, properties={"at": types.Schema(type=types.Type.STRING)}),
    )
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        temperature=0.5,
        max_output_tokens=500,
        tools=[types.Tool(function_declarations=[look])],
        thinking_config=types.ThinkingConfig(include_thoughts=True),
        safety_settings=[],
    )
    async with client(house, "a key", None) as google:
        house.engine.say(Reply("", tool_calls=(("look", {"at": "it"}),)))
        answer = await google.models.generate_content(model="sim", contents="x", config=config)
    assert answer.function_calls, answer
    (call,) = answer.function_calls
    assert (call.name, call.args) == ("look", {"at": "it"})


@pytest.mark.parametrize("how", list(CLIENTS))
@pytest.mark.parametrize("version", [None, "v1"])
async def test_the_models_are_listed_and_looked_up(house: House, how: str, version: str | None) -> None:
    async with client(house, how, version) as google:
        listed = [model.name async for model in await google.models.list()]
        assert listed == ["publishers/google/models/sim"]
        assert [each.name for each in (await google.models.list(config={"page_size": 1})).page] == listed
        for name in ("sim", *listed):
            model = await google.models.get(model=name)
            assert (model.name, model.display_name, model.version) == (listed[0], "sim", "1")
        with pytest.raises(errors.ClientError) as missing:
            await google.models.get(model="other")
        assert (missing.value.code, missing.value.status) == (404, "NOT_FOUND")


async def test_models_that_a_project_has_tuned_are_adapters_and_here_are_none(house: House) -> None:
    async with client(house, "a project", None) as google:
        assert [model async for model in await google.models.list(config={"query_base": False})] == []
        assert (await google.models.get(model="models/sim")).name == "projects/p/locations/eu-west1/models/sim"


async def test_what_is_not_there_is_said_in_google_s_envelope(house: House) -> None:
    async with client(house, "a key", None) as google:
        with pytest.raises(errors.ClientError) as missing:
            await google.models.generate_content(model="other", contents="x")
        assert (missing.value.code, missing.value.status) == (404, "NOT_FOUND")
    answer = await house.http.post("/v1beta1/publishers/google/models/sim:predict", json={})
    assert answer.status_code == 404
    assert "predict" in answer.json()["error"]["message"]


@pytest.mark.full
async def test_a_model_whose_name_has_a_slash_is_its_publisher_s() -> None:
    config = Config(model=ModelConfig(name="org/model"))
    async with (
        over_http(SimulatorConfig(seed=1, model="org/model"), config=config) as house,
        client(house, "a key", None) as google,
    ):
        house.engine.say(Reply("Hi"))
        assert (await google.models.generate_content(model="org/model", contents="x")).text == "Hi"
