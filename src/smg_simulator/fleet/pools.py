"""The description of a simulated fleet: how many engines, how fast, how many gateways in front, and what goes wrong.

Records only. Above: replay, the command line. Below: simulator.fleet.engine.
"""

import attrs
from attrs.validators import ge, gt, in_, instance_of

from smg_simulator.fleet.engine import EngineSpeed

__all__ = ["EVENTS", "FleetSettings", "Outage"]

EVENTS = ("on_time", "late", "lost", "none")
"""How the engines' KV events reach the gateways: at once, after `events_late_s`, some only when the next one shows
the gap, or not at all."""


@attrs.frozen
class Outage:
    """Engine number `engine` dies at `at` and is back with an empty cache at `until`, in seconds of the trace."""

    engine: int = attrs.field(validator=ge(0))
    at: float = attrs.field(validator=ge(0.0))
    until: float = attrs.field(validator=gt(0.0))


@attrs.frozen
class FleetSettings:
    """A fleet. With `prefill` engines, `engines` only decode what those have begun; a prompt's cache is moved at
    `transfer_token_s` seconds a token. Of prompts that are short or cached, `local_tokens` and `local_queue_tokens` say, as the
    gateway's settings of these names, which of them the decode engine reads itself.

    `factors` say how much faster than `speed` each engine is, repeated over the fleet. Each of `replicas` gateways has a policy
    object of its own, knows its own requests only, and is told the engines' loads every `loads_s` seconds; gateways in a mesh
    tell each other what they have in flight every `words_s` seconds (0: they do not). `events_late_s` and `events_lost` (a
    share) are used as `events` says. Every `probe_s` seconds a gateway finds by probes which engines are back, and which are
    dead though no request has told it."""

    engines: int = attrs.field(default=8, validator=[instance_of(int), ge(1)])
    prefill: int = attrs.field(default=0, validator=[instance_of(int), ge(0)])
    speed: EngineSpeed = attrs.Factory(EngineSpeed)
    factors: tuple[float, ...] = attrs.field(
        default=(1.0,), validator=[attrs.validators.min_len(1), attrs.validators.deep_iterable(gt(0.0))]
    )
    replicas: int = attrs.field(default=1, validator=[instance_of(int), ge(1)])
    loads_s: float = attrs.field(default=1.0, validator=gt(0.0))
    words_s: float = attrs.field(default=0.0, validator=ge(0.0))
    events: str = attrs.field(default="on_time", validator=in_(EVENTS))
    events_late_s: float = attrs.field(default=2.0, validator=ge(0.0))
    events_lost: float = attrs.field(default=0.1, validator=[ge(0.0), attrs.validators.le(1.0)])
    outages: tuple[Outage, ...] = ()
    probe_s: float = attrs.field(default=1.0, validator=ge(0.0))
    local_tokens: int = attrs.field(default=0, validator=[instance_of(int), ge(0)])
    local_queue_tokens: int = attrs.field(default=8192, validator=[instance_of(int), ge(0)])
    transfer_token_s: float = attrs.field(default=1e-6, validator=ge(0.0))
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        for each in self.outages:
            if each.engine >= self.engines + self.prefill:
                raise ValueError(f"there is no engine {each.engine}: the fleet has {self.engines + self.prefill}")
            if each.until <= each.at:
                raise ValueError(f"engine {each.engine} is back at {each.until} s, before it dies at {each.at} s")

    @property
    def all_engines(self) -> int:
        """Engines of both pools; those that prefill come after the others."""
        return self.engines + self.prefill
