"""Search of files as each API defines it: items, events, results, citations, and stores that are not there."""

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types
from tests.gateway.conftest import House, over_http
from tests.gateway.test_tool_loop import prompt, says
from tests.gateway.test_vector_stores import BREAD, LAMP, by_name, store_of
from tests.gateway.web_site import calls

from smg_core.apis.responses.wire.built_in import FileRanking, FileSearchTool, read_file_search
from smg_core.apis.responses.wire.grammar import check_stream
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

LOOKS = calls("file_search", query="lamp")
CITES = Reply("The keeper trims it【1】. So it burns.")
PLAIN = "The keeper trims it. So it burns."
RESULTS: Any = ["file_search_call.results"]


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with over_http(SimulatorConfig(seed=1), identity=by_name) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="own", base_url=f"{house.url}/v1", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
async def store(house: House) -> str:
    async with openai.AsyncOpenAI(api_key="own", base_url=f"{house.url}/v1", max_retries=0) as client:
        return await store_of(client, LAMP, BREAD, name="notes")


async def test_a_search_is_an_item_with_its_results_and_the_answer_cites_a_file(
    house: House, client: openai.AsyncOpenAI, store: str
) -> None:
    says(house, LOOKS, CITES)
    tool: Any = {"type": "file_search", "vector_store_ids": [store], "max_num_results": 3}
    response = await client.responses.create(model="sim", input="Who?", tools=[tool], include=RESULTS)
    search, message = response.output
    assert search.type == "file_search_call"
    assert (search.status, search.queries) == ("completed", ["lamp"])
    assert search.results is not None
    found = search.results[0]
    assert (found.filename, found.text) == ("0.txt", LAMP.decode())
    assert found.score is not None
    assert 0 < found.score <= 1
    assert message.type == "message"
    part = message.content[0]
    assert part.type == "output_text"
    assert part.text == PLAIN
    cited = part.annotations[0]
    assert cited.type == "file_citation"
    assert (cited.file_id, cited.filename) == (found.file_id, "0.txt")
    assert part.text[: cited.index] == "The keeper trims it"
    assert LAMP.decode() in prompt(house)
    assert (await client.responses.retrieve(response.id)).output == response.output


async def test_the_stream_has_the_events_of_a_search_and_results_only_where_they_are_included(
    house: House, client: openai.AsyncOpenAI, store: str
) -> None:
    says(house, LOOKS, CITES)
    tool: Any = {"type": "file_search", "vector_store_ids": [store]}
    stream = await client.responses.create(model="sim", input="Who?", tools=[tool], stream=True)
    events = [event async for event in stream]
    check_stream([event.to_dict(mode="json") for event in events])
    assert [event.type for event in events if "file_search_call" in event.type or "annotation" in event.type] == [
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
        "response.output_text.annotation.added",
    ]
    assert events[-1].response.output[0].results is None


async def test_filters_bound_what_is_found(house: House, client: openai.AsyncOpenAI, store: str) -> None:
    nothing: Any = {"type": "eq", "key": "year", "value": 2024}
    says(house, LOOKS, Reply("Nobody."))
    tool: Any = {"type": "file_search", "vector_store_ids": [store], "filters": nothing}
    response = await client.responses.create(model="sim", input="Who?", tools=[tool], include=RESULTS)
    assert response.output[0].to_dict()["results"] == []
    assert "Nothing in the files fits." in prompt(house)


async def results(house: House, client: openai.AsyncOpenAI, store: str, **fields: Any) -> list[Any]:
    """What a tool with these fields finds."""
    says(house, LOOKS, CITES)
    tool: Any = {"type": "file_search", "vector_store_ids": [store], **fields}
    response = await client.responses.create(model="sim", input="Who?", tools=[tool], include=RESULTS)
    found: list[Any] = response.output[0].to_dict()["results"]  # type: ignore[assignment]
    return found


@pytest.mark.full
async def test_the_number_of_results_their_threshold_and_filters_are_those_of_the_tool(
    house: House, client: openai.AsyncOpenAI
) -> None:
    named = await store_of(client, LAMP, LAMP + b" The lamp burns oil.", b"A lamp.")
    files = [each.id async for each in client.vector_stores.files.list(named, order="asc")]
    for place, file in enumerate(files):
        await client.vector_stores.files.update(file, vector_store_id=named, attributes={"place": place, "kind": "log"})

    every = await results(house, client, named)
    scores = [each["score"] for each in every]
    assert scores == sorted(scores, reverse=True)
    assert {each["file_id"]: each["attributes"] for each in every} == {
        file: {"place": place, "kind": "log"} for place, file in enumerate(files)
    }
    assert await results(house, client, named, max_num_results=2) == every[:2]
    assert await results(house, client, named, ranking_options={"score_threshold": scores[1]}) == every[:2]
    assert await results(house, client, named, ranking_options={"ranker": "none"}) == every  # there are no vectors
    both = [{"type": "gte", "key": "place", "value": 1}, {"type": "eq", "key": "kind", "value": "log"}]
    found = await results(house, client, named, filters={"type": "and", "filters": both})
    assert {each["file_id"] for each in found} == set(files[1:])
    assert await results(house, client, named, filters={"type": "in", "key": "place", "value": [7]}) == []


