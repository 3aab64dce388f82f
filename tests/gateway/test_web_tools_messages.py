"""The web by Messages' own server tools, and results of a client's search that are cited, as the official SDK reads them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import attrs
import pytest
from tests.gateway.conftest import House, over_http
from tests.gateway.test_tool_loop import prompt, says
from tests.gateway.web_site import CITES, PLAIN, SEARCH, WebSite, calls, searching_house, web_config, web_site

from smg_core.pipeline.settings import McpConfig
from smg_simulator.answers.replies import Reply

pytestmark = pytest.mark.anyio

SEARCHES: Any = {"type": "web_search_20250305", "name": "web_search"}
FETCHES: Any = {"type": "web_fetch_20250910", "name": "web_fetch"}
ASKED: Any = [{"role": "user", "content": "Oslo?"}]


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[WebSite]:
    async with web_site() as site:
        yield site


@pytest.fixture(scope="module")
async def house(site: WebSite, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with searching_house(tmp_path_factory.mktemp("web"), site) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(api_key="x", base_url=house.url, max_retries=0) as client:
        yield client


async def asked(client: anthropic.AsyncAnthropic, *tools: Any, streams: bool = False, **fields: Any) -> Any:
    """The message, whole or as the SDK puts it together of a stream."""
    fields = {"model": "sim", "max_tokens": 3000, "messages": ASKED, "tools": list(tools), **fields}
    if not streams:
        return await client.messages.create(**fields)
    async with client.messages.stream(**fields) as stream:
        return await stream.get_final_message()


@pytest.mark.parametrize("streams", [False, True])
async def test_a_search_is_a_server_tool_use_and_texts_cite_its_results(
    house: House, client: anthropic.AsyncAnthropic, streams: bool
) -> None:
    says(house, SEARCH, CITES)
    message = await asked(client, SEARCHES, streams=streams)
    use, result, first, second, rest = message.content
    assert (use.type, use.name, use.input) == ("server_tool_use", "web_search", {"query": "oslo"})
    assert (result.type, result.tool_use_id) == ("web_search_tool_result", use.id)
    assert [(each.url, each.title, each.page_age) for each in result.content] == [
        ("https://fjords.example/oslo", "Oslo", "2026"),
        ("https://news.example/a/oslo", "News", None),
    ]
    assert [block.text for block in (first, second, rest)] == [
        "Oslo lies at a fjord",
        ". It has a mayor.",
        " That is all.",
    ]
    cited = first.citations[0]
    assert (cited.type, cited.url, cited.title, cited.cited_text) == (
        *("web_search_result_location", "https://fjords.example/oslo", "Oslo"),
        "Oslo lies at a fjord.",
    )
    assert rest.citations is None
    assert message.stop_reason == "end_turn"
    assert message.usage.server_tool_use.web_search_requests == 1
    assert message.usage.server_tool_use.web_fetch_requests == 0


async def test_results_that_a_client_sends_back_are_in_the_prompt(
    house: House, client: anthropic.AsyncAnthropic
) -> None:
    says(house, SEARCH, CITES)
    message = await asked(client, SEARCHES)
    says(house, Reply("Yes."))
    content = [block.model_dump(exclude_none=True) for block in message.content]
    again = [*ASKED, {"role": "assistant", "content": content}, {"role": "user", "content": "Sure?"}]
    assert (await asked(client, SEARCHES, messages=again)).content[0].text == "Yes."
    told = prompt(house)
    assert "https://news.example/a/oslo\nOslo has a mayor." in told
    assert PLAIN in told.replace("\n", "")


@pytest.mark.parametrize("streams", [False, True])
async def test_a_tool_is_used_no_more_often_than_the_request_allows(
    house: House, client: anthropic.AsyncAnthropic, streams: bool
) -> None:
    says(house, SEARCH, SEARCH, Reply("No more."))
    message = await asked(client, {**SEARCHES, "max_uses": 1}, streams=streams)
    results = [block for block in message.content if block.type == "web_search_tool_result"]
    assert results[1].content.type == "web_search_tool_result_error"
    assert results[1].content.error_code == "max_uses_exceeded"
    assert message.usage.server_tool_use.web_search_requests == 1


async def test_domains_and_place_of_the_request_hold(
    house: House, client: anthropic.AsyncAnthropic, site: WebSite
) -> None:
    says(house, SEARCH, Reply("So."))
    place = {"type": "approximate", "city": "Bergen", "country": "NO", "timezone": "Europe/Oslo"}
    tool = {**SEARCHES, "blocked_domains": ["fjords.example"], "user_location": place}
    message = await asked(client, tool)
    assert [each.url for each in message.content[1].content] == ["https://news.example/a/oslo"]
    assert site.queries[-1] == "oslo -site:fjords.example"
    assert "The user is in Bergen, NO (time zone Europe/Oslo)." in prompt(house)


@pytest.mark.full
@pytest.mark.parametrize("streams", [False, True])
async def test_a_page_that_the_conversation_names_is_fetched_and_cited(
    house: House, client: anthropic.AsyncAnthropic, site: WebSite, streams: bool
) -> None:
    url = f"{site.url}/fjord"
    says(house, calls("web_fetch", url=url), Reply("It is deep【1】."))
    message = await asked(
        *(client, {**FETCHES, "citations": {"enabled": True}}),
        streams=streams,
        messages=[{"role": "user", "content": f"How deep? See {url}."}],
    )
    use, result, text, _ = message.content
    assert (use.type, use.name) == ("server_tool_use", "web_fetch")
    assert (result.content.type, result.content.url) == ("web_fetch_result", url)
    document = result.content.content
    assert document.title == "Fjord"
    assert document.source.data.startswith("The fjord is deep")
    assert result.content.retrieved_at is not None
    cited = text.citations[0]
    assert (cited.type, cited.document_index, cited.document_title) == ("char_location", 0, "Fjord")
    assert document.source.data[cited.start_char_index : cited.end_char_index] == cited.cited_text
    assert message.usage.server_tool_use.web_fetch_requests == 1


@pytest.mark.parametrize(
    ("path", "tool", "code"),
    [
        ("/unnamed", {}, "url_not_in_prior_context"),
        ("/missing", {}, "url_not_accessible"),
        ("/picture", {}, "unsupported_content_type"),
        ("/missing", {"allowed_domains": ["example.com"]}, "url_not_allowed"),
        ("/" + "x" * 2050, {}, "url_too_long"),
    ],
)
async def test_a_page_that_cannot_be_had_is_an_error_by_the_apis_code(
    house: House, client: anthropic.AsyncAnthropic, site: WebSite, path: str, tool: Any, code: str
) -> None:
    says(house, calls("web_fetch", url=site.url + path), Reply("No."))
    talk = [{"role": "user", "content": f"{site.url}/missing {site.url}/picture"}]
    message = await asked(client, {**FETCHES, **tool}, messages=talk)
    assert message.content[1].content.error_code == code
    assert message.stop_reason == "end_turn"


async def test_a_demanded_search_is_called(house: House, client: anthropic.AsyncAnthropic) -> None:
    says(house, SEARCH, CITES)
    message = await asked(client, SEARCHES, tool_choice={"type": "tool", "name": "web_search"})
    assert message.content[0].type == "server_tool_use"


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({**SEARCHES, "name": "other"}, "name"),
        ({**SEARCHES, "max_uses": 0}, "max_uses"),
        ({**SEARCHES, "allowed_domains": ["a.example"], "blocked_domains": ["b.example"]}, "blocked_domains"),
        ({**SEARCHES, "blocked_domains": ["https://b.example"]}, "blocked_domains[0]"),
        ({**SEARCHES, "user_location": {"type": "exact"}}, "user_location.type"),
        ({**FETCHES, "max_content_tokens": 0}, "max_content_tokens"),
        ({**FETCHES, "url_sources": {"user_input": {"type": "all"}}}, "url_sources"),
    ],
)
async def test_what_a_server_tool_cannot_be_asked_is_refused_by_its_field(house: House, tool: Any, param: str) -> None:
    body = {"model": "sim", "max_tokens": 9, "messages": ASKED, "tools": [tool]}
    answer = await house.http.post("/v1/messages", json=body)
    assert answer.status_code == 400
    assert f"tools[0].{param}" in answer.text or f"tools.0.{param}" in answer.text


async def test_a_bound_of_the_loop_pauses_the_turn(site: WebSite, tmp_path: Path) -> None:
    config = web_config(tmp_path, site)
    config = attrs.evolve(config, mcp=McpConfig(config=config.mcp.config, turns=1))
    async with over_http(config=config) as house:
        says(house, SEARCH, Reply("On."))
        body = {"model": "sim", "max_tokens": 99, "messages": ASKED, "tools": [SEARCHES]}
        paused = (await house.http.post("/v1/messages", json=body)).json()
        assert paused["stop_reason"] == "pause_turn"
        body["messages"] = [*ASKED, {"role": "assistant", "content": paused["content"]}]
        went_on = (await house.http.post("/v1/messages", json=body)).json()
        assert [block.get("text") for block in went_on["content"]] == ["On."]


RESULT: Any = {
    "type": "search_result",
    "source": "kb/1",
    "title": "Pay",
    "content": [{"type": "text", "text": "Pay comes on Friday."}, {"type": "text", "text": "It is 【1】 euros."}],
    "citations": {"enabled": True},
}


@pytest.mark.parametrize("streams", [False, True])
async def test_search_results_of_the_client_are_cited_by_their_blocks(
    house: House, client: anthropic.AsyncAnthropic, streams: bool
) -> None:
    plain = {**RESULT, "source": "kb/0", "citations": {"enabled": False}}
    use = {"type": "tool_use", "id": "t1", "name": "kb", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [plain, RESULT]}
    talk = [*ASKED, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result, RESULT]}]
    says(house, Reply("On Friday【1】. It is euros.【4】"))
    message = await asked(
        client, messages=talk, streams=streams, tools=[{"name": "kb", "input_schema": {"type": "object"}}]
    )
    first, second = message.content
    assert (first.text, second.text) == ("On Friday", ". It is euros.")
    assert first.citations[0].model_dump() == {
        "type": "search_result_location",
        "cited_text": "Pay comes on Friday.",
        "source": "kb/1",
        "title": "Pay",
        "search_result_index": 1,
        "start_block_index": 0,
        "end_block_index": 1,
    }
    assert (second.citations[0].search_result_index, second.citations[0].start_block_index) == (2, 1)
    assert "It is [1] euros." in prompt(house)


async def test_search_results_that_are_not_to_be_cited_have_no_marks(house: House) -> None:
    says(house, Reply("On Friday【1】."))
    talk = [{"role": "user", "content": [{**RESULT, "citations": None}]}]
    body = {"model": "sim", "max_tokens": 99, "messages": talk}
    answer = await house.http.post("/v1/messages", content=json.dumps(body))
    assert answer.json()["content"] == [{"type": "text", "text": "On Friday【1】.", "citations": None}]
