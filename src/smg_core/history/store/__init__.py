"""The common part of the history's stores: the records that it keeps, its role, and how its URL is read.

Begin with `base`. The stores in `memory`, `sql` and `redis` implement its `Store`; one conformance suite holds them all.
"""
