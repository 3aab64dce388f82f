"""Flows ask for steps, the driver performs them: turns, tries, several requests as one.

Begin with `flow`: `generate` and `respond` ask for the `steps`, `driver` has them performed, and `tries` says what follows when
a call failed. `together` joins several requests, `timeouts` are those of one request.
"""
