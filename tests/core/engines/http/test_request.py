"""Heads of requests: what they say, and that no field can begin another."""

import pytest

from smg_core.engines.http.request import request_head
from smg_core.errors import InternalError


def test_a_head() -> None:
    head = request_head("POST", "/generate", "engine:8000", 12, [("Authorization", "Bearer x")])

    assert head.split(b"\r\n") == [
        b"POST /generate HTTP/1.1",
        b"host: engine:8000",
        b"user-agent: smg-gateway",
        b"accept-encoding: identity",
        b"content-length: 12",
        b"Authorization: Bearer x",
        b"",
        b"",
    ]


def test_a_request_without_a_body_says_so_unless_it_asks_for_nothing_else() -> None:
    assert b"content-length" not in request_head("GET", "/health", "e", 0, [])
    assert b"content-length: 0" in request_head("POST", "/flush_cache", "e", 0, [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", "a\r\ny: b"),
        ("x", "a\n"),
        ("x", "a\0"),
        ("x", "é"),
        ("x y", "a"),
        ("", "a"),
        ("x\r\n", "a"),
        ("Content-Length", "3"),
        ("transfer-encoding", "chunked"),
        ("Host", "elsewhere"),
    ],
)
def test_a_field_that_would_change_the_message_is_refused_without_its_value(name: str, value: str) -> None:
    with pytest.raises(InternalError) as caught:
        request_head("GET", "/", "e", 0, [(name, f"{value}")])

    assert "elsewhere" not in str(caught.value.detail)


@pytest.mark.parametrize("path", ["", "health", "/a b", "/a\r\nb", "/é"])
def test_a_path_that_would_change_the_message_is_refused(path: str) -> None:
    with pytest.raises(InternalError):
        request_head("GET", path, "e", 0, [])
