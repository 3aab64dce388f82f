"""Reads from a chat template's syntax tree how it changes the text that it is given.

A template that only joins texts leaves every character beside its neighbour. One that deletes, splits, trims or slices text
can bring together characters that stood apart: `content.replace("/think", "")` makes `<|im_end|>` of `<|im_/thinkend|>`.
`stand_ins` protects the text of such templates. Pure. Above: template_facts, stand_ins. Below: jinja2. It changes no text.
"""

from collections.abc import Iterator

import attrs
from jinja2 import nodes

__all__ = ["TextChanges", "read_changes"]

_JOINING = frozenset(
    (
        *("abs", "attr", "count", "d", "default", "dictsort", "float", "groupby", "int", "items", "join", "length"),
        *("max", "min", "reject", "rejectattr", "round", "safe", "select", "selectattr", "string", "sum", "tojson"),
        *("append", "endswith", "find", "fromkeys", "get", "index", "isalnum", "isalpha", "isdigit", "isnumeric"),
        *("isspace", "keys", "rfind", "rindex", "startswith", "values"),
    )
)
"""Filters and methods that leave every character of a text beside its neighbours."""
_CASING = frozenset(("capitalize", "casefold", "lower", "swapcase", "title", "upper"))
_DIVIDING = frozenset(("split", "rsplit", "partition", "rpartition"))
_STRIPPING = frozenset(("trim", "strip", "lstrip", "rstrip"))
_REMOVING = frozenset(("replace", "removeprefix", "removesuffix"))
_KNOWN = _JOINING | _CASING | _DIVIDING | _STRIPPING | _REMOVING
_OF_SEQUENCES = frozenset(("batch", "first", "last", "list", "reverse", "slice", "sort", "unique"))
"""Filters that take a text apart into characters, but leave the texts in a list as they are."""
_WHOLE = _OF_SEQUENCES - {"first", "last"}
_MAKING_SEQUENCES = frozenset(("dictsort", "groupby", "items", "map", "reject", "rejectattr", "select", "selectattr"))
_WHITE_SPACE = (" ", "\n", "\t", "\r")


@attrs.frozen
class TextChanges:
    """How one template changes text.

    `splits_text`: it may part a character of a text from the next one. `anywhere`: also at other places than at the strings
    that it names, by a slice or by an operation that is not known here. `literals` are the string constants of its
    expressions: what it may search a text for. `removed` are the strings that it takes out of a text, each with what it
    puts in the place; None says that anything may follow there.
    """

    splits_text: bool
    anywhere: bool
    literals: frozenset[str] = attrs.field(repr=False)
    removed: frozenset[tuple[str, str | None]]


def read_changes(tree: nodes.Template) -> TextChanges:
    """What a parsed template does to text. What is not known to leave it together counts as taking it apart."""
    literals = frozenset(text for node in tree.find_all(nodes.Const) if isinstance(text := node.value, str))
    sequences = _Sequences(tree)
    operations = list(_operations(tree, sequences))
    names = {name for name, _ in operations}
    anywhere = not names <= _KNOWN or any(
        isinstance(item.arg, nodes.Slice) and not sequences.has(item.node) for item in tree.find_all(nodes.Getitem)
    )
    return TextChanges(
        splits_text=anywhere or not names <= _JOINING,
        anywhere=anywhere,
        literals=literals,
        removed=frozenset(change for name, args in operations for change in _removed(name, args, literals)),
    )


class _Sequences:
    """Which expressions are lists for certain, not texts: the messages, and what is made of them."""

    def __init__(self, tree: nodes.Template) -> None:
        self._names = {"messages"}
        settings = [each for each in tree.find_all(nodes.Assign) if isinstance(each.target, nodes.Name)]
        for name in dict.fromkeys(each.target.name for each in settings if isinstance(each.target, nodes.Name)):
            values = [
                each.node for each in settings if isinstance(each.target, nodes.Name) and each.target.name == name
            ]
            if all(map(self.has, values)):
                self._names.add(name)

    def has(self, node: nodes.Node | None) -> bool:
        """Whether the expression is a list."""
        while isinstance(node, nodes.Filter | nodes.Getitem):
            whole = node.name in _WHOLE if isinstance(node, nodes.Filter) else isinstance(node.arg, nodes.Slice)
            if not whole:
                break
            node = node.node
        if isinstance(node, nodes.Filter):
            return node.name in _MAKING_SEQUENCES
        return isinstance(node, nodes.List) or (isinstance(node, nodes.Name) and node.name in self._names)


def _operations(tree: nodes.Template, sequences: _Sequences) -> Iterator[tuple[str, list[nodes.Expr]]]:
    """Every filter and every call of a method that may get a text: its name and its arguments."""
    for used in tree.find_all(nodes.Filter):
        if used.name == "map":
            if used.args:  # map(attribute="content"), without, reads a field
                name, *args = used.args
                yield str(name.value) if isinstance(name, nodes.Const) else "map", args
        elif used.name not in _OF_SEQUENCES or not sequences.has(used.node):
            yield used.name, used.args
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr):
            yield call.node.attr, call.args
    for remainder in tree.find_all(nodes.Mod):
        if isinstance(remainder.left, nodes.Const) and isinstance(remainder.left.value, str):
            yield "%", []


def _removed(name: str, args: list[nodes.Expr], literals: frozenset[str]) -> Iterator[tuple[str, str | None]]:
    """The changes that one operation makes. An argument that is not written in its place may be any of the literals."""
    given = [arg.value if isinstance(arg, nodes.Const) else None for arg in args]
    searched = [given[0]] if given and isinstance(given[0], str) else sorted(literals) if given else _WHITE_SPACE
    if name in _DIVIDING:
        yield from ((text, None) for text in searched)
    elif name in _STRIPPING:
        yield from ((character, None) for text in searched for character in text)
    elif name in _REMOVING:
        written = "" if name != "replace" else given[1] if len(given) > 1 and isinstance(given[1], str) else None
        yield from ((text, written) for text in searched)
