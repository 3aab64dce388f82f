"""Encoded bytes to tensors, ours beside transformers' PIL processor, one thread each, interleaved.

    OMP_NUM_THREADS=1 python bench/multimodal/bench.py [--family qwen2.5-vl ...] [--rounds 7] [--json out.json] [--report]

For every family, three sizes and two containers: the least and the median of the rounds of both, their ratio, the cost of
decoding alone, by our decoders and by Pillow's, the peak of what is allocated beside the decoded picture as a multiple of the
output, and what an image costs that was seen before, beside one pass of sha256 over its bytes.

Times are processor time, which on one thread is the time that passes on an idle machine; a busy one disturbs it less.
`resident` is the same peak as the operating system sees it, in a process of its own: the growth of the resident set from the
decoded picture to its highest, over the output. The reference gets the same bytes and opens them as transformers does. Families
without a PIL processor are listed without one. Then eight pictures of one request, by one thread and by as many as there are by
default: in time that passes, which others on the machine lengthen. `--report` writes all of it into
docs/multimodal/performance.md, from this run or from what --json kept of an earlier one.
"""

import argparse
import asyncio
import ctypes
import gc
import hashlib
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "multimodal"), str(ROOT / "bench" / "multimodal")]

import report  # noqa: E402
from reference_families import FAMILIES, opened, reference_processor  # noqa: E402

from smg_multimodal.configs.files import ModelFiles  # noqa: E402
from smg_multimodal.decoding.decode import decode_image  # noqa: E402
from smg_multimodal.families.registry import family_of  # noqa: E402
from smg_multimodal.preparing.prepare import Media, Preparer  # noqa: E402

SIZES = ((224, 224), (1280, 720), (3840, 2160))
PAGE = ROOT / "docs" / "multimodal" / "performance.md"
_SHORT_PIXELS = 100_000
"""Pictures of fewer are measured several times a round: a call is over before a processor has warmed to it."""
_TOGETHER = ("qwen2.5-vl", ((1280, 720), (3840, 2160)), 8)


class Words:
    """A vocabulary in which every token exists."""

    def token_id(self, token: str) -> int | None:
        return 1000 + len(token)

    def encode(self, text: str) -> list[int]:
        return list(text.encode())


