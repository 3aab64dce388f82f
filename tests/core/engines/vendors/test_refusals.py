"""How long a provider asks to wait, in whatever words it says so."""

import pytest

from smg_core.engines.vendors.refusals import ProviderRefusal, error_of, span_seconds, waited


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Sun, 29 Nov 2026 12:00:09 GMT", "date": "Sun, 29 Nov 2026 12:00:00 GMT"}, 9.0),
        ({"retry-after": "Sun, 29 Nov 2026 12:00:09 GMT", "date": "Sun, 29 Nov 2026 12:00:10 GMT"}, 0.0),
        ({"retry-after": "Sun, 29 Nov 2026 12:00:09 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
    ],
)
def test_what_the_headers_ask_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert waited(headers) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("46s", 46.0),
        ("6m0s", 360.0),
        ("1h2m3s", 3723.0),
        ("20ms", 0.02),
        ("1.5s", 1.5),
        ("46", 46.0),
        ("", None),
        ("x", None),
    ],
)
def test_a_span_of_time_is_read_in_every_unit(text: str, seconds: float | None) -> None:
    assert span_seconds(text) == (pytest.approx(seconds) if seconds is not None else None)


def test_a_sentence_may_say_when_to_come_back() -> None:
    said = ProviderRefusal(429, "Rate limit reached for gpt in org-x. Please try again in 6m0.5s. Visit us.")

    assert error_of(said).retry_after == 360.5
    assert error_of(ProviderRefusal(429, "Please try again in a while")).retry_after is None
    assert error_of(ProviderRefusal(429, "Please try again in 9s", wait=2.0)).retry_after == 2.0
