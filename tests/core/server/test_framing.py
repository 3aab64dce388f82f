"""What a log shows of a request's target."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.server.framing import without_user

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
