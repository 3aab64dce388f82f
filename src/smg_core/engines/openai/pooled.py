"""Pooled work at a server over HTTP: what it can do, and having it done (edge).

Waits for the network. What a server says of itself means what `pooled_routes` decides; bodies and answers are those of
`embeddings` and `scoring`. Above: engine, which has the connections to the server and learns its model.
"""

from collections.abc import Sequence

from smg_core.engines.base import ModelInfo
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.http.client import HttpClient
from smg_core.engines.openai.answers import error_from_http_status, retry_after
from smg_core.engines.openai.embeddings import read_embeddings, write_embeddings
from smg_core.engines.openai.pooled_routes import (
    EMBEDS,
    PooledRoutes,
    listed_routes,
    routes_of_info,
    routes_of_model,
    routes_of_openapi,
)
from smg_core.engines.openai.scoring import read_classes, read_scores, write_classes, write_scores
from smg_core.engines.pooling import PoolCall, Vector
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import SmgError

__all__ = ["PooledWork"]

_LATER = frozenset({408, 425, 429})
"""Statuses below 500 of a server that may answer the same question another time."""

Metadata = Sequence[tuple[str, str]]


class PooledWork:
    """The pooled work of the server that `http` reaches, whose API is at the path `api`. `extras` False: it takes none of the
    fields that vLLM adds to OpenAI's."""

    def __init__(self, http: HttpClient, api: str, limits: EnginesConfig, *, extras: bool) -> None:
        self._http, self._api, self._limits, self._extras = http, api, limits, extras
        self._root = api.removesuffix("/v1")
        self.routes = EMBEDS
        self._model = ""  # whose routes these are

    @property
    def inputs(self) -> int:
        """How many inputs one call may have."""
        most = self._limits.http_inputs
        return min(most, self.routes.most or most)

    async def learn(self, models: bytes, model: str) -> PooledRoutes:
        """What the server can do with `model`, from its list of `models` or its description of its routes. One that says
        nothing is expected to make vectors; of one that could not answer now, what it said of the model before still holds:
        otherwise it would look like another engine, and its worker would be out until it has joined again."""
        try:
            self.routes = listed_routes(models, model) or await self._routes_stated() or EMBEDS
        except SmgError:
            self.routes = self.routes if model == self._model else EMBEDS
        self._model = model
        return self.routes

    async def described_by_info(self) -> ModelInfo | None:
        """The model of a server that says at `/info` what it is; None of any other."""
        info = await self._get("/info")
        routes = routes_of_info(info.body) if info.status == 200 else None
        if routes is None:
            return None
        self.routes = routes
        return ModelInfo(model=routes.model, context_length=routes.context, labels=routes.labels)

    async def _routes_stated(self) -> PooledRoutes | None:
        page = await self._page("/openapi.json")
        routes = None if page is None else routes_of_openapi(page)
        if routes is not None and not routes.model_info:
            return routes
        info = await self._page("/info" if routes is None else routes.model_info)
        if info is None:
            return routes
        return routes_of_info(info) if routes is None else routes_of_model(info, routes)

    async def _page(self, path: str) -> bytes | None:
        """What the server has at `path`; None where it has nothing there for us. Raises what kept it from answering now."""
        found = await self._get(path)
        if found.status == 200:
            return found.body
        if found.status in _LATER or (found.status >= 500 and found.status != 501):
            raise self._http.headers.hide(error_from_http_status(found.status, found.body))
        return None

    async def pool(
        self, call: PoolCall, model: str, *, metadata: Metadata = (), timeout: float | None = None
    ) -> Sequence[Vector]:
        """The numbers for each input or pair, in order. Raises UnsupportedParameter for what the server has no word for, and
        the error that its answer is."""
        routes, extras = self.routes, self._extras
        if call.kind == "embed":
            body = write_embeddings(call, model=model, extras=extras)
            answer = await self._post(f"{self._api}/embeddings", body, call, metadata, timeout)
            return read_embeddings(answer.body, len(call.given))
        if call.kind == "classify":
            asked = write_classes(call, routes, model=model, extras=extras)
            answer = await self._post(f"{self._root}{asked.path}", asked.body, call, metadata, timeout)
            return read_classes(answer.body, answer.headers, asked.count, routes.labels)
        found: list[Vector] = []
        for asked in write_scores(call, routes, model=model, extras=extras):
            answer = await self._post(f"{self._root}{asked.path}", asked.body, call, metadata, timeout)
            found += read_scores(answer.body, answer.headers, asked.count)
        return found

    async def _get(self, path: str) -> HttpReply:
        seconds = self._limits.question_timeout_s
        return await self._http.ask("GET", f"{self._root}{path}", timeout=seconds, question=True)

    async def _post(
        self, path: str, body: bytes, call: PoolCall, metadata: Metadata, timeout: float | None
    ) -> HttpReply:
        answer = await self._http.ask(
            "POST",
            path,
            body,
            timeout=timeout or self._limits.question_timeout_s,
            headers=[("content-type", "application/json"), ("x-request-id", call.id), *metadata],
            most=self._limits.http_vectors_bytes,
        )
        if answer.status == 200:
            return answer
        wait = retry_after(answer.headers)
        raise self._http.headers.hide(error_from_http_status(answer.status, answer.body, wait))
