"""Workers connected, added and removed, in all processes of a gateway.

Begin with `connect`, which makes the client of a worker, and `roster`, which changes them. `kv_events` listens to caches,
`leader` says which process does what one does for all; the others tell all processes what one has learned.
"""
