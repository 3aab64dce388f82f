"""The public APIs, a folder each: types, decoder, encoders, routes, a row.

`ALL` is the only list of them. A new API is a folder and a row here; permissions, error envelopes, `/openapi.json`, names in
traces and metrics, and the paths of batches follow from the row. Importing this package imports none of them: `ALL` is made
when it is first read.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smg_core.apis.rows import ALL, PERMISSIONS, TRIALS

__all__ = ["ALL", "PERMISSIONS", "TRIALS"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module("smg_core.apis.rows"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
