"""Decoding in processes that can be stopped, and who may use how much of what is scarce.

Begin with `decoders` and `documents` (edges); `workers` holds the processes, `worker_process` runs in one, `budget` says whose
turn it is and `places` waits for it.
"""
