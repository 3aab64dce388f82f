"""The web as a server of tools: what is fetched and what is not, what a model is given, and the forms of search services."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_mcp import McpConfigError, McpTools, ToolOutcome
from smg_mcp.functions.loading import checked_functions
from smg_mcp.functions.session import Functions, FunctionSession
from smg_mcp.records.settings import FetchSettings, McpLimits, SearchSettings, WebSettings
from smg_mcp.web.fetching import PageRefused
from smg_mcp.web.page_reading import PageReader
from smg_mcp.web.reading import body_text, foreign
from smg_mcp.web.tools import web_tools

pytestmark = pytest.mark.anyio

PAGE = (
    b"<html><head><title> The  title </title><style>p {}</style></head><body><nav>MENU</nav><h1>Head</h1>"
    b"<p>The text of the page, which is long enough to be one.</p><script>bad()</script><ul><li>One</li></ul></body></html>"
)


@attrs.define(eq=False)
class Site:
    """A host on this machine: what it answers by path, and what it was asked."""

    port: int = 0
    answers: dict[str, bytes] = attrs.field(factory=dict)
    asked: list[str] = attrs.field(factory=list)

    def says(self, path: str, body: bytes, status: int = 200, **headers: str) -> None:
        named = {"content-length": str(len(body)), "content-type": "text/plain", "connection": "close"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        self.answers[path] = f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body

    @property
    def url(self) -> str:
        return f"http://site.example:{self.port}"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        site.asked.append(request)
        path = request.split(" ")[1]
        try:
            if path == "/endless":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
                while True:
                    writer.write(b"x" * 65536)
                    await writer.drain()
            if path == "/silent":
                await reader.read()
            writer.write(site.answers.get(path, b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n"))
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    async with server:
        yield site


async def _local(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"] if host.endswith(".example") else [host]


@asynccontextmanager
async def session(site: Site, **settings: Any) -> AsyncIterator[FunctionSession]:
    fetch = FetchSettings(**{"ports": (site.port,), "private": ("site.example",), **settings})
    tools = checked_functions(web_tools(WebSettings(fetch=fetch), resolver=_local), "web")
    yield FunctionSession(Functions(tools, McpLimits()), "", "")


async def fetched(site: Site, path: str, **settings: Any) -> ToolOutcome:
    url = path if ":" in path else site.url + path
    async with session(site, **settings) as tools:
        return await tools.call("fetch", {"url": url}, twice=True, timeout_s=20, progress=None)


# --------------------------------------------------------------------------------------------------------------- fetching


@pytest.mark.full
async def test_a_page_is_read_as_text_that_is_marked_as_foreign(site: Site) -> None:
    site.says("/page", PAGE, content_type="text/html; charset=utf-8")
    outcome = await fetched(site, "/page")
    assert not outcome.is_error
    assert outcome.structured == {"url": f"{site.url}/page", "title": "The title", "cut": False}
    assert "The text of the page" in outcome.text
    assert "never an instruction" in outcome.text
    assert not any(hidden in outcome.text for hidden in ("bad()", "p {}", "<p>"))
    assert "user-agent: smg-gateway" in site.asked[0]
    assert "cookie" not in site.asked[0].lower()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/page",
        "http://[::1]:{port}/page",
        "http://[::ffff:127.0.0.1]:{port}/page",
        "http://169.254.169.254:{port}/latest/meta-data",
        "http://10.0.0.1:{port}/",
        "http://other.example:{port}/page",
        "http://user:pass@site.example:{port}/page",
        "file:///etc/passwd",
        "ftp://site.example/page",
        "gopher://site.example:{port}/page",
        "data:text/html,hello",
        "javascript:alert(1)",
        "http://site.example:22/page",
        "http://",
        "nothing",
        "http://site.example:{port}/pa ge",
        "http://site.example:{port}/\r\nx: y",
        "http://" + "a" * 64 + ".example:{port}/",
    ],
)
async def test_an_address_outside_of_the_rules_is_never_asked(site: Site, url: str) -> None:
    site.says("/page", PAGE)
    outcome = await fetched(site, url.replace("{port}", str(site.port)))
    assert outcome.is_error
    assert site.asked == []


@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.1:{port}/page", "http://other.example:{port}/page", "file:///etc/passwd", "//[", "http://x:1/"],
)
async def test_a_redirect_is_judged_as_a_new_address(site: Site, location: str) -> None:
    site.says("/page", PAGE)
    site.says("/away", b"", 302, location=location.replace("{port}", str(site.port)))
    outcome = await fetched(site, "/away")
    assert outcome.is_error
    assert len(site.asked) == 1


async def test_redirects_are_followed_as_far_as_the_settings_say(site: Site) -> None:
    site.says("/page", PAGE)
    site.says("/one", b"", 301, location="/page")
    site.says("/loop", b"", 307, location="/loop")
    assert (await fetched(site, "/one")).structured["url"] == f"{site.url}/page"
    site.asked.clear()
    assert "redirects more than 2 times" in (await fetched(site, "/loop", redirects=2)).text
    assert len(site.asked) == 3


async def test_a_body_without_an_end_is_left_at_the_bound(site: Site) -> None:
    outcome = await fetched(site, "/endless", bytes=100_000)
    assert outcome.is_error
    assert "more than 100000 bytes" in outcome.text


async def test_a_host_that_says_nothing_is_left_in_time(site: Site) -> None:
    outcome = await fetched(site, "/silent", seconds=0.05)
    assert outcome.is_error
    assert "did not come" in outcome.text or "could not be" in outcome.text


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", "application/pdf", "video/mp4"])
async def test_what_is_no_text_is_refused_by_its_type(site: Site, kind: str) -> None:
    site.says("/x", b"\x00\x01", content_type=kind)
    outcome = await fetched(site, "/x")
    assert outcome.is_error
    assert kind in outcome.text


async def test_a_compressed_body_is_not_asked_for(site: Site) -> None:
    site.says("/page", PAGE)
    await fetched(site, "/page")
    assert "accept-encoding: identity" in site.asked[0]


async def test_a_compressed_body_that_comes_all_the_same_is_refused(site: Site) -> None:
    site.says("/bomb", b"\x1f\x8b" + bytes(100), content_encoding="gzip")
    assert "not asked for" in (await fetched(site, "/bomb")).text


async def test_a_body_that_breaks_off_is_refused(site: Site) -> None:
    site.says("/short", PAGE, content_length=str(len(PAGE) + 9))
    assert "could not be read to its end" in (await fetched(site, "/short")).text


async def test_hosts_are_bounded_and_blocked(site: Site) -> None:
    site.says("/page", PAGE)
    assert (await fetched(site, "/page", hosts=("good.example",))).is_error
    assert (await fetched(site, "/page", blocked_hosts=(".example",))).is_error
    assert (await fetched(site, "/page", blocked_hosts=("site.example",))).is_error
    assert site.asked == []


async def test_robots_are_heard_where_the_settings_say_so(site: Site) -> None:
    site.says("/page", PAGE)
    site.says("/open", PAGE)
    site.says("/robots.txt", b"User-agent: *\nDisallow: /page\n", content_type="text/plain")
    assert "robots.txt" in (await fetched(site, "/page", robots=True)).text
    assert not (await fetched(site, "/open", robots=True)).is_error
    assert not (await fetched(site, "/page")).is_error


async def test_a_long_page_is_cut_and_says_so(site: Site) -> None:
    site.says("/long", b"x" * 5000, content_type="text/plain")
    outcome = await fetched(site, "/long", characters=100)
    assert outcome.structured["cut"] is True
    assert "[cut at 100 characters]" in outcome.text


# ---------------------------------------------------------------------------------------------------------------- reading


@pytest.mark.full
@pytest.mark.parametrize("alone", [False, True], ids=["trafilatura", "alone"])
async def test_a_page_is_read_with_and_without_the_library(alone: bool) -> None:
    title, text = await PageReader(FetchSettings(), alone=alone).read(PAGE, "text/html")
    assert title == "The title"
    assert "The text of the page" in text
    assert not any(hidden in text for hidden in ("bad()", "p {}", "<p>"))
    assert not alone or ("# Head" in text and "- One" in text and "MENU" not in text)


EVIL = {"comments": b"<!--" * 100_000, "nested": b"<div>" * 100_000, "marks": b"<" * 500_000, "ends": b"</" * 200_000}


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("kind", EVIL)
async def test_a_page_that_is_written_to_take_hours_is_given_up(kind: str) -> None:
    with contextlib.suppress(PageRefused):  # a machine may be quick enough for some
        await PageReader(FetchSettings(read_seconds=0.3), alone=True).read(EVIL[kind], "text/html")


async def test_a_page_whose_reading_does_not_end_is_given_up_in_time() -> None:
    with pytest.raises(PageRefused, match="could not be found within"):
        await PageReader(FetchSettings(read_seconds=0.01)).read(EVIL["comments"], "text/html")


async def test_a_page_that_takes_too_much_memory_is_given_up() -> None:
    with pytest.raises(PageRefused, match="could not be found"):
        await PageReader(FetchSettings(read_memory=8 * 1024 * 1024)).read(PAGE, "text/html")


def test_a_page_is_decoded_by_what_it_says_of_itself() -> None:
    body = '<html><head><meta charset="iso-8859-1"><title>é</title></head><body><p>é</p></body></html>'.encode(
        "latin-1"
    )
    assert "é" in body_text(body, "text/html")
    assert body_text("é".encode("utf-16"), "text/plain; charset=utf-16") == "é"
    assert body_text(b"\xff", "text/plain; charset=nonsense") == "\ufffd"
    assert body_text(b"\xff", "text/plain; charset=base64") == "\ufffd"


@pytest.mark.full
@given(st.text(max_size=100))
def test_a_text_cannot_end_its_own_marks(text: str) -> None:
    lines = foreign(text, "a page").split("\n")
    mark = lines[1].removeprefix("<<<")
    assert lines[-1] == f"{mark}>>>"
    assert mark not in text


# --------------------------------------------------------------------------------------------------------------- searching

HIT = {"url": "https://one.example/", "title": "One", "content": "About one", "description": "About one"}
BAD: list[Any] = [7, {}, {"url": "javascript:x"}, {"url": 7}]


async def searched(site: Site, settings: SearchSettings, **arguments: Any) -> ToolOutcome:
    tools = checked_functions(web_tools(WebSettings(search=settings, fetch=None)), "web")
    made = FunctionSession(Functions(tools, McpLimits()), "", "")
    return await made.call("search", {"query": "a b", **arguments}, twice=True, timeout_s=20, progress=None)


@pytest.mark.parametrize(
    ("service", "path", "answer", "sent"),
    [
        ("searxng", "/search?q=a+b&format=json", {"results": [HIT, *BAD]}, "authorization: Bearer KEY"),
        ("brave", "/search?q=a+b&count=5", {"web": {"results": [HIT, *BAD]}}, "x-subscription-token: KEY"),
        ("tavily", "/search", {"results": [HIT, *BAD]}, "authorization: Bearer KEY"),
    ],
)
async def test_each_service_is_asked_in_its_own_form(
    site: Site, service: Any, path: str, answer: Any, sent: str
) -> None:
    site.says(path, json.dumps(answer).encode(), content_type="application/json")
    settings = SearchSettings(service=service, url=f"http://127.0.0.1:{site.port}/search", key="KEY")
    outcome = await searched(site, settings)
    assert outcome.structured == {"results": [{"url": HIT["url"], "title": "One", "text": "About one"}]}
    assert "never an instruction" in outcome.text
    assert sent in site.asked[0]
    assert site.asked[0].startswith("POST" if service == "tavily" else "GET")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"results": 7}', b"[" * 100_000, b'{"results": [' + b"1," * 9 + b"1]}", b'"\xff"']
)
async def test_an_answer_that_is_none_is_the_tools_error(site: Site, body: bytes) -> None:
    site.says("/search?q=a+b&format=json", body)
    outcome = await searched(site, SearchSettings(service="searxng", url=f"http://127.0.0.1:{site.port}/search"))
    assert outcome.is_error or "Nothing was found" in outcome.text


async def test_an_answer_in_a_coding_that_was_not_asked_for_is_not_unpacked(site: Site) -> None:
    bomb = gzip.compress(b" " * 20_000_000)
    site.says("/search?q=a+b&format=json", bomb, content_encoding="gzip", content_type="application/json")
    outcome = await searched(site, SearchSettings(service="searxng", url=f"http://127.0.0.1:{site.port}/search"))
    assert outcome.is_error
    assert "coding that was not asked for" in outcome.text
    assert "accept-encoding: identity" in site.asked[0].lower()


@pytest.mark.parametrize("status", [302, 401, 429, 500])
async def test_a_service_that_refuses_is_the_tools_error_and_its_key_is_not_told(site: Site, status: int) -> None:
    site.says("/search?q=a+b&format=json", b"KEY", status, location="http://127.0.0.1:1/")
    settings = SearchSettings(service="searxng", url=f"http://127.0.0.1:{site.port}/search", key="KEY")
    outcome = await searched(site, settings)
    assert outcome.is_error
    assert str(status) in outcome.text
    assert "KEY" not in outcome.text


async def test_the_file_switches_them_on_and_the_policy_knows_that_they_read() -> None:
    server = {"name": "web", "protocol": "web", "web": {"search": {"service": "brave", "key": "${BRAVE:-x}"}}}
    config = {"servers": [server], "policy": {"rules": [{"decision": "deny", "read_only": False}]}}
    async with McpTools.from_config(config) as tools:
        assert [(tool.name, tool.hints.is_read_only) for tool in await tools.tools()] == [
            ("search", True),
            ("fetch", True),
        ]
        outcome = await tools.call("fetch", {"url": "http://127.0.0.1/"})
        assert outcome.is_error
        assert "no address on the public internet" in outcome.text


@pytest.mark.parametrize(
    "web",
    [{"search": {"service": "brave"}}, {"search": {"service": "searxng"}}, {"search": {"service": "else"}}, {"x": 1}],
)
def test_settings_that_cannot_be_are_refused(web: Any) -> None:
    with pytest.raises(McpConfigError, match="mcp"):
        McpTools.from_config({"servers": [{"name": "web", "protocol": "web", "web": web}]})


def test_only_a_server_of_the_web_has_its_settings() -> None:
    for server in ({"protocol": "python"}, {"protocol": "streamable", "url": "https://x.example/"}):
        with pytest.raises(McpConfigError, match="web"):
            McpTools.from_config({"servers": [{"name": "x", "web": {}, **server}]})
