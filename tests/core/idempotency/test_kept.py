"""What is kept for an Idempotency-Key, and when two requests are the same."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import InvalidRequest
from smg_core.idempotency.kept import BodyDigest, KeptAnswer, checked_key, of_first_answer, place_of, target_of


def form(boundary: str, content: bytes) -> bytes:
    edge = boundary.encode()
    return (
        b"--"
        + edge
        + b'\r\ncontent-disposition: form-data; name="file"\r\n\r\n'
        + content
        + b"\r\n--"
        + edge
        + b"--\r\n"
    )


def digest(body: bytes, content_type: str, cuts: list[int], coding: str = "") -> str:
    found, at = BodyDigest(content_type, coding), 0
    for cut in sorted(min(each, len(body)) for each in cuts):
        found.feed(body[at:cut])
        at = cut
    found.feed(body[at:])
    return found.text()


CUTS = st.lists(st.integers(0, 200), max_size=6)


@given(st.binary(max_size=100), CUTS, CUTS)
def test_a_body_has_one_digest_however_it_is_cut(body: bytes, one: list[int], other: list[int]) -> None:
    for content_type in ("application/json", "multipart/form-data; boundary=ab-ab-c"):
        assert digest(body, content_type, one) == digest(body, content_type, other)


@given(st.binary(max_size=60), CUTS, CUTS)
def test_a_form_is_the_same_whatever_boundary_its_client_has_drawn(
    content: bytes, one: list[int], other: list[int]
) -> None:
    first = digest(form("4a1f09", content), 'multipart/form-data; boundary="4a1f09"', one)
    again = digest(form("99bbe2cc07", content), "multipart/form-data; boundary=99bbe2cc07", other)

    assert (first == again) is (b"4a1f09" not in content and b"99bbe2cc07" not in content)


@given(st.binary(max_size=60).filter(lambda content: b"--" not in content), CUTS)
def test_the_size_of_a_form_is_the_same_whatever_boundary_its_client_has_drawn_and_never_more_on_the_way(
    content: bytes, cuts: list[int]
) -> None:
    sizes = list[int]()
    for boundary in ("--a", "--a--longer--one"):
        body, found, at = form(boundary, content), BodyDigest(f"multipart/form-data; boundary={boundary}"), 0
        on_the_way = [0]
        for cut in [*sorted(min(each, len(body)) for each in cuts), len(body)]:
            found.feed(body[at:cut])
            at = cut
            on_the_way.append(found.size)
        sizes.append(found.whole_size)
        assert on_the_way == sorted(on_the_way)
        assert on_the_way[-1] <= found.whole_size

    assert sizes[0] == sizes[1]


@given(st.binary(max_size=60), CUTS, CUTS, st.sampled_from(["gzip", " X-GZIP "]))
def test_a_compressed_body_is_the_same_whenever_it_was_compressed(
    content: bytes, one: list[int], other: list[int], coding: str
) -> None:
    first, again = [gzip.compress(content, mtime=at) for at in (1, 2**32 - 1)]
    content_type = "application/json"

    assert digest(first, content_type, one, coding) == digest(again, content_type, other, coding)
    assert digest(first, content_type, one) != digest(again, content_type, other)
    assert digest(first, content_type, one, coding) != digest(
        gzip.compress(content + b"a"), content_type, other, coding
    )


def test_an_empty_body_that_was_read_is_told_from_one_that_was_not() -> None:
    assert BodyDigest("").text() == ""
    assert digest(b"", "", []) not in ("", digest(b"{}", "", []))


@given(st.binary(min_size=1, max_size=60), st.binary(min_size=1, max_size=60))
def test_two_bodies_have_two_digests(one: bytes, other: bytes) -> None:
    for content_type in ("application/json", "multipart/form-data; boundary=--x"):
        assert (digest(one, content_type, []) == digest(other, content_type, [])) is (one == other)


@given(st.none() | st.binary(max_size=200), st.binary(max_size=20))
def test_an_answer_is_read_as_it_was_kept(body: bytes | None, value: bytes) -> None:
    kept = KeptAnswer.of("t", "d", 3, 201, [(b"x-a", value)], body)

    again = KeptAnswer.read(kept.text())

    assert again == kept
    assert again.content() == body
    assert again.headers_again() == [(b"x-a", value), (b"idempotent-replayed", b"true")]


def test_headers_of_one_moment_are_not_sent_again() -> None:
    told = [
        (b"content-type", b"application/json"),
        (b"Content-Length", b"3"),
        (b"x-ratelimit-remaining-requests", b"3"),
        (b"anthropic-ratelimit-requests-remaining", b"3"),
        (b"RateLimit", b'"a";r=1'),
        (b"access-control-allow-origin", b"*"),
        (b"openai-processing-ms", b"3"),
        (b"x-request-id", b"req_1"),
    ]

    assert of_first_answer(told) == [(b"content-type", b"application/json"), (b"x-request-id", b"req_1")]


def test_a_key_is_apart_by_principal_and_route_and_a_request_by_where_it_goes() -> None:
    places = {place_of(*each) for each in (("a", "/r", "k"), ("b", "/r", "k"), ("a", "/s", "k"), ("a", "/r", "l"))}
    targets = {target_of(*each) for each in (("/r/1", b""), ("/r/2", b""), ("/r/1", b"alt=sse"))}

    assert len(places) == 4
    assert len(targets) == 3


@pytest.mark.parametrize("text", ["", "x" * 256, "a\x00b", "a\nb"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="Idempotency-Key"):
        checked_key([(b"idempotency-key", text.encode())])


def test_a_request_has_one_key_however_often_it_says_so() -> None:
    one, other, another = (b"Idempotency-Key", b"a"), (b"idempotency-key", b"a"), (b"idempotency-key", b"b")

    assert checked_key([(b"host", b"b"), one, other]) == "a"
    with pytest.raises(InvalidRequest, match="one Idempotency-Key"):
        checked_key([one, another])