@cache
def photograph(size: tuple[int, int], container: str) -> bytes:
    """Soft colours, edges and sensor noise: compresses like a photograph does."""
    rng = np.random.default_rng(7)
    width, height = size
    soft = Image.fromarray(rng.integers(0, 256, (height // 40 + 2, width // 40 + 2, 3), np.uint8))
    pixels = np.asarray(soft.resize(size, Image.Resampling.BICUBIC)).astype(np.int16)
    pixels = np.clip(pixels + rng.normal(0, 4, pixels.shape), 0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, container, **({"quality": 88} if container == "JPEG" else {"compress_level": 6}))
    return out.getvalue()


def timed(work: Callable[[], object], calls: int = 1) -> float:
    """Milliseconds of processor time of one call, the mean of `calls`."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    for _ in range(calls):
        work()
    taken = (time.process_time() - start) * 1e3
    gc.enable()
    return taken / calls


def processor_and_bytes(name: str, size: tuple[int, int], container: str) -> tuple[Any, bytes]:
    """The family's image processor, and a photograph for it."""
    family = FAMILIES[name]
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    return family_of(files).image(files), photograph(size, container)


def status(field: str) -> int:
    """A number of kB of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field + ":")).split()[1])


def resident_here(name: str) -> float:
    """Growth of this process's resident set while the picture on standard input is processed, over its tensors' bytes."""
    ours, small = processor_and_bytes(name, (224, 224), "JPEG")
    data = sys.stdin.buffer.read()
    ours.item(decode_image(small))
    decoded = decode_image(data)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # free memory that is still held would hide what is taken
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the highest begins anew
    item = ours.item(decoded)
    return (status("VmHWM") - before) / item.nbytes


def resident(name: str, data: bytes) -> float:
    """`resident_here` in a process of its own."""
    command = [sys.executable, __file__, "--resident", name]
    return float(subprocess.run(command, check=True, capture_output=True, input=data).stdout)


def peak(work: Callable[[], Any]) -> float:
    """The most that was allocated at once during `work`, in bytes."""
    work()
    tracemalloc.start()
    work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(most)


def row(name: str, size: tuple[int, int], container: str, rounds: int, tv: Any = None) -> dict[str, Any]:
    """One line of the table; `tv` is the family's torchvision processor where ours is measured beside that."""
    family = FAMILIES[name]
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    ours, data = processor_and_bytes(name, size, container)
    preparer = Preparer(files, Words())
    theirs = reference_processor(family) if family.reference else None
    works: dict[str, Callable[[], object]] = {
        "ours": lambda: ours.collate([ours.item(decode_image(data))]),
        "decode": lambda: decode_image(data),
        "pillow": lambda: decode_image(data, fast=False),
        "digest": lambda: hashlib.sha256(data).digest(),
        "seen": lambda: preparer.ready(Media(copies.pop())),
    }
    if tv is not None:
        works["tv"] = lambda: tv(images=[opened(data)], return_tensors="pt", **family.call)
    elif theirs is not None:
        works["pil"] = lambda: theirs(images=[opened(data)], return_tensors="np", **family.call)
    calls = 5 if size[0] * size[1] < _SHORT_PIXELS else 1
    copies = [
        bytes(bytearray(data)) for _ in range(calls * rounds + 1)
    ]  # equal bytes, as other requests would bring them
    for work in works.values():
        work()
    taken: dict[str, list[float]] = {key: [] for key in works}
    for _ in range(rounds):
        for key, work in works.items():
            taken[key].append(timed(work, calls))
    item = ours.item(decode_image(data))
    decoded = decode_image(data)
    made = {
        "family": name,
        "size": f"{size[0]}x{size[1]}",
        "container": container,
        "bytes": len(data),
        "rounds": rounds,
    }
    for key, values in taken.items():
        made[f"{key}_min"], made[f"{key}_median"] = min(values), statistics.median(values)
    made["peak"] = peak(lambda: ours.item(decoded)) / item.nbytes
    made["resident"] = resident(name, data) if container == "JPEG" and tv is None else None
    made["tokens"] = item.tokens
    return made


async def passed(loader: Any, pictures: list[bytes]) -> tuple[float, float]:
    """Milliseconds from a request's pictures to their tensors: that pass, and of all processors."""
    from smg_multimodal.fetching.fetch import Source

    start, busy = time.perf_counter(), time.process_time()
    await loader.load([Source(data=each) for each in pictures])
    return (time.perf_counter() - start) * 1e3, (time.process_time() - busy) * 1e3


def together(rounds: int) -> list[dict[str, Any]]:
    """Eight pictures of one request, none seen before, by one thread and by the default number of them."""
    from smg_core.machine.cpus import usable_cpus
    from smg_core.models.media_service import decoder_threads
    from smg_multimodal.fetching.fetch import Fetcher, MediaLoader
    from smg_multimodal.processes.decoders import Decoders

    name, sizes, count = _TOGETHER
    family = FAMILIES[name]
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    threads = decoder_threads(usable_cpus(), 1)
    made = []
    for size, container in [(size, container) for size in sizes for container in ("JPEG", "PNG")]:
        data = photograph(size, container)
        taken: dict[int, list[tuple[float, float]]] = {1: [], threads: []}
        for _ in range(rounds):
            for each, times in taken.items():
                decoders, fetcher = Decoders(threads=each, memory=4 << 30, tensors=4 << 30), Fetcher()
                loader = MediaLoader(Preparer(files, Words()), fetcher, decoders=decoders)
                # bytes behind the end are no part of a picture, but of what it is recognised by
                times.append(asyncio.run(passed(loader, [data + bytes([number]) for number in range(count)])))
                decoders.close()
        (one, one_busy), (several, several_busy) = min(taken[1]), min(taken[threads])
        least = {"one_min": one, "one_busy": one_busy, "all_min": several, "all_busy": several_busy}
        about = {"size": f"{size[0]}x{size[1]}", "container": container, "threads": threads, "load": os.getloadavg()[0]}
        made.append({"family": name, **about, **least})
    return made


def torchvision_processor(name: str) -> Any:
    """The family's processor on the torchvision backend, on one thread."""
    import torch
    from compare_torchvision import reference_of

    torch.set_num_threads(1)
    return reference_of(FAMILIES[name])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--family", nargs="*", default=list(FAMILIES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--torchvision", action="store_true", help="beside that instead, in an environment that has it")
    parser.add_argument("--resident", metavar="FAMILY", help="one figure, of the picture on standard input")
    parser.add_argument("--report", action="store_true", help="write docs/multimodal/performance.md")
    parser.add_argument(
        "--again", action="store_true", help="add the rounds to those of the rows that --json has already"
    )
    parser.add_argument("--measured", type=Path, help="what --json kept of an earlier run, for --report")
    parser.add_argument(
        "--torchvision-times", type=Path, help="what --json kept of a run with --torchvision, for --report"
    )
    options = parser.parse_args()
    if options.resident:
        print(resident_here(options.resident))
        return
    measured = json.loads(options.measured.read_text()) if options.measured else measure(options)
    if options.json and options.again:
        measured = added(json.loads(options.json.read_text()), measured)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1))
    if options.report:
        times = options.torchvision_times
        report.rewrite(PAGE, measured, json.loads(times.read_text()) if times else None)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All rows, printed as they are made."""
    about = {**report.machine(), "rounds": options.rounds, "python": platform.python_version()}
    head = ("ours", "PIL", "ratio", "decode", "Pillow", "peak", "resident", "seen us")
    print(f"{'family':16} {'image':15} " + " ".join(f"{each:>8}" for each in head))
    rows = []
    for name in options.family:
        tv = torchvision_processor(name) if options.torchvision else None
        if options.torchvision and tv is None:
            continue
        for size in SIZES:
            for container in ("JPEG", "PNG"):
                rows.append(row(name, size, container, options.rounds, tv))
                print(line(rows[-1]), flush=True)
    return {"machine": about, "rows": rows, "together": [] if options.torchvision else together(options.rounds)}


def added(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What was measured before, with the rounds of the rows that were measured again: the least of both."""
    again = {tuple(each[key] for key in ("family", "size", "container")): each for each in now["rows"]}
    rows = []
    for each in before["rows"]:
        other = again.get(tuple(each[key] for key in ("family", "size", "container")), {})
        least = {key: min(each[key], other[key]) for key in each if key.endswith("_min") and key in other}
        rows.append({**each, **least, "rounds": each["rounds"] + other.get("rounds", 0)})
    return {**before, "rows": rows, "together": now["together"] or before["together"]}


def line(made: dict[str, Any]) -> str:
    """A row as it is printed."""
    grown = "" if made["resident"] is None else f"{made['resident']:.2f}"
    theirs = f"{made['pil_min']:8.1f} {made['ours_min'] / made['pil_min']:8.2f}" if "pil_min" in made else " " * 17
    beside = f" torchvision {made['tv_min']:.1f} {made['ours_min'] / made['tv_min']:.2f}" if "tv_min" in made else ""
    return (
        f"{made['family']:16} {made['size']:>9} {made['container']:5} {made['ours_min']:8.1f} {theirs} {made['decode_min']:8.1f} "
        f"{made['pillow_min']:8.1f} {made['peak']:8.2f} {grown:>8} {made['seen_min'] * 1e3:8.0f}{beside}"
    )


if __name__ == "__main__":
    main()
