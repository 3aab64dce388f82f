"""The chain of the audit log: what was done to its lines is found, whatever it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.observability.audit_chain import (
    LONGEST_LINE,
    AuditHead,
    ChainReport,
    audit_line,
    check_chain,
    parse_head,
    read_tail,
    torn_of,
)


def chain(count: int, name: str = "audit-1") -> tuple[list[bytes], AuditHead]:
    """A chain of so many lines, and its head."""
    lines: list[bytes] = []
    line, head = audit_line({"event": "chain_started"}, name, None)
    lines.append(line)
    while len(lines) < count:
        line, head = audit_line({"event": "asked", "path": f"/admin/{len(lines)}"}, name, head)
        lines.append(line)
    return lines, head


def checked(*files: list[bytes], wanted: tuple[int, str] | None = None) -> ChainReport:
    return check_chain([(f"file{number}", lines) for number, lines in enumerate(files)], wanted)


def test_a_chain_holds_as_it_was_written_and_its_head_is_told() -> None:
    lines, head = chain(5)
    report = checked(lines)

    assert (report.fault, report.first, report.head) == ("", 1, head)
    assert parse_head(str(head)) == (head.seq, head.hash)


@given(st.data())
def test_any_byte_that_is_changed_in_any_line_is_found(data: st.DataObject) -> None:
    lines, _ = chain(data.draw(st.integers(1, 6)))
    at = data.draw(st.integers(0, len(lines) - 1))
    byte = data.draw(st.integers(0, len(lines[at]) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda value: value not in (lines[at][byte], ord("\n"))))
    lines[at] = lines[at][:byte] + bytes([other]) + lines[at][byte + 1 :]

    report = checked(lines)

    assert report.fault
    assert report.place == f"file0:{at + 1}"


@given(st.data())
def test_lines_that_are_taken_out_put_in_twice_or_moved_are_found(data: st.DataObject) -> None:
    lines, _ = chain(data.draw(st.integers(3, 8)))
    at = data.draw(st.integers(0, len(lines) - 2))
    what = data.draw(st.sampled_from(("out", "twice", "moved", "elsewhere", "cut")))
    if what == "out":
        del lines[at]
    elif what == "twice":
        lines.insert(at, lines[at])
    elif what == "moved":
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    elif what == "elsewhere":
        lines[at] = chain(len(lines), "audit-2")[0][at]
    else:
        lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at]) - 1))]

    assert checked(lines).fault


@given(st.integers(2, 8), st.data())
def test_lines_missing_at_the_end_are_found_with_a_head_that_was_kept_and_by_nothing_else(
    count: int, data: st.DataObject
) -> None:
    lines, head = chain(count)
    left = lines[: data.draw(st.integers(1, count - 1))]

    assert checked(left).fault == ""
    assert "remembered" in checked(left, wanted=(head.seq, head.hash)).fault
    assert checked(lines, wanted=(head.seq, head.hash)).fault == ""
    assert "remembered" in checked(lines, wanted=(head.seq, "0" * 64)).fault


def test_files_of_one_chain_hold_together_and_one_that_is_missing_between_is_found() -> None:
    first, head = chain(3)
    second, third = [], []
    for lines in (second, third):
        for event in ("file_started", "asked"):
            line, head = audit_line({"event": event}, head.chain, head)
            lines.append(line)

    assert checked(first, second, third).fault == ""
    assert checked(second, third) == ChainReport(first=4, head=head)
    assert checked(first, third).place == "file1:1"
    assert checked(first, second[1:], third).fault
    assert checked(first[1:], second).fault


def test_what_a_crash_left_of_a_line_is_told_by_the_next_one_and_may_not_be_touched() -> None:
    lines, head = chain(3)
    piece = lines[-1][:40]
    after, _ = audit_line({"event": "asked", "torn": torn_of(piece)}, head.chain, head)
    whole = [*lines, piece, after]

    assert read_tail(b"\n".join([*lines, piece])) == (head, piece)
    assert checked(whole).fault == ""
    assert checked([*lines, piece]).fault
    assert checked([*lines, after]).fault
    assert checked([*lines, piece[:-1], after]).fault
    assert checked([*lines, piece, piece, after]).fault
    assert checked([lines[0], piece, *lines[1:]]).fault


def test_a_line_is_bounded_and_a_head_is_of_a_form() -> None:
    with pytest.raises(ValueError, match="bytes"):
        audit_line({"event": "asked", "path": "x" * LONGEST_LINE}, "audit-1", None)
    for text in ("", "1", "0:" + "a" * 64, "1:" + "g" * 64):
        with pytest.raises(ValueError, match="no head"):
            parse_head(text)
    assert checked([b"x" * 10_000] * 3).fault
    assert checked([]).fault == "has no line"
