"""The routes of pooled work: a row each (edge).

Above: app.generating_routes puts them into its table. Below: the handler, and the table of APIs.
"""

import attrs

from smg_core.apis.google.answer_types import GeminiError
from smg_core.apis.pooling.api import (
    BARE_RERANK,
    BATCH_EMBED,
    CLASSIFY,
    COHERE_EMBED,
    COHERE_EMBED_V1,
    EMBED_CONTENT,
    EMBEDDINGS,
    RERANK,
    RERANK_V2,
    SCORE,
)
from smg_core.apis.pooling.classify import ClassifyAnswer, ClassifyBody
from smg_core.apis.pooling.cohere_embed import CohereEmbedBody, CohereEmbeddings, CohereError
from smg_core.apis.pooling.embeddings import EmbeddingsAnswer, EmbeddingsBody
from smg_core.apis.pooling.gemini_embed import (
    BatchEmbedContentsBody,
    BatchEmbedContentsResponse,
    EmbedContentBody,
    EmbedContentResponse,
)
from smg_core.apis.pooling.inference import PoolInference
from smg_core.apis.pooling.rerank import RerankAnswer, RerankBody
from smg_core.apis.pooling.score import ScoreAnswer, ScoreBody
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.routes import Route
from smg_core.json_types import JsonObject
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec, BatchTarget
from smg_core.wire.errors import cohere_error, openai_error
from smg_core.wire.operation import Operation, OperationResponse

__all__ = [
    "BATCH_EMBED_OPERATION",
    "CLASSIFY_OPERATION",
    "COHERE_EMBED_OPERATION",
    "COHERE_EMBED_V1_OPERATION",
    "EMBEDDINGS_OPERATION",
    "EMBED_CONTENT_OPERATION",
    "RERANK_OPERATION",
    "RERANK_V2_OPERATION",
    "SCORE_OPERATION",
    "SPEC",
    "pooling_routes",
]

GEMINI_VERSIONS = ("v1", "v1beta", "v1alpha")


_TAG = "embeddings"

_CONTENT: JsonObject = {"content": {"parts": [{"text": "Hello"}]}}

EMBEDDINGS_OPERATION = Operation(
    "createEmbedding",
    "A vector for each input.",
    _TAG,
    EmbeddingsBody,
    (OperationResponse(200, "The vectors, in the order of the inputs.", EmbeddingsAnswer),),
    {
        "text": {"model": "MODEL", "input": "Hello"},
        "several": {"model": "MODEL", "input": ["One", "Two"], "encoding_format": "base64"},
        "ids": {"model": "MODEL", "input": [[1, 2, 3], [4, 5]]},
    },
)

COHERE_EMBED_OPERATION = Operation(
    "embed",
    "A vector for each text, in Cohere's API, version 2.",
    _TAG,
    CohereEmbedBody,
    (OperationResponse(200, "The vectors by type, in the order of the texts.", CohereEmbeddings),),
    {"texts": {"model": "MODEL", "texts": ["Hello"], "input_type": "search_query", "embedding_types": ["float"]}},
    error=CohereError,
)

COHERE_EMBED_V1_OPERATION = Operation(
    "embed_v1",
    "The same in version 1.",
    _TAG,
    CohereEmbedBody,
    (OperationResponse(200, "The vectors, in the order of the texts.", CohereEmbeddings),),
    {"texts": {"model": "MODEL", "texts": ["Hello"], "input_type": "search_document"}},
    error=CohereError,
)

EMBED_CONTENT_OPERATION = Operation(
    "embedContent",
    "A vector for a text, in Google's API.",
    _TAG,
    EmbedContentBody,
    (OperationResponse(200, "The vector.", EmbedContentResponse),),
    {"content": _CONTENT},
    error=GeminiError,
)

BATCH_EMBED_OPERATION = Operation(
    "batchEmbedContents",
    "A vector for each of several texts, in Google's API.",
    _TAG,
    BatchEmbedContentsBody,
    (OperationResponse(200, "The vectors, in the order of the requests.", BatchEmbedContentsResponse),),
    {"contents": {"requests": [_CONTENT, _CONTENT]}},
    error=GeminiError,
)

_RANKED: JsonObject = {"model": "MODEL", "query": "Sheep", "documents": ["One sheep", "A dog"], "top_n": 1}

