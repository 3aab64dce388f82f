"""Every error has an envelope on every API, and no envelope tells what is the operator's alone."""

import json

import pytest
from openai.types.shared import ErrorObject

from smg_core import errors
from smg_core.wire.errors import anthropic_error, anthropic_text, error_headers, gemini_error, gemini_text, openai_error

SPECIAL = {errors.PromptTooLong: (10, 5, 12), errors.ModelNotFound: ("m",), errors.SealBroken: ("tampered",)}
SPECIAL |= {errors.GuardrailBlocked: ("words", "input")}
SPECIAL |= {errors.StoreFailed: ("full", "disk"), errors.InputTooLong: (10, 5), errors.RecordingInParts: ("Long.", 2)}
NAMED = {errors.InputTooLong: {"param": "input"}, errors.RecordingInParts: {"param": "file", "code": "too_long"}}
TEXTS = {openai_error: lambda error: error.message, anthropic_error: anthropic_text, gemini_error: gemini_text}
CLASSES = [getattr(errors, name) for name in errors.__all__ if name != "SmgError"]


def example(kind):
    return kind(*SPECIAL.get(kind, ("What happened.",)), **NAMED.get(kind, {}))


@pytest.mark.sampled(per=("kind",))
@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("encode", [openai_error, anthropic_error, gemini_error])
def test_the_detail_is_never_shown(kind, encode):
    error = example(kind)
    error.detail = "10.0.0.7:50051 refused"
    body = encode(error, "req-1")
    assert b"10.0.0.7" not in body
    assert json.loads(body)["error"]["message"].endswith(TEXTS[encode](error))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_openai_envelope_is_the_sdks_error_object(kind):
    error = example(kind)
    found = ErrorObject.model_validate(json.loads(openai_error(error, ""))["error"], strict=True)
    assert (found.message, found.type, found.param, found.code) == (
        error.message,
        kind.openai_type,
        error.param,
        error.code,
    )


def test_the_anthropic_envelope_has_its_own_shape():
    error = errors.InvalidRequest("Too many of them.", param="tools")
    assert json.loads(anthropic_error(error, "req-1")) == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "tools: Too many of them."},
        "request_id": "req-1",
    }


def test_the_anthropic_message_does_not_name_the_field_twice():
    error = errors.InvalidRequest("'tools' has too many.", param="tools")
    assert json.loads(anthropic_error(error))["error"]["message"] == "'tools' has too many."


def test_the_gemini_envelope_is_an_rpc_status():
    error = errors.RateLimited("Slow down.", retry_after=1.2)
    assert json.loads(gemini_error(error)) == {
        "error": {
            "code": 429,
            "message": "Slow down.",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}],
        }
    }
    [violation] = json.loads(gemini_error(errors.InvalidRequest("No.", param="n")))["error"]["details"]
    assert violation["fieldViolations"] == [{"field": "n", "description": "No."}]


@pytest.mark.parametrize(("seconds", "header"), [(0, b"1"), (0.2, b"1"), (1.01, b"2"), (1e12, b"86400")])
def test_retry_after_is_whole_seconds_and_never_too_early(seconds, header):
    assert dict(error_headers(errors.Draining("Bye.", retry_after=seconds)))[b"retry-after"] == header


def test_no_retry_after_where_nobody_knows():
    assert b"retry-after" not in dict(error_headers(errors.NoWorker("None.")))


def test_a_message_with_half_a_character_still_has_an_envelope():
    assert json.loads(openai_error(errors.InvalidRequest("bad \ud83d")))["error"]["message"] == "bad \ufffd"


def test_the_pause_is_named_in_milliseconds_too_and_never_too_short():
    def milliseconds(seconds):
        return dict(error_headers(errors.RateLimited("Slow down.", retry_after=seconds)))[b"retry-after-ms"]

    assert [milliseconds(each) for each in (0, 0.0001, 1.2, 1.2345, 1e12)] == [
        b"1",
        b"1",
        b"1200",
        b"1235",
        b"86400000",
    ]


def test_an_error_says_whether_to_retry_only_where_the_status_would_mislead():
    assert b"x-should-retry" not in dict(error_headers(errors.EngineFailed("No.", retry_after=1)))
    assert dict(error_headers(errors.QuotaExceeded("No.")))[b"x-should-retry"] == b"false"
    assert dict(error_headers(errors.Conflict("No.", should_retry=True)))[b"x-should-retry"] == b"true"
