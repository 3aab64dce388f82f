"""The public names about families: the table, and the functions that find a model's family.

Decides: nothing; it lets callers write `families.explain(model_id)` and `families.FAMILIES`.
Above: `smg_core`, or any program. Below: `table`, `models`.
Does not know: formats.
"""

from smg_parsers.family import Family
from smg_parsers.models import FamilyChoice, explain, family, names, reasoning_open, register
from smg_parsers.table import FAMILIES

__all__ = [
    "FAMILIES",
    "Family",
    "FamilyChoice",
    "explain",
    "family",
    "names",
    "reasoning_open",
    "register",
]
