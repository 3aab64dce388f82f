"""One word means one thing: a public class, function or type alias is defined in one module of all packages.

A name that two modules define needs a row in `REPEATED` with the reason why both mean the same. A new name that is taken already
gets a longer one: what it is of (`HeaderBlock`, `FetchTarget`). Methods are not looked at: a role's methods are many by design.
The public APIs are dialects of one vocabulary: modules in folders of different APIs below `smg_core.apis` may use the
same name, also that of the record in `smg_core.request` that they decode to. The folders of `smg_core.engines` are dialects of
one contract: modules of the same name in different folders write the same calls. `main` is the start of a program, in `cli` and
in a `__main__`.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.source import generated, parsed

pytestmark = pytest.mark.rules

SRC = Path(__file__).parent.parent / "src"

REPEATED: dict[str, tuple[str, frozenset[str]]] = {
    "Text": (
        "text that a model wrote: a part of a message for the core, a piece of an output for the parsers, which are used alone",
        frozenset({"smg_core.request", "smg_parsers.pieces.base"}),
    ),
    "Reasoning": ("as Text", frozenset({"smg_core.request", "smg_parsers.pieces.base"})),
    "Vocabulary": (
        "what turns text into ids and back: the role of a program's own, and the one of the simulator, which is a package apart",
        frozenset({"smg_core.tokenizer.own", "smg_simulator.engine.vocabulary"}),
    ),
}
"""The names that more than one module defines: why, and which modules."""

EMPTY_WORDS = {
    "told": "what was received or is answered has its own name: `answer`, `payload`, `fields`, `sentence`, `usage`, `reported`",
    "said": "text has the name of what it is or whose it is: `summary`, `utterance`, `outside_text`, `reason`, `stated`",
    "beside": "what is next to something says what it is: `guards`, `neighbour`, `further_models`, `overhead`, `other_media`",
    "door": "what is asked at has the field's word: `endpoint`, `listener`, `server`, `client`, `exports`, `checkpoint`",
    "doors": "as door",
    "apart": "`isolated` is in a process of its own, `offload` off the loop, `unattended` without a client; else `separate`",
    "shown": "`visible`, `listed`, `rendered`, `printed`, `reported`, `quoted`, or what it is: `examples`, `duration`",
}
"""Words that no name of the code has, since they say of everything the same: what to write instead."""


def public_names(tree: ast.Module) -> Iterator[str]:
    """The public classes, functions and type aliases at the top of a module."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if not ast.unparse(node.annotation).endswith("TypeAlias"):
                continue
            name = node.target.id
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if not is_alias(name, node.value):
                continue
        else:
            continue
        if not name.startswith("_"):
            yield name


def is_alias(name: str, value: ast.expr) -> bool:
    """Whether an assignment gives a type a name: written as class names are, and no call (as that of a TypeVar is)."""
    return (
        name[:1].isupper()
        and not name.isupper()
        and isinstance(value, ast.Subscript | ast.BinOp | ast.Name | ast.Attribute)
    )


