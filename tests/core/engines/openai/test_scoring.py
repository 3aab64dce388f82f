"""What servers that judge pairs or classify are asked, and what their answers mean, in each shape that there is."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.openai.pooled_routes import (
    EMBEDS,
    PooledRoutes,
    listed_routes,
    routes_of_info,
    routes_of_model,
    routes_of_openapi,
)
from smg_core.engines.openai.scoring import read_classes, read_scores, write_classes, write_scores
from smg_core.engines.pooling import PoolCall
from smg_core.errors import EngineGarbled, UnsupportedParameter

SHARES = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=9)


def asked(call, routes, extras=True):
    return [
        (each.path, json.loads(each.body), each.count) for each in write_scores(call, routes, model="m", extras=extras)
    ]


def pairs(*found, **more):
    return PoolCall("r", kind="score", pairs=found, **more)


def test_vllms_score_takes_any_pairs_in_one_request():
    routes = PooledRoutes(score="/score")
    same, mixed = pairs(("q", "a"), ("q", "b")), pairs(("q", "a"), ("p", "b"))
    assert asked(same, routes) == [("/score", {"model": "m", "text_1": "q", "text_2": ["a", "b"]}, 2)]
    assert asked(mixed, routes) == [("/score", {"model": "m", "text_1": ["q", "p"], "text_2": ["a", "b"]}, 2)]


def test_a_rerank_is_asked_once_for_each_query():
    found = asked(pairs(("q", "a"), ("q", "b"), ("p", "c")), EMBEDS)
    usual = {"model": "m", "return_documents": False}
    assert found == [
        ("/v1/rerank", {"query": "q", "documents": ["a", "b"], "top_n": 2, **usual}, 2),
        ("/v1/rerank", {"query": "p", "documents": ["c"], "top_n": 1, **usual}, 1),
    ]


def test_tei_has_a_body_of_its_own():
    routes = routes_of_info(b'{"model_id": "m", "model_type": {"reranker": {"id2label": {"0": "L"}, "label2id": {}}}}')
    ((path, body, count),) = asked(pairs(("q", "a"), activation=False, truncate=-1, truncate_side="start"), routes)
    assert (path, count) == ("/rerank", 1)
    assert body == {
        "query": "q",
        "texts": ["a"],
        "raw_scores": True,
        "truncate": True,
        "truncation_direction": "Left",
    }


def test_fields_of_vllm_are_sent_where_they_are_taken_and_refused_elsewhere():
    call = pairs(("q", "a"), activation=False, truncate=7, truncate_side="start")
    (found,) = asked(call, EMBEDS)
    assert {name: found[1][name] for name in ("truncate_prompt_tokens", "truncation_side", "use_activation")} == {
        "truncate_prompt_tokens": 7,
        "truncation_side": "left",
        "use_activation": False,
    }
    for fields in ({"activation": False}, {"truncate": 7}):
        with pytest.raises(UnsupportedParameter):
            asked(pairs(("q", "a"), **fields), EMBEDS, extras=False)
    with pytest.raises(UnsupportedParameter):
        asked(pairs(("q", "a"), truncate=7), PooledRoutes(tei=True))


SHAPES = {
    "vllm score": lambda rows: {"data": [{"index": at, "object": "score", "score": each} for at, each in rows]},
    "rerank": lambda rows: {
        "results": [{"index": at, "relevance_score": each, "document": {"text": "a"}} for at, each in rows]
    },
    "bare list": lambda rows: [{"index": at, "score": each, "meta_info": {"id": "x"}} for at, each in rows],
}


@pytest.mark.parametrize("shape", SHAPES)
@given(scores=SHARES, random=st.randoms())
def test_scores_come_in_the_order_of_the_documents_in_every_shape(shape, scores, random):
    rows = list(enumerate(scores))
    random.shuffle(rows)
    body = SHAPES[shape](rows)
    if isinstance(body, dict):
        body["usage"] = {"prompt_tokens": 7, "total_tokens": 7}
    found = read_scores(json.dumps(body).encode(), {"x-compute-tokens": "7"}, len(scores))
    assert [each.values[0] for each in found] == scores
    assert sum(each.tokens for each in found) == 7


def test_the_tokens_of_an_answer_without_them_are_not_made_up():
    found = read_scores(b'{"results": [{"index": 0, "relevance_score": 0.5}], "meta": {}}', {}, 1)
    assert found[0].tokens == 0


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b'{"results": [{"index": 1, "relevance_score": 0.5}]}',
        b'{"results": [{"index": 0}]}',
        b'{"data": [{"index": 0, "score": 1e999}]}',
        b'[{"index": 0, "score": 0.1}, {"index": 0, "score": 0.1}]',
    ],
)
def test_scores_that_are_not_those_asked_for_are_garbled(body):
    with pytest.raises(EngineGarbled):
        read_scores(body, {}, 1)


@given(st.binary(max_size=80), st.integers(1, 3))
def test_any_bytes_are_scores_and_classes_or_refused(body, count):
    with suppress(EngineGarbled):
        assert len(read_scores(body, {}, count)) == count
    with suppress(EngineGarbled):
        assert len(read_classes(body, {}, count, ())) == count
    for read in (routes_of_openapi, routes_of_info):
        assert read(body) is None or isinstance(read(body), PooledRoutes)
    assert listed_routes(body, "m") is None
    assert routes_of_model(body, EMBEDS) == EMBEDS


def test_classes_of_vllm_keep_their_order_and_those_of_tei_get_the_models():
    vllm = {
        "data": [{"index": 0, "label": "b", "probs": [0.25, 0.75], "num_classes": 2}],
        "usage": {"prompt_tokens": 3},
    }
    tei = [[{"score": 0.75, "label": "b"}, {"score": 0.25, "label": "a"}]]
    for body, headers in ((vllm, {}), (tei, {"x-compute-tokens": "3"})):
        (found,) = read_classes(json.dumps(body).encode(), headers, 1, ("a", "b"))
        assert (list(found.values), found.tokens, found.label) == ([0.25, 0.75], 3, "b")
    with pytest.raises(EngineGarbled):
        read_classes(json.dumps(tei).encode(), {}, 1, ("a", "c"))


def test_classes_are_asked_of_each_server_in_its_own_words():
    call = PoolCall("r", kind="classify", given=["a", [5]])
    found = write_classes(call, EMBEDS, model="m", extras=True)
    assert (found.path, json.loads(found.body), found.count) == ("/classify", {"model": "m", "input": ["a", [5]]}, 2)
    tei = PooledRoutes(tei=True, classify="/predict")
    with pytest.raises(UnsupportedParameter):
        write_classes(call, tei, model="m", extras=True)
    body = json.loads(write_classes(PoolCall("r", given=["a"]), tei, model="m", extras=True).body)
    assert body["inputs"] == [["a"]]


def openapi(*paths):
    return routes_of_openapi(json.dumps({"openapi": "3.1.0", "paths": {each: {} for each in paths}}).encode())


@pytest.mark.parametrize(
    ("paths", "pools", "score", "rerank"),
    [
        # vLLM offers what its model can do
        (("/v1/chat/completions",), set(), "", "/v1/rerank"),
        (("/v1/embeddings", "/score", "/rerank", "/v1/rerank"), {"embed"}, "/score", "/v1/rerank"),
        (("/classify", "/score", "/rerank"), {"classify", "score"}, "/score", "/rerank"),
        (("/classify",), {"classify"}, "", "/v1/rerank"),
        # others
        (("/v2/rerank",), {"score"}, "", "/v2/rerank"),
    ],
)
def test_the_routes_of_a_server_say_what_its_model_can(paths, pools, score, rerank):
    found = openapi(*paths)
    assert (found.pools, found.score, found.rerank) == (pools, score, rerank)


def test_sglang_offers_everything_and_says_elsewhere_what_its_model_is():
    found = openapi("/v1/embeddings", "/v1/rerank", "/v1/classify", "/v1/score", "/get_model_info")
    assert found.model_info == "/get_model_info"
    for told, pools in (
        ({"is_generation": True}, set()),
        ({"is_generation": False, "architectures": ["BertModel"]}, {"embed"}),
        ({"is_generation": False, "architectures": ["BertForSequenceClassification"]}, {"score", "classify"}),
    ):
        assert routes_of_model(json.dumps(told).encode(), found).pools == pools


def test_tei_says_what_its_model_is():
    base = {"model_id": "m", "max_input_length": 512, "max_client_batch_size": 32}
    classes = {"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}}
    for kind, pools, labels in (
        ({"embedding": {"pooling": "cls"}}, {"embed"}, ()),
        ({"classifier": classes}, {"classify"}, ("a", "b")),
        ({"reranker": classes}, {"score"}, ()),
    ):
        found = routes_of_info(json.dumps({**base, "model_type": kind}).encode())
        assert (found.pools, found.labels, found.most, found.context, found.tei) == (pools, labels, 32, 512, True)


def test_another_gateway_says_it_in_its_list():
    def listed(**row):
        return listed_routes(json.dumps({"data": [{"id": "m", **row}]}).encode(), "m")

    assert listed(pools=[]).pools == frozenset()
    assert listed(pools=["embed"], scores_by="cosine").pools == {"embed"}
    assert listed(pools=["score"], scores_by="cross_encoder").pools == {"score"}
    assert listed(pools=[], scores_by="generative").pools == {"score"}
    assert listed() is None
