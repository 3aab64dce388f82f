"""Addresses a client may and may not make the gateway fetch, and data URLs."""

import base64
import contextlib
import tracemalloc
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from unittest.mock import patch
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.wire.documents import inline_text
from smg_egress.escapes import unescaped
from smg_egress.rules import is_public
from smg_multimodal.fetching import egress
from smg_multimodal.fetching.egress import EgressRules, base64_bytes, data_url, is_bare_base64, site_of
from smg_multimodal.records.errors import BadMedia, MediaForbidden, MediaTooLarge

ANY_HTTP = EgressRules(schemes=frozenset({"http", "https"}), ports=frozenset({80, 443, 8080}))

INWARD = [
    "127.0.0.1", "127.255.0.3", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
    "255.255.255.255", "224.0.0.1", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1",
    "fd00:ec2::254", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::", "not-an-address",
    "fec0::1", "feff::1", "3fff::1", "5f00::1", "4000::1", "100::1", "2001::1", "2001:2::1", "2001:20::1", "2620:4f:8000::1",
    "168.63.129.16", "192.88.99.1", "192.0.0.192", "192.31.196.1", "192.52.193.1", "192.175.48.1", "100.100.100.200",
    "198.51.100.7", "203.0.113.9", "240.0.0.1", "::ffff:169.254.169.254", "::ffff:168.63.129.16", "::ffff:0:10.0.0.1",
    "::ffff:0:a9fe:a9fe", "64:ff9b::a00:1", "64:ff9b::a83f:8110", "",
]  # fmt: skip


@pytest.mark.parametrize("address", INWARD)
def test_addresses_that_lead_inward_are_refused(address: str) -> None:
    with pytest.raises(MediaForbidden):
        EgressRules().address("pictures.example", [address])


@pytest.mark.parametrize(
    "address",
    [
        "93.184.216.34", "168.63.129.17", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450:4001::200e",
        "64:ff9b::5db8:d822", "::ffff:93.184.216.34", "::ffff:0:5db8:d822",
    ],
)  # fmt: skip
def test_public_addresses_are_connected_to(address: str) -> None:
    assert EgressRules().address("pictures.example", [address]) == address


@given(st.integers(0, 2**32 - 1))
def test_no_ipv4_address_that_python_calls_special_is_public(number: int) -> None:
    address = IPv4Address(number)
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert not is_public(str(address))
    assert is_public(f"::ffff:{address}") == is_public(f"64:ff9b::{address}") == is_public(str(address))


@given(st.integers(0, 2**128 - 1))
def test_no_ipv6_address_that_python_calls_special_is_public(number: int) -> None:
    address = IPv6Address(number)
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_site_local:
        assert not is_public(str(address))


def test_names_of_one_owner_are_one_site() -> None:
    assert site_of("a.b.evil.example") == site_of("evil.example") == "evil.example"
    assert site_of("pictures.shop.co.uk") == "shop.co.uk"
    assert site_of("93.184.216.34") == "93.184.216.34"
    assert site_of("localhost") == "localhost"


def test_a_name_that_does_not_resolve_and_one_inside_are_refused_in_the_same_words() -> None:
    said = set()
    for addresses in ([], ["10.0.0.1"], ["93.184.216.34", "10.0.0.1"]):
        with pytest.raises(MediaForbidden) as refused:
            EgressRules().address("store.internal", addresses)
        said.add(str(refused.value))
    assert len(said) == 1


def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    with pytest.raises(MediaForbidden):
        EgressRules().address("pictures.example", ["93.184.216.34", "127.0.0.1"])


def test_private_addresses_are_reached_only_for_the_hosts_named() -> None:
    rules = EgressRules(private=frozenset({"store.internal", ".lab.internal"}))
    assert rules.address("store.internal", ["10.0.0.5"]) == "10.0.0.5"
    assert rules.address("a.lab.internal", ["10.0.0.6"]) == "10.0.0.6"
    with pytest.raises(MediaForbidden):
        rules.address("evilstore.internal", ["10.0.0.5"])


