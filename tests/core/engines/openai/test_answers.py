"""What a server says besides a stream: statuses and bodies as our errors, and which model it serves."""

import json
from typing import Any

import pytest

from smg_core.engines.openai.answers import (
    error_from_http_status,
    error_of_chat,
    model_served,
    retry_after,
    serves_others,
)
from smg_core.errors import EngineFailed, EngineGarbled, EngineRejected, EngineStalled, WorkerBusy, WorkerGone


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, EngineFailed), (400, EngineRejected), (401, EngineFailed), (403, EngineFailed), (404, EngineFailed),
        (405, EngineFailed), (408, EngineStalled), (413, EngineRejected), (422, EngineRejected), (429, WorkerBusy),
        (500, EngineFailed), (502, WorkerGone), (503, WorkerBusy), (504, EngineStalled),
    ],
)  # fmt: skip
def test_a_status_becomes_our_error_and_the_servers_text_stays_inside(status: int, kind: type) -> None:
    error = error_from_http_status(status, b'{"error": {"message": "at 10.0.0.7"}}', 7.0)

    assert type(error) is kind
    assert "10.0.0.7" not in error.message
    assert error.detail == f"HTTP status {status}: at 10.0.0.7"
    assert error.another_worker_may_do is (status in {408, 429, 502, 503, 504})
    assert error.retry_after == (7.0 if kind is WorkerBusy else None)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "oops"}},
        {"error": "oops"},
        {"detail": "oops"},
        {"object": "error", "message": "oops", "code": 400},
        "oops",
    ],
)
def test_the_text_is_found_in_every_shape_of_body(body: Any) -> None:
    assert error_from_http_status(500, json.dumps(body).encode()).detail == "HTTP status 500: oops"


@pytest.mark.parametrize("body", [b"oops", b"\xff", b"", b"[" * 100_000, b'{"error": {"code": 3}}'])
def test_a_body_that_says_nothing_readable_does_no_harm(body: bytes) -> None:
    error = error_from_http_status(500, body)

    assert str(error.detail).startswith("HTTP status 500")
    assert len(str(error.detail)) < 2100


def test_an_error_that_names_the_model_says_so_and_no_other_field_is_repeated() -> None:
    def named(param: object, status: int = 400) -> str | None:
        body = json.dumps({"error": {"message": "no", "param": param}}).encode()
        return error_from_http_status(status, body).param

    assert (named("model"), named("messages"), named(None), named("model", 500)) == ("model", None, None, None)
    assert error_from_http_status(400, b'["model"]').param is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None), ({"retry-after": "7"}, 7.0), ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None), ({"retry-after": "-1"}, None),
        ({"retry-after": "9" * 99}, None),
    ],
)  # fmt: skip
def test_when_to_come_back_is_read_in_seconds(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def models(*cards: dict[str, Any]) -> bytes:
    return json.dumps({"object": "list", "data": cards}).encode()


def test_the_only_model_is_the_one_and_adapters_do_not_count() -> None:
    found = model_served(models({"id": "base", "max_model_len": 4096}, {"id": "lora", "parent": "base"}))

    assert (found.id, found.max_model_len) == ("base", 4096)


def test_a_model_is_found_by_its_name() -> None:
    assert model_served(models({"id": "a"}, {"id": "b", "parent": "a"}), "b").id == "b"


def test_several_names_of_one_model_are_no_several_models() -> None:
    names = models({"id": "a", "root": "/m"}, {"id": "b", "root": "/m"}, {"id": "poet", "root": "/p", "parent": "a"})

    assert model_served(names).id == "a"
    assert model_served(names, preferred=["b"]).id == "b"
    for others in (models({"id": "a", "root": "/m"}, {"id": "b", "root": "/n"}), models({"id": "a"}, {"id": "b"})):
        with pytest.raises(EngineFailed, match="name the one to use"):
            model_served(others)


def test_of_several_models_the_preferred_one_is_taken_and_of_one_that_one() -> None:
    several = models({"id": "a"}, {"id": "b"})

    assert model_served(several, preferred=["b"]).id == "b"
    assert model_served(several, preferred=["", "c", "b", "a"]).id == "b"
    assert model_served(several, "a", preferred=["b"]).id == "a"
    assert model_served(models({"id": "a"}), preferred=["b"]).id == "a"
    with pytest.raises(EngineFailed, match="name the one to use") as caught:
        model_served(several, preferred=["c"])
    assert serves_others(caught.value)
    assert not serves_others(error_from_http_status(500, b""))


@pytest.mark.parametrize(
    ("body", "wanted", "kind", "words"),
    [
        (models({"id": "a"}, {"id": "b"}), "", EngineFailed, "name the one to use; it serves a, b"),
        (models({"id": "a"}), "b", EngineFailed, "wanted 'b'; it serves a"),
        (models(), "", EngineFailed, "it serves none"),
        (b"<html>", "", EngineGarbled, "cannot be read"),
        (b'{"data": 7}', "", EngineGarbled, "cannot be read"),
    ],
)
def test_a_list_that_does_not_settle_it_is_refused_in_words(body: bytes, wanted: str, kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        model_served(body, wanted)


@pytest.mark.parametrize("status", [404, 405])
def test_where_a_server_knows_no_chat_the_log_says_which_dialects_may_be_meant(status: int) -> None:
    error = error_of_chat(status, b'{"error": {"message": "no"}}')

    assert "vllm-http" in (error.detail or "")
    assert "vllm-http" not in error.message
    assert error_of_chat(500, b"oops").detail == error_from_http_status(500, b"oops").detail
