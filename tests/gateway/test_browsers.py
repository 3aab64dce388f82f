"""What a page in a browser can do to a gateway on the same machine, and what pages that are allowed can read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.conftest import CHAT, body, in_process, over_http
from tests.gateway.test_admin import opened
from tests.gateway.test_metrics import scraped

from smg_core import Config
from smg_core.errors import PermissionDenied, UnsupportedMedia
from smg_core.http.browsers import check_json_type, hosts_taken, is_loopback
from smg_core.http.routes import WEBSOCKET
from smg_core.http.settings import ServerConfig

pytestmark = pytest.mark.anyio

BROWSER = {"client": ("127.0.0.1", 5), "server": ("127.0.0.1", 8000)}
OTHER_ADDRESS = {"client": ("10.0.0.9", 5), "server": ("10.0.0.1", 8000)}
IN_PROCESS: dict[str, Any] = {"client": None, "server": ("gateway", 80)}


def refused(listens: str, allowed: tuple[str, ...], host: str, scope: dict[str, Any] = BROWSER) -> bool:
    hosts = hosts_taken(listens, allowed, "server.allowed_hosts")
    if hosts is None:
        return False
    try:
        hosts.check(scope, host)
    except PermissionDenied:
        return True
    return False


@pytest.mark.parametrize("listens", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_on_the_loopback_only_its_own_names_are_taken(listens: str) -> None:
    for host in (
        "localhost",
        "LOCALHOST:8000",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:80",
        "[::1]:8000",
        "a.localhost",
        "",
    ):
        assert not refused(listens, (), host)
    for host in (
        "attacker.example",
        "localhost.attacker.example",
        "127.0.0.1.nip.io",
        "x127.0.0.1",
        "[::2]",
        "10.0.0.1",
    ):
        assert refused(listens, (), host)


def test_elsewhere_and_in_process_every_host_is_taken_unless_some_are_named() -> None:
    assert not refused("0.0.0.0", (), "attacker.example")
    assert not refused("127.0.0.1", (), "gateway", IN_PROCESS)
    assert not refused("127.0.0.1", (), "api.example", OTHER_ADDRESS)  # an app under a server that listens elsewhere
    assert not refused("127.0.0.1", ("*",), "attacker.example")
    assert refused("0.0.0.0", ("api.example", ".ours.example"), "attacker.example")
    assert refused("0.0.0.0", ("api.example",), "attacker.example", OTHER_ADDRESS)
    assert not refused("0.0.0.0", ("API.example", ".ours.example"), "a.OURS.example:443")


@given(st.text(alphabet=".:[]al9-", max_size=12))
def test_no_host_however_odd_is_anything_but_taken_or_refused(host: str) -> None:
    refused("127.0.0.1", (), host)


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"])
def test_types_of_json_are_read(kind: str) -> None:
    check_json_type(kind)


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", "json"],
)
def test_no_type_and_those_that_a_page_may_send_unasked_are_not(kind: str) -> None:
    with pytest.raises(UnsupportedMedia):
        check_json_type(kind)


async def test_a_page_that_has_its_name_point_here_gets_nothing_but_health() -> None:
    async with over_http(config=Config(server=ServerConfig(allowed_hosts=("localhost", "127.0.0.1")))) as house:
        rebound = {"host": "attacker.example"}
        answers = [
            await house.http.post(CHAT, json=body(), headers=rebound),
            await house.http.get("/v1/models", headers=rebound),
            await house.http.get("/health", headers=rebound),
            await house.http.post(CHAT, json=body()),
        ]

    assert [answer.status_code for answer in answers] == [403, 403, 200, 200]


@pytest.mark.full
async def test_each_listener_names_its_own_setting_to_who_names_another_host() -> None:
    named, rebound = {}, {"host": "attacker.example"}
    config = Config(server=ServerConfig(allowed_hosts=("localhost", "127.0.0.1")))
    async with over_http(config=config) as house, opened() as door, scraped() as (_, metrics):
        for section, asked, path in (
            ("server", house.http, "/v1/models"),
            ("admin", door.http, "/admin/health"),
            ("metrics", metrics, "/metrics"),
        ):
            answer = await asked.get(path, headers=rebound)
            assert answer.status_code == 403
            named[section] = [each for each in answer.text.split() if each.endswith(".allowed_hosts")]
            assert hasattr(getattr(config, section), "allowed_hosts")
    assert named == {section: [f"{section}.allowed_hosts"] for section in named}


@pytest.mark.full
async def test_where_no_setting_lets_pages_ask_none_is_named() -> None:
    page = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    async with opened() as door:
        told = [
            await door.http.delete("/admin/workers/gpu-0", headers=page),
            await door.house.http.delete("/v1/files/file-1", headers=page),
        ]
    assert [answer.status_code for answer in told] == [403, 403]
    assert ["cors_origins" in answer.text for answer in told] == [False, True]


@pytest.mark.parametrize("kind", ["text/plain", ""])
async def test_a_body_that_does_not_say_it_is_json_is_refused_unless_a_setting_takes_any(kind: str) -> None:
    for config, status in ((Config(), 415), (Config(server=ServerConfig(any_content_type=True)), 200)):
        async with in_process(config=config) as house:
            sent = house.http.build_request("POST", CHAT, json=body(), headers={"content-type": kind})
            if not kind:
                del sent.headers["content-type"]
            assert (await house.http.send(sent)).status_code == status


SAFE = {"GET", "HEAD", "OPTIONS", WEBSOCKET}
FORM: dict[str, Any] = {"files": {"file": ("a.txt", b"a")}, "data": {"purpose": "batch"}}


@pytest.mark.full
async def test_no_route_takes_a_form_from_a_page_that_did_not_have_to_ask_first() -> None:
    """A page can send a form to any address without a preflight, unless it sends a credential in a header."""
    config = Config(server=ServerConfig(cors_origins=("https://app.example",), any_content_type=True))
    page = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    async with over_http(config=config) as house:
        routes = [each for each in house.gateway.asgi().routes if each.method not in SAFE]
        for route in routes:
            path = route.pattern.replace("{model:path}", "sim").replace("{", "").replace("}", "")
            refused = await house.http.request(route.method, path, headers={**page, "content-type": "text/plain"})
            assert refused.status_code == 403, route
        passes = [
            {},
            {"origin": "https://app.example"},
            {"origin": house.url},
            {**page, "sec-fetch-site": "same-origin"},
            {**page, "authorization": "Bearer k"},
        ]
        del house.http.headers["content-type"]
        taken = [(await house.http.post("/v1/files", headers=each, **FORM)).status_code for each in passes]

    assert len(routes) > 20
    assert taken == [200] * len(passes)


async def test_a_page_that_is_allowed_may_ask_for_all_that_a_path_takes() -> None:
    page = {"origin": "https://app.example", "access-control-request-method": "DELETE"}
    async with in_process(config=Config(server=ServerConfig(cors_origins=("https://app.example",)))) as house:
        methods: dict[str, set[str]] = {}
        for route in house.gateway.asgi().routes:
            if route.method != WEBSOCKET:
                methods.setdefault(route.pattern, set()).add(route.method)
        for pattern, taken in methods.items():
            if "{" in pattern.replace("{id}", ""):
                continue
            answer = await house.http.options(pattern.replace("{id}", "x"), headers=page)
            told = set(answer.headers["access-control-allow-methods"].split(", "))
            assert answer.status_code == 204
            assert told >= {*taken, "OPTIONS"}, pattern  # more where another pattern has the path too

    assert any("DELETE" in taken for taken in methods.values())


async def test_pages_that_are_allowed_may_read_what_sdks_read() -> None:
    async with in_process(config=Config(server=ServerConfig(cors_origins=("https://app.example",)))) as house:
        answer = await house.http.post(CHAT, json=body(), headers={"origin": "https://app.example"})

    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert {"x-request-id", "retry-after", "retry-after-ms", "x-should-retry", "x-smg-format-violation"} <= set(exposed)


@pytest.mark.parametrize(
    ("address", "near"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)]
)
def test_what_is_reachable_from_elsewhere_is_told_from_what_is_not(address: str, near: bool) -> None:
    assert is_loopback(address) == near
