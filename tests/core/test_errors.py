"""The tree of errors: what every class knows of itself, and what it never tells."""

import inspect

import pytest

from smg_core import errors
from smg_core.errors import (
    EngineRejected,
    GuardrailBlocked,
    ModelNotFound,
    PromptTooLong,
    SealBroken,
    SmgError,
    StoreFailed,
    WorkerGone,
)

CLASSES = [
    kind
    for kind in vars(errors).values()
    if inspect.isclass(kind) and issubclass(kind, SmgError) and kind is not SmgError
]
OPENAI_TYPES = {
    "invalid_request_error",
    "rate_limit_error",
    "requests",
    "tokens",
    "insufficient_quota",
    "server_error",
}
ANTHROPIC_TYPES = {
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "conflict_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "api_error",
    "overloaded_error",
    "timeout_error",
}
GEMINI_STATUSES = {
    "INVALID_ARGUMENT",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "NOT_FOUND",
    "DEADLINE_EXCEEDED",
    "RESOURCE_EXHAUSTED",
    "INTERNAL",
    "UNAVAILABLE",
    "ABORTED",
    "CANCELLED",
    "UNIMPLEMENTED",
}
IN_STREAM_CODES = {
    "server_error",
    "invalid_prompt",
    "rate_limit_exceeded",
    "context_length_exceeded",
    "insufficient_quota",
    "server_is_overloaded",
}


def make(kind):
    special = {
        GuardrailBlocked: ("words", "input"),
        PromptTooLong: (10, 5, 12),
        ModelNotFound: ("m",),
        SealBroken: ("tampered",),
        StoreFailed: ("full", "disk"),
    }
    if kind is errors.InputTooLong:
        return kind(10, 5, param="inputs[0]")
    if kind is errors.RecordingInParts:
        return kind("What happened.", 2, param="file", code="media_too_large")
    return kind(*special.get(kind, ("What happened.",)))


def test_every_class_is_exported():
    assert {kind.__name__ for kind in CLASSES} | {"SmgError"} == set(errors.__all__)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_class_knows_its_name_on_every_api(kind):
    assert 400 <= kind.status < 600
    assert kind.openai_type in OPENAI_TYPES
    assert (kind.openai_type == "server_error") == (kind.status >= 499)
    assert kind.anthropic_type in ANTHROPIC_TYPES
    assert kind.gemini_status in GEMINI_STATUSES
    assert kind.in_stream_code in IN_STREAM_CODES
    assert kind.anthropic_status in (None, 402, 529)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_only_failures_of_a_worker_are_tried_on_another(kind):
    if kind.another_worker_may_do:
        assert issubclass(kind, errors.WorkerError)
        assert kind.status in (502, 503, 504)
    if kind.status < 500:
        assert not kind.another_worker_may_do


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_tree_in_the_docstring_is_the_tree(kind):
    # A status is printed where a class sets it anew; a child without one has that of the line above it.
    lines = [line for line in (errors.__doc__ or "").splitlines() if f"+-- {kind.__name__} " in f"{line} "]
    assert len(lines) == 1
    numbers = [int(word) for word in lines[0].split() if word.isdigit()]
    assert numbers in ([], [kind.status])


def test_the_operators_detail_is_in_the_log_line_and_not_in_the_message():
    error = WorkerGone("The engine was lost.", detail="10.0.0.7:50051 reset")
    assert error.message == "The engine was lost."
    assert str(error) == "The engine was lost. (10.0.0.7:50051 reset)"
    assert str(WorkerGone("The engine was lost.")) == "The engine was lost."


def test_a_prompt_that_is_too_long_carries_the_numbers():
    error = PromptTooLong(5000, 100, 4096)
    assert (error.prompt_tokens, error.requested, error.context_length) == (5000, 100, 4096)
    for number in ("5100", "5000", "100", "4096"):
        assert number in error.message
    assert (error.param, error.code) == ("messages", "context_length_exceeded")


def test_a_code_of_the_class_can_be_made_more_precise():
    assert errors.UnsupportedParameter("No.").code == "unsupported_parameter"
    assert errors.UnsupportedParameter("No.", code="unsupported_value").code == "unsupported_value"
    assert EngineRejected("No.").code == "invalid_value"


def test_a_prompt_that_leaves_no_room_at_all_is_told_from_one_that_leaves_too_little():
    assert PromptTooLong(5000, 1, 4096).prompt_alone
    assert PromptTooLong(4096, 1, 4096).prompt_alone
    assert not PromptTooLong(4095, 2, 4096).prompt_alone


def test_a_broken_seal_tells_the_operator_why_and_the_client_only_that():
    error = SealBroken("wrong_tenant", param="messages[1].parts[0]")
    assert (error.reason, error.status, error.code) == ("wrong_tenant", 400, "invalid_encrypted_content")
    assert "tenant" not in error.message
    assert "wrong_tenant" in str(error)


def test_overload_has_a_name_in_responses_and_none_in_chat():
    for kind in (errors.Overloaded, errors.NoWorker, errors.Draining, errors.WorkerBusy):
        assert kind.responses_code == kind.in_stream_code == "server_is_overloaded"
        assert make(kind).code is None


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_only_what_no_retry_can_cure_forbids_one_by_itself(kind):
    hopeless = (errors.QuotaExceeded, errors.NotImplementedHere, errors.DeadlineExceeded)
    assert make(kind).should_retry is (False if kind in hopeless else None)


def test_one_failure_may_say_whether_to_retry():
    assert errors.Conflict("No.", should_retry=True).should_retry is True
    assert errors.QuotaExceeded("No.", should_retry=True).should_retry is True
    assert errors.EngineFailed("No.", should_retry=False).should_retry is False
