"""The table of routes: every path finds its own route, whatever stands in its values."""

import re
from urllib.parse import quote, unquote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smg_core.http.routes import WEBSOCKET, Route, Routes

OPENAI = """
POST /v1/chat/completions
POST /v1/completions
POST /v1/embeddings
POST /v1/responses
WEBSOCKET /v1/responses
GET /v1/responses/{response_id}
DELETE /v1/responses/{response_id}
POST /v1/responses/{response_id}/cancel
GET /v1/responses/{response_id}/input_items
POST /v1/responses/input_tokens
POST /v1/responses/compact
POST /v1/conversations
GET /v1/conversations/{conversation_id}
POST /v1/conversations/{conversation_id}
DELETE /v1/conversations/{conversation_id}
GET /v1/conversations/{conversation_id}/items
POST /v1/conversations/{conversation_id}/items
GET /v1/conversations/{conversation_id}/items/{item_id}
DELETE /v1/conversations/{conversation_id}/items/{item_id}
WEBSOCKET /v1/realtime
POST /v1/realtime/client_secrets
POST /v1/realtime/calls
POST /v1/realtime/calls/{call_id}/hangup
POST /v1/realtime/calls/{call_id}/accept
POST /v1/realtime/calls/{call_id}/reject
POST /v1/realtime/calls/{call_id}/refer
POST /v1/realtime/sessions
POST /v1/realtime/transcription_sessions
POST /v1/realtime/translations/client_secrets
WEBSOCKET /v1/realtime/translations
GET /v1/models
GET /v1/models/{model:path}
DELETE /v1/models/{model:path}
POST /v1/files
GET /v1/files
GET /v1/files/{file_id}
DELETE /v1/files/{file_id}
GET /v1/files/{file_id}/content
POST /v1/batches
GET /v1/batches
GET /v1/batches/{batch_id}
POST /v1/batches/{batch_id}/cancel
"""
ANTHROPIC = """
HEAD /
POST /v1/messages
POST /v1/messages/count_tokens
POST /v1/messages/batches
GET /v1/messages/batches
GET /v1/messages/batches/{batch_id}
DELETE /v1/messages/batches/{batch_id}
POST /v1/messages/batches/{batch_id}/cancel
GET /v1/messages/batches/{batch_id}/results
"""
GEMINI = """
GET {version}/models
GET {version}/models/{model:path}
POST {version}/models/{model:path}:generateContent
POST {version}/models/{model:path}:streamGenerateContent
POST {version}/models/{model:path}:countTokens
POST {version}/models/{model:path}:embedContent
POST {version}/models/{model:path}:batchEmbedContents
POST {version}/interactions
GET {version}/interactions/{interaction_id}
DELETE {version}/interactions/{interaction_id}
POST {version}/interactions/{interaction_id}/cancel
POST {version}/projects/{project}/locations/{location}/publishers/google/models/{model:path}:generateContent
"""
OTHERS = """
POST /rerank
POST /v1/rerank
POST /v2/rerank
POST /v2/embed
POST /score
POST /v1/score
POST /v1/classify
POST /tokenize
POST /v1/tokenize
POST /detokenize
POST /v1/detokenize
GET /health
GET /readiness
GET /liveness
POST /parse/function_call
POST /parse/reasoning
GET /workers
POST /workers
GET /workers/{worker:path}
DELETE /workers/{worker:path}
"""
LINES = [
    *(line for text in (OPENAI, ANTHROPIC, OTHERS) for line in text.split("\n") if line),
    *(
        line.replace("{version}", version)
        for version in ("/v1", "/v1beta", "/v1alpha")
        for line in GEMINI.split("\n")
        if line and not (version == "/v1" and line.startswith("GET {version}/models"))  # one route with OpenAI's
    ),
]
ROUTES = [
    Route(method, pattern, f"{method} {pattern}") for method, _, pattern in (line.partition(" ") for line in LINES)
]
COMING = Routes(ROUTES)
VALUE = re.compile(r"\{([a-z_]+)(:path)?\}")

