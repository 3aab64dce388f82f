"""API keys in settings and files."""

import contextlib
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis import PERMISSIONS
from smg_core.auth.credentials import Credential
from smg_core.auth.keys import ApiKey, StaticKeys, keys_in_file, keys_in_lines
from smg_core.auth.roles import Roles
from smg_core.errors import AuthenticationFailed
from smg_core.settings import ConfigError

KEY = "sk-0123456789abcdef"
OTHER = "sk-fedcba9876543210"
HASHED = "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()
WRITTEN = ApiKey(
    digest=hashlib.sha256(KEY.encode()).digest(),
    name="ci",
    tenant="acme",
    principal="ada",
    roles=("user", "admin"),
    models=("qwen*", "llama"),
    expires_at=1801353600.0,
)


def keys(*found: ApiKey, now: float = 0.0) -> StaticKeys:
    return StaticKeys(found, Roles((), PERMISSIONS), lambda: now)


LINE = "name=ci tenant=acme principal=ada role=user role=admin model=qwen* model=llama expires=2027-01-31"
OBJECT = {
    "name": "ci",
    "tenant": "acme",
    "principal": "ada",
    "role": ["user", "admin"],
    "model": ["qwen*", "llama"],
    "expires": "2027-01-31T00:00:00Z",
}


@pytest.mark.parametrize("key", [KEY, HASHED])
def test_the_same_key_is_read_from_lines_json_and_yaml(key: str) -> None:
    lines = keys_in_file(f"# ours\n\n{key} {LINE}\n", "keys.txt")
    objects = keys_in_file(json.dumps([{"key": key, **OBJECT}]), "keys.json")
    yaml = keys_in_file(
        f"- key: {key}\n  name: ci\n  tenant: acme\n  principal: ada\n  role: [user, admin]\n  model: [qwen*, llama]\n"
        "  expires: 2027-01-31\n",
        "keys.yaml",
    )

    assert lines == objects == yaml == [WRITTEN]


def test_a_key_alone_is_the_key_of_everybody_without_a_tenant() -> None:
    caller = keys(*keys_in_lines([KEY], "auth.keys")).known(Credential(KEY))

    assert caller is not None
    assert (caller.tenant, caller.principal) == ("", "")
    assert caller.grants.may("chat")
    assert not caller.grants.may("admin.keys")
    assert not caller.grants.may("explain")


def test_a_key_that_is_not_known_is_nobodys() -> None:
    found = keys(WRITTEN)

    assert found.known(Credential(KEY + "x")) is None
    assert found.known(Credential(KEY[:-1])) is None
    assert found.known(Credential(HASHED)) is None  # who has read the file has no key


def test_a_key_has_its_tenant_its_roles_and_its_models() -> None:
    caller = keys(WRITTEN).known(Credential(KEY))

    assert caller is not None
    assert (caller.tenant, caller.principal) == ("acme", "ada")
    assert caller.grants.may("admin.keys")
    assert caller.grants.may_use("qwen3-8b")
    assert caller.grants.may_use("alias", "llama")
    assert not caller.grants.may_use("llama-3")


def test_an_expired_key_is_refused_from_that_second_on() -> None:
    assert keys(WRITTEN, now=1801353599.0).known(Credential(KEY)) is not None
    with pytest.raises(AuthenticationFailed, match="expired"):
        keys(WRITTEN, now=1801353600.0).known(Credential(KEY))


BROKEN = {
    "short": ("sk-short", "16 characters"),
    "unknown word": (f"{KEY} tenat=acme", "did you mean tenant"),
    "no word": (f"{KEY} acme", "expected KEY"),
    "empty word": (f"{KEY} tenant=", "expected KEY"),
    "twice": (f"{KEY} tenant=a tenant=b", "given twice"),
    "no date": (f"{KEY} expires=soon", "no date"),
    "no hash": ("sha256:12ab", "64 hexadecimal digits"),
    "not ASCII": ("schlüssel-schlüssel", "printable ASCII"),
}


@pytest.mark.parametrize(("line", "sentence"), BROKEN.values(), ids=BROKEN)
def test_a_line_that_is_no_key_is_named_without_repeating_the_key(line: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        keys_in_lines(["", line], "auth.keys")

    assert "line 2" in str(refused.value)
    assert line.split()[0] not in str(refused.value)


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        ("", "keys.txt", "has no key"),
        ("[]", "keys.json", "has no key"),
        (f'{{"key": "{KEY}"}}', "keys.json", "list of keys"),
        (f'[{{"key": "{KEY}"', "keys.json", "no JSON"),
        (f"- key: '{KEY}", "keys.yaml", "no YAML"),
        ("[" * 100_000, "keys.yaml", "too deeply"),
        (f'["{KEY}"]', "keys.json", "an object with a key"),
        (f'[{{"key": "{KEY}", "tenant": {{}}}}]', "keys.json", "expected a string"),
        (f'[{{"key": "{KEY}", "tenant": true}}]', "keys.json", "expected a string"),
        (f'[{{"key": "{KEY}", "tenant": "a\\nb"}}]', "keys.json", "tenant: a name has"),
        (f'[{{"key": "{KEY}", "principal": "{"x" * 256}"}}]', "keys.json", "principal: a name has"),
        (f'[{{"key": "{KEY}", "name": " a"}}]', "keys.json", "name: a name has"),
    ],
)
def test_a_file_that_cannot_be_read_says_why_and_repeats_no_key(text: str, name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        keys_in_file(text, name)

    assert KEY not in str(refused.value)


def test_of_several_keys_each_names_its_tenant() -> None:
    first, second = keys_in_lines([f"{KEY} tenant=a", OTHER], "auth.keys")

    with pytest.raises(ConfigError, match="key 2 names no tenant"):
        keys(first, second)


def test_a_key_twice_and_an_unknown_role_stop_the_start() -> None:
    with pytest.raises(ConfigError, match="key 2 is given twice"):
        keys(*keys_in_lines([f"{KEY} tenant=a", f"{HASHED} tenant=b"], "auth.keys"))
    with pytest.raises(ConfigError, match="key 1: there is no role usr; did you mean user"):
        keys(*keys_in_lines([f"{KEY} role=usr"], "auth.keys"))


@given(st.text(max_size=200), st.sampled_from(["keys", "keys.json", "keys.yaml"]))
def test_any_text_is_keys_or_a_sentence(text: str, name: str) -> None:
    with contextlib.suppress(ConfigError):
        assert keys_in_file(text, name)
