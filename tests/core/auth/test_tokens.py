"""Tokens by their form, their head, their claims; and what was verified before."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.auth.issuer import AUDIENCE, NOW, encoded, key, signed

from smg_core.auth.json_objects import unambiguous_object
from smg_core.auth.jwks import ALGORITHMS, TAKEN, read_keys
from smg_core.auth.settings import OidcConfig
from smg_core.auth.tokens import (
    Claims,
    VerifiedTokens,
    claim_path,
    claim_rules,
    looks_like_token,
    read_token,
    token_refusal,
)
from smg_core.errors import AuthenticationFailed
from smg_core.settings import ConfigError

ISSUER = "https://login.example"
MOST = 16384
GOOD = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "org": "acme", "exp": NOW + 300}


def settings(**changes: Any) -> OidcConfig:
    return OidcConfig(**{"issuer": ISSUER, "audiences": (AUDIENCE,), "tenant_claim": "org", **changes})


def claims(said: object, now: float = NOW, **changes: Any) -> Claims:
    text = said if isinstance(said, bytes) else json.dumps(said).encode()
    return Claims.of(text, claim_rules(settings(**changes)), now)


def token(head: object, said: object = GOOD) -> str:
    return (encoded(head) + b"." + encoded(said) + b"." + encoded(b"signature")).decode()


def reason(error: pytest.ExceptionInfo[AuthenticationFailed]) -> str | None:
    return error.value.detail


# ---------------------------------------------------------------------------------------------------------- form and head


HEAD = {"alg": "ES256", "kid": "k"}


def test_the_parts_of_a_token_are_read() -> None:
    found = read_token(token(HEAD), TAKEN, MOST)

    assert (found.algorithm, found.kid) == ("ES256", "k")
    assert json.loads(found.claims) == GOOD
    assert found.signature == b"signature"
    assert found.signed == token(HEAD).rpartition(".")[0].encode()


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "HS256", "HS512", "es256", "ES256K", "RSA-OAEP", "dir", "", 7, None, ["ES256"]]
)
def test_an_algorithm_that_is_not_in_the_table_is_refused_before_a_key_is_looked_for(algorithm: object) -> None:
    with pytest.raises(AuthenticationFailed) as refused:
        read_token(token({"alg": algorithm, "kid": "k"}), TAKEN, MOST)

    assert reason(refused) == "algorithm"


@pytest.mark.parametrize(
    "stated",
    [
        {"crit": ["exp"]},
        {"crit": []},
        {"crit": ["b64"], "b64": False},
        {"b64": False},
        {"b64": True},
        {"zip": "DEF"},
        {"enc": "A256GCM"},
        {"typ": "logout+jwt"},
        {"typ": "dpop+jwt"},
        {"typ": 7},
        {"kid": 7},
        {"kid": ["k"]},
    ],
    ids=str,
)
def test_a_head_that_demands_or_states_something_else_is_refused(stated: dict[str, object]) -> None:
    with pytest.raises(AuthenticationFailed):
        read_token(token({**HEAD, **stated}), TAKEN, MOST)


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt"])
def test_types_of_tokens_that_say_who_calls_are_taken(kind: str) -> None:
    assert read_token(token({**HEAD, "typ": kind}), TAKEN, MOST).kid == "k"


@pytest.mark.parametrize("stranger", ["jku", "x5u", "jwk", "x5c", "x5t", "whatever"])
def test_keys_and_addresses_that_a_token_brings_along_are_not_looked_at(stranger: str) -> None:
    assert read_token(token({**HEAD, stranger: "https://evil.example/keys"}), TAKEN, MOST).kid == "k"


BROKEN = {
    "two parts": "e30.e30",
    "four parts": token(HEAD) + ".e30",
    "five parts, as an encrypted one has": ".".join([token(HEAD), "e30", "e30"]),
    "a name that comes twice": (encoded(b'{"alg":"ES256","alg":"none","kid":"k"}') + b".e30.e30").decode(),
    "a head of ten thousand lists": (encoded(b"[" * 10_000) + b".e30.e30").decode(),
    "a head of nested objects": (encoded(b'{"a":' * 3000 + b"1" + b"}" * 3000) + b".e30.e30").decode(),
    "no object": (encoded([1]) + b".e30.e30").decode(),
    "other alphabet": token(HEAD).replace("e", "+"),
    "padding": token(HEAD).replace(".", "=.", 1),
    "bits behind the end": "eyJh" + "f" + ".e30.e30",
    "UTF-16": (encoded(json.dumps(HEAD).encode("utf-16")) + b".e30.e30").decode(),
    "no UTF-8": (encoded(b'{"alg":"\xff"}') + b".e30.e30").decode(),
    "letters that are not ASCII": "é.é.é",
    "nothing": "..",
    "a megabyte": token({**HEAD, "kid": "k" * 1_000_000}),
    "a number without end": (encoded(b'{"alg":"ES256","n":' + b"9" * 9000 + b"}") + b".e30.e30").decode(),
    "not a number": (encoded(b'{"alg":"ES256","n":NaN}') + b".e30.e30").decode(),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(AuthenticationFailed) as refused:
        read_token(text, TAKEN, MOST)

    assert refused.value.status == 401
    assert text[:20] not in str(refused.value)


@given(st.text(max_size=200))
def test_whatever_is_sent_is_read_or_refused(text: str) -> None:
    try:
        read_token(text, TAKEN, MOST)
    except AuthenticationFailed:
        return


@pytest.mark.full
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_a_strict_object_is_what_json_says_or_is_refused(value: object) -> None:
    text = json.dumps(value).encode()
    if isinstance(value, dict):
        assert unambiguous_object(text) == value
    else:
        with pytest.raises(ValueError):
            unambiguous_object(text)


def test_api_keys_are_not_taken_for_tokens() -> None:
    assert looks_like_token(token(HEAD))
    assert not any(looks_like_token(text) for text in ("sk-abc", "sk-a.b", "a.b.c.d", ""))


# ----------------------------------------------------------------------------------------------------------------- claims


def test_the_claims_say_whose_the_token_is() -> None:
    assert claims(GOOD) == Claims("acme", "ann", ("user",), NOW + 330)


REFUSED = {
    "another issuer": ({"iss": "https://evil.example"}, "issuer"),
    "an issuer with a slash more": ({"iss": ISSUER + "/"}, "issuer"),
    "several issuers": ({"iss": [ISSUER]}, "issuer"),
    "no issuer": ({"iss": None}, "issuer"),
    "another audience": ({"aud": "https://other.example"}, "audience"),
    "other audiences": ({"aud": ["a", "b"]}, "audience"),
    "an audience of another type": ({"aud": {AUDIENCE: 1}}, "audience"),
    "audiences of which one is no string": ({"aud": [AUDIENCE, 7]}, "audience"),
    "part of the audience": ({"aud": AUDIENCE[:-1]}, "audience"),
    "no audience": ({"aud": None}, "audience"),
    "expired": ({"exp": NOW - 30}, "time"),
    "not valid yet": ({"nbf": NOW + 31}, "time"),
    "issued later than now": ({"iat": NOW + 31}, "time"),
    "no end": ({"exp": None}, "claims"),
    "an end in words": ({"exp": str(NOW + 300)}, "claims"),
    "an end that is true": ({"exp": True}, "claims"),
    "an end without end": ({"exp": 1e300}, "claims"),
    "a beginning in words": ({"nbf": "now"}, "claims"),
    "no tenant": ({"org": None}, "claims"),
    "an empty tenant": ({"org": ""}, "claims"),
    "a tenant of another type": ({"org": 7}, "claims"),
    "several tenants": ({"org": ["acme", "other"]}, "claims"),
    "a tenant with NUL": ({"org": "acme\0other"}, "claims"),
    "a tenant with a line break": ({"org": "acme\nother"}, "claims"),
    "a tenant with half a character": ({"org": "\ud800"}, "claims"),
    "a tenant with a space around it": ({"org": " acme"}, "claims"),
    "a tenant without end": ({"org": "a" * 257}, "claims"),
    "no principal": ({"sub": None}, "claims"),
}


@pytest.mark.parametrize(("change", "wrong"), REFUSED.values(), ids=REFUSED.keys())
def test_claims_that_are_wrong_are_refused(change: dict[str, object], wrong: Any) -> None:
    said = {name: value for name, value in {**GOOD, **change}.items() if value is not None}

    with pytest.raises(AuthenticationFailed) as refused:
        claims(said)

    assert refused.value.message == token_refusal(wrong).message


@pytest.mark.parametrize(
    "change", [{"exp": NOW - 29}, {"nbf": NOW + 29}, {"iat": NOW + 29}, {"aud": ["x", AUDIENCE]}], ids=str
)
def test_clocks_may_differ_by_the_leeway_and_there_may_be_other_audiences(change: dict[str, object]) -> None:
    assert claims({**GOOD, **change}).tenant == "acme"


def test_a_claim_that_is_there_twice_makes_the_token_void() -> None:
    doubled = json.dumps(GOOD)[:-1] + ', "org": "other"}'

    with pytest.raises(AuthenticationFailed):
        claims(doubled.encode())


def test_claims_that_nest_without_end_are_refused() -> None:
    for bomb in (b'{"a":' * 4000 + b"1" + b"}" * 4000, b"[" * 100_000):
        with pytest.raises(AuthenticationFailed):
            claims(bomb)


def test_a_claim_is_named_as_it_stands_or_by_a_pointer() -> None:
    assert claim_path("org.id") == ("org.id",)
    assert claim_path("/realm_access/roles") == ("realm_access", "roles")
    assert claim_path("/https:~1~1x.example~1org") == ("https://x.example/org",)


@pytest.mark.parametrize(
    ("value", "roles"),
    [
        (["ml", "ops"], ("admin", "user")),
        ("ml ops", ("admin", "user")),
        (["ml"], ("user",)),
        (["strange"], ()),
        ([], ()),
        (None, ()),
        ({"ml": 1}, ()),
        (["ml", 7], ()),
    ],
    ids=str,
)
def test_roles_are_those_that_the_mapping_gives_and_no_others(value: object, roles: tuple[str, ...]) -> None:
    found = claims({**GOOD, "realm": {"roles": value}}, roles_claim="/realm/roles", roles=("ml=user", "ops=admin"))

    assert found.roles == roles


def test_roles_of_tokens_without_any_are_those_of_the_settings() -> None:
    assert claims(GOOD, default_roles=("reader",)).roles == ("reader",)
    assert claims(GOOD, roles_claim="r", roles=("a=user",), default_roles=("reader",)).roles == ("reader",)


def test_all_tokens_may_be_of_one_tenant() -> None:
    assert claims(GOOD, tenant_claim=None, tenant="all").tenant == "all"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"audiences": ()}, "oidc.audiences"),
        ({"tenant_claim": None}, "oidc.tenant"),
        ({"tenant": "t"}, "oidc.tenant"),
        ({"tenant_claim": None, "tenant": " t"}, "oidc.tenant"),
        ({"roles": ("a=user",)}, "oidc.roles_claim"),
        ({"roles_claim": "r"}, "oidc.roles_claim"),
        ({"roles_claim": "r", "roles": ("user",)}, "oidc.roles: user"),
        ({"roles_claim": "r", "roles": ("a=user", "a=admin")}, "oidc.roles: a=admin"),
        ({"keep_s": 10.0}, "oidc.keep_s"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_together_are_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        claim_rules(settings(**changes))


# ------------------------------------------------------------------------------------------------- keys and algorithms


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6), lambda each: st.lists(each, max_size=3)
)
FIELDS = ["kty", "kid", "use", "alg", "key_ops", "crv", "n", "e", "x", "y", "d"]
PUBLIC = {kind: key(kind).as_dict(private=False) for kind in ("RSA", "P-256", "Ed25519")}


@given(st.sampled_from(sorted(PUBLIC)), st.dictionaries(st.sampled_from(FIELDS), ANY_JSON | st.just({}), max_size=4))
def test_a_published_key_with_any_json_in_any_field_is_left_out_and_does_not_hide_the_others(
    kind: str, odd: dict[str, Any]
) -> None:
    good = {**PUBLIC["P-256"], "kid": "the good one"}
    document = json.dumps({"keys": [{**PUBLIC[kind], **odd}, good]}).encode()

    assert "the good one" in {each.kid for each in read_keys(document, 10)}


@pytest.mark.parametrize("kind", ["RSA", "P-256", "P-384", "P-521", "Ed25519", "Ed448"])
@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "EdDSA", "HS256", "none"])
def test_an_algorithm_works_with_its_own_type_of_key_and_with_no_other(kind: str, algorithm: str) -> None:
    private = key(kind)
    (public,) = read_keys(json.dumps({"keys": [private.as_dict(private=False)]}).encode(), 10)
    own = (ALGORITHMS.get(algorithm, (None, None))[1] or ALGORITHMS.get(algorithm, (None,))[0]) == kind
    own = own or (algorithm == "EdDSA" and kind.startswith("Ed"))

    assert (algorithm in public.algorithms) == own
    if own:
        text, _, signature = signed({}, {}, private, kind if algorithm == "EdDSA" else algorithm).rpartition(".")
        raw = read_token(f"{encoded(HEAD).decode()}.e30.{signature}", TAKEN, MOST).signature
        assert public.verifies(algorithm, text.encode(), raw)
        assert not public.verifies(algorithm, text.encode() + b"x", raw)
        assert not public.verifies(algorithm, text.encode(), raw[:-1])
        assert not public.verifies(algorithm, text.encode(), b"")
    else:
        assert not public.verifies(algorithm, b"text", b"x" * 64)


# ----------------------------------------------------------------------------------------------------- what was verified


def test_what_was_verified_is_known_until_it_expires() -> None:
    known: VerifiedTokens[str] = VerifiedTokens(10)
    known.put(b"a", 100.0, "ann")

    assert known.get(b"a", 99.9) == "ann"
    assert known.get(b"b", 99.9) is None
    assert known.get(b"a", 100.0) is None
    assert len(known) == 0


@given(
    st.lists(st.tuples(st.sampled_from("pgf"), st.integers(0, 9), st.integers(1, 50)), max_size=60), st.integers(1, 5)
)
def test_what_was_verified_is_bounded_and_never_of_another_token_or_time(
    steps: list[tuple[str, int, int]], most: int
) -> None:
    known: VerifiedTokens[int] = VerifiedTokens(most)
    ends: dict[int, int] = {}
    for now, (what, name, ends_in) in enumerate(steps):
        if what == "p":
            known.put(bytes([name]), now + ends_in, name)
            ends[name] = now + ends_in
        elif what == "f":
            known.forget()
            ends.clear()
        else:
            found = known.get(bytes([name]), now)
            assert found is None or (found == name and now < ends[name])
        assert len(known) <= most
