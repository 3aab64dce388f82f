"""A plain API key as the signer of a provider's requests."""

from smg_core.engines.vendors.signing import KeySigner, bearer


def test_a_key_is_sent_in_the_providers_header() -> None:
    signer = KeySigner("x-api-key", lambda: "k-1")

    assert signer.authorise("POST", "https://api.example/v1/messages", (), b"{}") == (("x-api-key", "k-1"),)


def test_a_bearer_key_has_its_scheme() -> None:
    assert bearer(lambda: "k-1").authorise("GET", "https://api.example/v1/models", (), b"") == (
        ("authorization", "Bearer k-1"),
    )


def test_a_key_that_is_replaced_is_sent_from_the_next_request_on() -> None:
    keys = iter(["old", "new"])
    signer = KeySigner("x-goog-api-key", lambda: next(keys))

    assert [signer.authorise("GET", "https://api.example/", (), b"")[0][1] for _ in range(2)] == ["old", "new"]


def test_a_key_is_not_shown() -> None:
    assert "k-1" not in repr(KeySigner("x-api-key", lambda: "k-1"))
