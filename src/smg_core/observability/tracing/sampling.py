"""The choice of requests to record: a share of those that begin a trace, and what a trace's first service has decided for the
others.

Pure. Above: `requests`. Below: trace_context.
"""

from collections.abc import Mapping

import attrs

from smg_core.observability.trace_context import RemoteSpan
from smg_core.settings import ConfigError

__all__ = ["Sampler", "sampler_of"]

_HALF = 16  # hexadecimal digits of a trace's id by which is decided: services that sample by share choose the same ones
_RATIOS: Mapping[str, float | None] = {"always_on": 1.0, "always_off": 0.0, "traceidratio": None}
_PARENT_BASED = "parentbased_"


@attrs.frozen
class Sampler:
    """`ratio` of the traces, from 0 to 1. `follows`: a request that belongs to a trace is recorded where its parent is.
    `trusting`: the trace that a client names is the request's."""

    ratio: float = 1.0
    follows: bool = True
    trusting: bool = True
    _bound: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_bound", round(self.ratio * 2**64))

    def samples(self, trace_id: str, parent: RemoteSpan | None) -> bool:
        """Whether a request of this trace is recorded."""
        if parent is not None and self.follows:
            return parent.sampled
        return int(trace_id[_HALF:], 16) < self._bound


def sampler_of(ratio: float | None, trusting: bool, environ: Mapping[str, str]) -> Sampler:
    """The sampler that the settings say; without a ratio there, OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG. Raises
    ConfigError."""
    if ratio is not None:
        return Sampler(ratio, trusting=trusting)
    name = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower() or "parentbased_always_on"
    kind = name.removeprefix(_PARENT_BASED)
    if kind not in _RATIOS:
        known = ", ".join([*_RATIOS, *(f"{_PARENT_BASED}{each}" for each in _RATIOS)])
        raise ConfigError(f"OTEL_TRACES_SAMPLER: {name!r} is none of {known}; or set traces.ratio")
    share = _RATIOS[kind]
    if share is None:
        share = _ratio(environ.get("OTEL_TRACES_SAMPLER_ARG", "1").strip())
    return Sampler(share, follows=kind != name, trusting=trusting)


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ConfigError(f"OTEL_TRACES_SAMPLER_ARG: {text!r} is no number from 0 to 1")
    return ratio
