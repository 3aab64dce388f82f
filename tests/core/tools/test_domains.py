"""Which addresses the domains of a request let pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import InvalidRequest
from smg_core.tools.domains import in_query, may_be_used
from smg_core.web_terms import UserPlace, checked_domains, place_in_words


@pytest.mark.parametrize(
    ("url", "domain", "is_of"),
    [
        ("https://a.example/x", "a.example", True),
        ("https://sub.a.example", "a.example", True),
        ("https://A.EXAMPLE./", "a.example", True),
        ("https://nota.example/", "a.example", False),
        ("https://a.example.evil.test/", "a.example", False),
        ("https://evil.test/?a.example", "a.example", False),
        ("https://a.example@evil.test/", "a.example", False),
        ("https://evil.test#a.example", "a.example", False),
        ("https://a.example/blog/1", "a.example/blog", True),
        ("https://a.example/", "a.example/blog", False),
        ("https://a.example/x/news/1", "a.example/*/news", True),
        ("https://a.example/x/old/1", "a.example/*/news", False),
        ("http://[::1", "a.example", False),
        ("nothing", "a.example", False),
    ],
)
def test_a_domain_stands_for_itself_and_what_is_below_it(url: str, domain: str, is_of: bool) -> None:
    assert may_be_used(url, [domain], []) is is_of
    if "[" not in url:
        assert may_be_used(url, [], [domain]) is not is_of
    assert may_be_used(url, [domain], [domain]) is False
    assert may_be_used(url, [], []) is True


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example/x/../private/1",
        "https://a.example/%70rivate",
        "https://a.example//private",
        "https://a.example/./private",
        "https://a.example/x/%2e%2e/private",
        "https://a.example/x\\..\\private",
        "https://a\u3002example/private",
        "https://\uff41.example/private",
        "https://a%2eexample/private",
    ],
)
def test_no_other_way_to_write_an_address_leads_around_a_block(url: str) -> None:
    assert not may_be_used(url, [], ["a.example/private"])


@pytest.mark.parametrize("below", ["../private", "%2e%2e/private", "x/../../private", "..%2fprivate", "..\\private"])
def test_no_path_leads_out_of_what_is_allowed(below: str) -> None:
    assert not may_be_used(f"https://a.example/blog/{below}", ["a.example/blog"], [])
    assert may_be_used("https://a.example/blog/x/../1", ["a.example/blog"], [])
    assert may_be_used("https://a.example/blog/", ["a.example/blog/"], [])


@given(st.text(max_size=40), st.text(max_size=20))
def test_no_address_and_no_domain_breaks_the_judgement(url: str, domain: str) -> None:
    assert may_be_used(url, [domain], []) in (True, False)


def test_a_query_names_the_first_domains() -> None:
    assert in_query("fjord", [], []) == "fjord"
    assert in_query("fjord", ["a.example/x"], ["b.example"]) == "fjord site:a.example -site:b.example"
    assert in_query("fjord", ["a.example", "b.example"], []) == "fjord (site:a.example OR site:b.example)"


@pytest.mark.parametrize(
    "domain", ["https://a.example", "a", "", "a..example", "a b.example", "a.example/*/*", "ä.example"]
)
def test_what_is_no_domain_is_refused_by_its_place(domain: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        checked_domains(["a.example", domain], "tools[0].allowed_domains")
    assert refused.value.param == "tools[0].allowed_domains[1]"


def test_a_tool_names_a_hundred_domains_at_most() -> None:
    assert len(checked_domains(["a.example"] * 100, "x")) == 100
    with pytest.raises(InvalidRequest):
        checked_domains(["a.example"] * 101, "x")


def test_a_place_is_told_in_words_on_one_line() -> None:
    assert place_in_words(None) == place_in_words(UserPlace()) == ""
    assert place_in_words(UserPlace(city="New\nYork", country="US")) == "New York, US"
    assert place_in_words(UserPlace(timezone="Europe/Oslo")) == "the time zone Europe/Oslo"
