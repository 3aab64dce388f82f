"""What an engine's refusal means to us and to the client."""

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smg_core.engines.status import NAMES, error_from_http, error_from_reset, error_from_status, percent_decode
from smg_core.errors import (
    EngineFailed,
    EngineGarbled,
    EngineRejected,
    EngineTimeout,
    SmgError,
    WorkerBusy,
    WorkerError,
    WorkerGone,
)

EXPECTED: dict[str, type[SmgError]] = {
    "CANCELLED": WorkerGone,
    "UNKNOWN": EngineFailed,
    "INVALID_ARGUMENT": EngineRejected,
    "DEADLINE_EXCEEDED": EngineTimeout,
    "NOT_FOUND": EngineRejected,
    "ALREADY_EXISTS": EngineFailed,
    "PERMISSION_DENIED": WorkerError,
    "RESOURCE_EXHAUSTED": WorkerBusy,
    "FAILED_PRECONDITION": EngineRejected,
    "ABORTED": WorkerGone,
    "OUT_OF_RANGE": EngineRejected,
    "UNIMPLEMENTED": EngineFailed,
    "INTERNAL": EngineFailed,
    "UNAVAILABLE": WorkerGone,
    "DATA_LOSS": EngineFailed,
    "UNAUTHENTICATED": WorkerError,
}
SECRET = "worker-7.internal:50051 said /opt/models/x is locked"


@pytest.mark.parametrize("code", list(grpc.StatusCode), ids=lambda code: code.name)
def test_every_status_of_grpc_has_its_error(code: grpc.StatusCode) -> None:
    number = code.value[0]
    assert NAMES[number] == code.name
    error = error_from_status(number, SECRET)
    if code is grpc.StatusCode.OK:
        assert error is None
        return
    assert type(error) is EXPECTED[code.name]
    assert error.detail == f"{code.name}: {SECRET}"


@pytest.mark.parametrize("code", range(1, 17))
def test_an_engines_text_never_reaches_the_client(code: int) -> None:
    error = error_from_status(code, SECRET)
    assert error is not None
    assert SECRET not in error.message
    assert error_from_status(code) is not None


def test_exactly_what_another_worker_may_do_says_so() -> None:
    retried = {
        name for number, name in enumerate(NAMES) if (e := error_from_status(number)) and e.another_worker_may_do
    }
    assert retried == {"CANCELLED", "RESOURCE_EXHAUSTED", "ABORTED", "UNAVAILABLE"}


@given(st.integers(17, 10**9), st.text())
@settings(deadline=None)
def test_numbers_that_grpc_does_not_know_are_failures(code: int, text: str) -> None:
    error = error_from_status(code, text)
    assert type(error) is EngineFailed
    assert str(code) in (error.detail or "")


def test_a_traceback_is_cut() -> None:
    error = error_from_status(13, "x" * 100_000)
    assert error is not None
    assert len(error.detail or "") < 3000


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, EngineFailed),
        (401, WorkerError),
        (403, WorkerError),
        (404, EngineFailed),
        (429, WorkerGone),
        (502, WorkerGone),
        (503, WorkerGone),
        (504, WorkerGone),
        (418, EngineFailed),
        (500, EngineFailed),
        (200, EngineFailed),
    ],
)
def test_http_statuses_follow_grpcs_own_table(status: int, error: type[SmgError]) -> None:
    found = error_from_http(status, SECRET)
    assert type(found) is error
    assert SECRET not in found.message
    assert f"HTTP status {status}" in (found.detail or "")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (0x0, EngineGarbled),
        (0x1, EngineGarbled),
        (0x2, EngineFailed),
        (0x7, WorkerGone),
        (0x8, WorkerGone),
        (0xB, WorkerBusy),
        (0xC, WorkerError),
        (0xD, EngineGarbled),
        (0x77, EngineFailed),
    ],
)
def test_reset_codes_have_their_errors(code: int, error: type[SmgError]) -> None:
    assert type(error_from_reset(code)) is error


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("plain", "plain"),
        ("a%20b", "a b"),
        ("100%25", "100%"),
        ("t%C3%B6%C3%B6t", "tööt"),
        ("%", "%"),
        ("%zz %4", "%zz %4"),
        ("%ff", "\ufffd"),
    ],
)
def test_messages_are_percent_decoded_and_survive_bad_encoding(text: str, meant: str) -> None:
    assert percent_decode(text) == meant
