"""The row of the Completions API."""

from smg_core.apis.completions.decode import CompletionRequest, decode_completion
from smg_core.apis.completions.encode import (
    CompletionChoices,
    CompletionPart,
    CompletionStreamEncoder,
    CompletionWholeEncoder,
    merge_choices,
)
from smg_core.serving.api import Api, Parts, each_prompt
from smg_core.wire.errors import openai_error

__all__ = ["COMPLETIONS"]


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
