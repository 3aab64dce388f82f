"""The workers (engines behind the gateway), their states and their health. Exports nothing; import from the modules.

- `worker`: one worker's record, its state table, and counts of requests in flight
- `registry`: all workers, found by model
- `health`: from single probes to a verdict
- `monitor` (edge): lets workers join, probes them, asks for their load
"""
