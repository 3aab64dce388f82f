"""A request's target: what it names, and what a log shows of it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.http.framing import origin_form, path_of_target, target_fault, without_user

SLOW = re.compile(r"^(/*)[^/]*:[^/]*@")
"""The rule as an expression, which takes the square of a path's length."""


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("//ada:secret@gpu/v1", "//gpu/v1"),
        ("ada:secret@gpu:80", "gpu:80"),
        ("/a:b@c@d/e:f@g", "/d/e:f@g"),
        ("/v1/models/a:b@c", "/v1/models/a:b@c"),
        ("/@a:b", "/@a:b"),
        ("/a@b", "/a@b"),
        ("", ""),
    ],
)
def test_a_user_and_password_are_not_shown(path: str, shown: str) -> None:
    assert without_user(path) == shown


@given(st.text(alphabet="/:@a"))
def test_what_is_cut_is_what_the_rule_says(path: str) -> None:
    assert without_user(path) == SLOW.sub(r"\1", path, count=1)


@pytest.mark.parametrize("path", ["/" + ":" * 2_000_000 + "/@", "/" + ":" * 2_000_000 + "@", "/" * 2_000_000 + ":@"])
def test_a_long_path_takes_time_in_proportion_to_its_length(path: str) -> None:
    """By the expression this would take an hour."""
    assert "@" not in without_user(path) or without_user(path) == path


@pytest.mark.parametrize(
    ("method", "target", "form"),
    [
        (b"GET", b"/", b"/"),
        (b"GET", b"/a?b", b"/a?b"),
        (b"GET", b"//a", b"//a"),
        (b"GET", b"http://x", b"/"),
        (b"GET", b"http://x:80", b"/"),
        (b"GET", b"http://[::1]:80?a=/b", b"/?a=/b"),
        (b"GET", b"HTTPS://x/a", b"/a"),
        (b"GET", b"http://x//a", b"//a"),
        (b"OPTIONS", b"*", b"*"),
        (b"OPTIONS", b"http://x", b"*"),
        (b"OPTIONS", b"http://x/", b"/"),
        (b"OPTIONS", b"http://x?a", b"/?a"),
    ],
)
def test_a_target_is_a_path_or_a_url_or_all_of_the_server(method: bytes, target: bytes, form: bytes) -> None:
    assert target_fault(method, target) is None
    assert origin_form(method, target) == form


@pytest.mark.parametrize(
    ("method", "target"),
    [
        *(
            (b"GET", target)
            for target in (b"", b"*", b"?a", b"a", b"x:80", b"ftp://x/a", b"http:/a", b"/a#b", b"http://x#")
        ),
        *((b"OPTIONS", target) for target in (b"**", b"*/", b"*?a", b"x")),
    ],
)
def test_a_target_of_another_form_is_refused(method: bytes, target: bytes) -> None:
    assert target_fault(method, target) is not None


@given(
    st.sampled_from([b"GET", b"OPTIONS"]),
    st.sampled_from([b"", b"/", b"http://x", b"https://x:80", b"*"]),
    st.text(alphabet="/?#*:a").map(str.encode),
)
def test_a_target_without_fault_has_a_path_which_it_keeps(method: bytes, beginning: bytes, rest: bytes) -> None:
    target = beginning + rest
    if target_fault(method, target) is not None:
        return
    form = origin_form(method, target)
    assert form == b"*" or form.startswith(b"/")
    assert target.endswith(form.removeprefix(b"/")) or form == b"*"
    assert target_fault(method, form) is None
    assert origin_form(method, form) == form
    assert form == b"*" or path_of_target(target) == path_of_target(form)
