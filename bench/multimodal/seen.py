"""What a picture costs that was seen before, beside one that was not: in this process, and in another of the same gateway.

    python bench/multimodal/seen.py [--family qwen2-vl ...] [--rounds 5] [--report]

A miss is sha256 of the bytes, decoding, processing and putting into the form in which vLLM takes floats (bfloat16). A hit is
recognising the bytes, which lie elsewhere in memory than those that were kept, and finding the item; `other process` is the same
where another process made it: sha256 of the bytes, and mapping its tensors. `packed` is making the message's tensors of one that
was found. Milliseconds of processor time of one of several calls in a row, the least of the rounds, interleaved. `--report`
writes the table into docs/multimodal/performance.md.
"""

import argparse
import secrets
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import PAGE, SIZES, photograph, timed
from reference_families import FAMILIES
from vocabulary import TestVocabulary

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.preparing.content import DigestMemory, FeatureCache, digest_of
from smg_multimodal.preparing.packaging import for_vllm
from smg_multimodal.preparing.prepare import Media, Prepared, Preparer
from smg_multimodal.preparing.shared_items import SharedItems

BEGIN, END = "<!-- begin: written by bench/multimodal/seen.py -->", "<!-- end of seen before -->"
USUAL = ("qwen2-vl", "qwen3-vl", "llava-1.5", "gemma-3", "internvl-3", "mistral-3", "kimi-k2.5")
GIB = 1 << 30
CALLS = 10
LARGE = 100_000
"""Pixels from which one call is long enough to be measured."""


def fresh(files: ModelFiles, shared: SharedItems) -> Preparer:
    """A preparer of a process that has seen nothing yet."""
    cache = FeatureCache(GIB, shared)
    return Preparer(files, TestVocabulary(), cache=cache, digests=DigestMemory()).sent_as("bfloat16")


def made(preparer: Preparer, media: Media) -> None:
    """Make an item as one that was never seen."""
    digest_of(media.data, None)
    preparer.features(media)


def found(preparer: Preparer, media: Media) -> None:
    """Find an item that there is."""
    if preparer.remembered(preparer.key(media)) is None:
        raise LookupError("the item is not kept")


def row(name: str, size: tuple[int, int], container: str, rounds: int, shared: SharedItems) -> dict[str, Any]:
    """The figures of one picture."""
    family, data = FAMILIES[name], photograph(size, container)
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    digests, cache = DigestMemory(), FeatureCache(GIB, shared)
    ours = Preparer(files, TestVocabulary(), cache=cache, digests=digests).sent_as("bfloat16")
    ours.remember(key := ours.key(Media(data)), ours.share(key, ours.features(Media(data))))
    prepared = ours.placed([ours.rules[0].anchor], [Media(data)], [ours.ready(Media(data))])
    calls = CALLS if size[0] * size[1] < LARGE else 1
    times = [round_of(ours, [fresh(files, shared) for _ in range(CALLS)], prepared, data, calls) for _ in range(rounds)]
    least = dict(zip(("miss", "hit", "other", "packed"), map(min, zip(*times, strict=True)), strict=True))
    return {"name": f"{name} {size[0]}x{size[1]} {container}", **least}


def round_of(
    ours: Preparer, strangers: Sequence[Preparer], prepared: Prepared, data: bytes, calls: int
) -> tuple[float, ...]:
    """The figures of one round; `calls` misses are made."""
    copy, others = Media(bytes(bytearray(data))), iter(strangers)
    return (
        timed(lambda: made(ours, copy), calls),
        timed(lambda: ours.remembered(ours.key(copy)), CALLS),
        timed(lambda: found(next(others), copy), CALLS),
        timed(lambda: for_vllm(prepared, "bfloat16"), CALLS),
    )


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown, and what they say together."""
    hits, others = ([each[key] / each["miss"] for each in rows] for key in ("hit", "other"))
    lines = [
        f"A hit costs {statistics.median(hits):.2%} of a miss in the median, {max(hits):.2%} at most (aim: 5 %). Where another",
        f"process made the item, the first hit costs {statistics.median(others):.2%}, {max(others):.2%} at most.",
        "",
        "| picture | miss, ms | hit, ms | of a miss | other process, ms | of a miss | packed, ms |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {each['name']} | {each['miss']:.1f} | {each['hit']:.3f} | {each['hit'] / each['miss']:.2%} "
        f"| {each['other']:.3f} | {each['other'] / each['miss']:.2%} | {each['packed']:.3f} |"
        for each in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the page where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", nargs="*", default=USUAL)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    shared = SharedItems(f"smg-bench-{secrets.token_hex(8)}", 4 * GIB, 2)
    try:
        rows = [
            row(name, size, container, options.rounds, shared)
            for name in options.family
            for size in SIZES
            for container in ("JPEG", "PNG")
        ]
    finally:
        shared.close()
    text = table(rows)
    print(text)
    if options.report:
        page = Path(PAGE)
        before, _, rest = page.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
