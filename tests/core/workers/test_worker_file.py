"""The file of workers: what an entry means, and what is said of one that is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_core.config.config import parse_file
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.connections.target import Tls
from smg_core.settings import ConfigError
from smg_core.workers.worker import WorkerSpec
from smg_core.workers.worker_file import workers_of

MOST = 8192
SECRET = "s3cr3t-of-gpu-0"


def read(name: str) -> str:
    if name != "/run/key":
        raise FileNotFoundError(2, "No such file or directory", name)
    return f"{SECRET}\n"


def one(**entry: Any) -> WorkerSpec:
    return workers_of([{"url": "grpc://gpu-0:1", **entry}], read, MOST)[0]


def test_an_entry_has_all_that_a_worker_may_have_of_its_own() -> None:
    text = """
    - url: grpcs://gpu-0:50051
      name: gpu-0
      role: prefill
      dialect: vllm
      model: qwen
      weight: 2
      api_key_file: /run/key
      headers: {X-Team: search}
      tls_ca: /etc/ca.pem
      tls_cert: /etc/client.pem
      tls_key: /etc/client.key
      tls_server_name: gpu-0.internal
    - url: unix:///run/engine.sock
    """
    first, second = workers_of(parse_file(text, ".yaml", secret=True), read, MOST)

    assert first == WorkerSpec(
        "grpcs://gpu-0:50051",
        "gpu-0",
        "vllm",
        "qwen",
        2.0,
        "prefill",
        (("authorization", f"Bearer {SECRET}"), ("x-team", "search")),
        Tls(Path("/etc/ca.pem"), Path("/etc/client.pem"), Path("/etc/client.key"), "gpu-0.internal"),
    )
    assert second == WorkerSpec("unix:///run/engine.sock")


def test_a_file_that_says_nothing_is_no_list_of_no_workers() -> None:
    with pytest.raises(ConfigError, match=r"\[\]"):
        workers_of(parse_file("# gone", ".yaml"), read, MOST)


def test_a_file_may_be_json_and_have_an_empty_list() -> None:
    assert workers_of(parse_file('[{"url": "grpc://a:1"}]', ".json"), read, MOST) == [WorkerSpec("grpc://a:1")]
    assert workers_of(parse_file("[]", ".yaml"), read, MOST) == []


def test_a_worker_shows_the_names_of_its_headers_and_no_value() -> None:
    shown = repr(one(api_key=SECRET, headers={"x-key": SECRET}))

    assert SECRET not in shown
    assert "['authorization', 'x-key']" in shown


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"urll": "grpc://a:1"}, "unknown field `urll`; did you mean url?"),
        ({"url": "grpc://a:1", "nam": "a"}, "unknown field `nam`; did you mean name?"),
        ({"url": "grpc://a:1", "xyzzy": "a"}, "unknown field `xyzzy`"),
        ({"role": "prefil"}, "Invalid enum value 'prefil' - at `$.role`"),
        ({"rank": -1}, "rank must be 0 to 2147483647"),
        ({"rank": 10**30}, "rank must be 0 to 2147483647"),
        ({"adapters": {"poet": 10**30}}, "an adapter's id that is a number is at most 9223372036854775807"),
        ({"weight": 0}, "weight must be 0.000001 to 1,000,000"),
        ({"weight": 1e-300}, "weight must be 0.000001 to 1,000,000"),
        ({"weight": 1e300}, "weight must be 0.000001 to 1,000,000"),
        ({"api_key": SECRET, "api_key_file": "/run/key"}, "api_key and api_key_file are two ways to say one thing"),
        ({"api_key_file": "/run/other"}, "No such file or directory: '/run/other'"),
        ({"api_key": SECRET, "headers": {"Authorization": SECRET}}, "which is among the headers too"),
        ({"headers": {"x key": SECRET}}, "metadata key 'x key' is not allowed"),
        ({"headers": {"host": SECRET}}, "metadata key 'host' is not allowed"),
        ({"headers": {"x-key": f"{SECRET}\n"}}, "metadata 'x-key' is not printable ASCII text"),
        ({"headers": {"x-key": SECRET * 1000}}, "over 8192"),
        ({"headers": [SECRET]}, "Expected `object`, got `array` - at `$.headers`"),
        ({"tls_cert": "/etc/client.pem"}, "a client certificate needs both `cert` and `key`"),
    ],
)
def test_what_is_wrong_with_an_entry_is_named_without_its_value(entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        workers_of([{"url": "grpc://a:1"}, {"url": "grpc://b:1", **entry}], read, MOST)

    assert f"workers.file: worker 2: {problem}" in str(caught.value) or problem in str(caught.value)
    assert str(caught.value).startswith("workers.file: worker 2: ")
    assert SECRET not in str(caught.value)


def test_two_workers_of_one_name_and_a_file_that_is_no_list_are_refused() -> None:
    with pytest.raises(ConfigError, match="grpc://a:1 is there twice"):
        workers_of([{"url": "grpc://a:1"}, {"url": "grpc://a:1"}], read, MOST)
    with pytest.raises(ConfigError, match="expected a list of workers"):
        workers_of({"url": "grpc://a:1"}, read, MOST)


def test_an_entry_of_a_provider_is_a_worker_for_each_of_its_models() -> None:
    text = """
    - url: https://api.mistral.ai/v1
      name: mistral
      dialect: openai-strict
      credential: {file: /run/secrets/mistral, every_s: 30}
      models: {small: mistral-small-latest, large: mistral-large-latest}
    - region: eu-central-1
      dialect: bedrock
      credential: {kind: aws, profile: production}
      models: [us.amazon.nova-pro-v1:0]
    - region: cn-north-1
      dialect: bedrock
      credential: {kind: aws}
      model: nova
    """
    found = workers_of(parse_file(text, ".yaml", secret=True), read, MOST)

    assert [each.label for each in found] == [
        "mistral/small",
        "mistral/large",
        "https://bedrock-runtime.eu-central-1.amazonaws.com/us.amazon.nova-pro-v1:0",
        "https://bedrock-runtime.cn-north-1.amazonaws.com.cn",
    ]
    assert [(each.model, each.vendor_model) for each in found] == [
        ("small", "mistral-small-latest"),
        ("large", "mistral-large-latest"),
        ("us.amazon.nova-pro-v1:0", "us.amazon.nova-pro-v1:0"),
        ("nova", ""),
    ]
    assert found[0].credential == found[1].credential == CredentialSpec(file="/run/secrets/mistral", every_s=30)
    assert (found[2].credential, found[2].region) == (CredentialSpec(kind="aws", profile="production"), "eu-central-1")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"url": ""}, "url is missing"),
        ({"url": "", "dialect": "bedrock"}, "region is missing"),
        ({"credential": {}}, "needs one of key, env, file and command"),
        ({"credential": {"key": SECRET, "env": "A"}}, "key and env are several sources"),
        ({"credential": {"key": SECRET}, "api_key": SECRET}, "two ways to say one thing"),
        ({"credential": {"kind": "novel"}}, "Invalid enum value 'novel'"),
        ({"models": ["a"], "model": "b"}, "model and models are two ways"),
        ({"models": ["a", "a"]}, "not empty and differ"),
        ({"models": {"a": ""}}, "not empty and differ"),
    ],
)
def test_an_entry_of_a_provider_that_makes_no_sense_is_told_by_its_fields(entry: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        one(**entry)
    assert SECRET not in str(caught.value)


def test_a_credential_is_in_no_text_of_a_worker() -> None:
    for credential in ({"key": SECRET}, {"command": ["vault", SECRET]}):
        assert SECRET not in repr(one(credential=credential))


@pytest.mark.parametrize("text", [f"- api_key: {SECRET}\n  url: [", f"- api_key: '{SECRET}", f"- a: {SECRET}\n\t- b"])
def test_a_file_that_cannot_be_read_is_said_to_be_so_without_its_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"line [0-9]+ is no YAML") as caught:
        parse_file(text, ".yaml", secret=True)
    assert SECRET not in str(caught.value)


def test_a_key_given_twice_in_an_entry_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2: url is given twice"):
        parse_file("- url: grpc://a:1\n  url: grpc://b:1\n", ".yaml", secret=True)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from([each for each in WorkerSpec.__slots__ if not each.startswith("_")] + ["api_key", "tls_ca"])


@pytest.mark.full
@given(st.one_of(VALUES, st.lists(st.dictionaries(FIELDS, VALUES, max_size=6), max_size=3)))
@settings(deadline=None, max_examples=examples(200))
def test_any_content_is_read_or_refused_with_the_setting_named(content: object) -> None:
    try:
        said = [repr(each) for each in workers_of(json.loads(json.dumps(content)), read, MOST)]
    except ConfigError as refusal:
        said = list(refusal.problems)
    assert all(each.startswith(("workers.file: ", "WorkerSpec(")) for each in said)


def test_the_adapters_of_an_engine_that_cannot_list_them_have_ids_that_may_be_numbers() -> None:
    (spec,) = workers_of([{"url": "grpc://a:1", "adapters": {"poet": 7, "clerk": "c"}}], read, MOST)
    assert spec.adapters == (("poet", "7"), ("clerk", "c"))
    with pytest.raises(ConfigError, match="worker 1: adapters"):
        workers_of([{"url": "grpc://a:1", "adapters": {"": 7}}], read, MOST)


@pytest.mark.parametrize("rank", [-1, 10**30])
def test_a_rank_that_no_engine_can_be_told_makes_no_worker(rank: int) -> None:
    with pytest.raises(ValueError, match="rank"):
        WorkerSpec("grpc://a:1", rank=rank)
