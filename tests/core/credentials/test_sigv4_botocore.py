"""AWS's own library signs as we do, whatever the address, the query, the headers and the body."""

from datetime import UTC, datetime
from unittest import mock
from urllib.parse import quote

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from smg_core.credentials.aws.sigv4 import AwsKeys, AwsScope, amz_date, sign

PRINTED = st.characters(min_codepoint=33, max_codepoint=126)
MODELS = st.text(st.sampled_from("abcXYZ019.-_:/~%+ é"), min_size=1, max_size=40).filter(lambda text: text.strip("./ "))
QUERIES = st.lists(st.tuples(st.text(PRINTED, min_size=1, max_size=8), st.text(PRINTED, max_size=8)), max_size=4)
HEADERS = st.dictionaries(
    st.from_regex(r"x-amzn-bedrock-[a-z]{1,8}", fullmatch=True),
    st.text(st.sampled_from("abc  019;=,"), max_size=20),
    max_size=3,
)


@given(MODELS, QUERIES, HEADERS, st.binary(max_size=100), st.booleans(), st.integers(1_000_000_000, 2_000_000_000))
def test_botocore_signs_as_we_do(
    model: str,
    query: list[tuple[str, str]],
    headers: dict[str, str],
    body: bytes,
    session: bool,
    seconds: int,
) -> None:
    path = f"/model/{quote(model, safe='')}/converse"
    asked = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query)
    url = f"https://bedrock-runtime.us-east-1.amazonaws.com{path}{'?' if asked else ''}{asked}"
    token = "t0ken" if session else None
    sent = {"content-type": "application/json", **headers}
    request = AWSRequest("POST", url, sent, body)
    now = datetime.fromtimestamp(seconds, UTC)
    with mock.patch("botocore.auth.get_current_datetime", return_value=now.replace(tzinfo=None)):
        SigV4Auth(Credentials("AKIA", "s3cret", token), "bedrock", "us-east-1").add_auth(request)
    keys = AwsKeys("AKIA", "s3cret", token or "")
    ours = dict(sign(keys, AwsScope("us-east-1", "bedrock"), amz_date(seconds), "POST", url, sent.items(), body))
    assert ours["x-amz-date"] == request.headers["X-Amz-Date"]
    assert ours["authorization"] == request.headers["Authorization"]
