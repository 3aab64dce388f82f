"""Vertex: models below their publishers, with project and location of the URL or with a key; Messages with its version inside."""

import json
from typing import Any

import pytest

from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.kinds.kind import EnginePlace
from smg_core.engines.kinds.table import check_place
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.clouds.vertex import VertexFormat, VertexMessagesFormat
from smg_core.engines.vendors.gemini.format import GeminiFormat
from smg_core.engines.vendors.wire_format import ProviderCall
from smg_core.origin import Origin
from smg_core.request import FunctionTool, GenerationRequest, Message, Sampling, Text

LIMITS = EnginesConfig()
PROJECT = "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1"


def request(**fields: Any) -> GenerationRequest:
    return GenerationRequest("r", "m", (Message("user", (Text("Hi"),)),), **fields)


def body(asked: ProviderCall | None) -> dict[str, Any]:
    assert asked is not None
    found: dict[str, Any] = json.loads(asked.body)
    return found


def test_gemini_is_asked_below_googles_publisher() -> None:
    form = VertexFormat(GeminiFormat())
    asked = form.ask(request(sampling=Sampling(max_tokens=9)), "gemini-3-pro", LIMITS)
    assert asked.path == "/publishers/google/models/gemini-3-pro:streamGenerateContent?alt=sse"
    assert body(asked) == body(GeminiFormat().ask(request(sampling=Sampling(max_tokens=9)), "gemini-3-pro", LIMITS))
    counted = form.count(request(tools=(FunctionTool("f"),), sampling=Sampling(max_tokens=9)), "gemini-3-pro")
    assert counted is not None
    assert counted.path == "/publishers/google/models/gemini-3-pro:countTokens"
    assert set(body(counted)) == {"contents", "tools"}
    assert form.about("gemini-3-pro") is None


def test_messages_have_their_version_in_the_body_and_their_model_in_the_path() -> None:
    form = VertexMessagesFormat()
    origin = Origin("messages", betas=frozenset({"a-2026-01-01"}), version="2023-06-01")
    asked = form.ask(request(sampling=Sampling(max_tokens=9), origin=origin), "claude-opus-4-6@20260101", LIMITS)
    assert asked.path == "/publishers/anthropic/models/claude-opus-4-6@20260101:streamRawPredict"
    sent = body(asked)
    assert sent["anthropic_version"] == "vertex-2023-10-16"
    assert sent["stream"] is True
    assert "model" not in sent
    assert asked.headers == (("anthropic-beta", "a-2026-01-01"),)
    counted = form.count(request(sampling=Sampling(max_tokens=9)), "claude-opus-4-6@20260101")
    assert counted.path == "/publishers/anthropic/models/count-tokens:rawPredict"
    assert body(counted)["model"] == "claude-opus-4-6@20260101"


@pytest.mark.parametrize(
    ("kind", "url", "taken"),
    [
        ("vertex", PROJECT, True),
        ("vertex", PROJECT.replace("/v1/", "/v1beta1/"), True),
        ("vertex", "https://aiplatform.googleapis.com/v1", True),
        ("vertex", "https://aiplatform.googleapis.com/v2/projects/p", False),
        ("vertex", "https://aiplatform.googleapis.com/v1/projects/p", False),
        ("vertex-anthropic", PROJECT, True),
        ("vertex-anthropic", "https://aiplatform.googleapis.com/v1", False),
        ("bedrock", "https://bedrock-runtime.eu-west-1.amazonaws.com", True),
        ("bedrock", "https://vpce-1.example", False),
        ("azure", "https://a.openai.azure.com", True),
        ("azure", "https://a.openai.azure.com/openai/v1", False),
    ],
)
def test_an_address_that_lacks_what_its_kind_needs_is_refused_at_the_start(kind: str, url: str, taken: bool) -> None:
    credential = CredentialSpec(kind="aws") if kind == "bedrock" else CredentialSpec(key="k")
    place = EnginePlace(url, kind=kind, label="w", credential=credential, api_version="1" if kind == "azure" else "")
    if taken:
        check_place(place)
        return
    with pytest.raises(ValueError, match="'w'"):
        check_place(place)
