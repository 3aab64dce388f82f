"""Refuses by name what a dialect's request has no field for.

Decides for every field of `EngineRequest`, and for those of `Sampling` that some protocol lacks, whether a request uses it. Pure.
Above: the codecs, each of which says what its messages carry. `EngineFacts` says the same of most, so that such a request is
refused, or sent elsewhere, before it comes to a codec.
"""

from collections.abc import Callable, Collection
from operator import attrgetter

from smg_core.engines.base import EngineRequest
from smg_core.errors import UnsupportedParameter
from smg_core.request import Sampling
from smg_core.tokens import TokenIds

__all__ = ["OPTIONAL", "refusing"]

_Uses = Callable[[EngineRequest], bool]

OPTIONAL: dict[str, tuple[_Uses, str, str]] = {
    # what a protocol may lack: whether a request uses it, its name in a message, and its path in request.py
    "cache_salt": (lambda asked: asked.cache_salt is not None, "a cache salt", "cache_salt"),
    "constraint": (lambda asked: asked.constraint is not None, "a constraint", "response_format"),
    "multimodal": (lambda asked: asked.multimodal is not None, "media", "messages"),
    "kv_transfer": (lambda asked: asked.kv_transfer is not None, "a transfer of its cache", "kv_transfer"),
    "bootstrap": (lambda asked: asked.bootstrap is not None, "a bootstrap server", "kv_transfer"),
    "context_phase": (lambda asked: asked.context_phase is not None, "the parts of a request", "kv_transfer"),
    "data_parallel_rank": (lambda asked: bool(asked.data_parallel_rank), "a data-parallel rank", "data_parallel_rank"),
    "lora": (lambda asked: asked.lora is not None, "an adapter", "model"),
    "after_reasoning": (lambda asked: asked.after_reasoning, "a constraint behind reasoning", "response_format"),
    "encoded": (lambda asked: bool(asked.encoded), "embeddings of another engine", "messages"),
    "n": (lambda asked: asked.sampling.n != 1, "several choices", "sampling.n"),
    "seed": (lambda asked: asked.sampling.seed is not None, "a seed", "sampling.seed"),
    "stop": (lambda asked: bool(asked.sampling.stop), "stop strings", "sampling.stop"),
    "min_tokens": (lambda asked: bool(asked.sampling.min_tokens), "min_tokens", "sampling.min_tokens"),
    "logit_bias": (lambda asked: bool(asked.sampling.logit_bias), "a logit bias", "sampling.logit_bias"),
    "prompt_logprobs": (
        lambda asked: asked.sampling.prompt_logprobs is not None,
        "prompt logprobs",
        "sampling.prompt_logprobs",
    ),
}


def refusing(carried: Collection[str]) -> Callable[[EngineRequest], None]:
    """A function for a codec whose messages carry `carried`, names of `OPTIONAL`: it raises UnsupportedParameter for a request
    that uses another of them."""
    if unknown := set(carried) - OPTIONAL.keys():
        raise ValueError(f"no optional field of a request is called {', '.join(sorted(unknown))}")
    lacking = {name: sentence for name, sentence in OPTIONAL.items() if name not in carried}
    read = attrgetter(*[f"sampling.{name}" if hasattr(Sampling, name) else name for name in lacking])
    unused = read(EngineRequest("", TokenIds(), Sampling()))

    def refuse(request: EngineRequest) -> None:
        if read(request) == unused:  # as nearly all are
            return
        for uses, what, param in lacking.values():
            if uses(request):
                raise UnsupportedParameter(f"This engine's protocol cannot carry {what}.", param=param)

    return refuse
