"""What is written into a file of lines is one line, whatever a reader takes for the end of one."""

import json
import logging
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.batches.message_types import message_result, message_result_without_answer
from smg_core.batches.types import error_line, result_line
from smg_core.hooks import ExchangeEnded
from smg_core.line_ends import as_one_line
from smg_core.observability.access_lines import JsonLines, TextLines
from smg_core.observability.audit_chain import audit_line, head_of
from smg_core.observability.logs import configure

ENDS = "\n\r\u000b\u000c\u001c\u001d\u001e\u0085\u2028\u2029"
"""What `str.splitlines` takes for the end of a line."""
TEXTS = st.text(alphabet=st.one_of(st.sampled_from(ENDS), st.characters(codec="utf-8")))


def answer(text: str) -> bytes:
    """A body as a plugin may have written it: over several lines, and with characters as they are."""
    return json.dumps({"text": text}, ensure_ascii=False, indent=1).replace("\n", "\r\n").encode()


def logged(text: str) -> bytes:
    before = logging.getLogger().handlers[:]
    try:
        configure("info", "json")
        record = logging.makeLogRecord({"msg": "%s", "args": (text,), "levelno": logging.INFO, "levelname": "INFO"})
        return logging.getLogger().handlers[0].format(record).encode() + b"\n"
    finally:
        logging.getLogger().handlers[:] = before


def exchange(text: str) -> ExchangeEnded:
    return ExchangeEnded(
        method="POST", path=f"/{text}", status=200, sent=0, seconds=0.1, outcome="ok", request_id=text, peer=text
    )


LINES: dict[str, Callable[[str], bytes]] = {
    "a result of a batch": lambda text: result_line("1", text, 200, "r", answer(text)),
    "an error of a batch": lambda text: error_line("1", text, "code", text),
    "a message": lambda text: message_result(text, True, answer(text)),
    "an error of a Message Batch": lambda text: message_result(text, False, answer(text)),
    "a request that was never begun": lambda text: message_result_without_answer(text, True),
    "the audit log": lambda text: audit_line({"event": "x", "who": text}, "chain", None)[0] + b"\n",
    "the log": logged,
    "the access log": lambda text: JsonLines()(exchange(text), 0.0),
}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", LINES)
@given(TEXTS)
def test_a_line_is_one_line_for_every_reader(name: str, text: str) -> None:
    line = LINES[name](text).decode()
    assert line.splitlines() == [line[:-1]]
    assert line.endswith("\n")
    json.loads(line)


@given(TEXTS)
def test_a_line_of_text_is_one_too(text: str) -> None:
    line = TextLines(lambda second: "")(exchange(text), 0.0).decode()
    assert line.splitlines() == [line[:-1]]


@given(TEXTS)
def test_the_value_of_a_line_is_the_same(text: str) -> None:
    assert json.loads(as_one_line(answer(text))) == {"text": text}
    assert as_one_line(json.dumps([text]).encode()) == json.dumps([text]).encode()


def test_a_line_of_the_audit_log_is_read_again() -> None:
    line, head = audit_line({"event": "x", "who": "a\u2028b"}, "chain", None)
    assert (b"\\u2028" in line, head_of(line)) == (True, head)
