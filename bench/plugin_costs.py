"""What plugins cost: CPU of a call of a component, of a new instance, and how late a guest that spins is stopped.

python bench/plugin_costs.py
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from smg_core.middleware.base import MiddlewareFault
from smg_core.middleware.entries import Limits
from smg_core.wasm.running import Sandbox

GUESTS = Path(__file__).parent.parent / "tests" / "guests"
HEAD = ("POST", "/v1/chat/completions", "", tuple((f"x-header-{n}", "some value") for n in range(8)))
TIMES = 2000


def cost(call: Callable[[], object], times: int = TIMES) -> float:
    """Microseconds of CPU of a call."""
    call()
    began = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - began) / times * 1e6


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

    def fresh() -> None:
        made = ours.instance()
        made.call("configure", '{"do": "nothing"}')
        made.close()

    print(f"new instance with its configuration: {cost(fresh, 300):.0f} us")
    other = sandbox.compile((GUESTS / "smg_gateway.wasm").read_bytes(), limits, ())
    for size in (400, 4096, 48_000):
        request = (*HEAD, b"x" * size, "req-1", 0)

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


if __name__ == "__main__":
    main()
