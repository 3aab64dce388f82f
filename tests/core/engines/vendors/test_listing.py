"""Lists of models, as the documentation of each provider shows them, say what they say and nothing that they do not."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.vendors.listing import ANTHROPIC_LIST, GEMINI_LIST, OPENAI_LIST, ProviderModel
from smg_core.errors import EngineGarbled

LISTS = (ANTHROPIC_LIST, GEMINI_LIST, OPENAI_LIST)


def read_one(catalogue: Any, field: str, entry: dict[str, Any]) -> ProviderModel:
    found = catalogue.read(msgspec.json.encode({field: [entry]}))
    (model,) = found.values()
    return model  # type: ignore[no-any-return]


def test_openai_says_nothing_but_names() -> None:
    entry = {"id": "gpt-6-astra", "object": "model", "created": 1790000000, "owned_by": "openai"}

    assert read_one(OPENAI_LIST, "data", entry) == ProviderModel()


def test_openrouter_says_everything_and_its_prices_are_of_one_token() -> None:
    entry = {
        "id": "anthropic/claude-opus-5.5",
        "context_length": 1_000_000,
        "architecture": {"input_modalities": ["text", "image", "file"], "output_modalities": ["text"]},
        "pricing": {
            "prompt": "0.000005",
            "completion": "0.000025",
            "input_cache_read": "0.0000005",
            "input_cache_write": "0.00000625",
            "request": "0",
        },
        "top_provider": {"context_length": 1_000_000, "max_completion_tokens": 128_000, "is_moderated": True},
    }

    assert read_one(OPENAI_LIST, "data", entry) == ProviderModel(
        1_000_000,
        128_000,
        frozenset({"image", "file"}),
        frozenset(),
        (),
        (("input", "5"), ("output", "25"), ("cached", "0.5"), ("written", "6.25")),
    )


def test_a_router_whose_price_follows_its_choice_has_none() -> None:
    entry = {"id": "openrouter/auto", "pricing": {"prompt": "-1", "completion": "-1"}}

    assert read_one(OPENAI_LIST, "data", entry).prices == ()


@pytest.mark.parametrize("price", ["1e-999900", "1E-30", 1e-300, "-0", "-0.0"])
def test_a_price_that_is_as_good_as_nothing_is_0_and_not_a_million_digits(price: object) -> None:
    """A provider's list of 8 MB would otherwise become one of gigabytes here."""
    entry = {"id": "m", "pricing": {"prompt": price, "completion": "0.000001"}}

    assert read_one(OPENAI_LIST, "data", entry).prices == (("input", "0"), ("output", "1"))


def test_together_lists_without_an_object_around_and_prices_of_a_million() -> None:
    body = [
        {
            "id": "openai/gpt-oss-120b",
            "type": "chat",
            "context_length": 131072,
            "pricing": {"hourly": 0, "input": 0.15, "output": 0.6, "base": 0, "finetune": 0},
        },
        {"id": "BAAI/bge-large", "type": "embedding", "context_length": 512, "pricing": {"input": 0.02, "output": 0}},
        {"id": "a/rerank", "type": "rerank"},
        {"id": "b/pictures", "type": "image"},
    ]

    found = OPENAI_LIST.read(msgspec.json.encode(body))

    assert found["openai/gpt-oss-120b"] == ProviderModel(
        131072, kinds=("chat",), prices=(("input", "0.15"), ("output", "0.6"))
    )
    assert [each.kinds for each in found.values()] == [("chat",), ("embeddings",), ("rerank",), ("images",)]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (  # Mistral
            {"id": "m", "max_context_length": 131072, "capabilities": {"completion_chat": True, "vision": True}},
            ProviderModel(131072, takes=frozenset({"image"}), kinds=("chat",)),
        ),
        (  # Groq
            {"id": "m", "active": True, "context_window": 131072, "max_completion_tokens": 65536},
            ProviderModel(131072, 65536),
        ),
        (  # Fireworks
            {"id": "m", "context_length": 4096, "supports_chat": True, "supports_image_input": False},
            ProviderModel(4096, takes=frozenset(), kinds=("chat",)),
        ),
    ],
)
def test_others_say_it_by_names_of_their_own(entry: dict[str, Any], said: ProviderModel) -> None:
    assert read_one(OPENAI_LIST, "data", entry) == said


def test_anthropic_says_context_answer_and_what_is_shown_to_a_model() -> None:
    entry = {
        "id": "claude-opus-5-5",
        "type": "model",
        "max_input_tokens": 1_000_000,
        "max_tokens": 128_000,
        "capabilities": {"image_input": {"supported": True}, "pdf_input": {"supported": False}},
    }

    assert read_one(ANTHROPIC_LIST, "data", entry) == ProviderModel(
        1_000_000, 128_000, frozenset({"image"}), kinds=("chat",)
    )


def test_gemini_says_limits_and_methods() -> None:
    entry = {
        "name": "models/gemini-3-pro",
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }

    found = GEMINI_LIST.read(msgspec.json.encode({"models": [entry]}))

    assert found == {"gemini-3-pro": ProviderModel(1_048_576, 65_536, kinds=("chat",))}


@pytest.mark.parametrize("catalogue", LISTS)
@pytest.mark.parametrize(
    "body", [b"", b"no", b"3", b'{"data":{}}', b'{"error":{"message":"x"}}', b"[" * 100_000, b'"\xff"']
)
def test_what_is_no_list_is_an_error(catalogue: Any, body: bytes) -> None:
    with pytest.raises(EngineGarbled):
        catalogue.read(body)


def test_of_a_list_that_is_too_long_so_many_are_kept_and_odd_names_are_passed_over() -> None:
    names: list[Any] = ["x" * 300, "", None, 7, *(f"m{number}" for number in range(10_100))]

    found = OPENAI_LIST.read(msgspec.json.encode({"data": [{"id": each} for each in names]}))

    assert len(found) == 10_000 - 4


_ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = (
    *("context_length", "context_window", "pricing", "architecture", "top_provider", "capabilities", "type"),
    *("supports_chat", "max_tokens", "max_input_tokens", "inputTokenLimit", "supportedGenerationMethods"),
    *("input_modalities", "max_completion_tokens"),
)


@pytest.mark.parametrize("catalogue", LISTS)
@given(st.dictionaries(st.sampled_from(_FIELDS), _ODD, max_size=6), _ODD)
def test_an_entry_with_anything_in_its_fields_hides_no_other(
    catalogue: Any, entry: dict[str, Any], beside: object
) -> None:
    entries = [{"id": "odd", "name": "odd", **entry}, beside, {"id": "even", "name": "even"}]
    prices = {"prompt": beside, "completion": beside, "input": beside, "output": beside}
    entries.append({"id": "dear", "name": "dear", "pricing": prices})

    found = catalogue.read(msgspec.json.encode({"data": entries, "models": entries}))

    assert {"odd", "even", "dear"} <= found.keys()
    assert all(each.context >= 0 and each.output >= 0 for each in found.values())
