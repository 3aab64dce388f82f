"""Performs the steps of a flow: prepares, selects a worker, streams, hedges, moves calls of lost workers.

Begin with `preparing`, `selecting` and `streaming`, which perform the three steps of every turn. `engine_call` is one call of
one engine, `hedging` makes a second one, `executor` has threads for long work.
"""
