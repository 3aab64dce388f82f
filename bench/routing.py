"""What routing costs: the prefix index, and a whole decision.

    python bench/routing.py [--rounds 5]

- insert and match: prompts of 2,048 characters, each a new object as if decoded from a body. The pool of 2,000 is inserted into
  an empty index again and again; the first pass, in which every prompt is new, is shown apart. Matching is done on an index of
  10,000: prompts that are there, and prompts of which only the first half is.
- memory: what 10,000 prompts take, by tracemalloc.
- a decision: cache_aware over 64 workers, with two requests at each, a prompt of 8,000 tokens that shares between none and
  all of its blocks with earlier ones; from looking at the workers to the policy's answer. Once by what was sent, and once
  where every engine tells of its cache in blocks of 16 tokens.
- KV events: batches of BlockStored as they come from the wire, of 1, 8 and 256 blocks of 16 tokens, read and applied by the
  objects that the gateway has, on an event loop; and the longest that another callback waited in between.

Seconds are this process's CPU time, so that other programs count as little as they can. Prints one line a figure;
bench/README.md has those of our machine.
"""

import argparse
import asyncio
import gc
import random
import string
import time
import tracemalloc
from array import array
from collections.abc import Callable, Sequence

from smg_core.engines.base import EngineFacts
from smg_core.engines.codecs.neutral.kv_events import kv_events
from smg_core.engines.kv_events import KvBlocksStored, KvCursor, KvEvent, KvEventBatch, size
from smg_core.engines.token_ids.client import KvReader
from smg_core.errors import SmgError
from smg_core.routing import RoutingContext
from smg_core.routing.block_keys import TextKeys
from smg_core.routing.cache_aware import CacheAware
from smg_core.routing.prefix_index import PrefixIndex
from smg_core.routing.settings import RoutingConfig
from smg_core.tokens import TokenIds
from smg_core.workers.worker import LocalBoard, Worker, WorkerPlace, WorkerSpec, records_of
from smg_engine_contract import engine_pb2 as pb

CHARACTERS, POOL, MANY, OWNERS = 2048, 2000, 10_000, 10
TOKENS, WORKERS, DECISIONS = 8000, 64, 2000
BUDGET = 24 << 20
BLOCK, EVENTS, READ = 16, 64_000, 64


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


def stored(tokens: array, name: int, parent: int | None) -> KvBlocksStored:  # type: ignore[type-arg]
    """An event of the whole blocks of `tokens`, whose hashes count up from `name`."""
    return KvBlocksStored(range(name, name + len(tokens) // BLOCK), tokens, BLOCK, parent)


def measure_decisions(*, told: bool) -> None:
    draw, board = random.Random(2), LocalBoard()
    workers = tuple(
        Worker(WorkerSpec(f"grpc://w{row}", name=f"w{row}"), row, board, facts=EngineFacts("vllm"))
        for row in range(WORKERS)
    )
    under_way: list[WorkerPlace] = []
    chosen = CacheAware(RoutingConfig(kv_index_bytes=1 << 30), random.Random(3))
    for worker in workers if told else []:
        chosen.kv_known(worker.name, 0, "all")
    shared = [array("I", draw.choices(range(100_000), k=TOKENS)) for _ in range(50)]
    took = []
    for number in range(DECISIONS):
        whole, cut = draw.choice(shared), draw.choice([0, 2000, 4000, 8000])
        prompt = whole[:cut] + array("I", draw.choices(range(100_000), k=TOKENS - cut))
        context = RoutingContext(f"r{number}", "m", TokenIds(prompt), now=number / 100)
        before = time.thread_time_ns()
        pick = chosen.pick(records_of(workers), context)
        took.append((time.thread_time_ns() - before) / 1000)
        under_way.append(WorkerPlace(workers[int(pick.worker.name[1:])], TOKENS - pick.cached))
        if told:
            chosen.kv_changed(pick.worker.name, 0, [stored(prompt, number << 20, None)], number / 100)
        if len(under_way) > 2 * WORKERS:
            under_way.pop(draw.randrange(len(under_way))).leave()
        under_way[draw.randrange(len(under_way))].prompt_read()
    took.sort()
    half, most = took[len(took) // 2], took[len(took) * 99 // 100]
    how = "which tell of their caches" if told else "by what was sent"
    print(f"a decision, {WORKERS} workers {how}, {TOKENS:,} tokens: p50 {half:.0f} us, p99 {most:.0f} us")


class Applying:
    """The sink of a subscription, which brings what it gets to a policy: as the gateway does, all of one round together."""

    def __init__(self, policy: CacheAware) -> None:
        self.left = 0
        self.over = asyncio.Event()
        self._policy = policy
        self._cursor = KvCursor(first=1)

    def push(self, batches: Sequence[KvEventBatch]) -> None:
        held: list[KvEvent] = []
        for batch in batches:
            if self._cursor.take(batch) in ("apply", "restart"):
                held += batch.events
        self._policy.kv_changed("w", 0, held, 0.0)
        for event in held:
            self.left -= size(event)
        if self.left <= 0:
            self.over.set()

    def closed(self, error: SmgError | None) -> None: ...


async def measure_events(blocks: int) -> None:
    """Events of `blocks` blocks each."""
    draw, messages = random.Random(4), []
    for number in range(EVENTS // blocks):
        event = pb.KvEvent()
        event.stored.hashes.extend(range(number << 20, (number << 20) + blocks))
        event.stored.token_ids.extend(draw.choices(range(100_000), k=blocks * BLOCK))
        event.stored.block_size = BLOCK
        messages.append(pb.KvEventBatch(sequence=number + 1, events=[event]).SerializeToString())
    sink = Applying(CacheAware(RoutingConfig(kv_index_bytes=1 << 30), random.Random(3)))
    sink.left = len(messages) * blocks
    reader = KvReader(kv_events(None).parse, sink)
    gc.collect()
    gc.freeze()  # as the server does with what it has when it starts
    waits: list[int] = []
    beat = asyncio.create_task(heartbeat(waits))
    await asyncio.sleep(0)
    before = time.process_time()
    for at in range(0, len(messages), READ):
        reader.messages(
            messages[at : at + READ]
        )  # as many as a transport reads at once, more than are applied in a round
        await asyncio.sleep(0)
    await sink.over.wait()
    rate = len(messages) * blocks / (time.process_time() - before)
    beat.cancel()
    waits.sort()
    print(
        f"KV events of {blocks} blocks: {rate:,.0f} blocks/s; between two callbacks p50 {waits[len(waits) // 2] / 1000:.0f} us, "
        f"p99 {waits[len(waits) * 99 // 100] / 1000:.0f} us, most {waits[-1] / 1000:.0f} us"
    )


async def heartbeat(waits: list[int]) -> None:
    """Take turns with what else is on the loop, and note the CPU time between two turns, in nanoseconds."""
    last = time.thread_time_ns()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time_ns()
        waits.append(now - last)
        last = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    measure_index(arguments.rounds)
    measure_decisions(told=False)
    measure_decisions(told=True)
    for blocks in (1, 8, 256):
        asyncio.run(measure_events(blocks))


if __name__ == "__main__":
    main()