RERANK_OPERATION = Operation(
    "rerank",
    "Documents in the order in which they fit a query.",
    _TAG,
    RerankBody,
    (OperationResponse(200, "The documents that fit best first.", RerankAnswer),),
    {"texts": _RANKED},
)

RERANK_V2_OPERATION = Operation(
    "rerank_v2",
    "The same in Cohere's version 2.",
    _TAG,
    RerankBody,
    (OperationResponse(200, "The documents that fit best first.", RerankAnswer),),
    {"texts": _RANKED},
    error=CohereError,
)

SCORE_OPERATION = Operation(
    "score",
    "How well texts fit each other, or how likely tokens are to come next.",
    _TAG,
    ScoreBody,
    (OperationResponse(200, "The scores, in the order of the pairs.", ScoreAnswer),),
    {
        "one to many": {"model": "MODEL", "text_1": "Sheep", "text_2": ["One sheep", "A dog"]},
    },
)

CLASSIFY_OPERATION = Operation(
    "classify",
    "How likely each class of the model is for each input.",
    "classify",
    ClassifyBody,
    (OperationResponse(200, "The classes, in the order of the inputs.", ClassifyAnswer),),
    {"text": {"model": "MODEL", "input": "Hello"}, "several": {"model": "MODEL", "input": ["One", "Two"]}},
)


def pooling_routes(services: Services) -> list[Route[Endpoint]]:
    """The routes, over `gateway`."""
    found = [
        Route("POST", "/v1/embeddings", _endpoint(PoolInference(services, EMBEDDINGS), EMBEDDINGS_OPERATION)),
        Route("POST", "/v1/embed", _endpoint(PoolInference(services, COHERE_EMBED_V1), COHERE_EMBED_V1_OPERATION)),
        Route("POST", "/v2/embed", _endpoint(PoolInference(services, COHERE_EMBED), COHERE_EMBED_OPERATION)),
    ]
    rerank, score = PoolInference(services, RERANK), PoolInference(services, SCORE)
    first = PoolInference(services, BARE_RERANK) if services.live.config.pooling.bare_rerank else rerank
    classify = PoolInference(services, CLASSIFY)
    for version in ("", "_v1"):
        path = version.replace("_", "/")
        about = attrs.evolve(RERANK_OPERATION, name=f"{RERANK_OPERATION.name}{version}")
        found.append(Route("POST", f"{path}/rerank", _endpoint(first if version else rerank, about)))
        about = attrs.evolve(SCORE_OPERATION, name=f"{SCORE_OPERATION.name}{version}")
        found.append(Route("POST", f"{path}/score", _endpoint(score, about)))
        about = attrs.evolve(CLASSIFY_OPERATION, name=f"{CLASSIFY_OPERATION.name}{version}")
        found.append(Route("POST", f"{path}/classify", _endpoint(classify, about)))
    found.append(Route("POST", "/v2/rerank", _endpoint(PoolInference(services, RERANK_V2), RERANK_V2_OPERATION)))
    one, batch = PoolInference(services, EMBED_CONTENT), PoolInference(services, BATCH_EMBED)
    for version in GEMINI_VERSIONS:
        verbs: tuple[tuple[str, Handler, Operation], ...] = (
            ("embedContent", one, EMBED_CONTENT_OPERATION),
            ("batchEmbedContents", batch, BATCH_EMBED_OPERATION),
        )
        for verb, handler, about in verbs:
            own = attrs.evolve(about, name=f"{about.name}_{version}")
            found.append(Route("POST", f"/{version}/models/{{model:path}}:{verb}", _endpoint(handler, own)))
    return found


def _endpoint(handler: Handler, about: Operation) -> Endpoint:
    return Endpoint(handler, "embeddings", reads_json=True, about=about)


def _routes(context: ApiContext) -> list[Route[Endpoint]]:
    found = pooling_routes(context.services)
    embeddings = next(each.target for each in found if each.pattern == "/v1/embeddings")
    context.batched["/v1/embeddings"] = BatchTarget(embeddings.answer, embeddings.needs, openai_error)
    return found


SPEC = ApiSpec(
    (
        *(ApiName(name, "embeddings") for name in ("embeddings", "embed", "embed_content", "rerank", "score")),
        ApiName("classify"),
    ),
    {"embeddings": "Embeddings of every API that has them, rerank, score and classify"},
    _routes,
    (
        EnvelopeRule("/v1/embed", cohere_error),
        EnvelopeRule("/v2", cohere_error),
        EnvelopeRule("/v1/embeddings", openai_error),
    ),
)
