"""Encoded bytes to tensors, ours beside transformers' PIL processor, one thread each, interleaved.

    OMP_NUM_THREADS=1 python bench/multimodal/bench.py [--family qwen2.5-vl ...] [--rounds 7] [--json out.json]

For every family, three sizes and two containers: the least and the median of the rounds of both, their ratio, the cost of
decoding alone, which any pipeline that decodes with Pillow pays, the peak of what is allocated beside the decoded picture as a
multiple of the output, and what an image costs that was seen before. Times are processor time, which on one thread is the time
that passes on an idle machine; a busy one disturbs it less. `resident` is the same peak as the operating system sees it, in a
process of its own: the growth of the resident set from the decoded picture to its highest, over the output. The reference gets
the same bytes and opens them as transformers does. Families without a PIL processor are listed without one.
"""

import argparse
import ctypes
import gc
import io
import json
import os
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
sys.path[:0] = [str(ROOT / "tests" / "multimodal")]

from families import FAMILIES, opened, reference_processor  # noqa: E402

from smg_multimodal.decode import decode_image  # noqa: E402
from smg_multimodal.prepare import Media, Preparer  # noqa: E402
from smg_multimodal.registry import ModelFiles, family_of  # noqa: E402

SIZES = ((224, 224), (1280, 720), (3840, 2160))


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


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of processor time of one call."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    work()
    taken = (time.process_time() - start) * 1e3
    gc.enable()
    return taken


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
    """One line of the table; `tv` is the family's torchvision processor where that is measured too."""
    family = FAMILIES[name]
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    ours, data = processor_and_bytes(name, size, container)
    preparer = Preparer(files, Words())
    theirs = reference_processor(family) if family.reference else None
    works: dict[str, Callable[[], object]] = {
        "ours": lambda: ours.collate([ours.item(decode_image(data))]),
        "decode": lambda: decode_image(data),
        "seen": lambda: preparer.ready(Media(copies.pop())),
    }
    if tv is not None:
        works["tv"] = lambda: tv(images=[opened(data)], return_tensors="pt", **family.call)
    if theirs is not None:
        works["pil"] = lambda: theirs(images=[opened(data)], return_tensors="np", **family.call)
    copies = [bytes(bytearray(data)) for _ in range(rounds + 1)]  # equal bytes, as another request would bring them
    for work in works.values():
        work()
    taken: dict[str, list[float]] = {key: [] for key in works}
    for _ in range(rounds):
        for key, work in works.items():
            taken[key].append(timed(work))
    item = ours.item(decode_image(data))
    decoded = decode_image(data)
    made = {"family": name, "size": f"{size[0]}x{size[1]}", "container": container, "bytes": len(data)}
    for key, values in taken.items():
        made[f"{key}_min"], made[f"{key}_median"] = min(values), statistics.median(values)
    made["peak"] = peak(lambda: ours.item(decoded)) / item.nbytes
    made["resident"] = resident(name, data) if container == "JPEG" else None
    made["tokens"] = item.tokens
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
    parser.add_argument("--torchvision", action="store_true", help="in an environment that has it")
    parser.add_argument("--resident", metavar="FAMILY", help="one figure, of the picture on standard input")
    options = parser.parse_args()
    if options.resident:
        print(resident_here(options.resident))
        return
    head = ("ours", "PIL", "ratio", "decode", "peak", "resident", "seen us")
    print(f"{'family':16} {'image':15} " + " ".join(f"{each:>8}" for each in head))
    rows = []
    for name in options.family:
        tv = torchvision_processor(name) if options.torchvision else None
        for size in SIZES:
            for container in ("JPEG", "PNG"):
                made = row(name, size, container, options.rounds, tv)
                rows.append(made)
                grown = "" if made["resident"] is None else f"{made['resident']:.2f}"
                theirs = (
                    f"{made['pil_min']:8.1f} {made['ours_min'] / made['pil_min']:8.2f}"
                    if "pil_min" in made
                    else " " * 17
                )
                print(
                    f"{name:16} {made['size']:>9} {container:5} {made['ours_min']:8.1f} {theirs} {made['decode_min']:8.1f}"
                    f" {made['peak']:8.2f} {grown:>8} {made['seen_min'] * 1e3:8.0f}"
                    + (f" torchvision {made['tv_min']:.1f}" if "tv_min" in made else ""),
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
