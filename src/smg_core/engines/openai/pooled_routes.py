"""The pooled work of a server beyond OpenAI's own API, and its routes, by its own reports.

Servers differ. Another gateway of this kind says it in its list of models. vLLM offers only the routes of what its model can
do, SGLang offers all and says elsewhere what its model is, and both describe their routes in `/openapi.json`. Text Embeddings
Inference (TEI) has `/info` instead. Of a server that says nothing only embeddings are expected; the operator may say more
(`pooling.scoring`).

Pure. Above: engine, which asks. Below: the records of pooled work. Sources: vLLM's register_pooling_api_routers, SGLang's
http_server, TEI's router.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from smg_core.engines.pooling import class_names, pools_of
from smg_core.request import PoolKind

__all__ = ["EMBEDS", "PooledRoutes", "listed_routes", "routes_of_info", "routes_of_model", "routes_of_openapi"]

_DECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_RERANK = ("/v1/rerank", "/rerank", "/v2/rerank")
_SCORE = ("/score",)
_CLASSIFY = ("/classify", "/v1/classify")
_SPEECH, _SPEAKS = "/v1/audio/transcriptions", "/v1/audio/speech"
_PICTURES = "/v1/images/generations"


class PooledRoutes(Struct, frozen=True):
    """The `pools` of a server, and its paths for pairs and classes ("" for none): `score` takes many pairs of any two texts,
    `rerank` documents for one query. `model_info` is where it says what its model is, which is still to be asked. `tei`: it is
    Text Embeddings Inference, whose bodies are its own. `labels` are its model's classes, `most` the inputs that one call may
    have (0: not said), `context` its model's tokens (0: not said). `speech`: it has the routes for recordings, `speaks`: the one
    for texts that are spoken, `pictures`: those for pictures."""

    pools: frozenset[PoolKind] = frozenset({"embed"})
    score: str = ""
    rerank: str = _RERANK[0]
    classify: str = _CLASSIFY[0]
    model_info: str = ""
    tei: bool = False
    model: str = ""
    labels: tuple[str, ...] = ()
    most: int = 0
    context: int = 0
    speech: bool = True
    speaks: bool = True
    pictures: bool = True


EMBEDS = PooledRoutes()
"""What is expected of a server that says nothing."""


class _Listed(Struct):
    id: str = ""
    pools: list[str] | None = None
    scores_by: str = ""


class _List(Struct):
    data: list[_Listed] | None = None


def listed_routes(body: bytes, model: str) -> PooledRoutes | None:
    """What another gateway of this kind says of a model in its list; None where nothing is said there."""
    try:
        rows = msgspec.json.decode(body, type=_List).data or []
    except _DECODABLE:
        return None
    row = next((each for each in rows if each.id == model), None)
    if row is None or (row.pools is None and not row.scores_by):
        return None
    named: tuple[PoolKind, ...] = ("embed", "classify")
    pools = {each for each in named if each in (row.pools or ())}
    judges: set[PoolKind] = {"score"} if row.scores_by in ("cross_encoder", "generative") else set()
    return PooledRoutes(frozenset(pools | judges), score="/score")


class _OpenApi(Struct):
    paths: dict[str, msgspec.Raw]


def routes_of_openapi(body: bytes) -> PooledRoutes | None:
    """What a server's description of its routes tells; None where the body is none."""
    try:
        paths = msgspec.json.decode(body, type=_OpenApi).paths
    except _DECODABLE:
        return None
    score, rerank, classify = [
        next((each for each in known if each in paths), "") for known in (_SCORE, _RERANK, _CLASSIFY)
    ]
    embeds = "/v1/embeddings" in paths
    pools: set[PoolKind] = {"embed"} if embeds else set()
    if classify:
        pools.add("classify")
    if (score or rerank) and (
        classify or not embeds
    ):  # of a model that makes vectors, vLLM compares them behind the same routes
        pools.add("score")
    asked = next((each for each in ("/model_info", "/get_model_info") if each in paths), "")
    return PooledRoutes(
        frozenset(pools),
        score,
        rerank or _RERANK[0],
        classify or _CLASSIFY[0],
        asked,
        speech=_SPEECH in paths,
        speaks=_SPEAKS in paths,
        pictures=_PICTURES in paths,
    )


class _ModelInfo(Struct):
    is_generation: bool | None = None
    architectures: list[str] | None = None


def routes_of_model(body: bytes, routes: PooledRoutes) -> PooledRoutes:
    """The same routes after what SGLang says of its model. It does not say how many classes a classifier tells apart, so it may
    be a cross-encoder too."""
    try:
        info = msgspec.json.decode(body, type=_ModelInfo)
    except _DECODABLE:
        return routes
    if info.is_generation is None:
        return routes
    pools = frozenset[PoolKind]() if info.is_generation else pools_of(info.architectures or (), 1)
    return msgspec.structs.replace(routes, pools=pools)


class _Classes(Struct):
    id2label: dict[str, str] = {}


class _TeiInfo(Struct):
    model_id: str
    model_type: dict[str, _Classes | None]
    max_input_length: int = 0
    max_client_batch_size: int = 0


_TEI: Mapping[str, PoolKind] = {"embedding": "embed", "reranker": "score", "classifier": "classify"}


def routes_of_info(body: bytes) -> PooledRoutes | None:
    """What TEI says of its model; None where the body is not TEI's."""
    try:
        info = msgspec.json.decode(body, type=_TeiInfo)
    except _DECODABLE:
        return None
    for name, classes in info.model_type.items():
        kind = _TEI.get(name.lower())
        if kind is not None:
            return PooledRoutes(
                frozenset({kind}),
                rerank="/rerank",
                classify="/predict",
                tei=True,
                model=info.model_id,
                labels=class_names(classes.id2label) if classes is not None and kind == "classify" else (),
                most=max(0, info.max_client_batch_size),
                context=max(0, info.max_input_length),
                speech=False,
                speaks=False,
                pictures=False,
            )
    return None
