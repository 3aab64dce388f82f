"""The constraint of an engine's output, and its beginning.

Nothing here belongs to one dialect: each codec writes a constraint in its own words. Pure. Above: base, which hands both on.
"""

from typing import Literal

import attrs

__all__ = ["Constraint", "HoldsFrom"]

HoldsFrom = Literal["first_token", "after_reasoning", "as_told", "unknown"]
"""Where an engine begins to hold an output to its constraint.

first_token: at once, whatever the prompt has opened.
after_reasoning: behind the end of reasoning, which a parser of its own waits for unless the prompt has it already.
as_told: at once, or behind that end where a request says so (`EngineRequest.after_reasoning`).
unknown: one of the first two, as it was started, which it does not say.
"""


@attrs.frozen
class Constraint:
    """Structured output. `kind` is one of "json_schema", "json_object", "regex", "grammar", "structural_tag", "choice";
    `value` is its text (JSON for a schema or tag), `choices` the strings of a "choice". `binding`: the request depends on it;
    else the output is only better for it, and goes on without it where it cannot be kept."""

    kind: str
    value: str = ""
    choices: tuple[str, ...] = ()
    binding: bool = True
