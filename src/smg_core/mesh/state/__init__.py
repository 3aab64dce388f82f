"""The shared state of the members of a mesh: entries with one writer each, merged without a server that decides.

Begin with `replica`, which holds the entries of all writers. `entries` are the records, `stamps` the hybrid clock, `roster_set`
the set of workers, `counts` the windowed counters, `format` the bytes, and `node` says what is sent to whom and when. Pure.
"""
