"""The models API as clients read it."""

import json

from openai.types import Model

from smg_core.wire.model_list import ModelCard, model_body, models_body


def test_a_card_is_the_sdks_model():
    found = Model.model_validate_json(model_body(ModelCard("qwen", 1700000000)), strict=True)
    assert (found.id, found.created, found.object, found.owned_by) == ("qwen", 1700000000, "model", "smg")


def test_the_context_and_the_root_are_told_where_they_are_known():
    card = ModelCard("qwen:latest", 1, "me", max_model_len=32768, root="qwen")
    assert json.loads(model_body(card)) == {
        "id": "qwen:latest",
        "object": "model",
        "created": 1,
        "owned_by": "me",
        "root": "qwen",
        "max_model_len": 32768,
        "pools": [],
    }
    assert "max_model_len" not in json.loads(model_body(ModelCard("m", 1)))


def test_a_list_keeps_its_order_and_may_be_empty():
    assert json.loads(models_body([])) == {"object": "list", "data": []}
    found = json.loads(models_body(ModelCard(name, 1) for name in ("b", "a")))
    assert [model["id"] for model in found["data"]] == ["b", "a"]
