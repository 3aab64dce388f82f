"""The web by generateContent's own tools, as google-genai reads what an answer is grounded in."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google import genai
from google.genai import types
from tests.gateway.conftest import House
from tests.gateway.test_tool_loop import prompt, says
from tests.gateway.web_site import CITES, PLAIN, SEARCH, WebSite, calls, searching_house, web_site

from smg_simulator.answers.replies import Reply

pytestmark = pytest.mark.anyio

SEARCHES = types.Tool(google_search=types.GoogleSearch())
READS = types.Tool(url_context=types.UrlContext())


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[WebSite]:
    async with web_site() as site:
        yield site


@pytest.fixture(scope="module")
async def house(site: WebSite, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with searching_house(tmp_path_factory.mktemp("web"), site) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[Any]:
    options = types.HttpOptions(base_url=house.url)
    async with genai.Client(api_key="x", http_options=options).aio as client:
        yield client


async def answered(client: Any, *, streams: bool, **config: Any) -> tuple[str, Any]:
    """The text of the answer, and its candidate: the last of a stream."""
    asked = {"model": "sim", "contents": "Oslo?", "config": types.GenerateContentConfig(**config)}
    if not streams:
        whole = await client.models.generate_content(**asked)
        return whole.text, whole.candidates[0]
    chunks = [chunk async for chunk in await client.models.generate_content_stream(**asked)]
    return "".join(chunk.text or "" for chunk in chunks), chunks[-1].candidates[0]


@pytest.mark.parametrize("streams", [False, True])
async def test_an_answer_tells_its_queries_its_pages_and_what_they_support(
    house: House, client: Any, streams: bool
) -> None:
    says(house, SEARCH, CITES)
    text, candidate = await answered(client, streams=streams, tools=[SEARCHES])
    assert text == PLAIN
    found = candidate.grounding_metadata
    assert found.web_search_queries == ["oslo"]
    assert [(chunk.web.uri, chunk.web.title) for chunk in found.grounding_chunks] == [
        ("https://fjords.example/oslo", "Oslo"),
        ("https://news.example/a/oslo", "News"),
    ]
    assert [
        (
            support.segment.start_index or 0,
            support.segment.end_index,
            support.segment.text,
            support.grounding_chunk_indices,
        )
        for support in found.grounding_supports
    ] == [(0, 20, "Oslo lies at a fjord", [0]), (22, 37, "It has a mayor.", [1])]


@pytest.mark.parametrize("streams", [False, True])
async def test_places_are_counted_in_bytes_over_all_turns(house: House, client: Any, streams: bool) -> None:
    says(house, calls("web_search", "Ich schaue öfter. ", query="oslo"), Reply("Schön【1】【2】."))
    text, candidate = await answered(client, streams=streams, tools=[SEARCHES])
    support = candidate.grounding_metadata.grounding_supports[0]
    segment = support.segment
    assert text.encode()[segment.start_index : segment.end_index].decode() == segment.text == "Schön"
    assert support.grounding_chunk_indices == [0, 1]


@pytest.mark.full
async def test_a_page_is_read_and_its_address_and_fate_are_told(house: House, client: Any, site: WebSite) -> None:
    good, bad = f"{site.url}/fjord", "http://10.0.0.1/"
    says(house, calls("web_fetch", url=good), calls("web_fetch", url=bad), Reply("Deep【1】."))
    _, candidate = await answered(client, streams=False, tools=[READS])
    told = candidate.url_context_metadata.url_metadata
    assert [(each.retrieved_url, each.url_retrieval_status.value) for each in told] == [
        (good, "URL_RETRIEVAL_STATUS_SUCCESS"),
        (bad, "URL_RETRIEVAL_STATUS_UNSAFE"),
    ]
    assert candidate.grounding_metadata.grounding_chunks[0].web.uri == good
    assert "The fjord is deep" in prompt(house)


async def test_calls_are_parts_where_the_client_asks_for_them(house: House, client: Any) -> None:
    says(house, SEARCH, CITES)
    config = types.ToolConfig(include_server_side_tool_invocations=True)
    _, candidate = await answered(client, streams=False, tools=[SEARCHES], tool_config=config)
    call, result, *_ = candidate.content.parts
    assert (call.tool_call.tool_type.value, call.tool_call.args) == ("GOOGLE_SEARCH_WEB", {"queries": ["oslo"]})
    assert result.tool_response.response["output"][0]["uri"] == "https://fjords.example/oslo"


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"googleSearch": {"timeRangeFilter": {"startTime": "2026-01-01T00:00:00Z"}}}, "googleSearch.timeRangeFilter"),
        ({"googleSearch": {"excludeDomains": ["http://a.example"]}}, "googleSearch.excludeDomains[0]"),
    ],
)
async def test_what_a_search_cannot_be_asked_is_refused_by_its_field(house: House, tool: Any, param: str) -> None:
    body = {"contents": [{"parts": [{"text": "?"}]}], "tools": [tool]}
    answer = await house.http.post("/v1beta/models/sim:generateContent", json=body)
    assert answer.status_code == 400
    assert f"tools[0].{param}" in answer.text
