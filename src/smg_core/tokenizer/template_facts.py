"""Reads from a chat template's syntax tree what input the template takes.

For example: whether it loops over content parts or takes content as one string, whether it wants tool-call arguments as
objects or as JSON text, which variables it reads. `messages` shapes the input by these facts. Pure; the tree comes from
jinja2's parser. Above: chat_template, messages. Below: text_changes, jinja2. It renders nothing.
"""

from typing import Literal

import attrs
from jinja2 import meta, nodes

from smg_core.tokenizer.text_changes import TextChanges, read_changes

__all__ = ["TemplateFacts", "read_facts"]

_THINKING_KEYS = ("enable_thinking", "thinking")


@attrs.frozen
class TemplateFacts:
    """The input that one template takes.

    `content` is "parts" if it loops over a message's content, else "string". `developer`: it knows the role "developer".
    `thinking_key` is the variable that switches thinking on and off, or None. `text_checked`: it tests whether content is a
    string, so it takes both shapes. `none_checked`: it tests whether content is none, so an assistant turn that only calls
    tools gets None. `arguments` is the form in which it takes tool-call arguments. `id_length` is how many letters and digits it
    wants the id of a call to have, None for any. `variables` are the names it reads and does not define. `literals` are all
    strings written in it. `changes` says what it does to the text that it is given.
    """

    content: Literal["string", "parts"]
    developer: bool
    thinking_key: str | None
    text_checked: bool
    none_checked: bool
    arguments: Literal["object", "text"]
    id_length: int | None
    variables: frozenset[str]
    literals: tuple[str, ...] = attrs.field(repr=False)
    changes: TextChanges

    @property
    def wraps(self) -> bool:
        """Whether it loops over content without a test for strings, so that a string must come as a list of one part."""
        return self.content == "parts" and not self.text_checked


def read_facts(tree: nodes.Template) -> TemplateFacts:
    """The facts of a parsed template."""
    variables = frozenset(meta.find_undeclared_variables(tree))
    literals = tuple(
        {node.data for node in tree.find_all(nodes.TemplateData)}
        | {node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)}
    )
    names = _content_names(tree)
    return TemplateFacts(
        content="parts" if _walks_content(tree, names) else "string",
        developer="developer" in literals,
        thinking_key=next((key for key in _THINKING_KEYS if key in variables), None),
        text_checked=any(test.name == "string" and _is_content(test.node, names) for test in tree.find_all(nodes.Test)),
        none_checked=_asks_for_none(tree, names),
        arguments="text" if _wants_argument_text(tree) else "object",
        id_length=_checked_id_length(tree),
        variables=variables,
        literals=literals,
        changes=read_changes(tree),
    )


def _reads(node: nodes.Node, field: str) -> bool:
    """Whether the node is `x.field` or `x["field"]`."""
    if isinstance(node, nodes.Getattr):
        return node.attr == field
    return isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and node.arg.value == field


def _bare(node: nodes.Node) -> nodes.Node:
    """The expression inside filters, slices and alternatives (`x.content|reverse`, `x.content[1:]`, `x.content or []`)."""
    while True:
        if isinstance(node, nodes.Filter) and node.node is not None:
            node = node.node
            continue
        if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
            node = node.node
            continue
        if isinstance(node, nodes.Or):
            node = node.left
            continue
        return node


def _is_content(node: nodes.Node, names: set[str]) -> bool:
    node = _bare(node)
    return _reads(node, "content") or (isinstance(node, nodes.Name) and node.name in names)


def _content_names(tree: nodes.Template) -> set[str]:
    """Names that hold a message's content: `content`, names set from it, and macro parameters that it is passed to."""
    names = {"content"}
    macros = {macro.name: macro for macro in tree.find_all(nodes.Macro)}
    while True:
        found = set(names)
        for setting in tree.find_all(nodes.Assign):
            if isinstance(setting.target, nodes.Name) and _is_content(setting.node, found):
                found.add(setting.target.name)
        for call in tree.find_all(nodes.Call):
            macro = macros.get(call.node.name) if isinstance(call.node, nodes.Name) else None
            if macro is not None:
                found.update(
                    name.name for name, given in zip(macro.args, call.args, strict=False) if _is_content(given, found)
                )
        if found == names:
            return names
        names = found


def _walks_content(tree: nodes.Template, names: set[str]) -> bool:
    if any(_is_content(loop.iter, names) for loop in tree.find_all(nodes.For)):
        return True
    # content[0]["type"]: content is a list if it is indexed by a number and the result is read as an object.
    outers: list[nodes.Getattr | nodes.Getitem] = [*tree.find_all(nodes.Getattr), *tree.find_all(nodes.Getitem)]
    return any(
        isinstance(inner := outer.node, nodes.Getitem)
        and isinstance(inner.arg, nodes.Const)
        and isinstance(inner.arg.value, int)
        and _is_content(inner.node, names)
        for outer in outers
    )


def _asks_for_none(tree: nodes.Template, names: set[str]) -> bool:
    """Whether it tests `content is none`. `content is not none` does not count: the code that it guards may not take None."""
    denied = {id(negation.node) for negation in tree.find_all(nodes.Not)}
    return any(
        test.name == "none" and id(test) not in denied and _is_content(test.node, names)
        for test in tree.find_all(nodes.Test)
    )


def _wants_argument_text(tree: nodes.Template) -> bool:
    """Whether it joins tool-call arguments to text as they are. A template that turns them into JSON, loops over them or
    tests their type takes an object, which is what Hugging Face passes."""

    def is_arguments(node: nodes.Node) -> bool:
        return _reads(node, "arguments") or (isinstance(node, nodes.Name) and node.name == "arguments")

    subjects: list[nodes.Node | None] = [loop.iter for loop in tree.find_all(nodes.For)]
    subjects += [filtered.node for filtered in tree.find_all(nodes.Filter)]
    subjects += [call.node.node for call in tree.find_all(nodes.Call) if isinstance(call.node, nodes.Getattr)]
    subjects += [test.node for test in tree.find_all(nodes.Test) if test.name not in ("defined", "undefined", "none")]
    if any(subject is not None and is_arguments(subject) for subject in subjects):
        return False
    joined: list[nodes.Node] = []
    for add in tree.find_all(nodes.Add):
        joined += (add.left, add.right)
    for concat in tree.find_all(nodes.Concat):
        joined += concat.nodes
    for output in tree.find_all(nodes.Output):
        joined += output.nodes
    return any(is_arguments(node) for node in joined)


_IDS = ("id", "tool_call_id")


def _checked_id_length(tree: nodes.Template) -> int | None:
    """The number that the length of a call's id is compared with, as Mistral's templates do before they refuse the others."""
    ids = {"tool_call_id", "call_id"}
    for setting in tree.find_all(nodes.Assign):
        if isinstance(setting.target, nodes.Name) and _is_id(_bare(setting.node), ids):
            ids.add(setting.target.name)
    for comparison in tree.find_all(nodes.Compare):
        sides = [comparison.expr, *(operand.expr for operand in comparison.ops)]
        lengths = [side.node for side in sides if isinstance(side, nodes.Filter) and side.name in ("length", "count")]
        numbers = [side.value for side in sides if isinstance(side, nodes.Const) and isinstance(side.value, int)]
        exactly = all(operand.op in ("eq", "ne") for operand in comparison.ops)
        if exactly and numbers and any(side is not None and _is_id(_bare(side), ids) for side in lengths):
            return numbers[0]
    return None


def _is_id(node: nodes.Node, names: set[str]) -> bool:
    return any(_reads(node, field) for field in _IDS) or (isinstance(node, nodes.Name) and node.name in names)