# What no value of these APIs is: a word that is another route's own. Ids of the APIs begin with a prefix.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12).map("id_{}".format)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Route[str], dict[str, str], str]:
    """A route, values for its pattern, and the path as a client sends it: slashes of a `path` value encoded or not."""
    route = draw(st.sampled_from(ROUTES))
    values = {}

    def written(found: re.Match[str]) -> str:
        value = draw(texts)
        if found[2]:
            value = "/".join([value, *draw(st.lists(texts, max_size=2))])
        values[found[1]] = value
        return quote(
            value, safe=draw(st.sampled_from(["", ":", "/:"])) if found[2] else draw(st.sampled_from(["", ":"]))
        )

    return route, values, VALUE.sub(written, route.pattern)


def test_there_are_as_many_routes_as_the_apis_will_have() -> None:
    assert len(ROUTES) >= 100


@given(requests())
def test_each_path_finds_its_own_route_and_its_values(asked: tuple[Route[str], dict[str, str], str]) -> None:
    route, values, sent = asked
    assume(not sent.endswith("/"))
    match = COMING.find(route.method, unquote(sent), sent.encode())

    assert match is not None
    assert (match.target, match.values) == (route.target, values)


@given(requests())
def test_a_slash_behind_a_path_is_as_if_it_were_not_there(asked: tuple[Route[str], dict[str, str], str]) -> None:
    route, values, sent = asked
    assume(not sent.endswith("/"))
    path, raw = unquote(f"{sent}/"), f"{sent}/".encode()
    match = COMING.find(route.method, path, raw)

    assert match is not None
    assert (match.target, match.values) == (route.target, values)
    assert COMING.allowed(path, raw) == COMING.allowed(unquote(sent), sent.encode())


@given(requests(), st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"]))
def test_a_method_that_a_path_has_not_finds_nothing_and_the_others_are_named(
    asked: tuple[Route[str], dict[str, str], str], method: str
) -> None:
    route, _, sent = asked
    path, raw = unquote(sent), sent.encode()
    allowed = COMING.allowed(path, raw)

    assert route.method in allowed or route.method == WEBSOCKET
    assert WEBSOCKET not in allowed
    assert (COMING.find(method, path, raw) is not None) == (method in allowed)


def test_a_slash_that_belongs_to_a_value_is_not_the_one_behind_the_path() -> None:
    match = COMING.find("GET", "/v1/conversations/a/items/b//", b"/v1/conversations/a/items/b%2F/")

    assert match is not None
    assert match.values == {"conversation_id": "a", "item_id": "b/"}


def test_without_a_path_as_it_was_sent_the_decoded_one_does() -> None:
    match = COMING.find("GET", "/v1/responses/resp_1")

    assert match is not None
    assert match.values == {"response_id": "resp_1"}


def test_an_encoded_slash_is_part_of_a_value_and_does_not_lead_to_another_route() -> None:
    match = COMING.find("GET", "/v1/conversations/a/items", b"/v1/conversations/a%2Fitems")

    assert match is not None
    assert match.target == "GET /v1/conversations/{conversation_id}"
    assert match.values == {"conversation_id": "a/items"}


@pytest.mark.parametrize("raw_path", [b"/v1%2Fresponses", b"/v1%2fresponses", b"%2fv1/responses"])
def test_an_encoded_slash_ends_no_segment_of_a_path_without_values_either(raw_path: bytes) -> None:
    assert COMING.find("POST", "/v1/responses", b"/v1/responses") is not None
    assert COMING.find("POST", "/v1/responses", raw_path) is None
    assert COMING.allowed("/v1/responses", raw_path) == []


@pytest.mark.parametrize(
    ("method", "path", "target", "model"),
    [
        ("GET", "/v1/models/org/name", "GET /v1/models/{model:path}", "org/name"),
        ("GET", "/v1/models/llama:8b", "GET /v1/models/{model:path}", "llama:8b"),
        ("POST", "/v1/models/llama:8b:countTokens", "POST /v1/models/{model:path}:countTokens", "llama:8b"),
        (
            "POST",
            "/v1beta/models/models/org/m:generateContent",
            "POST /v1beta/models/{model:path}:generateContent",
            None,
        ),
        ("POST", "/v1/models/a:countTokens:generateContent", "POST /v1/models/{model:path}:generateContent", None),
    ],
)
def test_names_of_models_hold_slashes_and_colons(method: str, path: str, target: str, model: str | None) -> None:
    match = COMING.find(method, path)

    assert match is not None
    assert match.target == target
    assert model in (None, match.values["model"])


def test_an_encoded_colon_is_a_colon() -> None:
    raw = b"/v1beta/models/org%2Fm%3AgenerateContent"
    match = COMING.find("POST", unquote(raw.decode()), raw)

    assert match is not None
    assert (match.target, match.values["model"]) == ("POST /v1beta/models/{model:path}:generateContent", "org/m")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/v1",
        "/v1/responses/a/b",
        "/v1/responses//",
        "/v1/nothing/",
        "/v3/models",
        "//",
        "/v1//models",
    ],
)
def test_what_no_route_has_is_found_nowhere(path: str) -> None:
    assert COMING.find("GET", path) is None
    assert COMING.allowed(path) == []


