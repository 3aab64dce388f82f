"""English-like sentences from a list of words and a seed; the same seed gives the same sentences.

Pure. Above: engine.engine, which takes as many as a reply needs. A sentence begins with a capital letter and ends with a
full stop, without spaces around it.
"""

from functools import lru_cache
from random import Random

__all__ = ["SENTENCES", "sentence", "sentences"]


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


_SUBJECTS = _phrases(
    "the gateway|the engine|a careful reader|the small town|the river|the old library|my neighbour|the system|a good cache|"
    "the first train|the young engineer|the morning light|a simple program|the team|the garden|the answer|every request|"
    "the next message|the teacher|an open window|the network|the market|the mountain|a long letter|the scheduler"
)
_VERBS = _phrases(
    "remembers|explains|follows|carries|measures|changes|connects|repeats|describes|finds|keeps|protects|shares|builds|"
    "understands|improves|returns|collects|compares|discovers"
)
_OBJECTS = _phrases(
    "a short story|the whole picture|the second question|a list of words|the weather|every detail|the right address|"
    "an old bridge|the same result|a quiet street|the next step|a better idea|the shape of the road|a cup of tea|"
    "the first token|two simple rules|a map of the city|the end of the line|the work of others|a paper boat"
)
_PLACES = _phrases(
    "in the morning|near the station|without a sound|after the rain|for a little while|at the foot of the mountain|"
    "before anyone asks|in a clear voice|with great care|once a day|on the other side|in the shade of a tree|"
    "step by step|at the same time|in the end|as it always does|when the time comes|behind the house"
)
_LINKS = _phrases("and|but|so|because|while|although|until|where")
_OPENERS = _phrases(
    "In other words,|Later that day,|As a rule,|From here,|Most of the time,|For example,|Of course,|Soon after,"
)

SENTENCES = 512
"""The size of a pool. Replies draw from a pool, so that each sentence is tokenized once."""


def sentence(rng: Random) -> str:
    """One sentence of 6 to 25 words."""
    clause = _clause(rng)
    kind = rng.random()
    if kind < 0.35:
        clause = f"{clause}, {rng.choice(_LINKS)} {_clause(rng)}"
    elif kind < 0.55:
        return f"{rng.choice(_OPENERS)} {clause}."
    return f"{clause[0].upper()}{clause[1:]}."


def _clause(rng: Random) -> str:
    words = f"{rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} {rng.choice(_OBJECTS)}"
    return f"{words} {rng.choice(_PLACES)}" if rng.random() < 0.6 else words


@lru_cache(maxsize=4)
def sentences(seed: int, count: int = SENTENCES) -> tuple[str, ...]:
    """A pool of `count` sentences."""
    rng = Random(seed)
    return tuple(sentence(rng) for _ in range(count))