@pytest.mark.parametrize(
    "url",
    [
        "http://pictures.example/a.png", "ftp://pictures.example/a", "gopher://x/", "//pictures.example/a", "a.png", "",
        "https://", "https:///a", "https://user:secret@pictures.example/", "https://user@pictures.example/",
        "https://pictures.example:22/", "https://pictures.example:99999/", "https://[::1/", "https://a b/",
        "https://a..b/", "https://.a/", "https://" + "a" * 64 + ".example/",
        "https://pictures.example/\r\nHost: other", "https://pictures.example\\@other/", "https://" + "a" * 9000,
    ],
)  # fmt: skip
def test_addresses_that_are_malformed_or_not_https_are_refused(url: str) -> None:
    with pytest.raises(MediaForbidden):
        EgressRules().target(url)


def test_an_allow_list_takes_names_and_suffixes_and_nothing_that_merely_ends_alike() -> None:
    rules = EgressRules(hosts=frozenset({"cdn.example", ".images.example"}))
    assert rules.target("https://CDN.example./a?b=c").path == "/a?b=c"
    assert rules.target("https://eu.images.example/x").host == "eu.images.example"
    for host in ("evilcdn.example", "images.example.evil", "cdn.example.evil", "images.example"):
        with pytest.raises(MediaForbidden):
            rules.target(f"https://{host}/")


def test_the_host_header_names_an_unusual_port_and_brackets_addresses() -> None:
    assert ANY_HTTP.target("http://pictures.example:8080/a").authority == "pictures.example:8080"
    assert ANY_HTTP.target("https://[2606:4700::1111]/a").authority == "[2606:4700::1111]"


def test_a_redirect_is_judged_as_a_new_address() -> None:
    start = ANY_HTTP.target("https://pictures.example/a/b")
    assert ANY_HTTP.redirected(start, "../c").url == "https://pictures.example/c"
    for location in ("http://pictures.example/c", "file:///etc/passwd", "https://x:22/", "//u:p@x/", "http://[oops"):
        with pytest.raises(MediaForbidden):
            ANY_HTTP.redirected(start, location)


def test_an_address_of_a_file_that_is_too_long_is_not_taken_apart() -> None:
    rules = EgressRules(files=Path("/pictures"))
    assert rules.file("file:///pictures/a.png") == Path("/pictures/a.png")
    with pytest.raises(MediaForbidden, match="longer than 8192 characters"):
        rules.file("file:///pictures/" + "a/" * 5000)


@given(st.binary(max_size=300))
def test_a_data_url_gives_back_what_was_encoded(content: bytes) -> None:
    assert data_url("data:image/png;base64," + base64.b64encode(content).decode(), 1000) == content


@given(st.text(max_size=200))
def test_a_data_url_of_anything_decodes_or_is_refused_as_bad(text: str) -> None:
    with contextlib.suppress(BadMedia, MediaTooLarge):
        assert isinstance(data_url("data:;base64," + text, 1000), bytes)


def test_a_data_url_over_budget_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(MediaTooLarge):
        data_url("data:image/png;base64," + "A" * 4000, 2000)
    with pytest.raises(MediaTooLarge):
        data_url("data:," + "x" * 2001, 2000)
    with pytest.raises(BadMedia):
        data_url("data:image/png;base64", 2000)


@given(st.binary(min_size=1, max_size=300), st.booleans(), st.booleans(), st.sampled_from(["", "\n", "\r\n", "\n  "]))
def test_base64_is_read_in_either_alphabet_with_or_without_padding_in_one_line_or_several(
    content: bytes, url_safe: bool, padded: bool, ends: str
) -> None:
    text = (base64.urlsafe_b64encode if url_safe else base64.b64encode)(content).decode()
    text = text if padded else text.rstrip("=")
    text = ends.join(text[at : at + 20] for at in range(0, len(text), 20)) + ends if ends else text
    assert base64_bytes(text, 1000) == content
    assert data_url("data:audio/mpeg;base64," + text, 1000) == content
    assert data_url("data:audio/mp3;base64,data:audio/mpeg;base64," + text, 1000) == content


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("AAAA BBBB", "a space within a line, perhaps where a '\\+' was"),
        ("AAAA*BBB", r"it has '\*' at character 4"),
        ("AAAAB", "cut short"),
        ("ÄÄÄÄ", "it has 'Ä' at character 0"),
    ],
)
def test_what_is_not_base64_is_refused_in_words_that_help(text: str, said: str) -> None:
    with pytest.raises(BadMedia, match=said):
        base64_bytes(text, 1000)