@pytest.mark.parametrize(
    ("ranking", "weights"),
    [
        (None, None),
        (FileRanking(ranker="auto"), None),
        (FileRanking(ranker="none"), (1.0, 0.0)),  # by vectors alone, where there are any
    ],
)
def test_no_ranker_is_a_search_by_vectors_alone(ranking: FileRanking | None, weights: Any) -> None:
    read = read_file_search(FileSearchTool(vector_store_ids=["vs_1"], ranking_options=ranking), "tools[0]")
    assert read is not None
    assert read.weights == weights


@pytest.mark.full
async def test_each_file_is_cited_where_the_answer_names_it(house: House, client: openai.AsyncOpenAI) -> None:
    named = await store_of(client, LAMP, LAMP + b" The lamp burns oil.")
    says(house, LOOKS, Reply("Zuerst \u00e9 \U0001f4a1\u30101\u3011 und\u30102\u3011\u30101\u3011 Ende."))
    tool: Any = {"type": "file_search", "vector_store_ids": [named]}
    response = await client.responses.create(model="sim", input="Who?", tools=[tool], include=RESULTS)
    search, message = response.output
    order = [each["file_id"] for each in search.to_dict()["results"]]  # type: ignore[union-attr,index]
    part = message.to_dict()["content"][0]  # type: ignore[index]
    assert part["text"] == "Zuerst \u00e9 \U0001f4a1 und Ende."
    cited = [(part["text"][: each["index"]], order.index(each["file_id"])) for each in part["annotations"]]
    assert cited == [
        ("Zuerst \u00e9 \U0001f4a1", 0),
        ("Zuerst \u00e9 \U0001f4a1 und", 1),
        ("Zuerst \u00e9 \U0001f4a1 und", 0),
    ]


async def test_chat_searches_files_by_a_tool_of_that_type(house: House, client: openai.AsyncOpenAI, store: str) -> None:
    says(house, LOOKS, CITES)
    tool: Any = {"type": "file_search", "vector_store_ids": [store]}
    talk: Any = [{"role": "user", "content": "Who?"}]
    answer = await client.chat.completions.create(model="sim", messages=talk, tools=[tool])
    message = answer.choices[0].message
    assert message.content == PLAIN
    cited = message.to_dict()["annotations"][0]["file_citation"]  # type: ignore[index]
    assert (cited["filename"], PLAIN[: cited["index"]]) == ("0.txt", "The keeper trims it")
    assert message.tool_calls is None


@pytest.mark.parametrize("streams", [False, True])
async def test_gemini_is_grounded_in_files(house: House, store: str, streams: bool) -> None:
    says(house, LOOKS, CITES)
    tool = types.Tool(file_search=types.FileSearch(file_search_store_names=[f"fileSearchStores/{store}"], top_k=2))
    config = types.GenerateContentConfig(tools=[tool])
    async with genai.Client(api_key="own", http_options=types.HttpOptions(base_url=house.url)).aio as client:
        if streams:
            chunks = [
                chunk
                async for chunk in await client.models.generate_content_stream(
                    model="sim", contents="Who?", config=config
                )
            ]
            candidate = chunks[-1].candidates[0]
        else:
            whole = await client.models.generate_content(model="sim", contents="Who?", config=config)
            candidate = whole.candidates[0]
    found = candidate.grounding_metadata
    assert found.retrieval_queries == ["lamp"]
    context = found.grounding_chunks[0].retrieved_context
    assert (context.title, context.text, context.file_search_store) == (
        *("0.txt", LAMP.decode()),
        f"fileSearchStores/{store}",
    )
    assert found.grounding_supports[0].segment.text == "The keeper trims it"


@pytest.mark.full
@pytest.mark.parametrize(("filter", "found"), [('kind = "log" AND year >= 1900', 1), ("NOT kind = log", 0), (" ", 1)])
async def test_gemini_searches_files_whose_attributes_fulfil_its_filter(
    house: House, client: openai.AsyncOpenAI, filter: str, found: int
) -> None:
    named = await store_of(client, LAMP)
    (file,) = [each.id async for each in client.vector_stores.files.list(named)]
    await client.vector_stores.files.update(file, vector_store_id=named, attributes={"kind": "log", "year": 1901})
    says(house, LOOKS, CITES)
    tool = types.Tool(file_search=types.FileSearch(file_search_store_names=[named], metadata_filter=filter))
    config = types.GenerateContentConfig(tools=[tool])
    async with genai.Client(api_key="own", http_options=types.HttpOptions(base_url=house.url)).aio as google:
        whole = await google.models.generate_content(model="sim", contents="Who?", config=config)
        assert len(whole.candidates[0].grounding_metadata.grounding_chunks or ()) == found
        tool.file_search.metadata_filter = "kind = (1)"
        with pytest.raises(errors.ClientError, match=r"metadataFilter.*a value is expected, at character 8"):
            await google.models.generate_content(model="sim", contents="Who?", config=config)


