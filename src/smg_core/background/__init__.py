"""Answers made in the background: stored, run, followed and cancelled.

Begin with `service`. `create` keeps a request, `run` makes its answer under a lease, `states` is its life as a table, and `api`
is the row that an API gives: its encoders, records and routes.
"""
