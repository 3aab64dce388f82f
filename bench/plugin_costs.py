"""What plugins cost: CPU of a call of a component, of an exchange with an instance, and how late a guest that spins is stopped.

CPU is that of the whole process, with all its threads. The calls of an exchange are those of a gateway: on the event loop, with
what the chain of plugins costs.

python bench/plugin_costs.py
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from smg_core.middleware.base import About, AnswerPiece, MiddlewareFault, RequestHead
from smg_core.middleware.entries import Limits, Link, parse_entries
from smg_core.middleware.plan import PluginPlan
from smg_core.wasm.cells import Arguments
from smg_core.wasm.loading import WasmPlugins
from smg_core.wasm.running import Sandbox
from smg_core.wasm.worlds import OURS

GUESTS = Path(__file__).parent.parent / "tests" / "guests"
HEAD = ("POST", "/v1/chat/completions", "", tuple((f"x-header-{n}", "some value") for n in range(8)))
ABOUT = ("req-1", "POST", HEAD[1], HEAD[1], "tenant", "principal", "model")
TIMES, RUNS = 2000, 40


def cost(call: Callable[[], object], times: int = TIMES) -> float:
    """Microseconds of CPU of a call."""
    call()
    began = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - began) / times * 1e6


async def exchanges() -> None:
    """What the chain of a gateway costs."""
    plugins = WasmPlugins(lambda name, said: None, threads=4, most_threads=8, compiled=4, most_bytes=1 << 20)

    async def loaded(does: str, count: int) -> tuple[Link, ...]:
        source = {"source": str(GUESTS / "attacks.wasm"), "config": {"do": does}, "deadline_ms": 2000}
        links = []
        for number in range(count):
            (entry,) = parse_entries([{**source, "name": f"{does}-{number}"}], "bench")
            links.append(Link(entry, await plugins.load(entry)))
        return tuple(links)

    changing, passing = await loaded("nothing", 10), await loaded("pass", 10)
    about = About("req-1", "POST", HEAD[1], HEAD[1], "tenant", "principal")

    async def exchange(plan: PluginPlan, pieces: int) -> None:
        head = RequestHead(*HEAD)
        chain = plan.chain(about, lambda happened: None)
        if chain is None:
            raise AssertionError("the plugins are on every route")
        await chain.request_head(head, "after_identity", about)
        for _ in range(pieces):
            text = chain.piece(AnswerPiece("a1" * 175, "wire"))
            if not isinstance(text, str):
                await text
        chain.close()

    async def each(links: tuple[Link, ...], pieces: int, times: int) -> float:
        """The least of several runs, since others run on the machine too. A gateway makes a plan once."""
        plan = PluginPlan(links)
        for _ in range(20):
            await exchange(plan, pieces)
        runs = []
        for _ in range(RUNS):
            began = time.process_time()
            for _ in range(times):
                await exchange(plan, pieces)
            runs.append((time.process_time() - began) / times * 1e6)
        return min(runs)

    one = await each(changing[:1], 0, 50)
    print(f"exchange with a pooled instance that changes its head, beginning and end included: {one:.0f} us")
    print(f"the same where it passes the head: {await each(passing[:1], 0, 50):.0f} us")
    print(f"piece of 350 B in a stream through a component: {(await each(changing[:1], 200, 5) - one) / 200:.0f} us")
    print(f"exchange with ten components that change its head: {await each(changing, 0, 10):.0f} us")
    print(f"exchange with ten components that pass its head: {await each(passing, 0, 10):.0f} us")
    await asyncio.to_thread(plugins.close)


def main() -> None:
    sandbox = Sandbox(8)
    limits = Limits(deadline_ms=2000)
    ours = sandbox.compile((GUESTS / "attacks.wasm").read_bytes(), limits, ())
    guest = ours.instance()
    guest.call("configure", '{"do": "nothing"}')
    for size in (20, 350, 48_000):
        piece = ("a1" * (size // 2), "wire", 0, False)
        print(f"piece of {size} B through a string filter: {cost(partial(guest.call, 'piece', piece)):.0f} us")
    print(f"request head of 8 headers, one set: {cost(lambda: guest.call('request_head', HEAD)):.0f} us")

    beginning, nothing = Arguments(OURS.functions["begin"].pack(ABOUT)), Arguments("")

    def pooled() -> None:
        guest.at_once("begin", beginning, 100, 1.0)
        guest.answer()
        guest.at_once("finish", nothing, 100, 1.0)
        guest.answer()

    print(f"beginning and end of an exchange with a pooled instance: {cost(pooled):.0f} us")

    def fresh() -> None:
        made = ours.instance()
        made.call("configure", '{"do": "nothing"}')
        made.close()

    print(f"new instance with its configuration: {cost(fresh, 300):.0f} us")
    other = sandbox.compile((GUESTS / "smg_gateway.wasm").read_bytes(), limits, ())
    for size in (400, 4096, 48_000):
        request = (*HEAD, "x" * size, "req-1", 0)

        def old(value: tuple[object, ...] = request) -> None:
            made = other.instance()
            made.call("old_request", value)
            made.close()

        print(f"smg:gateway, body of {size} B, instance of its own: {cost(old, 50):.0f} us")
    for deadline in (50, 100, 300):
        spinning = sandbox.compile((GUESTS / "attacks.wasm").read_bytes(), Limits(deadline_ms=deadline), ()).instance()
        spinning.call("configure", '{"do": "spin"}')
        began = time.perf_counter()
        try:
            spinning.call("request_head", HEAD)
        except MiddlewareFault as fault:
            print(f"deadline {deadline} ms: {fault} after {(time.perf_counter() - began) * 1000:.0f} ms")
    sandbox.close()
    asyncio.run(exchanges())


if __name__ == "__main__":
    main()
