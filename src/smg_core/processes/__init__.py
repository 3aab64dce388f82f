"""`serve`: one process or several that share a port, and their supervisor.

Begin with `serve`; `supervisor` starts and replaces processes, `leader_election` says which of them does what one does for all.
"""
