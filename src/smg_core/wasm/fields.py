"""Values of calls and answers as one text, for the adapter of each component (`adapter/adapter.c`).

The fields of a text end with a zero each; in a field a zero is written as the characters 1 1, and a one as 1 2. A text that comes
last is as it is. Pure. Above: `worlds`. Below: nothing.
"""

import struct
from collections.abc import Sequence
from typing import Any

__all__ = [
    "fields_of",
    "packed_end",
    "packed_failure",
    "packed_head",
    "packed_piece",
    "packed_request",
    "packed_response",
    "packed_response_head",
    "packed_storage_call",
    "read_action",
    "read_configured",
    "read_head_verdict",
    "read_storage_verdict",
    "read_text_verdict",
    "read_wanted",
]

_Headers = Sequence[tuple[str, str]]
_KINDS = {kind: str(number) for number, kind in enumerate(("wire", "text", "reasoning", "arguments"))}
_MODES = ("none", "wire", "text")


def fields_of(texts: Sequence[str]) -> str:
    """Texts as fields."""
    joined = "\0".join(texts) + "\0"
    if "\1" in joined or joined.count("\0") != len(texts):
        return "".join([each.replace("\1", "\1\2").replace("\0", "\1\1") + "\0" for each in texts])
    return joined


def _texts_of(fields: str) -> list[str]:
    """The texts of fields."""
    texts = fields.split("\0")
    del texts[-1]
    # Behind other characters than a one, pairs begin at the first one: so each replacement takes whole pairs.
    return [each.replace("\1\1", "\0").replace("\1\2", "\1") for each in texts] if "\1" in fields else texts


def _with_headers(texts: list[str], headers: _Headers) -> str:
    texts.append(str(len(headers)))
    for each in headers:
        texts += each
    return fields_of(texts)


def _pairs(texts: Sequence[str], first: int, count: int) -> tuple[tuple[str, str], ...]:
    """So many headers from a place in the texts."""
    end = first + 2 * count
    return tuple(zip(texts[first:end:2], texts[first + 1 : end : 2], strict=True))


# --------------------------------------------------------------------------------------------------------------- calls


def packed_head(value: tuple[str, str, str, _Headers]) -> str:
    """The head of a request: method, path, query and headers."""
    method, path, query, headers = value
    return _with_headers([method, path, query], headers)


def packed_response_head(value: tuple[int, _Headers]) -> str:
    """The head of an answer."""
    status, headers = value
    return _with_headers([str(status)], headers)


def packed_piece(value: tuple[str, str, int, bool]) -> str:
    """A piece of an answer."""
    text, kind, choice, last = value
    return f"{_KINDS[kind]}\0{choice}\0{last:d}\0{text}"


def packed_end(value: tuple[int, str, float, int | None, int | None, int | None]) -> str:
    """The end of an exchange. The adapter takes the bits of the seconds."""
    status, outcome, seconds, *tokens = value
    (bits,) = struct.unpack("<Q", struct.pack("<d", seconds))
    return fields_of([str(status), outcome, str(bits), *["" if each is None else str(each) for each in tokens]])


def packed_failure(value: tuple[int, str, str]) -> str:
    """An error that a client is about to get."""
    status, code, message = value
    return fields_of([str(status), code, message])


def packed_storage_call(value: tuple[str, str, str, str, str, _Headers]) -> str:
    """A call of the store."""
    *names, texts = value
    return _with_headers(list[Any](names), texts)


def packed_request(value: tuple[str, str, str, _Headers, str, str, int]) -> str:
    """A request of smg:gateway: head, body, id and time."""
    method, path, query, headers, body, request_id, now = value
    return _with_headers([method, path, query, request_id, str(now)], headers) + body


def packed_response(value: tuple[int, _Headers, str]) -> str:
    """An answer of smg:gateway."""
    status, headers, body = value
    return _with_headers([str(status)], headers) + body


# ------------------------------------------------------------------------------------------------------------- answers


def read_configured(answer: str) -> tuple[bool, str | None]:
    """Whether a configuration is good, and why it is not."""
    return (True, None) if answer[0] == "g" else (False, answer[1:])


def read_wanted(answer: str) -> str:
    """Which pieces are wanted."""
    return _MODES[int(answer[1:-1])]


def _read_refusal(answer: str) -> tuple[str, Any]:
    status, _, message = answer[1:].partition("\0")
    return "reject", (int(status), message)


def read_text_verdict(answer: str) -> tuple[str, Any]:
    """A verdict about a text, or about an error."""
    case = answer[0]
    if case == "c":
        return "change", answer[1:]
    return ("proceed", None) if case == "p" else _read_refusal(answer)


def read_head_verdict(answer: str) -> tuple[str, Any]:
    """A verdict about a head."""
    case = answer[0]
    if case == "p":
        return "proceed", None
    if case == "r":
        return _read_refusal(answer)
    texts = _texts_of(answer)
    status, tenant, principal, of_set, of_add = texts[:5]
    add = 5 + 2 * int(of_set)
    remove = add + 2 * int(of_add)
    return "change", (
        _pairs(texts, 5, int(of_set)),
        _pairs(texts, add, int(of_add)),
        tuple(texts[remove:]),
        int(status[1:]) if len(status) > 1 else None,
        tenant[1:] if tenant else None,
        principal[1:] if principal else None,
    )


def read_storage_verdict(answer: str) -> tuple[str, Any]:
    """A verdict about a call of the store."""
    case = answer[0]
    if case == "c":
        texts = _texts_of(answer[1:])
        return "change", _pairs(texts, 0, len(texts) // 2)
    return ("proceed", None) if case == "p" else _read_refusal(answer)


def read_action(answer: str) -> tuple[str, Any]:
    """An action of smg:gateway."""
    case = answer[0]
    if case == "p":
        return "continue", None
    if case == "r":
        return "reject", int(answer[1:-1])
    status, of_set, of_add, of_remove, has_body, rest = answer[1:].split("\0", 5)
    add = 2 * int(of_set)
    remove = add + 2 * int(of_add)
    end = remove + int(of_remove)
    *_, body = rest.split("\0", end)
    texts = _texts_of(rest[: len(rest) - len(body)])
    return "modify", (
        int(status) if status else None,
        _pairs(texts, 0, int(of_set)),
        _pairs(texts, add, int(of_add)),
        tuple(texts[remove:end]),
        body if has_body == "1" else None,
    )
