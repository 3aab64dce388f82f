"""The history in Redis or Valkey, through redis-py.

Begin with `store` (edge). `plan` decides what a write is there, `scripts` has what runs in the server, `server` looks at it.
"""
