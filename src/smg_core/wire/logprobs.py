"""Log probabilities as OpenAI's APIs write them.

Pure. Above: the encoders. Below: the events.
"""

import math

from smg_core.events import TokenLogprob
from smg_core.json_types import JsonObject

__all__ = ["finite", "logprob_object"]

_LEAST_LOGPROB = -9999.0
"""What the APIs write for a probability of zero, since JSON has no minus infinity."""


def logprob_object(token: TokenLogprob) -> JsonObject:
    """A token with its alternatives."""
    return {
        "token": token.token,
        "logprob": finite(token.logprob),
        "bytes": list(token.raw),
        "top_logprobs": [
            {"token": top.token, "logprob": finite(top.logprob), "bytes": list(top.raw)} for top in token.top
        ],
    }


def finite(logprob: float | None) -> float:
    """A logprob as JSON can say it."""
    return logprob if logprob is not None and math.isfinite(logprob) else _LEAST_LOGPROB