def defined_in(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules that define each public name."""
    found: dict[str, set[str]] = {}
    for module, source in sources.items():
        for name in public_names(parsed(source)):
            found.setdefault(name, set()).add(module)
    return found


def api_of(module: str) -> str | None:
    """The API in whose folder a module lies; `request`, `events` and `wire` are the vocabulary of all."""
    if module in ("smg_core.request", "smg_core.events") or module.startswith("smg_core.wire."):
        return "vocabulary"
    return module.split(".")[2] if module.startswith("smg_core.apis.") else None


def role_of(module: str) -> str | None:
    """What a module is in each dialect's folder ("calls"), or "program" where a program starts."""
    room, _, name = module.rpartition(".")
    if room.startswith("smg_core.engines."):
        return name
    return "program" if name in ("cli", "__main__") else None


def one_meaning(modules: set[str]) -> bool:
    """Whether a name stands in one module, in modules of different APIs and the vocabulary, or in modules of one role."""
    apis, roles = [api_of(module) for module in modules], {role_of(module) for module in modules}
    different = None not in apis and len(set(apis)) == len(apis)
    return len(modules) == 1 or different or (len(roles) == 1 and None not in roles)


def names_written(tree: ast.Module) -> Iterator[str]:
    """Every name that a module gives to something: of classes, functions, arguments, variables, fields and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def words_of(name: str) -> set[str]:
    """The words of a name, in small letters: `_SoundTold` is of "sound" and "told"."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def repeated(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """The names that more than one module defines, but for those of the APIs."""
    return {name: modules for name, modules in defined_in(sources).items() if not one_meaning(modules)}


@pytest.fixture(scope="module")
def packages() -> dict[str, str]:
    files = [path for path in SRC.rglob("*.py") if not generated(path)]  # generated code keeps the contract's names
    return {".".join(path.relative_to(SRC).with_suffix("").parts): path.read_text() for path in files}


def test_a_public_name_is_defined_in_one_module(packages: dict[str, str]) -> None:
    surplus = {
        name: sorted(modules)
        for name, modules in repeated(packages).items()
        if modules != REPEATED.get(name, ("", set()))[1]
    }

    assert surplus == {}, "rename the one with the weaker claim, or give the repetition a row with its reason"


def test_every_row_is_a_repetition_that_there_is(packages: dict[str, str]) -> None:
    assert sorted(REPEATED.keys() - repeated(packages).keys()) == []


def test_no_name_has_a_word_that_says_of_everything_the_same(packages: dict[str, str]) -> None:
    found = {
        f"{module}: {name}": EMPTY_WORDS[word]
        for module, source in packages.items()
        for name in set(names_written(parsed(source)))
        for word in words_of(name) & EMPTY_WORDS.keys()
    }

    assert found == {}


def test_the_words_of_every_kind_of_name_are_seen() -> None:
    source = (
        "class SoundTold:\n    told_by: int\n\n    def _told(self, said_at):\n"
        "        self.said = said_now = [x for x in said_at]\n"
        "unsaid = retold = 1\n"
    )

    names = set(names_written(ast.parse(source)))

    assert {name for name in names if words_of(name) & EMPTY_WORDS.keys()} == {
        "SoundTold",
        "told_by",
        "_told",
        "said_at",
        "said",
        "said_now",
    }


def test_the_walk_sees_classes_functions_and_aliases_and_nothing_private() -> None:
    source = (
        "from typing import TypeAlias, TypeVar\n"
        "class Apple: ...\nclass _Core: ...\ndef peel(): ...\nasync def eat(): ...\n"
        "Pip: TypeAlias = int\nBasket = dict[str, Apple]\nFruit = Apple | Pip\nPome = Apple\n"
        "Kind = TypeVar('Kind')\nLIMIT = Apple\nlog = object()\ncount: int = 1\n"
    )

    assert list(public_names(ast.parse(source))) == ["Apple", "peel", "eat", "Pip", "Basket", "Fruit", "Pome"]
    assert repeated({"one": "class Apple: ...", "two": "Apple = int | str", "three": "def eat(): ..."}) == {
        "Apple": {"one", "two"}
    }


def test_apis_share_names_with_one_another_and_with_the_vocabulary_and_with_nobody_else() -> None:
    chat, responses = "smg_core.apis.chat.types", "smg_core.apis.responses.wire.types"

    assert one_meaning({chat, responses, "smg_core.request"})
    assert not one_meaning({chat, "smg_core.apis.chat.tools"})
    assert not one_meaning({chat, "smg_core.engines.base"})


def test_dialects_write_the_same_calls_and_every_program_has_a_start() -> None:
    calls, other = "smg_core.engines.codecs.vllm.calls", "smg_core.engines.codecs.mlx.calls"

    assert one_meaning({calls, other})
    assert not one_meaning({calls, "smg_core.engines.codecs.mlx.codec"})
    assert not one_meaning({calls, "smg_core.pipeline.calls"})
    assert one_meaning({"smg_core.cli", "smg_parsers.__main__"})
    assert not one_meaning({"smg_core.cli", "smg_simulator.commands.demo"})


_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"")
_NAME = re.compile(r"(?<![\w./\-'<@|=])[a-z]+(?:_[a-z]+)+(?![\w./(=:'])")


def names_in_sentences(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """The names of our functions that stand as words in sentences of errors and logs: what a renaming leaves behind that does not
    tell code from text."""
    functions = {
        each.name
        for tree in trees.values()
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for module, tree in trees.items():
        nodes = [*ast.walk(tree)]
        docstrings = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
        for each in nodes:
            if not isinstance(each, ast.Constant) or not isinstance(each.value, str) or id(each) in docstrings:
                continue
            text = each.value
            if " " in text and text[:1].isupper():
                yield from (f"{module}: {name}" for name in _NAME.findall(_QUOTED.sub("", text)) if name in functions)


def test_no_sentence_has_the_name_of_a_function_as_a_word() -> None:
    trees = {str(path.relative_to(SRC)): parsed(path) for path in SRC.rglob("*.py") if not generated(path)}

    assert [*names_in_sentences(trees)] == []


def test_the_name_of_a_function_in_a_sentence_is_found_and_a_quoted_one_is_not() -> None:
    source = (
        'def not_for(path):\n    """What is not_for it."""\n    raise Error("The provider\'s filter not_for the request")\n'
        "def again(): raise Error('The field `not_for` is `None`; see not_for(x) and its \"not_for\".')\n"
    )

    assert [*names_in_sentences({"a.py": ast.parse(source)})] == ["a.py: not_for"]
