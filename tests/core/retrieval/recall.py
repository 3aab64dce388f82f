"""How good searches are: of the questions of the set, how many have their passage among the first five results."""

import json
from pathlib import Path

from smg_core.retrieval.chunking import AUTO_CHUNKING, Chunker
from smg_core.retrieval.fusion import DEPTH, fused
from smg_core.retrieval.index_search import Query, SearchedIndex, vectors_as_bytes
from smg_core.retrieval.nearest import unpack_vectors

__all__ = ["FIRST", "KINDS", "recalls", "table"]

FOLDER = Path(__file__).parent / "quality"
FIRST = 5
KINDS = ("words", "vectors", "both")
DIMENSIONS = 128


def recalls(folder: Path) -> dict[str, float]:
    """Recall at five, in percent, by words, by vectors and by both, of an index that is made in `folder`."""
    passages: dict[str, str] = json.loads((FOLDER / "passages.json").read_text(encoding="utf-8"))
    questions: dict[str, list[str]] = json.loads((FOLDER / "questions.json").read_text(encoding="utf-8"))
    vectors = unpack_vectors((FOLDER / "vectors.bin").read_bytes(), DIMENSIONS).astype(float)
    index = SearchedIndex(folder / "quality.index", 1 << 26)
    try:
        chunks, owners = [], []
        for place, text in enumerate(passages.values()):
            chunker = Chunker(AUTO_CHUNKING)
            for chunk in (*chunker.feed(text), *chunker.end()):
                chunks.append(chunk)
                owners.append(place)
        number = index.begin("all", "all")
        index.add(number, chunks, vectors_as_bytes([vectors[each] for each in owners]), len(chunks))
        index.finish(number, "all", {})
        names = list(passages)
        asked = [(question, name) for name, some in questions.items() for question in some]
        found = index.search(
            [Query(text, vectors[len(passages) + place]) for place, (text, _) in enumerate(asked)], None, DEPTH
        )
        good = dict.fromkeys(KINDS, 0)
        for (_, name), ranked in zip(asked, found, strict=True):
            words, near = [id for id, _ in ranked.words], [id for id, _ in ranked.vectors]
            both = [id for id, _ in fused([(1.0, words), (1.0, near)])]
            for kind, ids in zip(KINDS, (words, near, both), strict=True):
                good[kind] += name in list(dict.fromkeys(names[owners[id - 1]] for id in ids))[:FIRST]
        return {kind: 100 * count / len(asked) for kind, count in good.items()}
    finally:
        index.close()


def table(found: dict[str, float]) -> str:
    """The table of the page."""
    rows = [f"| {kind} | {value:.1f} % |" for kind, value in found.items()]
    return "\n".join(["| by | recall at 5 |", "|---|---|", *rows])
