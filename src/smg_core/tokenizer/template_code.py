"""Compiles chat templates to code that makes few calls: jinja2's sandbox, with what nearly every template does written in place.

A field of an object, a variable and the common tests (`is defined`, `is none`, `is string`) are a call each in jinja2's code, and
a field that is read as an attribute costs an exception beside it. Here they are expressions of the compiled template, wherever
they cannot mean anything else: a plain dict that has the key, and no method of that name. Everything else is left to the sandbox
and means what it means there. Above: chat_template. Below: jinja2.
"""

from collections.abc import Callable
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, optimizeconst
from jinja2.idtracking import VAR_LOAD_RESOLVE
from jinja2.nodes import EvalContext
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = ["TemplateEnvironment", "renderer_of"]

_METHODS = frozenset(dir(dict))
"""Names that are an attribute of every dict: these are looked up as the sandbox does, which prefers the attribute."""
_OF_LOOPS = frozenset({"depth", "depth0", "first", "index", "index0", "last", "length", "revindex", "revindex0"})
"""What a loop says of itself that is a number, or true or false: nothing that could be unsafe."""
_TESTS = {
    "defined": "(not isinstance({}, Undefined))",
    "undefined": "isinstance({}, Undefined)",
    "none": "({} is None)",
    "string": "isinstance({}, str)",
    "true": "({} is True)",
    "false": "({} is False)",
}
"""The tests that are written in place."""


class _Code(CodeGenerator):
    """jinja2's code generator, with fields, variables and common tests written in place."""

    @optimizeconst
    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:  # noqa: N802  # the name of the node
        """`object.name`."""
        if node.attr in _METHODS:
            super().visit_Getattr(node, frame)
        else:
            self._field(node.node, node.attr, "getattr", frame)

    @optimizeconst
    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802  # the name of the node
        """`object[key]`."""
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            self._field(node.node, node.arg.value, "getitem", frame)
        else:
            super().visit_Getitem(node, frame)

    def _field(self, of: nodes.Node, name: str, otherwise: str, frame: Frame) -> None:
        found = self.temporary_identifier()
        self.write(f"({found}[{name!r}] if type({found} := ")
        self.visit(of, frame)
        self.write(f") is dict and {name!r} in {found} else environment.{otherwise}({found}, {name!r}))")

    @optimizeconst
    def visit_Test(self, node: nodes.Test, frame: Frame) -> None:  # noqa: N802  # the name of the node
        """`value is test`."""
        written = _TESTS.get(node.name)
        if written is None or node.args or node.kwargs or node.dyn_args or node.dyn_kwargs:
            super().visit_Test(node, frame)
            return
        before, after = written.split("{}")
        self.write(before)
        self.visit(node.node, frame)
        self.write(after)

    def enter_frame(self, frame: Frame) -> None:
        """Look up the variables that a frame takes from its context."""
        loads = frame.symbols.loads
        if self.get_resolve_func() == "resolve":  # of the template's own context, and no derived one
            looked_up = {target: name for target, (action, name) in loads.items() if action == VAR_LOAD_RESOLVE}
            for target, name in looked_up.items():
                kept = f"context.vars[{name!r}] if {name!r} in context.vars"
                self.writeline(f"{target} = {kept} else context.parent.get({name!r}, missing)")
            frame.symbols.loads = {target: load for target, load in loads.items() if target not in looked_up}
        super().enter_frame(frame)
        frame.symbols.loads = loads


class _Context(Context):
    """The variables of one rendering, as jinja2 keeps them."""

    def __init__(
        self,
        environment: jinja2.Environment,
        parent: dict[str, Any],
        name: str | None,
        blocks: dict[str, Callable[[Context], Any]],
        globals: Any = None,
    ) -> None:
        self.parent = parent
        self.vars = {}
        self.environment = environment
        self.eval_ctx = EvalContext(environment, name)
        self.exported_vars = set()
        self.name = name
        self.globals_keys = set(globals or ())
        self.blocks = {each: [block] for each, block in blocks.items()} if blocks else {}


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """jinja2's immutable sandbox, which compiles templates with `_Code`."""

    code_generator_class = _Code
    context_class = _Context

    def getattr(self, obj: Any, attribute: str) -> Any:
        """As the sandbox has it; a field that a plain dict lacks is undefined at once, and a loop's number needs no check."""
        if type(obj) is LoopContext and attribute in _OF_LOOPS:
            return getattr(obj, attribute)
        if type(obj) is dict and attribute not in _METHODS:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """As the sandbox has it; of a text, which no method changes, all is safe that is not internal."""
        if type(obj) is str:
            return not attr.startswith("_")
        return super().is_safe_attribute(obj, attr, value)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805  # as in jinja2
        """As the sandbox has it; a macro of the template is called without looking what it is."""
        if type(__obj) is Macro:
            kwargs.pop("_block_vars", None)
            kwargs.pop("_loop_vars", None)
            return __obj(__context.eval_ctx, *args, **kwargs)
        return super().call(__context, __obj, *args, **kwargs)


def renderer_of(template: jinja2.Template) -> Callable[[dict[str, object]], str]:
    """What renders `template` with variables: as `template.render`, whose three layers of contexts are one here."""
    environment, root, known = template.environment, template.root_render_func, dict(template.globals)
    name, blocks = template.name, template.blocks

    def render(variables: dict[str, object]) -> str:
        context = _Context(environment, {**known, **variables}, name, blocks, known)
        return "".join(root(context))

    return render
