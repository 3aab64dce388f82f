"""AWS's signatures: the vectors of its public test suite, those of Bedrock's addresses, and what is not signed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.credentials.aws.sigv4 import AwsKeys, AwsScope, amz_date, sign

KEYS = AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SUITE = AwsScope("us-east-1", "service")
SUITE_DATE = "20150830T123600Z"
FORM = ("content-type", "application/x-www-form-urlencoded")
PLACE = "https://example.amazonaws.com"
UNRESERVED = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
BEDROCK = (
    "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-haiku-4-5-20251001-v1%3A0/converse-stream"
)
HI = b'{"messages":[{"role":"user","content":[{"text":"hi"}]}]}'
JSON = ("content-type", "application/json")


def proof(*asked: object, keys: AwsKeys = KEYS) -> dict[str, str]:
    return dict(sign(keys, *asked))  # type: ignore[arg-type]


def signature(fields: dict[str, str]) -> str:
    return fields["authorization"].rpartition("Signature=")[2]


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "expected"),
    [
        ("GET", "/", (), b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", (), b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            *("GET", "/?Param2=value2&Param1=value1", (), b""),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        ("GET", "/?Param1=value1", (), b"", "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"),
        ("POST", "/?Param1=value1", (), b"", "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"),
        (
            *("GET", f"/?{UNRESERVED}={UNRESERVED}", (), b""),
            "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
        ),
        (
            *("GET", "/", (("my-header1", "value2"), ("my-header1", "value2"), ("my-header1", "value1")), b""),
            "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
        ),
        (
            *("GET", "/", (("my-header1", " value1"), ("my-header2", ' "a   b   c"')), b""),
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ),
        (
            *("POST", "/", (("my-header1", "value1"),), b""),
            "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
        ),
        ("POST", "/", (FORM,), b"Param1=value1", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
    ],
)
def test_a_signature_is_that_of_the_test_suite(
    method: str, path: str, headers: tuple[tuple[str, str], ...], body: bytes, expected: str
) -> None:
    fields = proof(SUITE, SUITE_DATE, method, PLACE + path, headers, body)
    assert signature(fields) == expected
    assert fields["x-amz-date"] == SUITE_DATE


def test_the_date_is_written_as_signatures_have_it() -> None:
    assert amz_date(1440938160.9) == SUITE_DATE


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        ("", "a6cce0f4d9631924acbcabee23ca430fbd76ea3539dfc0183c89757522f2b7b3"),
        ("SESSION", "512dfd78dcc33e372d7f55b8d43755a9748c315e03e804d10c3355ef9ac3561d"),
    ],
)
def test_a_model_in_the_path_is_encoded_once_more_in_what_is_signed(session: str, expected: str) -> None:
    keys = AwsKeys(KEYS.key_id, KEYS.secret, session)
    fields = proof(AwsScope("us-east-1", "bedrock"), "20261128T120000Z", "POST", BEDROCK, (JSON,), HI, keys=keys)
    assert signature(fields) == expected
    assert fields.get("x-amz-security-token", "") == session


@given(
    st.sampled_from(["user-agent", "connection", "transfer-encoding", "x-amzn-trace-id"]), st.text("abc ", max_size=9)
)
def test_what_proxies_change_is_not_signed(name: str, value: str) -> None:
    asked = (SUITE, SUITE_DATE, "POST", PLACE, (JSON,), HI)
    with_it = (SUITE, SUITE_DATE, "POST", PLACE, (JSON, (name, value)), HI)
    assert proof(*asked) == proof(*with_it)


@given(st.integers(0, len(HI) - 1), st.integers(1, 255))
def test_a_changed_body_has_another_signature(at: int, change: int) -> None:
    changed = HI[:at] + bytes([HI[at] ^ change]) + HI[at + 1 :]
    assert signature(proof(SUITE, SUITE_DATE, "POST", PLACE, (JSON,), HI)) != signature(
        proof(SUITE, SUITE_DATE, "POST", PLACE, (JSON,), changed)
    )


def test_no_way_to_print_keys_shows_a_secret() -> None:
    shown = repr(AwsKeys("AKIDEXAMPLE", "s3cret", "s3ssion"))
    assert "AKIDEXAMPLE" in shown
    assert "s3cret" not in shown
    assert "s3ssion" not in shown
