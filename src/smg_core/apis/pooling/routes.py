"""The routes of pooled work: a row each (edge).

Above: app.generating_routes puts them into its table. Below: the handler, and the table of APIs.
"""

import attrs

from smg_core.apis.pooling import operations as descriptions
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
from smg_core.apis.pooling.handler import PoolInference
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.routes import Route
from smg_core.serving.services import Services
from smg_core.wire.operation import Operation

__all__ = ["pooling_routes"]

GEMINI_VERSIONS = ("v1", "v1beta", "v1alpha")


def pooling_routes(services: Services) -> list[Route[Endpoint]]:
    """The routes, over `gateway`."""
    found = [
        Route("POST", "/v1/embeddings", _endpoint(PoolInference(services, EMBEDDINGS), descriptions.EMBEDDINGS)),
        Route("POST", "/v1/embed", _endpoint(PoolInference(services, COHERE_EMBED_V1), descriptions.COHERE_EMBED_V1)),
        Route("POST", "/v2/embed", _endpoint(PoolInference(services, COHERE_EMBED), descriptions.COHERE_EMBED)),
    ]
    rerank, score = PoolInference(services, RERANK), PoolInference(services, SCORE)
    first = PoolInference(services, BARE_RERANK) if services.live.config.pooling.bare_rerank else rerank
    classify = PoolInference(services, CLASSIFY)
    for version in ("", "_v1"):
        path = version.replace("_", "/")
        about = attrs.evolve(descriptions.RERANK, name=f"{descriptions.RERANK.name}{version}")
        found.append(Route("POST", f"{path}/rerank", _endpoint(first if version else rerank, about)))
        about = attrs.evolve(descriptions.SCORE, name=f"{descriptions.SCORE.name}{version}")
        found.append(Route("POST", f"{path}/score", _endpoint(score, about)))
        about = attrs.evolve(descriptions.CLASSIFY, name=f"{descriptions.CLASSIFY.name}{version}")
        found.append(Route("POST", f"{path}/classify", _endpoint(classify, about)))
    found.append(Route("POST", "/v2/rerank", _endpoint(PoolInference(services, RERANK_V2), descriptions.RERANK_V2)))
    one, batch = PoolInference(services, EMBED_CONTENT), PoolInference(services, BATCH_EMBED)
    for version in GEMINI_VERSIONS:
        verbs: tuple[tuple[str, Handler, Operation], ...] = (
            ("embedContent", one, descriptions.EMBED_CONTENT),
            ("batchEmbedContents", batch, descriptions.BATCH_EMBED),
        )
        for verb, handler, about in verbs:
            own = attrs.evolve(about, name=f"{about.name}_{version}")
            found.append(Route("POST", f"/{version}/models/{{model:path}}:{verb}", _endpoint(handler, own)))
    return found


def _endpoint(handler: Handler, about: Operation) -> Endpoint:
    return Endpoint(handler, "embeddings", reads_json=True, about=about)