@given(
    st.binary(max_size=600),
    st.integers(1, 40),
    st.sampled_from(["", "\n", "\r\n", "\r", " \n\t", "\n\n"]),
    st.integers(1, 90),
    st.booleans(),
)
def test_long_base64_is_decoded_piece_by_piece_and_gives_the_same(
    content: bytes, block: int, ends: str, width: int, url_safe: bool
) -> None:
    text = (base64.urlsafe_b64encode if url_safe else base64.b64encode)(content).decode()
    if ends:
        text = ends.join(text[at : at + width] for at in range(0, len(text), width)) + ends
    with patch.object(egress, "_BLOCK", block):
        assert base64_bytes(text, 1000) == content
        assert data_url("data:image/png;base64," + text, 1000) == content


@given(st.integers(1, 100), st.sampled_from(" *=é"), st.integers(1, 50))
def test_what_is_wrong_with_long_base64_is_found_wherever_pieces_end(place: int, wrong: str, block: int) -> None:
    text = "ABCD" * 26
    with patch.object(egress, "_BLOCK", block), pytest.raises(BadMedia, match="not valid base64") as error:
        base64_bytes(text[:place] + wrong + text[place:], 1000)
    expected = "a space within a line" if wrong == " " else f"it has {wrong!r} at character {place}"
    assert expected in str(error.value)


@pytest.mark.parametrize("ends", ["", "\n"])
def test_long_base64_is_not_copied_whole_before_it_is_decoded(ends: str) -> None:
    line = base64.b64encode(bytes(57)).decode() + ends
    url = "data:image/png;base64," + line * 100_000
    tracemalloc.start()
    try:
        content = data_url(url, 1 << 30)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(content) == 57 * 100_000
    assert peak < 1.5 * len(content)


def test_what_is_too_long_in_many_lines_is_refused_before_all_of_it_is_decoded() -> None:
    decoded: list[int] = []
    own = egress.base64.b64decode

    def counted(text: str, **given: bool) -> bytes:
        decoded.append(len(text))
        return bytes(own(text, **given))

    with patch.object(egress.base64, "b64decode", counted), pytest.raises(MediaTooLarge):
        base64_bytes(("A" * 76 + "\n") * 100_000, 1000)
    assert sum(decoded) <= egress._BLOCK


def test_base64_over_budget_is_refused_to_the_byte() -> None:
    for length in range(1, 8):
        assert base64_bytes(base64.b64encode(bytes(length)).decode(), length) == bytes(length)
        with pytest.raises(MediaTooLarge):
            base64_bytes(base64.b64encode(bytes(length)).decode(), length - 1)


def test_bare_base64_is_told_from_addresses() -> None:
    assert is_bare_base64(base64.b64encode(bytes(range(60))).decode())
    for address in ("https://pictures.example/a", "pictures.example/some/long/path/to/a/picture.png", "cat", ""):
        assert not is_bare_base64(address)


def test_percent_encoded_data_urls_are_read() -> None:
    assert data_url("data:text/plain,a%20b", 100) == b"a b"
    assert data_url("data:image/png;base64,%41%42%43%44", 100) == base64.b64decode("ABCD")


@given(st.text(alphabet="%0aAfFgz é\n"))
def test_escapes_are_read_as_urllib_reads_them(text: str) -> None:
    assert unescaped(text) == unquote_to_bytes(text)
    assert data_url(f"data:text/plain,{text}", 10_000) == unquote_to_bytes(text)


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("before", range(4))
def test_no_escape_is_cut_where_a_long_text_is_read_piece_by_piece(before: int) -> None:
    text = "x" * before + "%41%zz%%4" * 20_000
    assert unescaped(text) == unquote_to_bytes(text)
    assert inline_text(f"data:text/plain,{text}", "at") == unquote_to_bytes(text).decode()


@pytest.mark.sampled(keep=1)
@pytest.mark.parametrize("piece", ["%", "%41", "%4", "%41a"])
def test_data_that_are_escapes_alone_take_memory_of_their_length(piece: str) -> None:
    url = "data:text/plain," + piece * (300_000 // len(piece))
    for read in (lambda: data_url(url, 1 << 20), lambda: inline_text(url, "at")):
        tracemalloc.start()
        try:
            read()
            assert tracemalloc.get_traced_memory()[1] < 8 * len(url)
        finally:
            tracemalloc.stop()