def test_a_nul_in_a_path_finds_nothing() -> None:
    assert COMING.find("GET", "/v1/responses/a\0b", b"/v1/responses/a%00b") is None
    assert COMING.find("GET", "/v1\0models", b"/v1%00models") is None


@given(
    st.lists(
        st.sampled_from(["%C3", "%A9", "%e2%82", "é", "a", "%", "%2F", "%zz", "", "x%20y"]), min_size=1, max_size=12
    )
)
def test_values_are_decoded_as_if_each_stood_alone(segments: list[str]) -> None:
    sent = "/v1/" + "/".join(segments)
    raw = sent.encode("ascii", "replace")
    match = Routes([Route("GET", "/v1/{value:path}", 1)]).find("GET", unquote(raw.decode()), raw)
    expected = "/".join(unquote(each) for each in raw.decode().split("/")[2:])
    if match is not None and "%" in raw.decode() and not raw.endswith(b"/"):
        assert match.values == {"value": expected}


def test_a_path_of_more_segments_than_its_routes_have_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def counted(text: str) -> str:
        decoded.append(text)
        return unquote(text)

    monkeypatch.setattr("smg_core.http.routes.unquote", counted)
    for begin in ("/v1/responses", "/v1/conversations", "/nowhere", "/v1/nowhere"):
        raw = f"{begin}{'/%41' * 10_000}".encode()
        path = unquote(raw.decode())
        assert COMING.find("GET", path, raw) is None
        assert COMING.allowed(path, raw) == []
    assert max(map(len, decoded)) < 100
    assert len(decoded) == 8


def test_a_decoded_path_that_has_a_percent_sign_is_not_decoded_again() -> None:
    match = COMING.find("GET", "/v1/responses/a%41")
    assert match is not None
    assert match.values == {"response_id": "a%41"}


def test_what_was_found_before_is_found_again_and_few_of_it_are_kept() -> None:
    routes = Routes([Route("POST", "/m/{model:path}:say", "say"), Route("GET", "/m/{model:path}", "model")], 4)
    for number in (*range(9), *range(9)):
        for _ in range(2):
            found = routes.find("POST", f"/m/{number}:say")
            assert found is not None
            assert (found.target, found.values) == ("say", {"model": str(number)})
            assert routes.find("POST", f"/m/{number}") is None
            model = routes.find("HEAD", f"/m/{number}/")
            assert model is not None
            assert (model.target, model.values) == ("model", {"model": str(number)})
        assert len(routes._recent) <= 4


def test_head_is_answered_where_get_is() -> None:
    get, head = COMING.find("GET", "/v1/models"), COMING.find("HEAD", "/v1/models")

    assert get == head is not None
    assert COMING.find("HEAD", "/v1/messages") is None


def test_a_word_of_a_sibling_route_is_a_value_for_methods_that_the_sibling_has_not() -> None:
    match = COMING.find("GET", "/v1/responses/compact")

    assert match is not None
    assert match.values == {"response_id": "compact"}
    assert COMING.allowed("/v1/responses/compact") == ["DELETE", "GET", "POST"]


@pytest.mark.parametrize("other", ["/v1/a/{x}", "/v1/a/{other}"])
def test_two_routes_for_the_same_are_a_mistake(other: str) -> None:
    with pytest.raises(ValueError, match="two routes"):
        Routes([Route("GET", "/v1/a/{x}", 1), Route("GET", other, 2)])
    assert Routes([Route("GET", "/v1/a/{x}", 1), Route("POST", other, 2)]).allowed("/v1/a/1") == ["GET", "POST"]


@pytest.mark.parametrize("pattern", ["v1/{x}", "/v1/{X}", "/v1/{x", "/v1/{x:int}"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="not a pattern"):
        Routes([Route("GET", pattern, 1)])
