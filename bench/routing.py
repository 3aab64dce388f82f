"""What routing costs: the prefix index, and a whole decision.

    python bench/routing.py [--rounds 5]

- insert and match: prompts of 2,048 characters, each a new object as if decoded from a body. The pool of 2,000 is inserted into
  an empty index again and again; the first pass, in which every prompt is new, is shown apart. Matching is done on an index of
  10,000: prompts that are there, and prompts of which only the first half is.
- memory: what 10,000 prompts take, by tracemalloc.
- a decision: cache_aware over 64 workers with their own counts, a prompt of 8,000 tokens that shares between none and all of its
  blocks with earlier ones; from the policy's call to its answer.

Seconds are this process's CPU time, so that other programs count as little as they can. Prints one line a figure;
bench/README.md has those of our machine.
"""

import argparse
import gc
import random
import string
import time
import tracemalloc
from array import array
from collections.abc import Callable

from smg_core.engines.base import EngineFacts
from smg_core.routing import RoutingContext, policy
from smg_core.routing.block_keys import TextKeys
from smg_core.routing.prefix_index import PrefixIndex
from smg_core.routing.settings import RoutingConfig
from smg_core.tokens import TokenIds
from smg_core.workers.worker import LocalBoard, Worker, WorkerSpec

CHARACTERS, POOL, MANY, OWNERS = 2048, 2000, 10_000, 10
TOKENS, WORKERS, DECISIONS = 8000, 64, 2000
BUDGET = 24 << 20


def prompts(count: int, draw: random.Random) -> list[bytes]:
    return ["".join(draw.choices(string.printable, k=CHARACTERS)).encode() for _ in range(count)]


def rate(pool: list[bytes], work: Callable[[list[str]], object]) -> float:
    """Prompts a second of `work`, which gets those of `pool` as new objects, whose hashes are not known yet."""
    texts = [each.decode() for each in pool]
    before = time.process_time()
    work(texts)
    return len(pool) / (time.process_time() - before)


class Index:
    """An index of texts as cache_aware has it."""

    def __init__(self) -> None:
        settings = RoutingConfig(index_bytes=BUDGET)
        self._keys = TextKeys(settings.block_characters, settings.prefix_tokens, BUDGET // 2)
        self._index = PrefixIndex[int](BUDGET)

    def insert(self, texts: list[str]) -> None:
        keys, insert = self._keys.keys, self._index.insert
        for number, text in enumerate(texts):
            insert(keys(text), number % OWNERS)

    def match(self, texts: list[str]) -> None:
        keys, match = self._keys.keys, self._index.match
        for text in texts:
            match(keys(text))


def measure_index(rounds: int) -> None:
    draw = random.Random(1)
    pool, many = prompts(POOL, draw), prompts(MANY, draw)
    first, later, there, new = [], [], [], []
    for _ in range(rounds):
        index = Index()
        first.append(rate(pool, index.insert))
        later += [rate(pool, index.insert) for _ in range(3)]
    print(f"insert, {POOL:,} prompts into an empty index: first pass {max(first):,.0f}/s, later {max(later):,.0f}/s")
    texts = [each.decode() for each in many]
    gc.collect()
    tracemalloc.start()
    index = Index()
    index.insert(texts)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"memory of {MANY:,} prompts: {taken / 1e6:.1f} MB")
    half = [each[: CHARACTERS // 2] + bytes(reversed(each[CHARACTERS // 2 :])) for each in many]
    for _ in range(rounds):
        index = Index()
        index.insert(texts)
        there.append(rate(many, index.match))
        new.append(rate(half, index.match))
    print(
        f"match on {MANY:,} prompts: {max(there):,.0f}/s of those there, {max(new):,.0f}/s of new ones with half of one"
    )


def measure_decisions() -> None:
    draw, board = random.Random(2), LocalBoard()
    workers = [
        Worker(WorkerSpec(f"grpc://w{row}", name=f"w{row}"), row, board, facts=EngineFacts("vllm"))
        for row in range(WORKERS)
    ]
    chosen = policy("cache_aware", RoutingConfig(), random.Random(3))
    shared = [array("I", (draw.randrange(100_000) for _ in range(TOKENS))) for _ in range(50)]
    took = []
    for number in range(DECISIONS):
        whole, cut = draw.choice(shared), draw.choice([0, 2000, 4000, 8000])
        own = array("I", (draw.randrange(100_000) for _ in range(TOKENS - cut)))
        context = RoutingContext(f"r{number}", "m", TokenIds(whole[:cut] + own))
        before = time.thread_time_ns()
        pick = chosen.pick([each.record for each in workers], context)
        took.append((time.thread_time_ns() - before) / 1000)
        board.add(int(pick.worker.name[1:]), 1)
        if number % 7:
            board.add(draw.randrange(WORKERS), -1)
    took.sort()
    half, most = took[len(took) // 2], took[len(took) * 99 // 100]
    print(f"a decision, {WORKERS} workers, {TOKENS:,} tokens: p50 {half:.0f} us, p99 {most:.0f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    measure_index(arguments.rounds)
    measure_decisions()


if __name__ == "__main__":
    main()
