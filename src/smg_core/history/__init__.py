"""The history: what is kept of responses, conversations and other objects after they were answered.

Nothing here knows an API. Exports nothing; import from the modules.

- `base`: the records, the operations, and the role of a store
- `guard`: the store that the gateway uses: a backend behind `rules` (names, retention, zero retention), with encryption
  (`sealing`) and `hooks`
- `opening`: opens the backend that a URL names
- `memory`, `memory_tables`: a backend in this process
- `sql`, with `sql_engines`, `sql_tables`, `sql_statements`, `sql_writing`, `sql_failures`, `sql_migrate`, `group_commit`: SQLite,
  PostgreSQL, Oracle
- `redis`, `redis_plan`: Redis and Valkey
- `settings`: the settings of this room
"""
