"""The row of SGLang's /generate."""

from collections.abc import Callable

from smg_core.apis.sglang.decode import SglangRequest, decode_sglang
from smg_core.apis.sglang.encode import SglangAnswers, SglangPart, SglangStreamEncoder, SglangWholeEncoder, merge_sglang
from smg_core.request import Caller
from smg_core.serving.api import Api, Parts, each_prompt
from smg_core.wire.errors import openai_error

__all__ = ["sglang_api"]


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
