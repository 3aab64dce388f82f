"""The row of SGLang's /generate (edge)."""

from collections.abc import Callable

from smg_core.apis.sglang.answer_types import SglangAnswer
from smg_core.apis.sglang.decode import SglangRequest, decode_sglang
from smg_core.apis.sglang.encode import SglangAnswers, SglangPart, SglangStreamEncoder, SglangWholeEncoder, merge_sglang
from smg_core.apis.sglang.types import SglangBody
from smg_core.http.endpoint import Endpoint
from smg_core.http.routes import Route
from smg_core.request import Caller
from smg_core.serving.api import Api, Parts, each_prompt
from smg_core.serving.inference import Inference
from smg_core.serving.prompt_count import only_model
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec, again
from smg_core.wire.errors import openai_error
from smg_core.wire.operation import EVENT_STREAM, Operation, OperationResponse

__all__ = ["SGLANG_OPERATION", "SPEC", "sglang_api"]


def sglang_api(only_model: Callable[[str, Caller], str]) -> Api[SglangRequest]:
    """SGLang's `/generate`; `only_model` returns the model that a caller means whose body names none."""
    return Api(
        name="generate",
        id_prefix="gen-",
        decode=lambda incoming: decode_sglang(incoming, lambda name: only_model(name, incoming.caller)),
        stream=SglangStreamEncoder,
        whole=SglangWholeEncoder,
        error=openai_error,
        flow=each_prompt,
        parts=Parts(
            count=lambda decoded: len(decoded.generations),
            stream=SglangPart,
            whole=SglangAnswers,
            merge=lambda decoded, _created, answers, _usage: merge_sglang(decoded, answers),
        ),
    )


SGLANG_OPERATION = Operation(
    "generate",
    "Go on with a text, or with several, in the shape of SGLang: with token ids, and chunks that have all of the text so far.",
    "completions",
    SglangBody,
    (
        OperationResponse(200, "The answer; a list for a list of prompts.", SglangAnswer | list[SglangAnswer]),
        OperationResponse(200, "The answer so far; as a stream where `stream` is true.", SglangAnswer, EVENT_STREAM),
    ),
    {
        "whole": {"text": "Once upon a time", "sampling_params": {"max_new_tokens": 16}},
        "several": {"text": ["One,", "A,"], "sampling_params": {"max_new_tokens": 5}, "return_logprob": True},
        "stream": {"input_ids": [1, 2, 3], "stream": True},
    },
)


def sglang_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes of /generate."""
    services = context.services
    handler = Inference(services, sglang_api(lambda name, caller: only_model(services, name, caller)))
    endpoint = Endpoint(handler, "generate", reads_json=True, about=SGLANG_OPERATION)
    return (Route("POST", "/generate", endpoint), Route("PUT", "/generate", again(endpoint, "put")))


SPEC = ApiSpec((ApiName("generate", "text_completion"),), {"generate": "SGLang's /generate"}, sglang_routes)