FORMS: dict[str, Any] = {
    "/v1/responses": lambda store: {
        "model": "sim",
        "input": "?",
        "tools": [{"type": "file_search", "vector_store_ids": [store]}],
    },
    "/v1/chat/completions": lambda store: {
        "model": "sim",
        "messages": [{"role": "user", "content": "?"}],
        "tools": [{"type": "file_search", "vector_store_ids": [store]}],
    },
    "/v1beta/models/sim:generateContent": lambda store: {
        "contents": [{"parts": [{"text": "?"}]}],
        "tools": [{"fileSearch": {"fileSearchStoreNames": [store]}}],
    },
}
every_form = pytest.mark.parametrize("path", FORMS)


@every_form
async def test_a_store_that_is_not_there_is_an_error_by_its_name(house: House, store: str, path: str) -> None:
    for named, tenant in (("vs_nothing", "own"), (store, "other")):
        answer = await house.http.post(
            path, json=FORMS[path](named), headers={"authorization": f"Bearer {tenant}", "x-goog-api-key": tenant}
        )
        assert answer.status_code == 404, answer.text
        assert named in answer.text
        assert "tools[0]" in answer.text or path.startswith("/v1beta")


async def test_stores_of_googles_kind_are_refused_and_their_clients_told_where_stores_are_made(house: House) -> None:
    async with genai.Client(api_key="own", http_options=types.HttpOptions(base_url=house.url)).aio as google:
        stores, named = google.file_search_stores, "fileSearchStores/x"
        for ask in (
            stores.create(config={"display_name": "x"}),
            stores.get(name=named),
            stores.list(),
            stores.import_file(file_search_store_name=named, file_name="files/a"),
        ):
            with pytest.raises(errors.ClientError, match="Stores are made and filled at /v1/vector_stores"):
                await ask


async def test_a_store_that_is_not_there_ends_a_stream_before_it_begins(house: House) -> None:
    body = FORMS["/v1/responses"]("vs_nothing") | {"stream": True}
    answer = await house.http.post("/v1/responses", json=body, headers={"authorization": "Bearer own"})
    assert answer.status_code == 404


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"max_num_results": 51}, "tools[0].max_num_results"),
        ({"filters": {"type": "like", "key": "a", "value": "b"}}, "tools[0].filters.type"),
        ({"ranking_options": {"score_threshold": 2}}, "tools[0].ranking_options.score_threshold"),
    ],
)
async def test_what_a_search_of_files_cannot_be_asked_is_refused_by_its_field(
    client: openai.AsyncOpenAI, store: str, more: Any, param: str
) -> None:
    tool: Any = {"type": "file_search", "vector_store_ids": [store], **more}
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="sim", input="?", tools=[tool])
    assert refused.value.param == param


async def test_a_demanded_search_of_files_is_called(house: House, client: openai.AsyncOpenAI, store: str) -> None:
    says(house, LOOKS, CITES)
    tool: Any = {"type": "file_search", "vector_store_ids": [store]}
    response = await client.responses.create(model="sim", input="?", tools=[tool], tool_choice={"type": "file_search"})
    assert [item.type for item in response.output] == ["file_search_call", "message"]


async def test_a_background_response_searches_files(house: House, client: openai.AsyncOpenAI, store: str) -> None:
    says(house, LOOKS, CITES)
    tool: Any = {"type": "file_search", "vector_store_ids": [store]}
    stream = await client.responses.create(model="sim", input="?", tools=[tool], background=True, stream=True)
    events = [event async for event in stream]
    assert events[-1].response.output_text == PLAIN


async def test_messages_is_given_files_by_the_clients_own_search_results(house: House, store: str) -> None:
    """The API has no search of files of its own: a store is searched by the client, and its parts are `search_result` blocks."""
    async with openai.AsyncOpenAI(api_key="own", base_url=f"{house.url}/v1") as client:
        found = (await client.vector_stores.search(store, query="lamp")).data[0]
    block: Any = {
        "type": "search_result",
        "source": found.file_id,
        "title": found.filename,
        "content": [{"type": "text", "text": part.text} for part in found.content],
        "citations": {"enabled": True},
    }
    says(house, CITES)
    async with anthropic.AsyncAnthropic(api_key="own", base_url=house.url) as messages:
        talk: Any = [{"role": "user", "content": [block, {"type": "text", "text": "Who?"}]}]
        answer = await messages.messages.create(model="sim", max_tokens=99, messages=talk)
    cited = answer.content[0].citations[0]  # type: ignore[union-attr,index]
    assert (cited.type, cited.source, cited.cited_text) == ("search_result_location", found.file_id, LAMP.decode())
