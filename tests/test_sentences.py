"""The first sentence of a public docstring says in at most 100 characters what the thing is for, and says it at once.

Public are all modules, what packages export from their `__init__`, and the public methods of exported classes. A sentence ends at
the first full stop, colon or semicolon that has white space behind it. It begins with a noun or a verb of the field, and not with
a relative clause ("What the process that ... is", "Which of those that ..."), which has a reader wait for what is meant.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source import generated, parsed

pytestmark = pytest.mark.rules

SRC = Path(__file__).parent.parent / "src"
LONGEST = 100
_END = re.compile(r"[.!?:;](?=\s|$)")
_RELATIVE = re.compile(r"(What|Whatever|Who|Whoever|Whose|Which|Where|When|How|Why|That)\b")

Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | Named


def first_sentence(text: str) -> str:
    """The text up to the first end of a sentence, or the whole first paragraph without one."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    end = _END.search(paragraph)
    return paragraph[: end.end()] if end else paragraph


def faults(sentence: str) -> list[str]:
    """Why a sentence cannot begin a docstring."""
    found = [f"has {len(sentence)} characters"] if len(sentence) > LONGEST else []
    return found + (["begins with a relative clause"] if _RELATIVE.match(sentence) else [])


def exported(root: Path) -> dict[Path, set[str]]:
    """The names that the packages below `root` export, by the file that defines them."""
    found: dict[Path, set[str]] = {}
    for package in root.rglob("__init__.py"):
        imports = () if generated(package) else ast.walk(parsed(package))
        for node in imports:
            if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                place = root.joinpath(*node.module.split("."))
                file = place.with_suffix(".py") if place.with_suffix(".py").exists() else place / "__init__.py"
                found.setdefault(file, set()).update(each.asname or each.name for each in node.names)
    return found


def documented(root: Path) -> Iterator[tuple[str, Documented]]:
    """Every public thing that has a docstring: modules, exports, and their public methods."""
    names = exported(root)
    for file in sorted(root.rglob("*.py")):
        if generated(file):
            continue
        module, tree = str(file.relative_to(root)), parsed(file)
        yield module, tree
        for node in tree.body:
            if isinstance(node, Named) and not node.name.startswith("_") and node.name in names.get(file, ()):
                yield f"{module}:{node.name}", node
                for each in node.body:
                    if isinstance(each, Named) and not each.name.startswith("_"):
                        yield f"{module}:{node.name}.{each.name}", each


def complaints(root: Path) -> dict[str, str]:
    """The first sentences that are too long or begin with a relative clause, by the name of what they describe."""
    found = {}
    for name, node in documented(root):
        sentence = first_sentence(ast.get_docstring(node) or "")
        if why := faults(sentence):
            found[name] = f"{' and '.join(why)}: {sentence}"
    return found


def test_every_public_docstring_begins_with_a_short_sentence_that_comes_to_the_point() -> None:
    assert complaints(SRC) == {}


def test_modules_exports_and_their_public_methods_are_seen(tmp_path: Path) -> None:
    package = tmp_path / "house"
    package.mkdir()
    long = "x" * LONGEST
    (package / "__init__.py").write_text('"""A house: what is in it."""\nfrom house.room import Room, open_room\n')
    (package / "room.py").write_text(
        '"""Which rooms there are."""\n'
        f'class Room:\n    """Some {long}."""\n    def enter(self):\n        """What is entered; {long}"""\n'
        f'    def _leave(self):\n        """{long} and more."""\n'
        f'def open_room():\n    """Opens a room. {long}"""\n'
        f'class Cellar:\n    """What is below."""\n'
    )

    assert complaints(tmp_path) == {
        "house/room.py": "begins with a relative clause: Which rooms there are.",
        "house/room.py:Room": f"has 106 characters: Some {long}.",
        "house/room.py:Room.enter": "begins with a relative clause: What is entered;",
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Opens it. Then more.", "Opens it."),
        ("Opens a.b and\n    c: later", "Opens a.b and c:"),
        ("Two lines\n\nand a paragraph", "Two lines"),
    ],
)
def test_a_sentence_ends_at_the_first_stop_with_space_behind_it(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence
