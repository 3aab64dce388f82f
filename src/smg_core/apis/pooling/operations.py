"""The input and output of each route of pooled work, for `/openapi.json`.

One `Operation` for each route, as in `app.operations`. Above: apis.pooling.routes. Below: the protocols' types.
"""

from smg_core.apis.google.answer_types import GeminiError
from smg_core.apis.pooling.classify import ClassifyAnswer, ClassifyBody
from smg_core.apis.pooling.cohere_embed import CohereEmbedBody, CohereEmbeddings, CohereError
from smg_core.apis.pooling.embeddings import EmbeddingsAnswer, EmbeddingsBody
from smg_core.apis.pooling.gemini_embed import (
    BatchEmbedContentsBody,
    BatchEmbedContentsResponse,
    EmbedContentBody,
    EmbedContentResponse,
)
from smg_core.apis.pooling.rerank import RerankAnswer, RerankBody
from smg_core.apis.pooling.score import ScoreAnswer, ScoreBody
from smg_core.json_types import JsonObject
from smg_core.wire.operation import Operation, OperationResponse

__all__ = [
    "BATCH_EMBED",
    "CLASSIFY",
    "COHERE_EMBED",
    "COHERE_EMBED_V1",
    "EMBEDDINGS",
    "EMBED_CONTENT",
    "RERANK",
    "RERANK_V2",
    "SCORE",
]

_TAG = "embeddings"
_CONTENT: JsonObject = {"content": {"parts": [{"text": "Hello"}]}}

EMBEDDINGS = Operation(
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
COHERE_EMBED = Operation(
    "embed",
    "A vector for each text, in Cohere's API, version 2.",
    _TAG,
    CohereEmbedBody,
    (OperationResponse(200, "The vectors by type, in the order of the texts.", CohereEmbeddings),),
    {"texts": {"model": "MODEL", "texts": ["Hello"], "input_type": "search_query", "embedding_types": ["float"]}},
    error=CohereError,
)
COHERE_EMBED_V1 = Operation(
    "embed_v1",
    "The same in version 1.",
    _TAG,
    CohereEmbedBody,
    (OperationResponse(200, "The vectors, in the order of the texts.", CohereEmbeddings),),
    {"texts": {"model": "MODEL", "texts": ["Hello"], "input_type": "search_document"}},
    error=CohereError,
)
EMBED_CONTENT = Operation(
    "embedContent",
    "A vector for a text, in Google's API.",
    _TAG,
    EmbedContentBody,
    (OperationResponse(200, "The vector.", EmbedContentResponse),),
    {"content": _CONTENT},
    error=GeminiError,
)
BATCH_EMBED = Operation(
    "batchEmbedContents",
    "A vector for each of several texts, in Google's API.",
    _TAG,
    BatchEmbedContentsBody,
    (OperationResponse(200, "The vectors, in the order of the requests.", BatchEmbedContentsResponse),),
    {"contents": {"requests": [_CONTENT, _CONTENT]}},
    error=GeminiError,
)
_RANKED: JsonObject = {"model": "MODEL", "query": "Sheep", "documents": ["One sheep", "A dog"], "top_n": 1}
RERANK = Operation(
    "rerank",
    "Documents in the order in which they fit a query.",
    _TAG,
    RerankBody,
    (OperationResponse(200, "The documents that fit best first.", RerankAnswer),),
    {"texts": _RANKED},
)
RERANK_V2 = Operation(
    "rerank_v2",
    "The same in Cohere's version 2.",
    _TAG,
    RerankBody,
    (OperationResponse(200, "The documents that fit best first.", RerankAnswer),),
    {"texts": _RANKED},
    error=CohereError,
)
SCORE = Operation(
    "score",
    "How well texts fit each other, or how likely tokens are to come next.",
    _TAG,
    ScoreBody,
    (OperationResponse(200, "The scores, in the order of the pairs.", ScoreAnswer),),
    {
        "one to many": {"model": "MODEL", "text_1": "Sheep", "text_2": ["One sheep", "A dog"]},
    },
)
CLASSIFY = Operation(
    "classify",
    "How likely each class of the model is for each input.",
    "classify",
    ClassifyBody,
    (OperationResponse(200, "The classes, in the order of the inputs.", ClassifyAnswer),),
    {"text": {"model": "MODEL", "input": "Hello"}, "several": {"model": "MODEL", "input": ["One", "Two"]}},
)
