"""Traces that are made, not recorded: the kinds of load that fleets meet, each from a few numbers and a seed.

A prompt's blocks are names made from what it consists of (a system prompt, a document, the turns of a conversation), so that
requests share exactly what they have in common. Requests come at random times with a mean rate (a Poisson process). Pure. Above:
the command line, bench. Below: trace.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import accumulate, count

import attrs
from attrs.validators import ge, gt

from smg_simulator.fleet.trace import FleetRequest, FleetTrace

__all__ = ["GENERATORS", "Load", "generated"]

_ANSWER_TOKEN_S = 0.02
"""Seconds that a token of an answer takes: what follows an answer comes when it is there."""


@attrs.frozen
class Load:
    """How much of a generated trace: `requests` at a mean `rate` each second, in blocks of `block` tokens. `scale` multiplies
    the lengths of all prompts and answers."""

    requests: int = attrs.field(default=10_000, validator=ge(1))
    rate: float = attrs.field(default=20.0, validator=gt(0.0))
    block: int = attrs.field(default=16, validator=ge(1))
    scale: float = attrs.field(default=1.0, validator=gt(0.0))
    seed: int = 0


class _Maker:
    """Random lengths and names of blocks. A text is a number of tokens with an own number; what is made of texts in a row has
    the names of its full blocks."""

    def __init__(self, load: Load, kind: str) -> None:
        self.load = load
        self.rng = random.Random(f"{kind} {load.seed}")
        self._texts = count(1)

    def length(self, mean: float, spread: float = 0.6) -> int:
        """A number of tokens, most near the mean and a few far above it."""
        drawn = self.rng.lognormvariate(0.0, spread) * mean * self.load.scale
        return max(1, round(drawn))

    def text(self, mean: float, spread: float = 0.6) -> tuple[int, int]:
        """A new text: its number, and its length in tokens."""
        return next(self._texts), self.length(mean, spread)

    def blocks(self, texts: Sequence[tuple[int, int]]) -> list[int]:
        """The names of the full blocks of these texts in a row. Two rows have the same name for a block if they are the same up
        to its end."""
        block, names, before, filled = self.load.block, list[int](), 0, 0
        for number, length in texts:
            before = hash((before, number))
            begun, filled = filled, filled + length
            names += [abs(hash((before, at))) for at in range(begun // block, filled // block)]
        return names

    def request(
        self, at: float, prompt: Sequence[tuple[int, int]], answer: tuple[int, int], session: str = ""
    ) -> FleetRequest:
        """The request whose prompt and answer are these texts."""
        names = self.blocks([*prompt, answer])
        tokens = sum(length for _, length in prompt)
        full = tokens // self.load.block
        return FleetRequest(at, tokens, answer[1], names[:full], names[full:], session)

    def pauses(self, mean: float) -> float:
        return self.rng.expovariate(1.0 / mean)


_Text = tuple[int, int]


@attrs.frozen
class _Talk:
    """A kind of conversation: how many turns it has, and how long texts and the pauses after an answer (in
    seconds) are, each as a mean."""

    turns: float
    asked: float
    answer: float
    pause: float


def _conversations(
    maker: _Maker, opening: Callable[[], list[_Text]], talk: _Talk, wave: Callable[[float], float] = lambda _: 1.0
) -> Iterator[FleetRequest]:
    """Turns of conversations, without end. `opening` is what a new one begins with. `wave` gives for a time the share of the full
    rate of new ones, 0 to 1."""
    begin_rate, order = maker.load.rate / talk.turns, count()
    turns: list[tuple[float, int, list[_Text], int, str]] = []
    fresh = maker.pauses(1 / begin_rate)
    while True:
        if not turns or fresh <= turns[0][0]:
            if maker.rng.random() < wave(fresh):
                number = next(order)
                left = 1 + int(maker.rng.expovariate(1.0) * (talk.turns - 1) + 0.5)
                heappush(turns, (fresh, number, opening(), left, f"session-{number}"))
            fresh += maker.pauses(1 / begin_rate)
            continue
        at, _, before, left, session = heappop(turns)
        prompt, answer = [*before, maker.text(talk.asked)], maker.text(talk.answer)
        yield maker.request(at, prompt, answer, session)
        if left > 1:
            after = at + answer[1] * _ANSWER_TOKEN_S + maker.pauses(talk.pause)
            heappush(turns, (after, next(order), [*prompt, answer], left - 1, session))


def _ranked(maker: _Maker, texts: Sequence[_Text]) -> Callable[[], _Text]:
    """One of `texts`, the first ones far more often than the last (Zipf's law)."""
    weights = list(accumulate(1.0 / place for place in range(1, len(texts) + 1)))
    return lambda: maker.rng.choices(texts, cum_weights=weights)[0]


def _single(
    maker: _Maker, prompt: Callable[[], list[_Text]], answer: float, wave: Callable[[float], float]
) -> Iterator[FleetRequest]:
    """Requests that stand alone."""
    at = 0.0
    while True:
        at += maker.pauses(1 / maker.load.rate)
        if maker.rng.random() < wave(at):
            yield maker.request(at, prompt(), maker.text(answer))


def _steady(_: float) -> float:
    return 1.0


def _chat(maker: _Maker) -> Iterator[FleetRequest]:
    system = _ranked(maker, [maker.text(600) for _ in range(20)])
    return _conversations(maker, lambda: [system()], _Talk(turns=5, asked=80, answer=200, pause=20))


def _day_and_night(maker: _Maker) -> Iterator[FleetRequest]:
    system = _ranked(maker, [maker.text(600) for _ in range(20)])
    period = maker.load.requests / maker.load.rate / 2
    return _conversations(
        maker,
        lambda: [system()],
        _Talk(turns=5, asked=80, answer=200, pause=20),
        lambda at: 1.0 if at % period < period / 2 else 0.3,
    )


def _agents(maker: _Maker) -> Iterator[FleetRequest]:
    tools = _ranked(maker, [maker.text(3000, 0.3) for _ in range(6)])
    return _conversations(maker, lambda: [tools()], _Talk(turns=12, asked=500, answer=100, pause=3))


def _retrieval(maker: _Maker) -> Iterator[FleetRequest]:
    system, document = maker.text(200, 0.1), _ranked(maker, [maker.text(1200) for _ in range(500)])

    def prompt() -> list[_Text]:
        return [system, document(), document(), maker.text(60)]

    return _single(maker, prompt, 150, _steady)


def _bursts(maker: _Maker) -> Iterator[FleetRequest]:
    return _single(maker, lambda: [maker.text(800)], 150, lambda at: 1.0 if at % 20 < 4 else 0.15)


def _unshared(maker: _Maker) -> Iterator[FleetRequest]:
    return _single(maker, lambda: [maker.text(1000)], 200, _steady)


def _hot(maker: _Maker) -> Iterator[FleetRequest]:
    prefix = maker.text(4000, 0.01)
    return _single(maker, lambda: [prefix, maker.text(60)], 150, _steady)


def _large_tenant(maker: _Maker) -> Iterator[FleetRequest]:
    large, others = maker.text(4000, 0.05), [maker.text(4000, 0.05) for _ in range(60)]

    def prompt() -> list[_Text]:
        return [large if maker.rng.random() < 0.3 else maker.rng.choice(others), maker.text(100)]

    return _single(maker, prompt, 150, _steady)


def _long(maker: _Maker) -> Iterator[FleetRequest]:
    document = _ranked(maker, [maker.text(20_000) for _ in range(400)])
    return _single(maker, lambda: [document(), maker.text(100)], 200, _steady)


GENERATORS: dict[str, Callable[[_Maker], Iterator[FleetRequest]]] = {
    "chat": _chat,
    "agents": _agents,
    "retrieval": _retrieval,
    "day_and_night": _day_and_night,
    "long": _long,
    "hot": _hot,
    "large_tenant": _large_tenant,
    "bursts": _bursts,
    "unshared": _unshared,
}
"""Kinds of traces. chat, agents, retrieval and day_and_night share prefixes; long has documents that do not all fit into caches;
hot has one prefix for all; large_tenant has one for each of 61 tenants, of which one has three requests of ten; bursts and
unshared share nothing."""


def generated(kind: str, load: Load) -> FleetTrace:
    """A trace of a kind of `GENERATORS`: the same for the same load. Raises KeyError for a kind that is not there."""
    made = GENERATORS[kind](_Maker(load, kind))
    return FleetTrace(kind, load.block, [request for _, request in zip(range(load.requests), made, strict=False)])
