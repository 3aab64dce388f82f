"""Observers that write the moments of `hooks`: logs, metrics, traces. Exports nothing; import from the modules.

- `logs` (edge): configures logging; the access log
- `access_lines`: the lines of the access log
- `line_writer` (edge): writes them in a thread
- `failures`: the log of engine failures
- `audit_chain`, `audit_file` (edge): the audit log, whose lines form a chain
- `repeats`: how often the same line may be logged
"""
