"""What servers of tools give as results of a search, in whatever form, and what of a page a model is shown."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.sources import CitableSource
from smg_core.tools.web_results import excerpts, page_read, results_in
from smg_mcp.records.base import ToolOutcome, ToolText
from smg_mcp.web.reading import foreign, own_text

ONE = {"url": "https://a.example/1", "title": "One", "content": "About one", "date": "2026"}
FOUND = CitableSource("url", "https://a.example/1", "One", "About one", "2026")


def outcome(text: str = "", structured: Any = None) -> ToolOutcome:
    return ToolOutcome((ToolText(text),), structured)


@pytest.mark.parametrize(
    "given_as",
    [
        outcome(structured={"results": [ONE, {"title": "no address"}, 3]}),
        outcome(structured=[ONE]),
        outcome(structured={"web": {"results": [ONE]}}),
        outcome(json.dumps({"organic": [{"link": ONE["url"], "name": "One", "snippet": "About one", "date": "2026"}]})),
    ],
)
def test_lists_of_results_are_found_in_the_forms_of_services(given_as: ToolOutcome) -> None:
    assert results_in(given_as) == [FOUND]


def test_paragraphs_with_an_address_are_results() -> None:
    text = "Title: One\nDescription: About\nURL: https://a.example/1\n\nNothing here\n\nTwo (http://b.example)."
    assert [(each.id, each.title) for each in results_in(outcome(text))] == [
        ("https://a.example/1", "One"),
        ("http://b.example", "Two (http://b.example)."),
    ]


@pytest.mark.full
@given(
    st.recursive(
        st.none() | st.text(max_size=9) | st.integers(),
        lambda each: st.lists(each) | st.dictionaries(st.sampled_from(["url", "results", "web", "title", "x"]), each),
    )
)
def test_no_answer_of_a_server_breaks_the_reading(found: Any) -> None:
    assert isinstance(results_in(outcome("text", found)), list)
    assert isinstance(results_in(outcome(json.dumps(found))), list)


@given(st.text(max_size=60))
def test_a_text_between_marks_is_found_again(text: str) -> None:
    assert own_text(foreign(text, "a page")) == text


def test_a_page_is_a_source_with_the_text_that_its_reader_gave() -> None:
    told = foreign("Fjord\nhttps://a.example/\nIt is deep.", "a page of the web")
    page = page_read(outcome(told, {"url": "https://a.example/", "title": "Fjord"}), "https://short.example")
    assert page == CitableSource("page", "https://a.example/", "Fjord", "It is deep.")
    assert page_read(outcome("plain"), "https://a.example") == CitableSource("page", "https://a.example", "", "plain")


def test_excerpts_stand_around_the_words() -> None:
    text = "x" * 1000 + " Deep Water " + "y" * 1000
    assert excerpts(text, "deep water").strip("xy") == " Deep Water "
    assert len(excerpts(text, "deep water")) < 700
    assert excerpts(text, "shallow") == ""
    assert excerpts("ab " * 5000, "ab").count("[...]") == 7
