"""Changes the code of one room in small ways, and lists the changes that the room's own tests do not notice.

    python tools/mutate.py routing                        a sample of 40 changes
    python tools/mutate.py parsers --sample 100 --seed 2  another, larger one

A change is of one place: a comparison or an operator swapped, a number changed, a branch negated, a returned value or a call left
out, the best of several replaced by any. The sample is drawn by a seed, evenly from the kinds of changes, so that a later run of
the same code asks the same. Each change is made in a copy of the sources, and the tests of `make test` for the room run with it,
those of the changed module first. A change that no test notices is a test that is missing, or code that makes no difference.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src"
RESULTS = ROOT / "build" / "mutate"
GIVE_UP = 4
"""How many times as long as the unchanged code's tests those of a change may take: a loop without an end is noticed by that."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True)
class Change:
    """One change: the bytes from `start` to `end` of `file` become `after`."""

    file: Path
    line: int
    kind: str
    start: int
    end: int
    before: str
    after: str

    def told(self) -> str:
        place = f"{self.file.relative_to(ROOT)}:{self.line}"
        return f"{place}: {self.kind}: {_short(self.before)}  ->  {_short(self.after)}"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 90 else words[:87] + "..."


# ------------------------------------------------------------------------------------------------------- what is changed


def changes(file: Path) -> Iterator[Change]:
    """Every change of one file, in the order of its lines."""
    source = file.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in _code(ast.parse(source)):
        for place, kind, after in _variants(node):
            start = starts[place.lineno - 1] + place.col_offset
            end = starts[(place.end_lineno or place.lineno) - 1] + (place.end_col_offset or 0)
            yield Change(file, place.lineno, kind, start, end, source[start:end].decode(), after)


