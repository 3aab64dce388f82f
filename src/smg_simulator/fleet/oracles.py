"""The measures for a router: bounds that none can beat, and choosers that see what no gateway can.

Pure. Above: the command line, bench. Below: block_cache, engine, trace, view.
"""

from collections import OrderedDict
from collections.abc import Sequence

from smg_core.routing.base import RoutingContext
from smg_simulator.fleet.engine import FleetEngine
from smg_simulator.fleet.trace import FleetRequest, FleetTrace

__all__ = ["Greedy", "hits_of_one_cache"]


def hits_of_one_cache(trace: FleetTrace, tokens: int | None) -> int:
    """How many prompt tokens one cache of so many tokens, least recently used first out, would have had over the whole trace, if
    every request were over before the next one came. None: a cache without end, which has all that anyone computed before."""
    held: OrderedDict[int, None] = OrderedDict()
    most = None if tokens is None else tokens // trace.block
    hits = 0
    for request in trace.requests:
        found = next((at for at, name in enumerate(request.blocks) if name not in held), len(request.blocks))
        hits += min(found * trace.block, request.prompt_tokens - 1)
        for name in reversed([*request.blocks, *request.answer_blocks]):
            held[name] = None
            held.move_to_end(name)
        while most is not None and len(held) > most:
            held.popitem(last=False)
    return hits


class Greedy:
    """Sees every engine's queue and cache as they are now, and takes the one where the first token would come soonest."""

    listens = False

    def __init__(self, engines: Sequence[FleetEngine]) -> None:
        self._engines = engines
        self.unread = 0

    def choose(self, ready: Sequence[int], request: FleetRequest, context: RoutingContext) -> int:
        chosen = min(ready, key=lambda at: (self._wait(self._engines[at], request), at))
        self.unread = self._engines[chosen].uncached(request)
        return chosen

    def waiting(self, engine: int) -> int:
        return self._engines[engine].pending

    def _wait(self, engine: FleetEngine, request: FleetRequest) -> float:
        tokens = engine.pending + engine.uncached(request)
        steps = -(-tokens // engine.speed.step_tokens)
        busy = engine.speed.step_s + engine.speed.request_s * (engine.running + engine.waiting)
        return (steps * busy + tokens * engine.speed.prompt_token_s) / engine.factor

    def _unheard(self, *_: object, failed: bool = False) -> None:
        """What a chooser is told, which this one does not need: it looks at the engines themselves."""

    in_flight: Sequence[int] = ()
    sent = answered = ended = loads = note_elsewhere = left = changed = _unheard
