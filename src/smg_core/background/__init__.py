"""Answers that are made in the background: kept, run by a process that holds a lease, followed and cancelled.

Begin with `service`. `create` keeps a request, `run` makes its answer under a lease, `states` is its life as a table, and `api`
is the row that an API gives: its encoders, records and routes.
"""