def _code(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The nodes that run: no annotations, decorators, texts that are put together, nor the list of exported names."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_left_alone(child):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            yield from _code(child)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr():
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Call(
            func=ast.Name(id="TypeVar" | "option" | "cast")
        ):  # the bounds of settings are a page that is generated
            return True
    return False


def _variants(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """The changes of one node: what is replaced, the kind, and what stands there then."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield test, "branch negated", f"(not ({ast.unparse(test)}))"
        case ast.Compare(ops=[operator]):
            swapped = ast.Compare(node.left, [COMPARISONS[type(operator)]()], node.comparators)
            yield node, "comparison swapped", f"({ast.unparse(swapped)})"
        case ast.BoolOp():
            other: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, "and, or swapped", f"({ast.unparse(ast.BoolOp(other, node.values))})"
        case ast.BinOp() if type(node.op) in OPERATORS and not _is_text(node.left) and not _is_text(node.right):
            other_way = ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
            yield node, "operator swapped", f"({ast.unparse(other_way)})"
        case ast.AugAssign() if type(node.op) in OPERATORS:
            other_step = ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value)
            yield node, "operator swapped", ast.unparse(other_step)
        case ast.Constant(value=bool() as flag):
            yield node, "constant changed", repr(not flag)
        case ast.Constant(value=int() | float() as number):
            yield node, "constant changed", repr(number + 1)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield node, "returned value left out", "return None"
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield node, "call left out", "pass"
        case ast.Call(func=ast.Name(id="max" | "min"), args=[several]) if not isinstance(several, ast.Starred):
            yield node, "any in place of the best", f"__import__('random').choice(list({ast.unparse(several)}))"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def sampled(found: list[Change], count: int, seed: int) -> list[Change]:
    """So many changes, of each kind as many as of the others as far as there are."""
    rng = random.Random(seed)
    kinds: dict[str, list[Change]] = {}
    for each in found:
        kinds.setdefault(each.kind, []).append(each)
    for several in kinds.values():
        rng.shuffle(several)
    taken: list[Change] = []
    while len(taken) < count and any(kinds.values()):
        taken += [several.pop() for several in kinds.values() if several]
    return sorted(taken[:count], key=lambda each: (each.file, each.start, each.after))


# ------------------------------------------------------------------------------------------------------- what is asked


@dataclass(frozen=True)
class Room:
    """A room's sources and its tests."""

    name: str
    sources: Path
    tests: Path

    @classmethod
    def named(cls, name: str) -> "Room":
        """`routing` is a room of the core, `parsers` the package of that name; `engines/vllm` a part of a room."""
        for sources, tests in ((SOURCES / "smg_core", ROOT / "tests" / "core"), (SOURCES, ROOT / "tests")):
            folder = sources / (f"smg_{name}" if sources == SOURCES else name)
            if folder.is_dir() and (tests / name).is_dir():
                return cls(name, folder, tests / name)
        sys.exit(f"there is no room {name!r} with tests of its own")

    def files(self) -> list[Path]:
        """Its modules; settings are declarations, and generated code is none of ours."""
        several = sorted(self.sources.rglob("*.py"))
        return [
            each
            for each in several
            if each.name not in ("__init__.py", "settings.py") and not each.stem.endswith("_pb2")
        ]

    def tests_of(self, file: Path) -> list[str]:
        """What to run for a change of `file`: the tests of its module first."""
        mirrored = self.tests / file.relative_to(self.sources).with_name(f"test_{file.name}")
        return [*([str(mirrored)] if mirrored.exists() else []), str(self.tests)]


def run(sources: Path, tests: list[str], limit: float | None) -> tuple[bool, str]:
    """Whether the tests pass with these sources, and the last lines of what pytest said."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(sources),
        "PYTHONDONTWRITEBYTECODE": "",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(sources.parent / "hypothesis"),
    }
    words = [
        "-m",
        "pytest",
        "-x",
        "-q",
        "--no-header",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "--tier",
        "test",
        "--hypothesis-seed=1",
    ]
    try:
        done = subprocess.run(  # noqa: S603  (pytest, of this environment)
            [sys.executable, *words, *tests],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, "the tests did not end"
    return done.returncode == 0, "\n".join(done.stdout.splitlines()[-5:])


class Copy:
    """A copy of the sources, in which one change at a time is made."""

    def __init__(self, folder: Path) -> None:
        self.sources = folder / "src"
        shutil.copytree(SOURCES, self.sources, ignore=shutil.ignore_patterns("__pycache__"))

    def notices(self, room: Room, change: Change, limit: float) -> bool:
        """Whether a test fails with this change."""
        file = self.sources / change.file.relative_to(SOURCES)
        whole = file.read_bytes()
        file.write_bytes(whole[: change.start] + change.after.encode() + whole[change.end :])
        self._forget(file)
        try:
            return not run(self.sources, room.tests_of(change.file), limit)[0]
        finally:
            file.write_bytes(whole)
            self._forget(file)

    @staticmethod
    def _forget(file: Path) -> None:
        """Drop what was compiled: a change within a second, of the same length, looks like the file that it replaces."""
        for each in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
            each.unlink()


def survivors(room: Room, chosen: list[Change], jobs: int) -> list[Change]:
    """The changes that no test notices."""
    with tempfile.TemporaryDirectory(prefix="smg-mutate-") as folder:
        free: SimpleQueue[Copy] = SimpleQueue()
        for number in range(jobs):
            free.put(Copy(Path(folder) / str(number)))
        one = free.get()
        started = time.monotonic()
        passes, said = run(one.sources, [str(room.tests)], None)
        if not passes:
            sys.exit(f"the tests of {room.name} fail without any change:\n{said}")
        limit = GIVE_UP * (time.monotonic() - started) * jobs
        free.put(one)

        def ask(change: Change) -> bool:
            copy = free.get()
            try:
                noticed = copy.notices(room, change, limit)
            finally:
                free.put(copy)
            print("." if noticed else f"\nnot noticed: {change.told()}", end="" if noticed else "\n", flush=True)
            return noticed

        with ThreadPoolExecutor(jobs) as pool:
            noticed = list(pool.map(ask, chosen))
    return [change for change, seen in zip(chosen, noticed, strict=True) if not seen]


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Change a room's code in small ways, and see which its tests do not notice."
    )
    parser.add_argument("room", help="routing, parsers, pipeline, workers, auth, ...")
    parser.add_argument("--sample", type=int, default=40, help="changes to try, at most")
    parser.add_argument("--seed", type=int, default=1, help="another one draws another sample")
    parser.add_argument("--jobs", type=int, default=2, help="changes that are tried at a time")
    given = parser.parse_args()
    room = Room.named(given.room)
    found = [change for file in room.files() for change in changes(file)]
    chosen = sampled(found, given.sample, given.seed)
    print(f"{room.name}: {len(chosen)} of {len(found)} changes, seed {given.seed}", flush=True)
    left = survivors(room, chosen, given.jobs)
    date = datetime.now(UTC).date().isoformat()
    score = f"{room.name}: {len(chosen) - len(left)} of {len(chosen)} changes noticed, seed {given.seed}, {date}"
    print("", score, *(f"  {each.told()}" for each in left), sep="\n")
    RESULTS.mkdir(parents=True, exist_ok=True)
    lines = {"score": score, "not noticed": [each.told() for each in left]}
    (RESULTS / f"{room.name.replace('/', '-')}.json").write_text(json.dumps(lines, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
