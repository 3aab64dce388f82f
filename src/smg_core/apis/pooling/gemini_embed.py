"""embedContent and batchEmbedContents of Google's API: bodies and answers.

Pure. Above: apis.pooling.api. Below: the reader of ProtoJSON, request, vectors. Source: Google's API reference and its SDK.
Parts that are no text are refused, and so is a title. The requests of a batch must agree in what the vectors are to be.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from smg_core.apis.google.proto_json import ProtoJsonDecoder
from smg_core.apis.pooling.embeddings import Dimensions
from smg_core.apis.pooling.vectors import FLOAT_BYTES, PooledVectors, as_floats, shortened_vector
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.request import PoolRequest
from smg_core.wire.base import Incoming
from smg_core.wire.json_text import encode_body
from smg_core.wire.scalars import ModelName

__all__ = [
    "BatchEmbedContentsBody",
    "BatchEmbedContentsResponse",
    "EmbedContentBody",
    "EmbedContentResponse",
    "GeminiEmbedRequest",
    "decode_batch_embed",
    "decode_embed_content",
    "gemini_embed_body",
]

TaskType = Literal[
    "TASK_TYPE_UNSPECIFIED",
    "RETRIEVAL_QUERY",
    "RETRIEVAL_DOCUMENT",
    "SEMANTIC_SIMILARITY",
    "CLASSIFICATION",
    "CLUSTERING",
    "QUESTION_ANSWERING",
    "FACT_VERIFICATION",
    "CODE_RETRIEVAL_QUERY",
]
_TASKS = {
    "RETRIEVAL_QUERY": "query",
    "RETRIEVAL_DOCUMENT": "document",
    "SEMANTIC_SIMILARITY": "similarity",
    "CODE_RETRIEVAL_QUERY": "code_query",
}
"""Task types whose name in our settings is another; of the others it is their own in small letters."""


class _Wire(Struct, forbid_unknown_fields=True, rename="camel"):
    """Base of the types."""


class EmbedPart(_Wire):
    """A part of a text."""

    text: str


class EmbedContentParts(_Wire):
    """What is to be embedded; the texts of its parts are one input, a line each."""

    parts: Annotated[list[EmbedPart], Meta(min_length=1)]
    role: str | None = None


class EmbedContentBody(_Wire, kw_only=True):
    """The body of embedContent. The model of the path counts."""

    content: EmbedContentParts
    model: ModelName | None = None
    task_type: TaskType | None = None
    title: str | None = None
    output_dimensionality: Dimensions | None = None


class BatchEmbedContentsBody(_Wire, kw_only=True):
    """The body of batchEmbedContents."""

    requests: Annotated[list[EmbedContentBody], Meta(min_length=1)]


class ContentEmbedding(_Wire):
    """A vector."""

    values: list[float]


class EmbedUsage(_Wire, kw_only=True):
    """Tokens of all inputs, as the engines counted them."""

    prompt_token_count: int


class EmbedContentResponse(_Wire, kw_only=True):
    """The vector."""

    embedding: ContentEmbedding
    usage_metadata: EmbedUsage


class BatchEmbedContentsResponse(_Wire, kw_only=True):
    """The vectors, in the order of the requests."""

    embeddings: list[ContentEmbedding]
    usage_metadata: EmbedUsage


_ONE = ProtoJsonDecoder(EmbedContentBody)
_BATCH = ProtoJsonDecoder(BatchEmbedContentsBody)


class GeminiEmbedRequest(Struct, frozen=True):
    """A decoded body. `batch`: it was that of batchEmbedContents."""

    request: PoolRequest
    batch: bool

    @property
    def number_bytes(self) -> int:
        """What a number takes in the answer."""
        return FLOAT_BYTES

    def locate(self, path: str) -> str:
        """The field of the body that `path` was read from."""
        if path.startswith("inputs["):
            return f"requests{path.removeprefix('inputs')}.content" if self.batch else "content"
        if path == "dimensions":
            return "requests[0].outputDimensionality" if self.batch else "outputDimensionality"
        return "requests" if path == "inputs" else path


def decode_embed_content(incoming: Incoming) -> GeminiEmbedRequest:
    """Decode the body of embedContent. Raises `PayloadTooLarge`, `InvalidJson` or `InvalidRequest`."""
    wire = _ONE.decode(incoming.body, incoming.limits, incoming.compat)
    return GeminiEmbedRequest(_request([wire], incoming, ("",)), batch=False)


def decode_batch_embed(incoming: Incoming) -> GeminiEmbedRequest:
    """Decode the body of batchEmbedContents. Raises `PayloadTooLarge`, `InvalidJson` or `InvalidRequest`."""
    requests = _BATCH.decode(incoming.body, incoming.limits, incoming.compat).requests
    places = tuple([f"requests[{at}]." for at in range(len(requests))])
    return GeminiEmbedRequest(_request(requests, incoming, places), batch=True)


def _request(requests: list[EmbedContentBody], incoming: Incoming, places: tuple[str, ...]) -> PoolRequest:
    model, first = incoming.path_values["model"], requests[0]
    for each, place in zip(requests, places, strict=True):
        _check(each, first, model, place)
    kind = first.task_type or "TASK_TYPE_UNSPECIFIED"
    return PoolRequest(
        id=incoming.request_id,
        model=model,
        kind="embed",
        inputs=tuple(["\n".join([part.text for part in each.content.parts]) for each in requests]),
        dimensions=first.output_dimensionality,
        tasks=("" if kind == "TASK_TYPE_UNSPECIFIED" else _TASKS.get(kind, kind.lower()),),
        headers=incoming.headers,
        caller=incoming.caller,
    )


def _check(each: EmbedContentBody, first: EmbedContentBody, model: str, place: str) -> None:
    """Refuse what cannot be done, and what differs from the first request of the batch."""
    if each.title is not None:
        raise UnsupportedParameter(
            f"Invalid value at '{place}title': it is not supported on this server.", param=f"{place}title"
        )
    if each.model is not None and each.model.removeprefix("models/") != model:
        raise InvalidRequest(
            f"Invalid value at '{place}model': it must be the model of the path.", param=f"{place}model"
        )
    for name, field in (("task_type", "taskType"), ("output_dimensionality", "outputDimensionality")):
        if getattr(each, name) != getattr(first, name):
            raise UnsupportedParameter(
                f"Invalid value at '{place}{field}': it must be the same in all requests of a batch on this server.",
                param=f"{place}{field}",
            )


def gemini_embed_body(decoded: GeminiEmbedRequest, made: PooledVectors) -> bytes:
    """The answer."""
    most = decoded.request.dimensions
    found = [{"values": as_floats(shortened_vector(each, most))} for each in made.vectors]
    usage = {"promptTokenCount": made.prompt_tokens}
    if decoded.batch:
        return encode_body({"embeddings": found, "usageMetadata": usage})
    return encode_body({"embedding": found[0], "usageMetadata": usage})
