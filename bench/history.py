"""What the history costs: stored responses a second, a chain of fifty turns, and how long the event loop is held meanwhile.

    python bench/history.py [--url sqlite:///FILE] [--seconds 5] [--writers 64] [--bytes 4000]

Each writer stores one response after the other and waits until it is kept, as a request does. The file is new unless `--url`
names a store. Prints one line a figure; bench/README.md has those of our machine.
"""

import argparse
import asyncio
import resource
import tempfile
import time

from smg_core.clock import SystemClock
from smg_core.history.guard import GuardedStore
from smg_core.history.opening import open_history
from smg_core.history.settings import HistoryConfig
from smg_core.history.store.base import PutResponse, StoredResponse

TURNS, LOADS = 50, 200


def a_response(id: str, size: int, previous: str | None = None) -> PutResponse:
    """A response of about `size` bytes, half of them input and output."""
    text = b'[{"type":"message","content":"' + b"x" * (size // 4) + b'"}]'
    body = b'{"id":"%s","text":"' % id.encode() + b"y" * (size // 2) + b'"}'
    items = (f"msg_in_{id}", f"msg_out_{id}")
    return PutResponse(
        StoredResponse(
            id=id,
            body=body,
            input=text,
            output=text,
            created_at=time.time(),
            status="completed",
            model="m",
            previous_id=previous,
            item_ids=items,
        )
    )


async def held(found: list[float], stop: asyncio.Event) -> None:
    """Note the CPU time of every turn of the event loop: with the writers' own steps, without what other programs take."""
    while not stop.is_set():
        before = time.thread_time()
        await asyncio.sleep(0)
        found.append(time.thread_time() - before)


async def writes(store: GuardedStore, writers: int, seconds: float, size: int) -> tuple[int, list[float]]:
    """How many responses were stored, and how long each took."""
    end, took = time.perf_counter() + seconds, list[float]()

    async def write(lane: int) -> None:
        number = 0
        while time.perf_counter() < end:
            before = time.perf_counter()
            await store.write("bench", [a_response(f"resp_{lane}_{number}", size)])
            took.append(time.perf_counter() - before)
            number += 1

    await asyncio.gather(*(write(lane) for lane in range(writers)))
    return len(took), took


async def chains(store: GuardedStore, size: int) -> list[float]:
    for turn in range(TURNS):
        await store.write("bench", [a_response(f"turn_{turn}", size, f"turn_{turn - 1}" if turn else None)])
    took = []
    for _ in range(LOADS):
        before = time.perf_counter()
        chain = await store.chain("bench", f"turn_{TURNS - 1}")
        took.append(time.perf_counter() - before)
        assert chain is not None
        assert len(chain.links) == TURNS
    return took


def at(values: list[float], share: float) -> float:
    """Milliseconds that this share of the values do not pass."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000


async def run(arguments: argparse.Namespace, url: str) -> None:
    store = await open_history(HistoryConfig(url=url), SystemClock())
    before, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    count, took = await writes(store, arguments.writers, arguments.seconds, arguments.bytes)
    elapsed, used = time.perf_counter() - before, resource.getrusage(resource.RUSAGE_SELF)
    spent = used.ru_utime + used.ru_stime - cpu.ru_utime - cpu.ru_stime
    print(f"stored responses: {count / elapsed:,.0f} a second, {spent / count * 1e6:,.0f} us of CPU each", flush=True)
    print(f"one took: median {at(took, 0.5):.1f} ms, 99 of 100 within {at(took, 0.99):.1f} ms")
    stop, late = asyncio.Event(), list[float]()
    watching = asyncio.create_task(held(late, stop))
    await writes(store, arguments.writers, min(arguments.seconds, 2.0), arguments.bytes)
    stop.set()
    await watching
    over = 100 * sum(each for each in late if each > 0.001) / sum(late)
    print(f"a turn of the event loop: at most {at(late, 1):.2f} ms of CPU; {over:.0f} % of the time in turns over 1 ms")
    loads = await chains(store, arguments.bytes)
    print(f"a chain of {TURNS} turns: median {at(loads, 0.5):.2f} ms, 99 of 100 within {at(loads, 0.99):.2f} ms")
    await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--writers", type=int, default=64)
    parser.add_argument("--bytes", type=int, default=4000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(arguments, arguments.url or f"sqlite:///{folder}/history.db"))


if __name__ == "__main__":
    main()
