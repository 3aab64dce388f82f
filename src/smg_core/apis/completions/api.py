"""The row of the Completions API (edge)."""

from smg_core.apis.completions.answer_types import Completion, CompletionChunk
from smg_core.apis.completions.decode import CompletionRequest, decode_completion
from smg_core.apis.completions.encode import (
    CompletionChoices,
    CompletionPart,
    CompletionStreamEncoder,
    CompletionWholeEncoder,
    merge_choices,
)
from smg_core.apis.completions.trials import TRIALS
from smg_core.apis.completions.types import CompletionBody
from smg_core.http.endpoint import Endpoint
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.routes import Route
from smg_core.serving.api import Api, Parts, each_prompt
from smg_core.serving.inference import Inference
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec, BatchTarget
from smg_core.wire.errors import openai_error
from smg_core.wire.operation import EVENT_STREAM, Operation, OperationResponse

__all__ = ["COMPLETIONS", "COMPLETIONS_OPERATION", "SPEC"]


COMPLETIONS: Api[CompletionRequest] = Api(
    name="completions",
    id_prefix="cmpl-",
    decode=decode_completion,
    stream=CompletionStreamEncoder,
    whole=CompletionWholeEncoder,
    error=openai_error,
    flow=each_prompt,
    parts=Parts(
        count=lambda decoded: len(decoded.generations),
        stream=CompletionPart,
        whole=CompletionChoices,
        merge=merge_choices,
    ),
)


COMPLETIONS_OPERATION = Operation(
    "createCompletion",
    "Go on with a text, or with several, whole or as server-sent events.",
    "completions",
    CompletionBody,
    (
        OperationResponse(200, "The texts; as a stream where `stream` is true.", Completion),
        OperationResponse(200, "The texts; as a stream where `stream` is true.", CompletionChunk, EVENT_STREAM),
    ),
    {
        "whole": {"model": "MODEL", "prompt": "Once upon a time"},
        "several": {"model": "MODEL", "prompt": ["One,", "A,"], "max_tokens": 5, "echo": True, "logprobs": 2},
        "stream": {"model": "MODEL", "prompt": [1, 2, 3], "stream": True, "stream_options": {"include_usage": True}},
    },
)


def completion_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The route of Completions, which requests of batches may name."""
    handler, path = Inference(context.services, COMPLETIONS), "/v1/completions"
    context.batched[path] = BatchTarget(handler, "completions", openai_error)
    return (Route("POST", path, Endpoint(handler, "completions", reads_json=True, about=COMPLETIONS_OPERATION)),)


SPEC = ApiSpec(
    (ApiName("completions", "text_completion"),),
    {"completions": "Completions"},
    completion_routes,
    (EnvelopeRule("/v1/completions", openai_error),),
    TRIALS,
)
