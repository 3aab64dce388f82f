"""What a worker URL means."""

from pathlib import Path

import pytest

from smg_core.engines.connections.target import Target, Tls

PEM = b"-----BEGIN PRIVATE KEY-----\nsecretsecret\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("url", "target", "address", "shown"),
    [
        ("grpc://gpu-0:50051", Target("gpu-0", 50051), "gpu-0:50051", "grpc://gpu-0:50051"),
        ("grpc://10.0.0.1:1/", Target("10.0.0.1", 1), "10.0.0.1:1", "grpc://10.0.0.1:1"),
        ("grpc://[::1]:50051", Target("::1", 50051), "[::1]:50051", "grpc://[::1]:50051"),
        ("grpcs://engine:8443", Target("engine", 8443, tls=Tls()), "engine:8443", "grpcs://engine:8443"),
        ("GRPC://Engine:5", Target("engine", 5), "engine:5", "grpc://engine:5"),
        ("unix:///run/e.sock", Target(path="/run/e.sock"), "unix:/run/e.sock", "unix:///run/e.sock"),
    ],
)
def test_urls_and_their_targets(url: str, target: Target, address: str, shown: str) -> None:
    parsed = Target.parse(url)
    assert (parsed, parsed.address, str(parsed)) == (target, address, shown)
    assert Target.parse(parsed) is parsed
    assert Target.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("gpu-0:50051", "no known scheme"),
        ("gpu-0", "no known scheme"),
        ("", "no known scheme"),
        ("ftp://x:1", "no known scheme"),
        ("grpc:gpu-0:50051", "no known scheme"),
        ("http://gpu-0:8000", r"names an HTTP server; an engine that speaks gRPC is named by grpc://"),
        ("https://gpu-0", "names an HTTP server"),
        ("http+unix:///run/http.sock", "names an HTTP server"),
        ("HTTP://gpu-0:8000", "names an HTTP server"),
        ("grpc://gpu-0", "names no port"),
        ("grpc://gpu-0:0", "names no port"),
        ("grpc://:50051", "names no host"),
        ("grpc://gpu-0:99999", "ort"),
        ("grpc://gpu-0:abc", "ort"),
        ("grpc://gpu-0:1/path", "nothing may follow"),
        ("grpc://gpu-0:1?x=1", "nothing may follow"),
        ("grpc://[::1:1", "IPv6"),
        ("unix://run/e.sock", "unix:///absolute/path"),
        ("unix:///", "unix:///absolute/path"),
    ],
)
def test_a_wrong_url_is_told_what_is_wrong_with_it(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Target.parse(url)


@pytest.mark.parametrize("url", ["grpc://{}gpu-0:1", "http://{}gpu-0", "ftp://{}gpu-0", "grpc://{}gpu-0:abc"])
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="user name or password") as caught:
        Target.parse(url.format("user:hunter2@"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["grpc://x:1", "unix:///x"])
def test_tls_settings_for_a_plain_url_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="TLS"):
        Target.parse(url, tls=Tls())


def test_tls_settings_go_with_a_tls_url() -> None:
    tls = Tls(server_name="engine.test")
    assert Target.parse("grpcs://10.0.0.1:1", tls=tls).tls is tls


def test_text_that_is_pem_is_material_and_other_text_is_a_path() -> None:
    tls = Tls(ca="/etc/ca.pem", cert=PEM.decode(), key=Path("key.pem"))
    assert (tls.ca, tls.cert, tls.key) == (Path("/etc/ca.pem"), PEM, Path("key.pem"))


def test_no_key_or_certificate_bytes_are_ever_shown() -> None:
    target = Target.parse("grpcs://x:1", tls=Tls(ca=PEM, cert=PEM, key=PEM))
    for text in (repr(target), str(target), repr(target.tls)):
        assert "secret" not in text
    assert "key=<hidden>" in repr(target)


@pytest.mark.parametrize("half", [{"cert": PEM}, {"key": PEM}])
def test_half_a_client_certificate_is_refused(half: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match="both"):
        Tls(**half)


def test_an_ipv6_targets_authority_is_bracketed_and_a_sockets_is_localhost() -> None:
    assert Target.parse("grpc://[::1]:5").authority == "[::1]:5"
    assert Target.parse("unix:///x").authority == "localhost"
