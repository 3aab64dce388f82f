"""The web by Chat's `web_search_options`, as the official SDK reads its annotations; and who may use which built-in tool."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import openai
import pytest
from tests.gateway.conftest import House, over_http
from tests.gateway.test_tool_loop import prompt, says
from tests.gateway.web_site import CITES, PLAIN, SEARCH, WebSite, calls, searching_house, web_config, web_site

from smg_core.auth.settings import AuthConfig
from smg_core.observability.settings import ObservabilityConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

ASKED: Any = [{"role": "user", "content": "Oslo?"}]
KEYS = {name: f"sk-{name}-0123456789abcdef" for name in ("all", "fetches", "none")}


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[WebSite]:
    async with web_site() as site:
        yield site


@pytest.fixture(scope="module")
async def house(site: WebSite, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    observed = ObservabilityConfig(explain=True)
    async with searching_house(tmp_path_factory.mktemp("web"), site, observability=observed) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
        yield client


def spans(annotations: Any, text: str) -> list[tuple[str, str]]:
    found = [each if isinstance(each, dict) else each.to_dict() for each in annotations]
    assert {each["type"] for each in found} == {"url_citation"}
    told = [each["url_citation"] for each in found]
    return [(text[each["start_index"] : each["end_index"]], each["url"]) for each in told]


CITED = [
    ("Oslo lies at a fjord", "https://fjords.example/oslo"),
    ("It has a mayor.", "https://news.example/a/oslo"),
]


async def test_a_message_has_the_pages_that_it_cites(house: House, client: openai.AsyncOpenAI, site: WebSite) -> None:
    says(house, calls("web_search", "I look. ", query="oslo"), CITES)
    options: Any = {
        "search_context_size": "low",
        "user_location": {"type": "approximate", "approximate": {"city": "Bergen"}},
    }
    answer = await client.chat.completions.create(model="sim", messages=ASKED, web_search_options=options)
    message = answer.choices[0].message
    assert message.content is not None
    assert message.content.endswith(PLAIN)
    assert message.content.startswith("I look.")
    assert spans(message.annotations, message.content) == CITED
    assert message.tool_calls is None
    assert "The user is in Bergen." in prompt(house)


async def test_a_stream_has_each_annotation_behind_what_it_cites(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, calls("web_search", "I look. ", query="oslo"), CITES)
    stream = await client.chat.completions.create(model="sim", messages=ASKED, web_search_options={}, stream=True)
    text, found = "", []
    async for chunk in stream:
        delta = chunk.choices[0].delta
        text += delta.content or ""
        for each in (delta.model_extra or {}).get("annotations", []):
            assert each["url_citation"]["end_index"] <= len(text)
            found.append(each)
    assert text.endswith(PLAIN)
    assert spans(found, text) == CITED


async def test_an_answer_that_searches_nothing_has_no_annotations(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, Reply("Hello【1】."))
    answer = await client.chat.completions.create(model="sim", messages=ASKED, web_search_options={})
    assert (answer.choices[0].message.content, answer.choices[0].message.annotations) == ("Hello【1】.", [])


# ------------------------------------------------------------------------------------------------------------ permissions


@attrs.frozen
class Form:
    """How an API is asked for a search of the web, how it demands one, and what the header calls it."""

    path: str
    body: dict[str, Any]
    demands: dict[str, Any]
    called: str


FORMS = {
    "responses": Form(
        "/v1/responses",
        {"model": "sim", "input": "?", "tools": [{"type": "web_search"}]},
        {"tool_choice": {"type": "web_search"}},
        "web_search",
    ),
    "chat": Form(
        "/v1/chat/completions",
        {"model": "sim", "messages": ASKED, "web_search_options": {}},
        {"tool_choice": "required"},
        "web_search_options",
    ),
    "messages": Form(
        "/v1/messages",
        {
            "model": "sim",
            "max_tokens": 99,
            "messages": ASKED,
            "tools": [{"type": "web_search_20250305", "name": "web_search"}],
        },
        {"tool_choice": {"type": "tool", "name": "web_search"}},
        "web_search_20250305",
    ),
    "gemini": Form(
        "/v1beta/models/sim:generateContent",
        {"contents": [{"parts": [{"text": "?"}]}], "tools": [{"googleSearch": {}}]},
        {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        "googleSearch",
    ),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@pytest.fixture(scope="module")
async def guarded(site: WebSite, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    keys = (f"{KEYS['all']} tenant=a", f"{KEYS['fetches']} tenant=a tool=web.fetch", f"{KEYS['none']} tenant=a tool=x")
    config = web_config(tmp_path_factory.mktemp("guarded"), site, auth=AuthConfig(keys=keys))
    async with over_http(SimulatorConfig(seed=1), config=config) as house:
        yield house


@pytest.fixture(scope="module")
async def plain() -> AsyncIterator[House]:
    async with over_http(SimulatorConfig(seed=1)) as house:
        yield house


async def ask(house: House, form: Form, key: str = "", **more: Any) -> Any:
    headers = {"authorization": f"Bearer {KEYS[key]}"} if key else {}
    return await house.http.post(form.path, json={**form.body, **more}, headers=headers)


@every_form
async def test_a_search_that_the_caller_may_not_use_is_not_offered_and_named(guarded: House, form: Form) -> None:
    for key in ("fetches", "none"):
        says(guarded, Reply("No search."))
        answer = await ask(guarded, form, key)
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-smg-not-offered"] == form.called
        assert "Searches the web" not in prompt(guarded)
    says(guarded, SEARCH, CITES)
    answer = await ask(guarded, form, "all")
    assert "x-smg-not-offered" not in answer.headers
    assert "fjords.example" in answer.text


@every_form
async def test_a_search_that_is_not_configured_is_refused_only_where_it_is_demanded(plain: House, form: Form) -> None:
    says(plain, Reply("No search."))
    answer = await ask(plain, form)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-smg-not-offered"] == form.called
    refused = await ask(plain, form, **form.demands)
    assert refused.status_code == 400, refused.text


@every_form
async def test_calls_of_built_in_tools_are_told_by_tool(house: House, form: Form) -> None:
    says(house, SEARCH, CITES)
    asked = {"json": form.body, "headers": {"x-smg-explain": "1"}}
    answer = await house.http.post(form.path, **asked)
    timeline = json.loads(answer.headers["x-smg-explain"])["timeline"]
    assert [each.get("tool") for each in timeline] == [None, "web_search.web_search", None]


@pytest.mark.sampled(keep=2)
@every_form
async def test_what_the_policy_denies_is_not_offered(site: WebSite, tmp_path: Path, form: Form) -> None:
    config = web_config(tmp_path, site)
    file = tmp_path / "mcp.json"
    told = json.loads(file.read_text()) | {"policy": {"tools": {"web.search": "ask"}}}
    file.write_text(json.dumps(told))
    async with over_http(SimulatorConfig(seed=1), config=config) as house:
        says(house, Reply("No."))
        assert (await ask(house, form)).headers["x-smg-not-offered"] == form.called
