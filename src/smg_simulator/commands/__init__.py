"""The commands of `smg-gateway` that need this package: `simulate`, `faults`, `simulate-fleet`, `demo` and `conform`.

`smg_core.cli` finds them here: `flags` has a row for each. A module decides the flags of its commands and runs them.
"""
