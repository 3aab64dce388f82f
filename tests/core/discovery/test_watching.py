"""Lists of pods that come in pages: they hold when they are whole, and then nothing of before does."""

import json
from typing import Any

import pytest
from tests.core.discovery.api_server import pod

from smg_core.discovery.pods import PodRules
from smg_core.discovery.watching import Garbled, PodSet, page_of

RULES = PodRules("regular", ports="ports")


def list_pages(pods: PodSet, *pages: list[dict[str, Any]]) -> None:
    """Read a list of these pages to its end."""
    pods.begin()
    for number, items in enumerate(pages, 1):
        more = {"continue": str(number)} if number < len(pages) else {}
        items = [{"kind": "Pod", **each} for each in items]
        page = {"kind": "PodList", "metadata": {"resourceVersion": "7", **more}, "items": items}
        assert pods.page(page_of(json.dumps(page).encode(), RULES)) == (str(number) if more else "")


def names(pods: PodSet) -> list[str]:
    return [each.spec.name for each in pods.seen().workers]


def wrong(name: str) -> dict[str, Any]:
    return pod(name, annotations={"ports": "none"})


def test_a_list_holds_when_its_last_page_has_come() -> None:
    pods = PodSet(RULES, 10)
    list_pages(pods, [pod("a")])
    before = names(pods)
    pods.begin()
    page = {"kind": "PodList", "metadata": {"resourceVersion": "8", "continue": "x"}, "items": []}
    pods.page(page_of(json.dumps(page).encode(), RULES))

    assert (len(before), names(pods), pods.version) == (1, before, "7")


def test_what_a_new_list_does_not_have_is_gone_and_so_is_what_was_wrong_with_it() -> None:
    pods = PodSet(RULES, 10)
    list_pages(pods, [pod("a"), wrong("b")], [pod("c", "10.0.0.2"), wrong("d")])
    first, problems = pods.count, {key[1] for key in pods.problems}
    list_pages(pods, [pod("c", "10.0.0.2")], [wrong("d")])

    assert (first, problems) == (2, {"b", "d"})
    assert (pods.count, {key[1] for key in pods.problems}) == (1, {"d"})


def test_a_pod_that_was_mended_or_broken_between_two_lists_is_what_the_latter_says() -> None:
    pods = PodSet(RULES, 10)
    list_pages(pods, [pod("a"), wrong("b")])
    list_pages(pods, [wrong("a"), pod("b", "10.0.0.2")])

    assert (pods.count, {key[1] for key in pods.problems}) == (1, {"a"})


def test_too_many_pods_over_all_pages_are_refused() -> None:
    with pytest.raises(Garbled, match="more than 3 pods"):
        list_pages(PodSet(RULES, 3), [pod("a"), pod("b")], [pod("c"), pod("d")])
