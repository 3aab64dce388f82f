"""The page at `/`: what is served and what to try, with nothing of a client's in it that a browser would run."""

import shlex
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from itertools import pairwise
from string import Template

import pytest
from tests.gateway.conftest import House, in_process

from smg_core import Config
from smg_core.apis.status.front_page import NAMED, front_page
from smg_core.apis.status.routes import curl
from smg_core.auth.settings import AuthConfig
from smg_core.operation.startup_log import announce

pytestmark = pytest.mark.anyio

KEY = "k" * 24


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with in_process() as house:
        yield house


class Read(HTMLParser):
    """The texts of a page by tag, and every tag that it has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {}
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.tags[-1], []).append(data)


async def test_the_page_names_the_models_and_its_command_line_works(house: House) -> None:
    answer = await house.http.get("/")
    read = Read(answer.text)
    words = shlex.split(read.texts["pre"][0].replace("\\\n", ""))
    asked = await house.http.post(words[1], content=words[-1], headers={"content-type": "application/json"})

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert read.texts["code"] == ["sim"]
    assert asked.status_code == 200


@pytest.mark.parametrize("keys", [(), (f"{KEY} tenant=acme",)], ids=["open", "with keys"])
async def test_every_request_to_try_works_in_a_shell_that_has_a_key_where_one_is_asked_for(
    keys: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    async with in_process(config=Config(auth=AuthConfig(keys=keys))) as house:
        with caplog.at_level("INFO", "smg.server"):
            await announce(house.gateway, "http://gateway", 0)
        logged = caplog.messages[-1].partition("try: ")[2]
        for line in (logged, curl(house.gateway.services, "http://gateway", "sim")):
            assert ("$SMG_API_KEY" in line) == bool(keys)
            words = shlex.split(Template(line).safe_substitute(SMG_API_KEY=KEY))
            sent = dict(after.split(": ") for word, after in pairwise(words) if word == "-H")
            assert (await house.http.post(words[1], content=words[-1], headers=sent)).status_code == 200


async def test_the_page_shows_a_request_with_a_key_where_one_is_asked_for() -> None:
    async with in_process(config=Config(auth=AuthConfig(keys=(f"{KEY} tenant=acme",)))) as house:
        page = Read((await house.http.get("/", headers={"x-api-key": KEY})).text)
    assert "$SMG_API_KEY" in "".join(page.texts["pre"])


async def test_a_host_with_markup_in_it_is_text(house: House) -> None:
    answer = await house.http.get("/", headers={"host": "localhost<script>"})

    assert "<script>" not in answer.text


def test_names_of_models_are_text_and_bounded() -> None:
    read = Read(front_page([f"<script>{number}" for number in range(200)], ready=False, trial="x").decode())

    assert "script" not in read.tags
    assert len(read.texts["code"]) == NAMED
    assert any("150 more" in text for text in read.texts["p"])


def test_without_a_model_there_is_nothing_to_try() -> None:
    assert "pre" not in Read(front_page([], ready=False, trial="").decode()).tags
