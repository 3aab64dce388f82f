"""The page at `/`: what is served and what to try, with nothing of a client's in it that a browser would run."""

import shlex
from collections.abc import AsyncIterator
from html.parser import HTMLParser

import pytest
from tests.gateway.conftest import House, in_process

from smg_core.server.front_page import NAMED, front_page

pytestmark = pytest.mark.anyio


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
