"""In whose words a request is refused that reaches no handler."""

import pytest

from smg_core.apis import ALL
from smg_core.serving.spec import table_of
from smg_core.wire.base import ErrorEncoder
from smg_core.wire.errors import anthropic_error, gemini_error, openai_error

ENVELOPES = table_of(ALL).envelopes


@pytest.mark.parametrize(
    ("path", "envelope"),
    [
        ("/v1/chat/completions", openai_error),
        ("/v1/responses/resp_1", openai_error),
        ("/v1/messages", anthropic_error),
        ("/v1/messages/batches/x/cancel", anthropic_error),
        ("/v1beta", gemini_error),
        ("/v1beta/models", gemini_error),
        ("/v1beta/models/m:generateContent", gemini_error),
        ("/v1alpha/anything", gemini_error),
        ("/v1beta1/projects/p", gemini_error),
        ("/v1/models/org/m:streamGenerateContent", gemini_error),
        ("/v1/interactions/v1_1", gemini_error),
        ("/v1/models/llama:8b", openai_error),
        ("/health", openai_error),
        ("", openai_error),
        ("/", openai_error),
    ],
)
def test_the_path_says_whose_envelope_it_is(path: str, envelope: ErrorEncoder) -> None:
    assert ENVELOPES.of(path, {}) is envelope


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m", "/v1/files", "/v1/files/f/content", "/nowhere"])
def test_where_apis_share_a_path_the_head_says_it(path: str) -> None:
    assert ENVELOPES.of(path, {"anthropic-version": "2023-06-01", "x-goog-api-key": "k"}) is anthropic_error
    assert ENVELOPES.of(path, {"x-goog-api-key": "k"}) is gemini_error
    assert ENVELOPES.of(path, {}, {"key": ("k",)}) is gemini_error
    assert ENVELOPES.of(path, {"authorization": "Bearer k"}) is openai_error


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/m"])
def test_a_path_of_one_api_keeps_its_envelope_whatever_the_head_says(path: str) -> None:
    heads = [{"anthropic-version": "x"}, {"x-goog-api-key": "x"}, {}]

    assert len({ENVELOPES.of(path, head, {"key"}) for head in heads}) == 1
