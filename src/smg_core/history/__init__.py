"""The history: what is kept of responses, conversations and other objects after they were answered.

Begin with `store.base`: the records, and the role of a store. `opening` opens the one that a URL names: `memory` in this process,
`sql` in SQLite, PostgreSQL or Oracle, `redis` in Redis or Valkey. `guard` is what the gateway holds: a store behind its `rules`
(names, retention, zero retention), encryption (`sealing`) and `hooks`. Nothing here knows an API.
"""
