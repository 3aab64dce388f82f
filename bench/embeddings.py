"""How long one request for many vectors takes beside the time that its engine needs: `python bench/embeddings.py`.

Embedded engines, each in a process of its own, compute prompts at a scripted rate and one after the other, as an engine that is
busy does. The gateway gets one request with `--inputs` texts of `--tokens` tokens; the figure is its time divided by the scripted
one, which is inputs x tokens / (rate x engines). `--runs` are made and the median is told.
"""

import argparse
import asyncio
import multiprocessing as mp
import statistics
import time
from multiprocessing.connection import Connection

import httpx

from smg_core import Config, Gateway
from smg_core.config import LimitsConfig
from smg_simulator import SimulatorConfig, Timing, run_simulator


def engine(rate: float, size: int, told: Connection) -> None:
    """One engine, until it is ended; tells its address."""
    config = SimulatorConfig(generation_model=False, embedding_size=size, timing=Timing(prefill_rate=rate))
    asyncio.run(run_simulator(config, ready=lambda started: told.send(started.target)))


async def measured(targets: list[str], inputs: int, tokens: int, runs: int) -> list[float]:
    """The seconds of each run."""
    body = {"model": "sim", "input": [[5 + at % 200] * tokens for at in range(inputs)], "encoding_format": "base64"}
    config = Config(limits=LimitsConfig(json_values=inputs * (tokens + 1) + 100))
    async with (
        Gateway(targets, config=config) as gateway,
        gateway.http_client(httpx, base_url="http://gateway") as http,
    ):
        found = []
        for run in range(runs + 1):
            began = time.perf_counter()
            answer = await http.post("/v1/embeddings", json=body, timeout=600)
            took = time.perf_counter() - began
            assert answer.status_code == 200, answer.text
            assert len(answer.json()["data"]) == inputs
            if run:  # the first makes the connections
                found.append(took)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument(
        "--rate", type=float, default=10_000.0, help="prompt tokens that one engine computes in a second"
    )
    parser.add_argument("--engines", type=int, default=2)
    parser.add_argument("--size", type=int, default=64, help="numbers of a vector")
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    context = mp.get_context("spawn")
    processes, targets = [], []
    try:
        for _ in range(asked.engines):
            here, there = context.Pipe()
            process = context.Process(target=engine, args=(asked.rate, asked.size, there), daemon=True)
            process.start()
            processes.append(process)
            targets.append(here.recv())
        seconds = asyncio.run(measured(targets, asked.inputs, asked.tokens, asked.runs))
    finally:
        for process in processes:
            process.terminate()
    scripted = asked.inputs * asked.tokens / (asked.rate * asked.engines)
    middle = statistics.median(seconds)
    print(
        f"{asked.inputs} x {asked.tokens} tokens, {asked.engines} engines of {asked.rate:,.0f} tokens/s, {asked.size} numbers"
    )
    print(f"scripted {scripted:.2f} s, median of {len(seconds)} {middle:.2f} s ({middle / scripted:.2f}x), {seconds=}")


if __name__ == "__main__":
    main()
