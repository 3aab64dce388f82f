"""URLs of chat servers: what they mean, and with which words a wrong one is refused."""

import pytest

from smg_core.engines.http.address import HTTP2_PREFACE, HttpAddress, is_http2


def test_the_api_lies_under_v1_unless_the_url_says_otherwise() -> None:
    assert HttpAddress.parse("http://engine:8000").api == "/v1"
    assert HttpAddress.parse("http://engine:8000/").api == "/v1"
    assert HttpAddress.parse("https://api.example/openai/v1/").api == "/openai/v1"


@pytest.mark.parametrize(
    ("url", "shown", "grpc"),
    [
        ("http://engine:8000/x", "http://engine:8000", "grpc://engine:8000"),
        ("http://[::1]:80", "http://[::1]:80", "grpc://[::1]:80"),
        ("https://engine", "https://engine", "grpc://engine:443"),
        ("http+unix:///run/e.sock", "http+unix:///run/e.sock", "unix:///run/e.sock"),
    ],
)
def test_an_address_is_shown_and_named_as_it_would_be_for_grpc(url: str, shown: str, grpc: str) -> None:
    address = HttpAddress.parse(url)

    assert (str(address), address.as_grpc) == (shown, grpc)
    assert address.secure == url.startswith("https")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("grpc://engine:1", "no known scheme"),
        ("engine:1", "no known scheme"),
        ("http://", "no host"),
        ("http://engine:x", "worker URL"),
        ("http://me:secret@engine", "user name or password"),
        ("http://engine?x=1", "no query"),
        ("http+unix://engine/run", "http\\+unix:///absolute/path"),
        ("http+unix:///", "http\\+unix:///absolute/path"),
    ],
)
def test_a_wrong_url_is_refused_in_words(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        HttpAddress.parse(url)

    assert "secret" not in str(caught.value)


def test_http2_is_known_by_its_first_frame() -> None:
    assert HTTP2_PREFACE.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert is_http2(bytes([0, 0, 6, 4, 0, 0, 0, 0, 0]))
    assert not is_http2(b"HTTP/1.1 400")
    assert not is_http2(bytes([0, 0, 6, 4]))
