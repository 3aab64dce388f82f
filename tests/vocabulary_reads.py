"""Which fields of the vocabulary's records are read outside of it, found in the source.

A read is an attribute access or a class pattern. Whose field it is is known where the object is a parameter with a record's
type, or a field of one. Elsewhere the name decides, in modules that can have such a record at all: those that import it, or
a class with a field that leads to it. What is an object of another class, by its parameter's type, or `self`, does not count.
So a field with a frequent name may pass for read although it is not; one that is read never passes for unread. Decoders
(`MAKERS`) do not count: they make the records, and what they read is the wire; nor does who holds one to its bounds. Nor does
the engine that speaks chat
(`WRITERS`): it writes a request out again, or refuses what its wire has no word for.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import attrs
from tests.source import parsed

__all__ = ["HOMES", "RECORDS", "Sources"]

SRC = Path(__file__).parent.parent / "src"
HOMES = {SRC / "smg_core" / f"{home}.py" for home in ("request", "events", "errors")}
_MAKERS = ("chat", "chat_messages", "chat_tools", "completions", "responses", "responses_items", "responses_tools")
_MAKERS += ("messages", "messages_content", "messages_tools")
_MAKERS += ("gemini", "gemini_contents", "gemini_tools", "tokenize", "request_bounds")
MAKERS = {SRC / "smg_core" / "protocols" / f"{name}.py" for name in _MAKERS}
WRITERS = set((SRC / "smg_core" / "engines" / "openai").glob("*.py"))
Classes = set[str] | None
"""The classes that an object may be of; None where that is not known."""


@attrs.define
class Record:
    """A class of the vocabulary: its own fields with their annotations, its bases, and what its own methods read."""

    fields: dict[str, ast.expr | None]
    bases: list[str]
    reads: set[str]


def _records(home: Path) -> Iterator[tuple[str, Record]]:
    for node in parsed(home).body:
        if isinstance(node, ast.ClassDef):
            fields: dict[str, ast.expr | None] = dict(_declared(node))
            own = [
                each for each in ast.walk(node) if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self"
            ]
            # Errors are plain classes: their fields are what is set on `self`.
            fields |= {each.attr: None for each in own if isinstance(each.ctx, ast.Store) and each.attr not in fields}
            read = {each.attr for each in own if isinstance(each.ctx, ast.Load)}
            yield node.name, Record(fields, [ast.unparse(base) for base in node.bases], read)


def _declared(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id, each.annotation


def _unquoted(annotation: ast.expr) -> ast.expr:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str) and annotation.value.isidentifier():
        return ast.Name(annotation.value)
    return annotation


def _names(node: ast.expr) -> set[str]:
    """All names in an annotation, those in quotes too."""
    nodes = [_unquoted(each) for each in ast.walk(node) if isinstance(each, ast.expr)]
    return {each.id for each in nodes if isinstance(each, ast.Name)}


RECORDS: dict[str, Record] = dict(pair for home in sorted(HOMES) for pair in _records(home))
SEVERAL = {"Any", "ContextEdit", "Event", "Part", "PoolInput", "ResponseFormat", "SmgError", "Tool"}
"""Annotations that stand for any of several records."""


def owner_of(record: str, field: str) -> str | None:
    """The record that declares the field: this one or one of its bases."""
    if record not in RECORDS:
        return None
    if field in RECORDS[record].fields:
        return record
    return next((found for base in RECORDS[record].bases if (found := owner_of(base, field))), None)


@attrs.define
class Sources:
    """All modules of `src` but the vocabulary, and which classes the fields of each class lead to."""

    trees: list[ast.Module] = attrs.field(factory=list)
    leads_to: dict[str, set[str]] = attrs.field(factory=dict)

    @classmethod
    def read(cls, src: Path = SRC) -> "Sources":
        found = cls()
        for path in sorted(src.rglob("*.py")):
            if "_pb" not in path.parts:
                tree = parsed(path)
                found._note_classes(tree)
                if path not in HOMES | MAKERS | WRITERS:
                    found.trees.append(tree)
        return found

    def _note_classes(self, tree: ast.Module) -> None:
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                named = {name for _, annotation in _declared(node) for name in _names(annotation)}
                self.leads_to.setdefault(node.name, set()).update(named, map(ast.unparse, node.bases))
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):  # Part = Text | Image | ...
                self.leads_to.setdefault(ast.unparse(node.targets[0]), set()).update(_names(node.value))

    def within_reach(self, tree: ast.Module) -> set[str]:
        """The records that a module may have: those it imports, and those that the fields of its classes lead to."""
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        waiting = [alias.name for node in imports for alias in node.names]
        waiting += [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        found: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.leads_to.get(name, ())
        return found & set(RECORDS)

    def fields_read(self) -> set[tuple[str, str]]:
        """All (record, field) that something reads."""
        found = {pair for tree in self.trees for pair in _reads(tree, {}, self.within_reach(tree))}
        return found | {
            (name, field) for name, record in RECORDS.items() for field in record.reads & set(record.fields)
        }


def _reads(node: ast.AST, types: dict[str, Classes], within_reach: set[str]) -> Iterator[tuple[str, str]]:
    """The fields that `node` reads; `types` are the classes of the names it can see."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        types = types | dict(_parameters(node.args))
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        classes = _classes_of(node.value, types)
        for each in within_reach if classes is None else classes:
            if owner := owner_of(each, node.attr):
                yield owner, node.attr
    if isinstance(node, ast.MatchClass) and (record := RECORDS.get(ast.unparse(node.cls))):
        names = [*record.fields][: len(node.patterns)] + node.kwd_attrs
        yield from ((ast.unparse(node.cls), name) for name in names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _reads(node.func.value, types, within_reach)  # what is called is a method, and no field
        for argument in [*node.args, *node.keywords]:
            yield from _reads(argument, types, within_reach)
        return
    for child in ast.iter_child_nodes(node):
        yield from _reads(child, types, within_reach)


def _parameters(arguments: ast.arguments) -> Iterator[tuple[str, Classes]]:
    for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        yield each.arg, {each.arg} if each.arg in ("self", "cls") else _classes_in(each.annotation)


def _classes_in(annotation: ast.expr | None) -> Classes:
    if annotation is None:
        return None
    annotation = _unquoted(annotation)
    if isinstance(annotation, ast.BinOp):
        left, right = _classes_in(annotation.left), _classes_in(annotation.right)
        return None if left is None or right is None else left | right
    if isinstance(annotation, ast.Constant):
        return set()  # None
    if isinstance(annotation, ast.Attribute):
        return {annotation.attr}
    return {annotation.id} if isinstance(annotation, ast.Name) and annotation.id not in SEVERAL else None


def _classes_of(node: ast.expr, types: dict[str, Classes]) -> Classes:
    if isinstance(node, ast.Name):
        return types.get(node.id)
    owners = _classes_of(node.value, types) if isinstance(node, ast.Attribute) else None
    if not isinstance(node, ast.Attribute) or not owners or not owners <= set(RECORDS):
        return None
    found: set[str] = set()
    for owner in owners:
        declaring = owner_of(owner, node.attr)
        classes = _classes_in(RECORDS[declaring].fields[node.attr]) if declaring else None
        if classes is None:
            return None
        found |= classes
    return found
