"""Roles and permissions."""

from pathlib import Path

import pytest

from smg_core.apis import PERMISSIONS
from smg_core.auth.roles import HEADERS, Roles, check_permission
from smg_core.errors import PermissionDenied
from smg_core.grants import Grants
from smg_core.settings import ConfigError


def test_a_user_may_use_every_api_and_nothing_else() -> None:
    granted = Roles((), PERMISSIONS).grants(["user"])

    assert {name for name in PERMISSIONS if not granted.may(name)} == {
        "explain",
        "parser",
        "priority",
        "queue.interactive",
        "queue.system",
        *(name for name in PERMISSIONS if name.startswith("admin.")),
    }
    assert granted.may_use("any")


def test_the_page_lists_every_permission() -> None:
    page = (Path(__file__).parents[3] / "docs" / "identity.md").read_text()

    assert [name for name, text in PERMISSIONS.items() if f"| `{name}` | {text} |" not in page] == []


def test_an_admin_may_do_everything() -> None:
    granted = Roles((), PERMISSIONS).grants(["admin"])

    assert all(granted.may(name) for name in PERMISSIONS)


def test_a_role_of_the_settings_has_its_permissions_and_its_models() -> None:
    granted = Roles(["tester=chat explain model:qwen* model:llama"], PERMISSIONS).grants(["tester"])

    assert {name for name in PERMISSIONS if granted.may(name)} == {"chat", "explain"}
    assert granted.may_use("qwen3")
    assert granted.may_use("llama")
    assert not granted.may_use("llama-3")


def test_all_permissions_with_a_beginning_are_meant_by_a_star() -> None:
    granted = Roles(["operator=admin.* models"], PERMISSIONS).grants(["operator"])

    assert {name for name in PERMISSIONS if granted.may(name)} == {
        "models",
        *(name for name in PERMISSIONS if name.startswith("admin.")),
    }


def test_two_roles_permit_what_either_does() -> None:
    roles = Roles(["a=chat model:x", "b=messages model:y"], PERMISSIONS)
    granted = roles.grants(["a", "b"])

    assert {name for name in PERMISSIONS if granted.may(name)} == {"chat", "messages"}
    assert granted.may_use("x")
    assert granted.may_use("y")
    assert not granted.may_use("z")


def test_a_keys_own_models_narrow_those_of_its_roles() -> None:
    granted = Roles(["a=chat model:qwen*"], PERMISSIONS).grants(["a"], ["qwen3", "llama"])

    assert granted.may_use("qwen3")
    assert not granted.may_use("qwen2")
    assert not granted.may_use("llama")


def test_tools_are_bound_by_roles_and_keys_as_models_are() -> None:
    roles = Roles(["a=chat tool:time.*", "b=chat tool:notes.add", "free=chat"], PERMISSIONS)

    both = roles.grants(["a", "b"])
    assert [both.may_call(name) for name in ("time.now", "notes.add", "notes.write")] == [True, True, False]
    assert roles.grants(["a", "free"]).may_call("notes.write")
    own = roles.grants(["a"], tools=["time.now", "notes.add"])
    assert [own.may_call(name) for name in ("time.now", "time.zone", "notes.add")] == [True, False, False]
    assert own.may_use("any")
    assert Grants().may_call("any.tool")


def test_the_longest_deadline_of_several_roles_counts_and_none_where_one_has_none() -> None:
    roles = Roles(["a=chat deadline:2000", "b=chat deadline:500", "free=chat"], PERMISSIONS)

    found = [roles.grants(names).deadline_ms for names in (["a"], ["a", "b"], ["a", "free"], [])]
    assert found == [2000, 2000, 0, 0]


def test_a_caller_without_a_role_may_do_nothing() -> None:
    granted = Roles((), PERMISSIONS).grants([])

    assert not any(granted.may(name) for name in PERMISSIONS)


def test_a_caller_without_grants_of_its_own_may_do_everything() -> None:
    assert all(Grants().may(name) for name in PERMISSIONS)
    assert Grants().may_use("any")


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_needs_its_permission(header: str) -> None:
    with pytest.raises(PermissionDenied, match=header):
        check_permission(Roles((), PERMISSIONS).grants(["user"]), "chat", [header])
    check_permission(Roles((), PERMISSIONS).grants(["admin"]), "chat", [header])
    check_permission(Grants(), "chat", [header])


def test_what_is_not_permitted_is_refused_by_name() -> None:
    with pytest.raises(PermissionDenied, match=r"'admin\.keys'"):
        check_permission(Roles((), PERMISSIONS).grants(["user"]), "admin.keys")


WRONG_DEADLINES = (
    *(
        "deadline:",
        "deadline:0",
        "deadline:-1",
        "deadline:1.5",
        "deadline:\u0661",
        "deadline:1_0",
        "deadline:" + "9" * 11,
    ),
    "deadline:1 deadline:2",
)


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("tester", "expected"),
        ("tester=", "expected"),
        ("=chat", "expected"),
        ("a b=chat", "expected"),
        ("tester=chatt", "there is no permission chatt; did you mean chat"),
        ("tester=nothing.*", "there is no permission"),
        ("tester=chat model:", "names no model"),
        ("tester=chat tool:", "names no tool"),
        *[(f"tester=chat {word}", "milliseconds") for word in WRONG_DEADLINES],
    ],
)
def test_an_entry_that_is_no_role_is_refused(entry: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Roles([entry], PERMISSIONS)


def test_a_role_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        Roles(["a=chat", "a=messages"], PERMISSIONS)
