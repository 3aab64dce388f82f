"""What vector stores cost: search over 100,000 chunks, its memory, and indexing without a worker.

    python bench/vector_stores.py [--chunks 100000] [--dimensions 256]

The chunks are runs of words from the sources of Python's standard library, their vectors random. Search is measured where it is
done, in the index, warm; indexing through a gateway in process, from the file's upload to `completed`. Prints the rows of the
table in bench/README.md.
"""

import argparse
import ast
import asyncio
import random
import resource
import statistics
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

from smg_core import Config, Gateway
from smg_core.history.settings import HistoryConfig
from smg_core.retrieval.chunking import TextChunk
from smg_core.retrieval.index_search import SearchedIndex
from smg_core.retrieval.indexes import Query, vectors_as_bytes

AT_ONCE = 500
WORDS = 130  # of a chunk
QUERIES = (
    "how do I parse command line arguments with subcommands",
    "open a socket and listen on a port",
    "raise an exception when the file does not exist",
    "submit a future to a thread pool executor",
    "convert a string to an integer",
    "encode bytes as base64",
    "walk a directory tree recursively",
    "what does the self parameter of a method mean",
)


def library() -> str:
    """The sources of the standard library, one behind the other."""
    folder = Path(ast.__file__).parent
    return "\n".join(each.read_text(encoding="utf-8", errors="ignore") for each in sorted(folder.glob("*.py")))


def memory() -> float:
    """MiB that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def filled(path: Path, text: str, chunks: int, dimensions: int) -> None:
    """Put chunks of the text into an index."""
    words, rng, numbers = text.split(), random.Random(1), np.random.default_rng(1)
    index = SearchedIndex(path, 1 << 30)
    number = index.begin("all", "all")
    for _ in range(0, chunks, AT_ONCE):
        starts = [rng.randrange(len(words) - WORDS) for _ in range(AT_ONCE)]
        some = [TextChunk(" ".join(words[at : at + WORDS]), at, at + 1) for at in starts]
        index.add(number, some, vectors_as_bytes(numbers.standard_normal((AT_ONCE, dimensions)).tolist()), chunks)
    index.finish(number, "all", {})
    index.close()


def search(path: Path, dimensions: int, rounds: int = 12) -> None:
    """Measure searches."""
    numbers, before = np.random.default_rng(2), memory()
    index = SearchedIndex(path, 1 << 30)
    cases = {"words": False, "words and vectors": True}
    for name, with_vector in cases.items():
        wall, work = [], []
        for count in range(rounds):
            for text in QUERIES:
                query = Query(text, numbers.standard_normal(dimensions).tolist() if with_vector else None)
                began, worked = time.perf_counter(), time.process_time()
                (found,) = index.search([query], None, 100)
                index.hits([id for id, _ in (found.words + found.vectors)[:10]])
                if count:  # the first round loads what is searched
                    wall.append(1000 * (time.perf_counter() - began))
                    work.append(1000 * (time.process_time() - worked))
        p90 = statistics.quantiles(wall, n=10)[8]
        print(
            f"| search by {name}, p50 (p90; CPU p50) | {statistics.median(wall):.1f} ms "
            f"({p90:.1f} ms; {statistics.median(work):.1f} ms) |"
        )
    print(f"| memory that search takes | {memory() - before:.0f} MiB |")
    index.close()


async def indexing(text: str, folder: Path) -> None:
    """Measure how fast a file becomes `completed`, by words alone."""
    config = Config(history=HistoryConfig(url=f"sqlite:///{folder}/history.db"))
    data = text.encode()[: 8 << 20]
    async with (
        Gateway.simulated(config=config) as gateway,
        gateway.http_client(httpx, base_url="http://gateway", timeout=600) as http,
    ):
        store = (await http.post("/v1/vector_stores", json={})).json()["id"]
        form = {"files": {"file": ("library.txt", data)}, "data": {"purpose": "assistants"}}
        file = (await http.post("/v1/files", **form)).json()["id"]
        began, worked = time.perf_counter(), time.process_time()
        path = f"/v1/vector_stores/{store}/files"
        status = (await http.post(path, json={"file_id": file})).json()["status"]
        while status == "in_progress":
            await asyncio.sleep(0.05)
            status = (await http.get(f"{path}/{file}")).json()["status"]
        seconds, work = time.perf_counter() - began, time.process_time() - worked
        if status != "completed":
            raise SystemExit(f"the file is {status}")
    minute = len(data) / 1e6 / seconds * 60
    print(f"| text indexed a minute, by words (CPU for 1 MB) | {minute:.0f} MB ({work / (len(data) / 1e6):.2f} s) |")


def main() -> None:
    """Measure, and print the rows."""
    reading = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reading.add_argument("--chunks", type=int, default=100_000)
    reading.add_argument("--dimensions", type=int, default=256)
    given = reading.parse_args()
    text = library()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.index"
        filled(path, text, given.chunks, given.dimensions)
        search(path, given.dimensions)
        asyncio.run(indexing(text, Path(folder)))


if __name__ == "__main__":
    main()
