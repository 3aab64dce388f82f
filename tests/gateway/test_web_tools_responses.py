"""The web in the Responses API's own forms: items, events, sources and citations, as the official SDK reads them."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from tests.gateway.conftest import House
from tests.gateway.test_tool_loop import prompt, says
from tests.gateway.web_site import CITES, PLAIN, SEARCH, WebSite, calls, searching_house, web_site

from smg_core.apis.responses.wire.grammar import check_stream
from smg_simulator.answers.replies import Reply

pytestmark = pytest.mark.anyio

WEB: Any = {"type": "web_search"}
SOURCES: Any = ["web_search_call.action.sources", "web_search_call.results"]


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[WebSite]:
    async with web_site() as site:
        yield site


@pytest.fixture(scope="module")
async def house(site: WebSite, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with searching_house(tmp_path_factory.mktemp("web"), site) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
        yield client


async def test_a_search_is_an_item_and_the_answer_cites_its_pages(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, SEARCH, CITES)
    response = await client.responses.create(model="sim", input="Oslo?", tools=[WEB], include=SOURCES)
    search, message = response.output
    assert search.type == "web_search_call"
    assert search.status == "completed"
    assert search.action.type == "search"
    assert (search.action.query, search.action.queries) == ("oslo", ["oslo"])
    assert [source.url for source in search.action.sources] == [
        "https://fjords.example/oslo",
        "https://news.example/a/oslo",
    ]
    assert message.type == "message"
    part = message.content[0]
    assert part.type == "output_text"
    assert part.text == PLAIN
    cited = [(part.text[each.start_index : each.end_index], each.url, each.title) for each in part.annotations]
    assert cited == [
        ("Oslo lies at a fjord", "https://fjords.example/oslo", "Oslo"),
        ("It has a mayor.", "https://news.example/a/oslo", "News"),
    ]
    told = prompt(house)
    assert "【1】 Oslo" in told
    assert "is the text of pages of the web" in told
    kept = await client.responses.retrieve(response.id)
    assert kept.output == response.output


async def test_the_stream_has_the_events_of_a_search_and_of_each_citation(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, SEARCH, CITES)
    stream = await client.responses.create(model="sim", input="Oslo?", tools=[WEB], stream=True)
    events = [event async for event in stream]
    check_stream([event.to_dict(mode="json") for event in events])
    kinds = [event.type for event in events if "web_search_call" in event.type or "annotation" in event.type]
    assert kinds == [
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        *["response.output_text.annotation.added"] * 2,
    ]
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert deltas == PLAIN
    item = events[-1].response.output[0]
    assert item.to_dict()["action"] == {"type": "search", "query": "oslo", "queries": ["oslo"]}
    assert "results" not in item.to_dict()


async def test_domains_place_and_size_of_context_are_those_of_the_request(
    house: House, client: openai.AsyncOpenAI, site: WebSite
) -> None:
    tool: Any = {
        **WEB,
        "filters": {"allowed_domains": ["news.example/a"]},
        "user_location": {"type": "approximate", "city": "Bergen", "country": "NO"},
    }
    says(house, SEARCH, CITES)
    response = await client.responses.create(model="sim", input="Oslo?", tools=[tool], include=SOURCES)
    search, message = response.output
    assert [source.url for source in search.action.sources] == ["https://news.example/a/oslo"]
    assert site.queries[-1] == "oslo site:news.example"
    assert message.content[0].text == "Oslo lies at a fjord. It has a mayor.【2】 That is all."
    assert "The user is in Bergen, NO." in prompt(house)


@pytest.mark.full
async def test_a_page_is_opened_and_words_are_found_in_it(
    house: House, client: openai.AsyncOpenAI, site: WebSite
) -> None:
    url = f"{site.url}/fjord"
    says(house, calls("web_open_page", url=url), calls("web_open_page", url=url, pattern="DEEP"), Reply("Deep【1】."))
    response = await client.responses.create(model="sim", input="How deep?", tools=[WEB])
    opened, found, message = response.output
    assert opened.action.to_dict() == {"type": "open_page", "url": url}
    assert found.action.to_dict() == {"type": "find_in_page", "url": url, "pattern": "DEEP"}
    assert message.content[0].annotations[0].url == url
    assert "The fjord is deep" in prompt(house)


async def test_a_failed_page_is_told_to_the_model_and_the_item_says_so(
    house: House, client: openai.AsyncOpenAI, site: WebSite
) -> None:
    says(house, calls("web_open_page", url="http://10.0.0.1/"), Reply("No."))
    response = await client.responses.create(model="sim", input="?", tools=[WEB])
    assert (response.output[0].type, response.output[0].status) == ("web_search_call", "failed")
    assert "cannot be read" in prompt(house)


async def test_a_demanded_search_is_called_in_the_first_turn(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, SEARCH, CITES)
    response = await client.responses.create(
        model="sim", input="?", tools=[{"type": "web_search_preview"}], tool_choice={"type": "web_search_preview"}
    )
    assert [item.type for item in response.output] == ["web_search_call", "message"]


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"filters": {"allowed_domains": ["https://a.example"]}}, "tools[0].filters.allowed_domains[0]"),
        ({"user_location": {"type": "approximate", "country": "Norway"}}, "tools[0].user_location.country"),
        ({"search_context_size": "huge"}, "tools[0].search_context_size"),
    ],
)
async def test_what_a_search_cannot_be_asked_is_refused_by_its_field(
    client: openai.AsyncOpenAI, more: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="sim", input="?", tools=[{**WEB, **more}])
    assert refused.value.param == param


async def test_a_search_of_a_kept_copy_of_the_web_is_not_offered(house: House) -> None:
    says(house, Reply("Hi."))
    body = {"model": "sim", "input": "?", "tools": [{**WEB, "external_web_access": False}]}
    answer = await house.http.post("/v1/responses", json=body)
    assert answer.status_code == 200
    assert answer.headers["x-smg-not-offered"] == "web_search"
    assert answer.json()["tools"][0]["external_web_access"] is False


async def test_a_conversation_with_searches_goes_on(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, SEARCH, CITES)
    first = await client.responses.create(model="sim", input="Oslo?", tools=[WEB])
    says(house, Reply("So it is."))
    second = await client.responses.create(model="sim", input="Sure?", previous_response_id=first.id, tools=[WEB])
    assert second.output_text == "So it is."
    assert PLAIN in prompt(house)
