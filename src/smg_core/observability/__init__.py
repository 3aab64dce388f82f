"""Observers, which write the moments of `hooks` to the log, and the format of log lines. Exports nothing; import from
the modules.

- `logs` (edge): configures logging; the access log
- `failures`: the log of engine failures
- `repeats`: how often the same line may be logged
"""
