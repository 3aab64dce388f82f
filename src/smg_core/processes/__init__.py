"""`serve`: one process or several that share a port, their supervisor, signals, and what each tells of itself.

Begin with `serve`; `supervisor` starts and replaces processes, `leader_election` says which of them does what one does for all.
"""
