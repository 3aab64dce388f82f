"""How good searches are: of the questions of the set, how many have their passage among the first five results."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
from tests.core.retrieval.kinds import in_files, in_postgres

from smg_core.retrieval.chunking import AUTO_CHUNKING, Chunker, TextChunk
from smg_core.retrieval.fusion import DEPTH, fused
from smg_core.retrieval.indexes import Indexes, IndexName, Query, vectors_as_bytes
from smg_core.retrieval.nearest import unpack_vectors

__all__ = ["KINDS", "recalls_of_both", "table"]

FOLDER = Path(__file__).parent / "quality"
FIRST = 5
KINDS = ("words", "vectors", "both")
DIMENSIONS = 128


async def recalls(indexes: Indexes, of: IndexName) -> dict[str, float]:
    """Recall at five, in percent, by words, by vectors and by both, of an index that is made as `of`."""
    passages: dict[str, str] = json.loads((FOLDER / "passages.json").read_text(encoding="utf-8"))
    questions: dict[str, list[str]] = json.loads((FOLDER / "questions.json").read_text(encoding="utf-8"))
    vectors = unpack_vectors((FOLDER / "vectors.bin").read_bytes(), DIMENSIONS).astype(float)
    chunks: list[TextChunk] = []
    owners: list[int] = []
    for place, text in enumerate(passages.values()):
        chunker = Chunker(AUTO_CHUNKING)
        for chunk in (*chunker.feed(text), *chunker.end()):
            chunks.append(attrs.evolve(chunk, start=len(chunks)))
            owners.append(place)
    number = await indexes.begin(of, "all", "all")
    await indexes.add(of, number, chunks, vectors_as_bytes([vectors[each] for each in owners]), len(chunks))
    await indexes.finish(of, number, "all", {})
    names = list(passages)
    asked = [(question, name) for name, some in questions.items() for question in some]
    queries = [Query(text, vectors[len(passages) + place]) for place, (text, _) in enumerate(asked)]
    found = await indexes.search(of, queries, None, DEPTH)
    good = dict.fromkeys(KINDS, 0)
    for (_, name), ranked in zip(asked, found, strict=True):
        words, near = [id for id, _ in ranked.words], [id for id, _ in ranked.vectors]
        both = [id for id, _ in fused([(1.0, words), (1.0, near)])]
        for kind, ids in zip(KINDS, (words, near, both), strict=True):
            hits = await indexes.hits(of, ids[:50])
            first = [names[owners[hits[id].chunk.start]] for id in ids[:50]]
            good[kind] += name in list(dict.fromkeys(first))[:FIRST]
    return {kind: 100 * count / len(asked) for kind, count in good.items()}


async def recalls_of_both(folder: Path, postgresql: str) -> dict[str, dict[str, float]]:
    """The same of both kinds of indexes: in files in this folder, and in the PostgreSQL of this URL."""
    found: dict[str, dict[str, float]] = {}
    with ThreadPoolExecutor(2) as pool:
        for name, indexes in (
            ("SQLite", in_files(folder, pool)),
            ("PostgreSQL", in_postgres(postgresql, pool, "quality_")),
        ):
            try:
                found[name] = await recalls(indexes, IndexName("quality", f"vs_{folder.name}"))
            finally:
                await indexes.close()
    return found


def table(found: dict[str, dict[str, float]]) -> str:
    """The table of the page."""
    rows = [f"| {kind} | {' | '.join(f'{each[kind]:.1f} %' for each in found.values())} |" for kind in KINDS]
    return "\n".join([f"| recall at 5 by | {' | '.join(found)} |", f"|---|{'---|' * len(found)}", *rows])
