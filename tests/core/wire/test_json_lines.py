"""Lines and requests are the same however a file is cut into pieces."""

import codecs
import io
import json
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import InvalidRequest, PayloadTooLarge
from smg_core.wire.json_lines import Line, LineSplitter, ObjectBounds, objects_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=3), max_size=5)


def pieces(content: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    return [content[one:other] for one, other in pairwise(places)]


CONTENT = st.binary(max_size=200) | st.text("a\n \r", max_size=80).map(str.encode)


def split(splitter: LineSplitter, content: bytes, cuts: list[int]) -> list[Line]:
    return [line for piece in pieces(content, cuts) for line in splitter.feed(piece)] + splitter.end()


@given(st.sampled_from([b"", codecs.BOM_UTF8]), CONTENT, st.lists(st.integers(0, 200)))
def test_lines_do_not_depend_on_the_cuts_and_neither_blank_ones_nor_a_byte_order_mark_are_given(
    mark: bytes, content: bytes, cuts: list[int]
) -> None:
    found = split(LineSplitter(1000), mark + content, cuts)

    lines = (mark + content).removeprefix(codecs.BOM_UTF8).split(b"\n")
    assert found == [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


@given(st.lists(st.integers(0, 20), max_size=8), st.lists(st.integers(0, 100)))
def test_a_line_that_is_too_long_is_none_and_the_next_is_whole(sizes: list[int], cuts: list[int]) -> None:
    content = b"".join(b"x" * size + b"\n" for size in sizes)
    found = split(LineSplitter(10), content, cuts)

    assert found == [(at, b"x" * size if size <= 10 else None) for at, size in enumerate(sizes, 1) if size]


@pytest.mark.parametrize("blank", [b"\n", b" \n", b"\r\n", b"\t \r\n", b" " * 2000 + b"\n"])
def test_nothing_is_made_for_blank_lines_however_many_come(blank: bytes) -> None:
    splitter = LineSplitter(1000)
    many = (1 << 20) // len(blank)
    content = blank * many
    tracemalloc.start()
    try:
        assert splitter.feed(content) == []
        assert tracemalloc.get_traced_memory()[1] < len(content) // 100
    finally:
        tracemalloc.stop()
    assert splitter.feed(b"x\n") == [(many + 1, b"x")]


BOUNDS = ObjectBounds(10**6, 10**6, 100)


def objects(body: bytes, window: int, bounds: ObjectBounds = BOUNDS) -> list[object]:
    return [json.loads(each) for each in objects_of(io.BytesIO(body).read, "requests", bounds, window=window)]


@given(OBJECTS, st.integers(1, 40), st.booleans(), st.sampled_from([None, 2]))
def test_the_objects_of_a_body_do_not_depend_on_the_window(
    given: list[object], window: int, ascii: bool, indent: int | None
) -> None:
    body = json.dumps({"requests": given}, ensure_ascii=ascii, indent=indent).encode("utf-8", "replace")
    assert objects(body, window) == json.loads(body)["requests"]


@given(OBJECTS, st.integers(1, 40), st.data())
def test_a_body_that_is_cut_or_bent_is_refused_or_read_as_json_reads_it(
    given: list[object], window: int, data: st.DataObject
) -> None:
    body = bytearray(json.dumps({"requests": given}).encode())
    place = data.draw(st.integers(0, len(body) - 1))
    body[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    try:
        found = objects(bytes(body), window)
    except (InvalidRequest, ValueError):  # whoever reads an object sees what is wrong inside
        pass
    else:
        assert json.loads(bytes(body)).get("requests", []) == found


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"z":1,"requests":[]}', "z"),
        (b'{"requests":[{}],"z":1}', "z"),
        (b'{"requests":[],"requests":[]}', "requests"),
        (b'{"requests":null}', "requests"),
        (b'{"requests":{}}', "requests"),
        (b'{"requests":[{},7]}', "requests[1]"),
    ],
)
@pytest.mark.parametrize("window", [1, 1000])
def test_what_is_wrong_in_valid_json_is_named(body: bytes, param: str, window: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        objects(body, window)

    assert refused.value.param == param


def test_an_object_over_the_bound_is_refused_before_all_of_it_is_read() -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return b'{"requests":[{"a":"' if not self.seen() else b"x" * size

        started = False

        def seen(self) -> bool:
            before, self.started = self.started, True
            return before

    with pytest.raises(PayloadTooLarge):
        list(objects_of(Endless().read, "requests", BOUNDS._replace(size=10_000), window=64))


@pytest.mark.parametrize(
    ("inside", "word"),
    [
        (b"{}," * 1_000_000, "values"),
        (b"[]," * 1_000_000, "values"),
        (b"1," * 1_000_000, "values"),
        (b'"a",' * 1_000_000, "values"),
        (b'""' * 1_000_000, "values"),
        (b'{"a":[]},' * 300_000, "values"),
        (b"[" * 90, "deep"),
        (b"[" * 90 + b"]" * 90, "deep"),
        (b'{"a":' * 90, "deep"),
    ],
)
def test_an_object_over_a_bound_is_refused_and_nothing_is_made_of_its_values(inside: bytes, word: str) -> None:
    body = io.BytesIO(b'{"requests":[{},{"x":[' + inside + b"1]}]}")
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match=word) as refused:
            list(objects_of(body.read, "requests", ObjectBounds(1 << 30, 1000, 66), window=1 << 16))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert refused.value.param == "requests[1]"
    assert body.tell() <= 4 << 16, "the rest was not read"


@pytest.mark.parametrize(
    "inside", [b"x" * 1_000_000, b"\\n" * 500_000, b'\\"' * 500_000, b"{[," * 300_000, b"\\\\" * 500_000]
)
def test_a_long_text_is_no_work_by_what_it_holds(inside: bytes) -> None:
    body = b'{"requests":[{"x":"' + inside + b'"},{}]}'
    assert objects(body, 1 << 16, ObjectBounds(1 << 30, 10, 3)) == json.loads(body)["requests"]


@pytest.mark.parametrize("place", [b"", b'{"requests":', b'{"requests":[', b'{"requests":[{}', b'{"requests":[{}]'])
def test_white_space_is_passed_over_in_bounded_steps_between_which_it_can_be_given_up(place: bytes) -> None:
    class Leaves(Exception):
        pass

    reads: list[int] = []

    def read(size: int) -> bytes:
        reads.append(size)
        if len(reads) > 3:
            raise Leaves
        return place + b" \n" if len(reads) == 1 else b" " * size

    with pytest.raises(Leaves):
        list(objects_of(read, "requests", BOUNDS, window=1000))
    assert reads == [1000] * 4


def test_a_name_that_never_ends_is_not_read_to_its_end() -> None:
    body = io.BytesIO(b'{"' + b"a" * 1_000_000)
    with pytest.raises(InvalidRequest, match="Unknown parameter: 'aaa") as refused:
        list(objects_of(body.read, "requests", BOUNDS, window=1000))
    assert refused.value.param == "a" * 80
    assert body.tell() <= 3000
